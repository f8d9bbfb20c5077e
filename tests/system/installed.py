"""What an installed teia must do, far from any checkout: `python -m tests.system.installed FOLDER/bin`.

The programs of that folder run in an empty folder with nothing else on PATH: no compiler, no git, no checkout. The site
is a Debian package that nginx serves on loopback; the demo's web is teia's own.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.peers.site import HANDBOOK, serving
from tests.waiting import until

TREES = {"en": HANDBOOK / "en-US"}
PAGES = 100
CONTACT = "operator@example.org"


class Installed:
    """The programs of one folder, run in another."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.folder = folder
        self._program = str(programs / "teia")
        self._environ = {
            "PATH": str(programs),
            "HOME": str(folder),
            "TEIA_COURTESY_CONTACT": CONTACT,
            "LANG": "C.UTF-8",
        }

    def run(self, *words: str) -> str:
        """Run a command to its end; return its output."""
        return self.ended(*words).stdout

    def ended(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self._program, *words],
            cwd=self.folder, env=self._environ, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"teia {' '.join(words)}: status {done.returncode}\n{done.stderr[-4000:]}"
        return done

    def json(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run(*words, "--json").splitlines()[-1])
        return found

    @contextmanager
    def serving(self, data: str) -> Iterator[str]:
        """Run `teia serve`; yield the address that it prints first."""
        command = [self._program, "serve", "--data", data, "--port", "0"]
        with subprocess.Popen(
            command, cwd=self.folder, env=self._environ, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        ) as process:
            try:
                assert process.stderr is not None
                lines = iter(process.stderr.readline, "")
                yield next(found[0] for line in lines if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
            finally:
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=60)


def read(url: str, language: str = "en") -> str:
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept-Language": language}), timeout=60) as got:
        return str(got.read().decode())


def check_version(installed: Installed) -> None:
    facts = installed.run("--version")
    assert re.fullmatch(r"teia \d+\.\d+\.\d+ \(commit [0-9a-f]{12}(\+changes)? of \d{4}-\d\d-\d\d; .+\)\n", facts), (
        facts
    )


def check_demo(installed: Installed) -> None:
    done = installed.ended("demo", "--once", "--pages", "100", "--json")
    assert done.stderr.rstrip().endswith("is deleted when the demo ends; --data DIR keeps the results."), done.stderr
    summary = json.loads(done.stdout)
    assert (summary["state"], summary["politeness_violations"]) == ("finished", 0), summary
    assert summary["indexed"] > 60, summary


def check_site(installed: Installed, url: str) -> None:
    """Crawl a site, search it, and read the search page, its style and its translation."""
    crawl = ("crawl", url, "--data", "site", "--allow-net", "127.0.0.0/8", "--delay", "0", "--max-pages", str(PAGES))
    summary = installed.json(*crawl)
    assert summary["pages"] >= PAGES, summary
    found = installed.json("search", "dpkg", "--data", "site")
    assert found["hits"], found
    with installed.serving("site") as home:
        page = read(f"{home}/?q=dpkg")
        assert found["hits"][0]["url"] in page
        styles = re.findall(r'(?:href|src)="(/static/[^"]+)"', page)
        assert styles, page[:2000]
        for each in styles:
            assert read(home + each)
        assert 'lang="pt-BR"' in read(f"{home}/?q=dpkg", "pt-BR")
        assert json.loads(read(f"{home}/health"))["status"] == "ok"


def check_cluster(installed: Installed, url: str) -> None:
    """Start a cluster with the NATS server of the wheel, and end it."""
    (installed.folder / "cluster.toml").write_text('[fetch]\nallow_nets = ["127.0.0.0/8"]\n', "utf-8")
    up = ("cluster", "up", url, "--nodes", "2", "--servers", "1", "--data", "cluster", "--config", "cluster.toml")
    installed.run(*up)
    try:
        states = lambda: installed.json("cluster", "status", "--data", "cluster")["nodes"]  # noqa: E731
        until(lambda: len(states()) == 2, "both nodes have joined", state=states)
    finally:
        installed.run("cluster", "down", "--data", "cluster")


def check(programs: Path) -> list[str]:
    """Run all checks; return what was checked."""
    done = []
    with tempfile.TemporaryDirectory(prefix="teia-installed-") as name:
        folder = Path(name)
        (folder / "empty").mkdir()
        installed = Installed(programs, folder / "empty")
        check_version(installed)
        check_demo(installed)
        done += ["version", "demo"]
        with serving(folder / "nginx", TREES) as site:
            check_site(installed, site.url)
            done += ["crawl", "search", "serve"]
            if (programs / "nats-server").exists():
                check_cluster(installed, site.url)
                done.append("cluster")
    return done


if __name__ == "__main__":
    os.umask(0o022)
    print(f"works: {', '.join(check(Path(sys.argv[1]).absolute()))}")
