"""Figure 6 of RELIABILITY: a site of 1,000 pages in a trap park, crawled over HTTP; the lab's log counts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from teia.lab.world.spec import WorldSpec
from teia.lab.world.trap_park import Trap, trap_at
from teia.lab.world.world import World
from tests.system.labs import crawl, running_lab

pytestmark = pytest.mark.slow
PAGES = 1_000
SPEC = """
seed = 11
hosts = 1
pages = 1000
[urls]
parks = 1.0
[sites]
nxdomain = 0
unreachable = 0
[errors]
scale = 0.0
[text]
pdfs = 0.0
[links]
orphans = 0.0
nofollow = 0.0
[robots]
noindex = 0.0
nofollow = 0.0
excluded = 0.0
crawl_delay = 0.0
"""


@dataclass(frozen=True)
class Park:
    """What came of a crawl: its summary, the park's pages that were asked for, and requests by trap."""

    data: Path
    summary: dict[str, Any]
    pages: int
    wasted: Counter[str]
    requests: int


@pytest.fixture(scope="module")
def park(tmp_path_factory: pytest.TempPathFactory) -> Park:
    folder = tmp_path_factory.mktemp("park")
    with running_lab(folder, SPEC, 72) as lab:
        summary = crawl(lab, folder / "data", "--delay", "0", environ={"TEIA_SITES_TRAPS": "true"})
        entries = lab.settled_entries()
    space = World(WorldSpec.load(folder / "world.toml"), epoch_s=0.0).spaces[0]
    pages, wasted = set(), Counter[str]()
    for entry in entries:
        path = entry.path.encode("latin-1")[1:]
        found = trap_at(space, path)
        if found is not None:
            wasted[found.trap] += not found.is_wanted
        elif (slot := space.find(path)) is not None:
            pages.add(slot)
    return Park(folder / "data", summary, len(pages), wasted, len(entries))


def test_pages_behind_the_traps_are_all_fetched(park: Park) -> None:
    assert park.summary["state"] == "finished"
    assert park.pages >= 0.99 * PAGES


def test_at_most_a_tenth_of_the_requests_is_spent_in_traps(
    park: Park, record_property: Callable[[str, object], None]
) -> None:
    spent = park.wasted.total() / park.requests
    record_property("figure 6", f"{park.pages / PAGES:.1%} of {PAGES} pages, {spent:.1%} of the requests in traps")
    assert set(park.wasted) == set(Trap)
    assert park.wasted.total() <= 0.1 * park.requests


def test_frontier_stays_small(park: Park) -> None:
    assert park.summary["urls_known"] <= 12 * PAGES
    assert park.summary["urls_queued"] == 0


def test_report_counts_what_was_parked(park: Park) -> None:
    command = [sys.executable, "-m", "teia", "report", "traps", "--data", str(park.data), "--json", "--top", "100"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["given_up"] == park.summary["outcomes"]["trap"] > 1_000
    assert {"/calendar/0/0", "/maze/w", "/shop?*"} <= {row["pattern"] for row in report["rows"]}


def test_crawling_it_again_requests_nothing(park: Park) -> None:
    """What was given up stays so: the standing of patterns is on disk."""
    command = [sys.executable, "-m", "teia", "crawl", "--data", str(park.data), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1])["requests"] == 0
