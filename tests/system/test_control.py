"""A running crawl seen and told from another terminal; interrupted and gone on with."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from teia.store.root import open_root
from teia.transfer.read_all import idle_account
from tests.waiting import until

from .labs import Lab, crawl, crawl_command, crawling, running_lab

SPEC = """
seed = 7
hosts = 4
pages = 200

[errors]
scale = 0

[sites]
nxdomain = 0
unreachable = 0
"""
FLAGS = ("--delay", "0.2")


def teia(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "teia", *words], capture_output=True, text=True, timeout=60, check=False
    )


def status(data: Path) -> dict[str, Any]:
    done = teia("status", "--data", str(data), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_pause_resume_status_and_stop(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running_lab(tmp_path, SPEC, 94) as lab, crawling(lab, data, *FLAGS) as process:
        until(lambda: lab.requests() > 5, "the crawl begins")
        until(lambda: status(data)["pages"] > 0, "status counts pages")
        assert teia("pause", "--data", str(data)).returncode == 0
        time.sleep(0.5)  # what was under way ends
        seen = lab.requests()
        time.sleep(1.5)  # nothing is requested for a while
        assert lab.requests() == seen
        until(lambda: status(data)["state"] == "paused", "status says so")
        until(lambda: status(data)["indexed"] > 0, "a page that was fetched can be found")
        assert teia("resume", "--data", str(data)).returncode == 0
        until(lambda: lab.requests() > seen, "it goes on")
        assert teia("stop", "--data", str(data)).returncode == 0
        assert process.wait(10) == 0
    stopped = status(data)
    assert stopped["state"] == "stopped"
    assert stopped["index_behind"] == 0, "a crawl that is stopped indexes what it has"
    assert stopped["indexed"] > 0


def test_commands_without_a_running_crawl_say_so(tmp_path: Path) -> None:
    with running_lab(tmp_path, SPEC, 95) as lab:
        crawl(lab, tmp_path / "data", *FLAGS, "--max-pages", "3")
    done = teia("pause", "--data", str(tmp_path / "data"))
    assert done.returncode == 1
    assert done.stderr.startswith("teia: no crawl of 'main' is running")
    assert done.stderr.count("\n") == 1


def test_interrupt_stops_within_ten_seconds_and_the_same_command_goes_on(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running_lab(tmp_path, SPEC, 96) as lab:
        with crawling(lab, data, *FLAGS) as process:
            until(lambda: lab.requests() > 10, "the crawl begins")
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.wait(15) == 130
            assert time.monotonic() - began < 10
        seen = lab.requests()
        again = crawl(lab, data, *FLAGS, "--max-seconds", "3")
        assert again["state"] == "limit"
        asked = [entry.host + entry.path for entry in lab.settled_entries()]
        assert len(asked) == len(set(asked)), "a clean stop repeats nothing"
        assert len(asked) > seen


def test_two_crawls_on_one_folder_are_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running_lab(tmp_path, SPEC, 97) as lab, crawling(lab, data, *FLAGS) as process:
        until(lambda: lab.requests() > 2, "the crawl begins")
        second = second_crawl(lab, data)
        assert second.returncode == 1
        assert f"in use by process {process.pid}" in second.stderr


def second_crawl(lab: Lab, data: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(crawl_command(lab, data, *FLAGS), capture_output=True, text=True, timeout=60, check=False)


def test_limits_on_pages_are_never_overshot(tmp_path: Path) -> None:
    with running_lab(tmp_path, SPEC, 98) as lab:
        summary = crawl(lab, tmp_path / "data", "--delay", "0", "--per-host", "4", "--max-pages", "25")
    assert summary["state"] == "limit"
    assert summary["pages"] == 25
    account = idle_account(open_root(tmp_path / "data"), "main")
    assert {key: account[key] for key in ("state", "pages", "outcomes")} == {
        key: summary[key] for key in ("state", "pages", "outcomes")
    }, "`teia status` says the same"
