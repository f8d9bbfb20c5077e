"""`teia crawl` of a collection with a schedule, and `teia schedule`, against a lab web (T1, T3, T7)."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from teia.lab.server.witness import early_requests
from tests.waiting import until

from .labs import Lab, crawl, crawling, kill_group, log_text, running_lab

DELAY_S = 0.2
SPEC = """
seed = 7
hosts = 3
pages = 30

[errors]
scale = 0

[sites]
theta = 0
nxdomain = 0
unreachable = 0

[robots]
crawl_delay = 0
"""


def teia(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "teia", *words], capture_output=True, text=True, timeout=60, check=False
    )


def answer(*words: str) -> dict[str, Any]:
    done = teia(*words, "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def settings(folder: Path, start: datetime) -> Path:
    file = folder / "settings.toml"
    lines = [f"start = {start:%Y-%m-%d %H:%M:%S}", 'zone = "UTC"', 'every = "1 day"', 'stop_after = "10 minutes"']
    file.write_text("\n".join(["[schedule]", *lines]), "utf-8")
    return file


def wait_for_requests(lab: Lab, number: int, data: Path) -> None:
    until(lambda: lab.requests() >= number, f"{number} requests", state=lambda: log_text(data))


def test_a_missed_start_is_run_at_once_and_goes_on_after_kill_9(tmp_path: Path) -> None:
    """The start was a minute ago. Killed in the middle, the run goes on with its number, and no page is forgotten."""
    data, start = tmp_path / "data", datetime.now(UTC) - timedelta(minutes=1)
    flags = ("--delay", str(DELAY_S), "--no-index", "--cells", "2")
    with running_lab(tmp_path, SPEC, 98, truth=True) as lab:
        with crawling(lab, data, *flags, "--config", str(settings(tmp_path, start))) as process:
            wait_for_requests(lab, 15, data)
            kill_group(process)
        killed = answer("schedule", "--data", str(data))
        serving = ["crawl", "--scheduled", "--data", str(data), "--dns", lab.dns, "--allow-net", "127.77.0.0/16"]
        command = [sys.executable, "-m", "teia", *serving, *flags[:3], "--json"]
        second = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        try:
            until = time.monotonic() + 60
            while not (agenda := answer("schedule", "main", "--data", str(data)))["last"]:
                assert time.monotonic() < until
            while (status := answer("status", "--data", str(data)))["state"] != "waiting":
                assert time.monotonic() < until, "what the process says of itself follows soon after its run's end"
            os.kill(second.pid, signal.SIGTERM)
            out, errors = second.communicate(timeout=20)
        finally:
            kill_group(second)
        entries, truth = lab.settled_entries(), lab.truth()
    assert second.returncode == 0, errors
    assert (killed["run"]["number"], killed["run"]["ended"], killed["running"]) == (1, None, False)
    assert any("a run is due, but no crawler is running" in note for note in killed["notes"])
    (run,) = agenda["last"]
    assert (run["number"], run["why"], run["began"]) == (1, "finished", killed["run"]["began"])
    assert status["state"] == "waiting"
    assert (status["run"], status["next_run"]) == (run, agenda["starts"][0])
    tomorrow = start + timedelta(days=1)
    assert agenda["starts"][0] == f"{tomorrow:%Y-%m-%dT%H:%M:%S}.000000Z"
    summary = json.loads(out.splitlines()[-1])
    assert (summary["state"], summary["run"], summary["next_run"]) == ("stopped", run, agenda["starts"][0])
    asked = Counter(f"{entry.host} {entry.path}" for entry in entries if entry.path != "/robots.txt")
    pages = {url for url, page in truth.items() if page.get("kind") == "page" and page["robots_allowed"]}
    assert run["new"] >= 0.8 * len(pages)
    assert sum(asked.values()) - len(asked) <= 3 * 3  # under way on each host, or not committed, when it was killed
    assert early_requests(entries, DELAY_S, lambda entry: entry.host) == []


@pytest.mark.slow
def test_a_round_survives_many_deaths(tmp_path: Path) -> None:
    """A run by hand over known pages, killed again and again: one run, every page visited, few asked for twice."""
    data, kills, chance = tmp_path / "data", 6, random.Random(5)
    flags = ("--delay", str(DELAY_S), "--no-index", "--cells", "2")
    with running_lab(tmp_path, SPEC.replace("pages = 30", "pages = 90"), 99) as lab:
        known = crawl(lab, data, *flags)["urls_known"]
        first = len(lab.settled_entries())
        for _ in range(kills):
            before = lab.requests()
            with crawling(lab, data, *flags, "--now") as process:
                wait_for_requests(lab, before + 1, data)
                time.sleep(chance.uniform(0.0, 0.6))  # it dies at any moment
                kill_group(process)
            time.sleep(0.3)  # the lab writes its log every 0.2 s
        assert answer("schedule", "--data", str(data))["run"]["number"] == 1
        summary = crawl(lab, data, *flags, "--now")
        entries = lab.settled_entries()
    run = summary["run"]
    assert (run["number"], run["why"], run["left"], run["new"]) == (1, "finished", 0, 0)
    assert 0.9 * known <= run["known"] <= known
    asked = Counter((each.host, each.path) for each in entries[first:] if each.path != "/robots.txt")
    assert len(asked) >= run["known"]
    assert sum(asked.values()) - len(asked) <= kills * 3 * 3
    assert early_requests(entries, DELAY_S, lambda entry: entry.host) == []
    assert summary["politeness_violations"] == 0


def test_nonsense_is_one_line_and_what_is_set_is_read_back(tmp_path: Path) -> None:
    data = tmp_path / "data"
    file = settings(tmp_path, datetime(2126, 11, 21, 2, tzinfo=UTC))
    begun = [sys.executable, "-m", "teia", "crawl", "http://a.test/", "--data", str(data), "--config", str(file)]
    waiting = subprocess.Popen(begun, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    try:
        assert waiting.stderr is not None
        assert waiting.stderr.readline() == b"main: waits until Thu 21 Nov 2126 02:00 (UTC)\n"
        assert answer("status", "--data", str(data))["state"] == "waiting"
        refused = teia("set", "schedule.stop_after=2 days", "--data", str(data))
        assert refused.returncode == 1
        assert refused.stderr == (
            "teia: schedule.stop_after = '2 days': is longer than schedule.every = '1 day';"
            " a run must end before the next one starts\n"
        )
        changed = teia("set", "schedule.start=2126-11-30 02:00", "schedule.every=1 month", "--data", str(data))
        assert "applied to the running crawl" in changed.stderr
        assert "Every month at 02:00 (UTC) from Saturday 30 Nov 2126 on, 10 minutes at most." in changed.stderr
        assert teia("stop", "--data", str(data)).returncode == 0
        assert waiting.wait(10) == 0
    finally:
        kill_group(waiting)
        if waiting.stderr is not None:
            waiting.stderr.close()
