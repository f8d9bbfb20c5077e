"""The index of a crawl whose indexer is killed: another one is started, searches go on, and in the end all is there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from teia.indexer.rebuild import audit_index
from teia.store.root import open_root
from tests.waiting import until

from .labs import crawling, log_text, running_lab

SPEC = """
seed = 11
hosts = 6
pages = {pages}

[errors]
scale = 0

[sites]
nxdomain = 0
unreachable = 0
"""
QUICK = ("--delay", "0", "--per-host", "4")


def indexer_of(data: Path) -> int | None:
    """The process that indexes a folder; None while there is none."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:  # it has just ended
                continue
            if b"teia.indexer.keep_process:run_indexer" in words and os.fsencode(data) in words:
                return int(process.name)
    return None


def another_indexer(data: Path, than: int | None, within_s: float = 60.0) -> int:
    return until(
        lambda: found if (found := indexer_of(data)) != than else None, "another indexer runs", within_s=within_s
    )


def ask(*words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "teia", *words, "--json"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def crawled_under_fire(folder: Path, number: int, pages: int, kills: int) -> list[float]:
    """Crawl a lab while its indexer is killed now and then; returns after how many seconds each other one began."""
    data, took_s = folder / "data", list[float]()
    with running_lab(folder, SPEC.format(pages=pages), number) as lab, crawling(lab, data, *QUICK) as process:
        pid = another_indexer(data, None)
        for _ in range(kills):
            time.sleep(0.1)  # some way into its work, wherever that is
            os.kill(pid, signal.SIGKILL)
            began = time.monotonic()
            pid = another_indexer(data, pid)
            took_s.append(time.monotonic() - began)
        assert process.wait(300) == 0, log_text(data)
    assert log_text(data).count("restarting it in") >= kills
    return took_s


def check_whole(data: Path) -> None:
    audit = audit_index(open_root(data), "main")
    assert (audit.violations, audit.details) == (0, ())
    status = ask("status", "--data", str(data))
    assert (status["indexed"], status["index_behind"]) == (audit.checked, 0)
    assert not ask("search", "the", "--data", str(data))["warnings"]


def test_an_indexer_killed_during_a_crawl_is_replaced_and_nothing_is_missing(tmp_path: Path) -> None:
    took_s = crawled_under_fire(tmp_path, 110, pages=150, kills=1)
    assert max(took_s) < 30.0
    check_whole(tmp_path / "data")


@pytest.mark.slow
def test_an_indexer_killed_again_and_again_leaves_a_usable_index(tmp_path: Path) -> None:
    crawled_under_fire(tmp_path, 111, pages=1_500, kills=6)
    check_whole(tmp_path / "data")
