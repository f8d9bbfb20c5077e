"""One damaged file of a data folder, of every kind: what reads it says so and names a file, or does not need it.

Nothing ends with a traceback, nothing hangs, and the audit of what the file holds finds it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.system.labs import crawl, running_lab

from .test_faults import SPEC

CRAWL = ("crawl", "--max-pages", "1", "--no-index")
COMMANDS = (("status",), ("search", "a"), CRAWL)
AUDITS = {"X.warc.gz": "archive", "frontier.sqlite": "frontier", "manifest.jsonl": "manifest", "X.term": "index"}
"""Kinds of files whose damage an audit must find."""

PASSED_OVER = re.compile(r"lock$|-shm$|-wal$|^\.tantivy")
HARMS: dict[str, Callable[[bytes], bytes]] = {
    "changed": lambda data: data[: len(data) // 2] + bytes(each ^ 0x5A for each in data[len(data) // 2 :][:40])
    + data[len(data) // 2 + 40 :],
    "cut": lambda data: data[: len(data) // 2],
    "zeros": lambda data: b"\0" * min(4096, len(data)) + data[4096:],
    "empty": lambda _: b"",
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("damage")
    with running_lab(folder / "lab", SPEC, 97) as lab:
        crawl(lab, folder / "data", "--delay", "0", "--cells", "1")
    yield folder / "data"
    shutil.rmtree(folder, ignore_errors=True)


def kinds(data: Path) -> dict[str, Path]:
    """One file of each kind, by a name without its numbers."""
    found: dict[str, Path] = {}
    for path in sorted(path for path in data.rglob("*") if path.is_file() and path.stat().st_size):
        kind = re.sub(
            r"^teia-main-.*\.warc|^[0-9a-f]{32}(\.\d+)?", "X.warc" if ".warc" in path.name else "X", path.name
        )
        if not PASSED_OVER.search(path.name):
            found.setdefault(kind, path)
    return found


def teia(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "teia", *words, "--data", str(data)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)


def complaints(sound: Path, kind: str, harm: str, folder: Path) -> list[str]:
    """What is wrong with the answers to a damaged file."""
    data = folder / "data"
    shutil.copytree(sound, data)
    path = data / kinds(sound)[kind].relative_to(sound)
    path.chmod(0o600)
    path.write_bytes(HARMS[harm](path.read_bytes()))
    wrong = []
    for words in COMMANDS:
        done = teia(data, *words)
        said = done.stdout + done.stderr
        if "Traceback" in said or "panicked" in said or done.returncode not in {0, 1}:
            wrong.append(f"{kind} {harm}: teia {words[0]} ends with {done.returncode}: {said[-600:]}")
        elif done.returncode and not (done.stderr.startswith("teia: ") and str(folder) in done.stderr):
            wrong.append(f"{kind} {harm}: teia {words[0]} names no file: {done.stderr[-300:]}")
    if kind in AUDITS and harm == "changed":
        done = teia(data, "audit", AUDITS[kind])
        if done.returncode == 0 or "Traceback" in done.stdout + done.stderr:
            wrong.append(f"{kind}: audit {AUDITS[kind]} finds nothing: {done.stdout[-300:]}{done.stderr[-300:]}")
    shutil.rmtree(data)
    return wrong


def test_a_crawl_has_files_of_many_kinds(sound: Path) -> None:
    assert {*AUDITS, "teia.toml", "ledger.sqlite", "control.sqlite", "format", "meta.json"} <= kinds(sound).keys()


@pytest.mark.parametrize(("kind", "harm"), [("meta.json", "cut"), ("ledger.sqlite", "zeros")])
def test_a_damaged_file_is_named_and_the_rest_goes_on(sound: Path, tmp_path: Path, kind: str, harm: str) -> None:
    assert complaints(sound, kind, harm, tmp_path) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_file_of_any_kind_is_named_and_the_rest_goes_on(sound: Path, tmp_path: Path, harm: str) -> None:
    assert [each for kind in kinds(sound) for each in complaints(sound, kind, harm, tmp_path)] == []
