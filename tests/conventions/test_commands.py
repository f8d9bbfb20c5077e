"""Every command of the documents is run, against a small site on loopback; experiments in small."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.config.test_extensions import PACKAGES, install
from tests.waiting import until

from .test_docs import command_lines
from .tree import ROOT, documents

CLUSTER = ("cluster", "node", "search orçamento 2026 --nats", "report freshness --data all", "report hosts --data all")
"""Commands on several machines, which test_cluster_commands.py runs."""

LONG = {"bench search": ["--pages", "2000"], "lab reproduce": ["--quick"]}
"""Commands that take hours, and what makes them smaller."""

STAY = (
    "serve",
    "lab serve",
    "crawl --scheduled",
    "crawl --keep-fresh",
    "crawl https://example.org/ --data archive --keep",
    "crawl https://www.example.org/ --data study --keep",
    "demo",
)
"""Commands that run until they are stopped."""

FOLDERS = {"data", "DIR", "study", "/srv/teia", "/var/lib/teia", "/backup/teia"}
"""Names of data folders in documents; here they are one, `archive`."""

POLICIES = "teia.policies"
SITE = {
    "index.html": '<title>Shop</title><p>Coffee to go. <a href="prices">Prices</a>, <a href="agenda/1.html">dates</a>',
    "prices": "<title>Prices</title><p>The budget of 2026: orçamento, coffee to go, tea.",
    "agenda/1.html": '<title>Agenda</title><p>Back to <a href="/">the start</a>.',
}
LOG = '192.0.2.1 - - [18/Nov/2026:04:00:00 +0000] "GET /prices HTTP/1.1" 200 80 "-" "Mozilla/5.0"\n'
FILES = {
    "registered-names.txt": "a.test\nb.test\n",
    "access.log": LOG,
    "access.log.1": LOG,
    "br.toml": '[collection]\nseeds = ["https://www.example.org/"]\norder = "breadth"\ncells = 2\n',
}


def described() -> list[tuple[str, list[list[str]]]]:
    """All commands of the documents by section, but those of the tutorial, which test_site.py runs in their order."""
    found = []
    for document in documents():
        if document.name not in {"CHANGELOG.md", "tutorial.md"} and "decisions" not in document.parts:
            sections = re.split(r"(?m)^## ", document.read_text(encoding="utf-8"))
            found += [(document.name, [*command_lines(section)]) for section in sections]
    return [(name, lines) for name, lines in found if lines]


def is_of_cluster(words: list[str]) -> bool:
    return " ".join(words).startswith(CLUSTER)


def is_long(words: list[str]) -> bool:
    return " ".join(words).startswith(tuple(LONG))


def test_every_kind_of_command_that_is_named_here_is_in_a_document() -> None:
    lines = [" ".join(words) for _, section in described() for words in section]
    assert len(lines) > 80
    for each in (*CLUSTER, *LONG, *STAY):
        assert any(line.startswith(each) for line in lines), f"{each}: no document has it any more"


@contextmanager
def served(folder: Path) -> Iterator[str]:
    for name, text in SITE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f'<!doctype html><html lang="en">{text}', "utf-8")

    class Quiet(SimpleHTTPRequestHandler):
        extensions_map = {"": "text/html; charset=utf-8"}  # noqa: RUF012  # as the base class has it

        def log_message(self, *_words: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def install_extensions(folder: Path) -> None:
    """Install the example packages, and one as the `my-policy` that a guide has its reader make."""
    folder.mkdir()
    for package in PACKAGES:
        groups = tomllib.loads((package / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
        for target in list(groups.get(POLICIES, {}).values()):
            groups[POLICIES]["my-policy"] = target
        install(package, folder, groups)


class Reader:
    """A reader who types the commands of a document in an empty folder."""

    def __init__(self, folder: Path, site: str) -> None:
        self.folder, self._site = folder, site
        packages = folder.parent / "packages"
        self._environ = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(packages), str(ROOT)]),
            "TEIA_COURTESY_CONTACT": "you@example.org",
            "TEIA_COURTESY_DELAY_S": "0.01",
            "TEIA_FETCH_ALLOW_NETS": "127.0.0.0/8",
            "TEIA_RENDER_MODE": "never",
        }
        for name, text in FILES.items():
            (folder / name).write_text(self.adapted(text), "utf-8")
        subprocess.run(["gzip", str(folder / "access.log.1")], check=True)
        shutil.copytree(ROOT / "examples", folder / "examples")

    def adapted(self, word: str) -> str:
        """Put our site and our folder in the place of those of the document."""
        word = re.sub(r"https://(?:www\.|app\.)?example\.org/", self._site, word)
        return {"domain:example.org": "domain:127.0.0.1"}.get(word, "archive" if word in FOLDERS else word)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        to = Path(words[-1]) if words[-2:-1] == (">",) else None
        command = [sys.executable, "-m", "teia", *(words if to is None else words[:-2])]
        done = subprocess.run(
            command, cwd=self.folder, env=self._environ, capture_output=True, text=True, timeout=900, check=False
        )
        if to is not None:
            (self.folder / to.name).write_text(done.stdout, "utf-8")
        return done

    def start_and_stop(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Start a command that stays, wait until it says something, and stop it."""
        output, command = self.folder / "output", [sys.executable, "-m", "teia", *words]
        with output.open("w") as file:
            process = subprocess.Popen(command, cwd=self.folder, env=self._environ, stdout=file, stderr=file)
        try:
            until(
                lambda: process.poll() is not None or is_ready(output.read_text("utf-8"), words[0]),
                " ".join(words),
                within_s=300.0,
            )
        finally:
            process.send_signal(signal.SIGTERM)
            status = process.wait(60)
        return subprocess.CompletedProcess(command, status, output.read_text("utf-8"), "")


def is_ready(said: str, command: str) -> bool:
    """Tell whether a command that stays is at work: it says something, or its web interface answers."""
    home = re.search(r"http://127\.0\.0\.1:\d+/", said)
    if command not in {"serve", "demo"} or home is None:
        return bool(said) and command not in {"serve", "demo"}
    with suppress(OSError), urllib.request.urlopen(f"{home[0]}health", timeout=30):
        return True
    return False


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_command_of_the_documents_works(tmp_path: Path) -> None:
    failed = []
    install_extensions(tmp_path / "packages")
    with served(tmp_path / "site") as site:
        (tmp_path / "made").mkdir()
        maker = Reader(tmp_path / "made", site)
        for words in (["crawl", site], *[["crawl", "--now"]] * 2):  # three runs, so that rates of change are known
            made = maker.run(*words, "--data", "archive")
            assert made.returncode == 0, made.stderr
        for number, (document, section) in enumerate(described()):
            lines = [line for line in section if not is_of_cluster(line) and not is_long(line)]
            folder = tmp_path / f"section{number}"
            folder.mkdir()
            reader = Reader(folder, site)
            if lines and not lines[0][0].startswith("crawl"):
                shutil.copytree(tmp_path / "made" / "archive", folder / "archive")
            for line in lines:
                words = [reader.adapted(word) for word in line] + (["--port", "0"] if line[0] == "serve" else [])
                does_stay = " ".join(line).startswith(STAY) and "--once" not in line
                done = reader.start_and_stop(*words) if does_stay else reader.run(*words)
                if done.returncode != 0:
                    said = f"{done.stdout}{done.stderr}"[-600:]
                    failed.append(f"{document}: teia {' '.join(words)}: status {done.returncode}\n{said}")
    assert not failed, "\n\n".join(failed)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_every_long_command_of_the_documents_works_in_small(tmp_path: Path) -> None:
    reader = Reader(tmp_path, "http://127.0.0.1:9/")
    for line in [line for _, section in described() for line in section if is_long(line)]:
        smaller = next(flags for name, flags in LONG.items() if " ".join(line).startswith(name))
        done = reader.run(*line, *([] if smaller[-1] in line else smaller))
        assert done.returncode == 0, f"teia {' '.join(line)}: {done.stderr[-600:]}"
