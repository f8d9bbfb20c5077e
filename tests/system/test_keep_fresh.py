"""`teia crawl --keep-fresh` against a lab web: pages come again, politely, also after kill -9 (A13, P9, T7)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from teia.lab.server.requestlog import RequestLogEntry
from teia.lab.server.witness import early_requests
from tests.waiting import until

from .labs import Lab, crawl, crawling, kill_group, log_text, running_lab

DELAY_S = 0.2
SECONDS = 6
SPEC = """
seed = 9
hosts = 6
pages = 60
time_factor = 20000

[sites]
theta = 0.2
nxdomain = 0
unreachable = 0

[errors]
scale = 0.0

[robots]
present = 0.6
crawl_delay = 0.5
crawl_delay_s = 0.4

[urls]
sessions = 0
"""
ENVIRON = {"TEIA_REFRESH_LEAST_S": "1", "TEIA_REFRESH_REPLAN_S": "1"}
FLAGS = ("--delay", str(DELAY_S), "--keep-fresh", "--no-index", "--cells", "2", "--policy", "edf")


def teia(*arguments: str) -> Any:
    command = [sys.executable, "-m", "teia", *arguments, "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


@dataclass(frozen=True)
class Kept:
    """A crawl that kept its pages fresh for a while, was killed, went on, and was followed by a plain one."""

    data: Path
    lab: Lab
    summary: dict[str, Any]
    status: dict[str, Any]
    plain: dict[str, Any]
    entries: list[RequestLogEntry]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = tmp_path_factory.mktemp("kept")
    data = folder / "data"
    with running_lab(folder, SPEC, 97) as lab:
        with crawling(lab, data, *FLAGS, "--config", str(_settings(folder))) as process:

            def has_requested_enough() -> bool:
                assert process.poll() is None, log_text(data)
                return lab.requests() >= 150

            until(has_requested_enough, state=lambda: log_text(data))
            status = teia("status", "--data", str(data))
            kill_group(process)
        summary = crawl(lab, data, "--max-seconds", str(SECONDS), *FLAGS[:4], environ=ENVIRON)
        plain = crawl(lab, data, "--no-keep-fresh", *FLAGS[:2], "--no-index", environ=ENVIRON)
        return Kept(data, lab, summary, status, plain, lab.settled_entries())


def _settings(folder: Path) -> Path:
    file = folder / "settings.toml"
    file.write_text("[refresh]\nleast_s = 1.0\nreplan_s = 1.0\n", "utf-8")
    return file


def test_it_goes_on_until_its_limit_and_visits_pages_again(kept: Kept) -> None:
    assert kept.summary["state"] == "limit"
    assert kept.summary["seconds"] >= SECONDS
    pages = Counter((entry.host, entry.path) for entry in kept.entries if entry.path != "/robots.txt")
    assert len(pages) >= 55
    assert sum(pages.values()) > 3 * len(pages)


def test_no_request_was_early_by_the_labs_own_log(kept: Kept) -> None:
    """Revisits rest like any request, also across a kill -9; so do the hosts that ask for a longer delay."""
    assert early_requests(kept.entries, DELAY_S, lambda entry: entry.host) == []
    assert early_requests(kept.entries, DELAY_S, lambda entry: entry.address) == []
    assert kept.summary["politeness_violations"] == 0


def test_known_pages_are_requested_conditionally(kept: Kept) -> None:
    asked = [
        entry for entry in kept.entries if "if-none-match" in entry.headers or "if-modified-since" in entry.headers
    ]
    assert asked
    assert any(entry.status == 304 for entry in asked)


def test_a_plain_crawl_afterwards_ends_at_once(kept: Kept) -> None:
    assert kept.plain["state"] == "finished"
    assert kept.plain["requests"] <= 2
    assert kept.plain["freshness"] is None


def test_it_tells_how_fresh_it_is(kept: Kept) -> None:
    for account in (kept.status, kept.summary):
        found = account["freshness"]
        assert 0 < found["fresh"] <= 1
        assert 0 < found["best"] <= 1
    report = teia("report", "freshness", "--data", str(kept.data))
    assert report["pages"] >= 55
    assert report["visited_again"] >= 50
    assert {"host", "pages", "fresh", "best", "slot_s", "full_pass_s", "late_share"} <= set(report["rows"][0])


def test_a_page_says_when_it_comes_again(kept: Kept) -> None:
    view = teia("page", kept.lab.seed_url, "--data", str(kept.data))
    assert view["state"] == "done"
    assert view["next_due"].endswith("Z")
    assert view["rate_per_day"] > 0
