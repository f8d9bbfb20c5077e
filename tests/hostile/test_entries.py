"""One crawl of every hostile behaviour of the lab; the servers' own logs and an independent reader are the judges."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvloop
from warcio.archiveiterator import ArchiveIterator

from teia.clock import WallClock
from teia.collections.settings import configure
from teia.crawler.start import open_crawler
from teia.lab.hostile.cases import HostileCase, hostile_cases
from teia.lab.hostile.server import INSIDE, HostileServer, page, sends
from teia.store.root import open_root
from teia.transfer.read_all import audit_archives, known_urls
from teia.urls import canonicalize
from tests.conftest import ROOT

ADDRESSES = [f"127.77.0.{number}" for number in range(1, 33)]


@dataclass(frozen=True)
class Survived:
    """What came of the crawl."""

    cases: dict[str, HostileCase]
    server: HostileServer
    canary: HostileServer
    outcomes: dict[str, str | None]
    data: Path
    grown_kb: int
    child_kb: int

    def records(self) -> Iterator[tuple[str, str, bytes]]:
        """Yield (type, URL, block or payload) of every record, as warcio reads them."""
        for path in sorted(self.data.glob("main/cells/*/archive/*.warc.gz")):
            with path.open("rb") as file:
                for record in ArchiveIterator(file, no_record_parse=True):
                    headers = record.rec_headers
                    assert not any(mark in value for _, value in headers.headers for mark in "\r\n\0")
                    yield record.rec_type, headers.get_header("WARC-Target-URI") or "", record.raw_stream.read()


@pytest.fixture(scope="module")
def survived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survived]:
    folder = tmp_path_factory.mktemp("hostile")
    with HostileServer({}, [INSIDE]) as canary:
        cases = hostile_cases(f"{INSIDE}:{canary.port}")
        links = "".join(f'<a href="http://{case.host}{case.path}">{case.name}</a>' for case in cases)
        behaviours = {case.path: case.behaviour for case in cases}
        behaviours["/start"] = sends(page(links.encode(), b"Content-Type: text/html"), True)
        with HostileServer(behaviours, ADDRESSES) as server:
            before_kb = reset_peak_kb()
            child_kb = uvloop.run(crawl(folder / "data", server, cases))
            grown_kb = peak_kb() - before_kb
            urls = {each["url"]: each["outcome"] for each in known_urls(open_root(folder / "data"), "main")}
            by_name = {case.name: case for case in cases}
            yield Survived(by_name, server, canary, urls, folder / "data", grown_kb, child_kb)


def reset_peak_kb() -> int:
    """Let the peak of this process's memory begin anew, and return it."""
    Path("/proc/self/clear_refs").write_text("5", "ascii")
    return peak_kb()


def peak_kb(process: str = "self") -> int:
    """Return the peak of a process's memory; 0 if it has ended."""
    lines = Path("/proc", process, "status").read_text("ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def peak_of_children_kb(process: str = "self") -> int:
    """Return the largest peak of the processes that one has started, and of those that they have.

    Not that of `getrusage`: it counts what a child has before its program begins, which is all of this process.
    """
    peak = 0
    for file in Path("/proc", process, "task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in file.read_text("ascii").split():
                peak = max(peak, peak_kb(child), peak_of_children_kb(child))
    return peak


async def crawl(data: Path, server: HostileServer, cases: list[HostileCase]) -> int:
    """Crawl all cases; return the peak of a child's memory."""
    root, clock = open_root(data, create=True), WallClock()
    places = [f"{case.host}={ADDRESSES[at % len(ADDRESSES)]}:{server.port}" for at, case in enumerate(cases)]
    flags = {
        "collection.seeds": ["http://start.test/start"],
        "collection.cells": 2,
        "scope.include": ["suffix:.test", f"host:{INSIDE}"],
        "courtesy.delay_s": 0.0,
        "courtesy.retry_wait_s": 0.05,
        "fetch.resolve": [*places, f"*.test={ADDRESSES[0]}:{server.port}"],
        "fetch.allow_nets": ["127.77.0.0/16"],
        "fetch.dns": "127.77.255.254:1",
        "limits.body_bytes": 1_000_000,
        "limits.connect_s": 1.0,
        "limits.slow_s": 1.0,
        "limits.fetch_s": 2.0,
        "limits.seconds": 60.0,
        "index.enabled": False,
    }
    config = configure(root, "main", None, {}, flags).config
    with root.locked():
        async with asyncio.timeout(100), open_crawler(root, [config], clock, seed=1) as crawler:
            crawling, peak = asyncio.ensure_future(crawler.run()), 0
            while not crawling.done():
                # Children that a bomb ends are seen as well.
                await asyncio.wait([crawling], timeout=0.05)
                peak = max(peak, peak_of_children_kb())
            await crawling
    return peak


# ---- every case -----------------------------------------------------------------------------------------------------

ALL = hostile_cases(f"{INSIDE}:1")
CASES = [pytest.param(case.name, id=f"{case.entry}-{case.name}") for case in ALL]


@pytest.mark.parametrize("name", CASES)
def test_every_behaviour_has_its_outcome_and_is_tried_a_few_times(survived: Survived, name: str) -> None:
    case = survived.cases[name]
    outcome = survived.outcomes[f"http://{case.host}{case.path}"]
    assert outcome == case.outcome or not case.outcome
    assert 1 <= survived.server.targets().count(case.path) <= 4, "3 tries, and one more after a closed connection"


# ---- by entry -------------------------------------------------------------------------------------------------------


def test_1_2_5_no_request_reached_the_inside(survived: Survived) -> None:
    inside = {url: outcome for url, outcome in survived.outcomes.items() if url.startswith(f"http://{INSIDE}")}
    assert len(inside) > 20
    assert set(inside.values()) == {"blocked_address"}
    assert survived.canary.connections == 0


def test_6_only_addresses_of_the_web_are_known(survived: Survived) -> None:
    assert {url.partition("://")[0] for url in survived.outcomes} == {"http"}
    assert {
        url.partition("/")[2].partition("/")[2].partition("/")[0].rpartition(".")[2] for url in survived.outcomes
    } <= {
        "test",
        f"1:{survived.canary.port}",
    }


def test_10_31_bombs_take_little_memory(survived: Survived, record_property: Callable[[str, object], None]) -> None:
    record_property(
        "figure 4", f"{len(survived.cases)} hostile behaviours: all crawled, crawler {survived.grown_kb >> 10} MiB more"
    )
    assert survived.grown_kb < 400 * 1024, "a crawler has about 100 MiB before it crawls, and may take 512"
    assert 10 * 1024 < survived.child_kb < 512 * 1024


def test_16_every_archived_body_has_the_token_of_its_own_url(survived: Survived) -> None:
    found = 0
    for kind, url, body in survived.records():
        if kind == "response" and b"token-of-" in body:
            found += 1
            assert f"token-of-{url.partition('://')[2].partition('.')[0]}-end".encode() in body
            assert b"token-of-nobody" not in body
    assert found >= 15


def test_17_loops_end(survived: Survived) -> None:
    requests = Counter(survived.server.targets())
    assert max(requests[path] for path in ("/to-itself", "/ping", "/pong", "/meta-loop", "/cookie-gate")) == 1
    assert not [seen for seen in survived.server.log if seen.header("Cookie")]


def test_28_a_flood_of_links_is_cut(survived: Survived) -> None:
    (lines,) = [body for kind, url, body in survived.records() if kind == "metadata" and "flood.test" in url]
    assert lines.count(b"\noutlink: ") + lines.startswith(b"outlink: ") == 6_000


def test_29_every_known_url_is_canonical(survived: Survived) -> None:
    for url in survived.outcomes:
        assert canonicalize(url) == url
        assert len(url) <= 2_048


def test_30_no_entity_of_a_sitemap_is_resolved(survived: Survived) -> None:
    assert not [
        url for url in survived.outcomes if "passwd" in url or "root:" in url or url.startswith("http://x.test")
    ]


def test_35_an_independent_reader_counts_the_records_that_were_written(survived: Survived) -> None:
    audit = audit_archives(open_root(survived.data), "main")
    assert audit.violations == 0, audit.details
    assert sum(1 for _ in survived.records()) == audit.checked
    urls = Counter(url for kind, url, _ in survived.records() if kind == "response")
    assert urls["http://record-in-body.test/record-in-body"] == 1


COVERED = {
    3: "tests/fetch/test_destination.py::test_one_forbidden_record_blocks_the_name",
    4: "tests/fetch/test_curl.py::test_guard_checks_again_when_the_socket_is_opened",
    7: "tests/fetch/test_guard.py::test_teias_own_ports_are_never_requested",
    8: "tests/fetch/test_curl.py::test_redirect_is_an_answer_and_is_not_followed",
    9: "tests/fetch/test_curl.py::test_cookies_are_not_kept",
    18: "tests/fetch/test_curl.py::test_certificates_are_checked",
    20: "tests/conformance/test_robots.py::test_marks_of_byte_order_are_passed_over_even_broken_ones",
    21: "tests/crawler/test_loop.py::test_retry_after_is_waited_for",
    22: "tests/crawler/test_loop.py::test_names_on_one_address_share_its_delay",
    23: "tests/crawler/test_loop.py::test_host_that_asks_for_a_day_is_parked_with_its_reason",
    24: "tests/crawler/test_loop.py::test_dead_host_is_given_up_and_the_others_go_on",
    25: "tests/system/test_stop.py::test_stops_end_in_time_lose_nothing_and_request_no_host_early",
    26: "tests/crawler/sites/test_traps.py::test_crawl_of_a_trap_park_ends_with_all_its_pages",
    27: "tests/crawler/sites/test_soft404.py::test_pages_like_the_answer_to_the_probe_are_soft_404s",
    34: "tests/parse/children/test_pool.py::test_poison_is_tried_twice_and_only_it_is_lost",
}
"""Entries that need no server of ours: the test that judges them."""


@pytest.mark.parametrize("entry", range(1, 36))
def test_every_entry_is_judged_here_or_by_a_named_test(entry: int) -> None:
    if entry not in COVERED:
        assert any(case.entry == entry for case in ALL)
        return
    path, _, name = COVERED[entry].partition("::")
    assert f"def {name}(" in (ROOT / path).read_text()
