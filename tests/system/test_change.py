"""A running crawl changed from another terminal (A10), through deaths of either side; the lab's log is the judge."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from teia.lab.server.witness import early_requests
from teia.store.root import open_root
from teia.transfer.read_all import audit_archives, known_urls
from tests.waiting import until

from .labs import Lab, crawl, crawling, kill_group, running_lab
from .test_control import teia

DELAY_S = 0.2
FLAGS = ("--delay", str(DELAY_S))
SPEC = """
seed = 17
hosts = 6
pages = 200

[sites]
theta = 0.1
nxdomain = 0
unreachable = 0

[errors]
scale = 0.0

[robots]
crawl_delay = 0
"""
LARGE_SPEC = SPEC.replace("pages = 200", "pages = 4000")
"""More than is fetched while somebody types two commands, however slow the machine."""


def excluded(data: Path) -> list[str]:
    with (data / "main" / "teia.toml").open("rb") as file:
        return tomllib.load(file).get("scope", {}).get("exclude", [])


def hosts_seen(lab: Lab) -> list[str]:
    return sorted({entry.host for entry in lab.entries()})


def test_a_host_is_blocked_within_a_second_and_comes_back(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running_lab(tmp_path, LARGE_SPEC, 88) as lab, crawling(lab, data, *FLAGS):
        until(lambda: len(hosts_seen(lab)) > 3, "the crawl begins")
        host = lab.entries()[-1].host
        done = teia("block", host, "--data", str(data), "--json")
        assert done.returncode == 0, done.stderr
        told_at_s = time.time()
        said = json.loads(done.stdout)
        assert (said["running"], said["now"]) == (True, ["scope.exclude"])
        assert excluded(data) == [f"domain:{host}"]
        time.sleep(2)  # it may be requested for one second; then not
        late = [entry for entry in lab.settled_entries() if entry.host == host and entry.start_s > told_at_s + 1]
        assert late == []
        seen = sum(entry.host == host for entry in lab.entries())
        assert teia("unblock", host, "--data", str(data)).returncode == 0
        until(lambda: sum(entry.host == host for entry in lab.entries()) > seen, "its URLs come back")
        assert excluded(data) == []


@pytest.mark.slow
def test_changes_survive_the_death_of_whoever_makes_them_and_of_the_crawl(tmp_path: Path) -> None:
    """Acknowledged changes are in the file and hold in every later run; in the end all URLs are back and fetched."""
    data, chance = tmp_path / "data", random.Random(20261115)
    with running_lab(tmp_path, SPEC, 89) as lab:
        blocked: set[str] = set()
        for _ in range(4):
            with crawling(lab, data, *FLAGS) as process:
                until(lambda: (data / "main" / "teia.toml").exists(), "the collection is made")
                until(lambda: lab.requests() > 3, "the crawl begins")
                host = chance.choice(hosts_seen(lab))
                asker = subprocess.Popen(
                    [sys.executable, "-m", "teia", "block", host, "--data", str(data)], stderr=subprocess.DEVNULL
                )
                time.sleep(chance.uniform(0.0, 1.0))  # they die at any moment
                if chance.random() < 0.3:
                    asker.kill()
                kill_group(process)
                if asker.wait(30) == 0:
                    blocked.add(f"domain:{host}")
            assert blocked <= set(excluded(data)), "acknowledged, so it is in the file"
        left_out = [rule.removeprefix("domain:") for rule in excluded(data)]
        asked_before = lab.settled_entries()
        crawl(lab, data, *FLAGS, "--max-seconds", "4")
        later = lab.settled_entries()[len(asked_before) :]
        assert {entry.host for entry in later} & set(left_out) == set()
        if left_out:
            assert teia("unblock", *left_out, "--data", str(data)).returncode == 0
        assert crawl(lab, data, *FLAGS)["state"] == "finished"
        entries = lab.settled_entries()
    outcomes = {each["outcome"] for each in known_urls(open_root(data), "main")}
    assert "out_of_scope" not in outcomes
    assert None not in outcomes
    assert audit_archives(open_root(data), "main").violations == 0
    assert early_requests(entries, DELAY_S, lambda entry: entry.host) == []


def test_a_change_in_the_moment_of_the_start_is_taken_up(tmp_path: Path) -> None:
    """The crawl has read its settings and does not listen yet: that is when a script's second line comes."""
    data = tmp_path / "data"
    with running_lab(tmp_path, SPEC, 88) as lab:
        crawl(lab, data, *FLAGS, "--max-pages", "3")
        with crawling(lab, data, *FLAGS):
            for number in range(4):
                done = teia("set", f"exclude+=host:never{number}.test", "--data", str(data))
                assert done.returncode == 0, done.stderr
            assert teia("set", "max-pages=1", "--data", str(data)).returncode == 0
            until(lambda: not is_running(data), "the crawl stops at its new limit")
    assert excluded(data) == [f"host:never{number}.test" for number in range(4)]


def is_running(data: Path) -> bool:
    state = json.loads(teia("status", "--data", str(data), "--json").stdout)["state"]
    return state in {"running", "paused"}
