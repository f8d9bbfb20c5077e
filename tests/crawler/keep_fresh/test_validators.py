"""Hosts that answer 304 although their pages changed are found, and no longer believed (P3, FRESHNESS)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.frontier.cell import histories
from teia.frontier.cell.revisits import hosts_with_pages
from teia.lab.measure.live_freshness import measure_freshness
from teia.refresh.trust import Trust
from teia.store.root import open_root
from teia.urls import site_of, slot_of
from teia.views.reports.freshness import FreshnessReport, freshness
from teia.views.reports.source import open_source
from tests.crawler.fresh_crawls import DAY_S, FreshWeb, fresh_web, quiet_world

SLOT_S = 3_600.0
DAYS = 10.0
WEB = {"pages": 40, "hosts": 2, "seed": 3, "sites__theta": 0.0, "changes__fastest": 1.0, "changes__cosmetic": 0.0}


def crawled(folder: Path, **validators: float) -> Iterator[FreshWeb]:
    world = quiet_world(**WEB, **{f"validators__{name}": share for name, share in validators.items()})
    with fresh_web(world, folder) as web:
        web.run(days=DAYS, slot_s=SLOT_S)
        yield web


@pytest.fixture(scope="module")
def lying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreshWeb]:
    yield from crawled(tmp_path_factory.mktemp("lying"), honest=0.0, frozen=1.0)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreshWeb]:
    yield from crawled(tmp_path_factory.mktemp("honest"), honest=1.0, frozen=0.0)


def trusts(web: FreshWeb) -> list[Trust]:
    frontier = web.crawl.committer.cells[0].frontier
    hosts = [(slot_of(site_of(name)), host_id) for host_id, name, *_ in hosts_with_pages(frontier)]
    return [Trust.decode(histories.host_trust(frontier, *host)[0]) for host in hosts]


def share_with_body(web: FreshWeb, last_days: float) -> float:
    """The share of the visits of the last days that brought a body."""
    since_s = web.clock.at_s - last_days * DAY_S
    taken, copied = (sum(time_s > since_s for time_s, _ in visits) for visits in (web.taken, web.copied))
    return copied / taken


def report(web: FreshWeb) -> tuple[FreshnessReport, float]:
    root = open_root(web.data)
    with open_source(root, "main") as source:
        found = freshness(source, clock=web.clock)
    true = measure_freshness(web.world, root, "main", web.clock.at_s)
    assert true is not None
    return found, true


def test_hosts_that_hide_changes_are_found_and_requested_without_conditions(lying: FreshWeb) -> None:
    assert all(trust.hides_changes for trust in trusts(lying))
    assert share_with_body(lying, last_days=5.0) == 1.0


def test_honest_hosts_keep_their_conditional_requests(honest: FreshWeb) -> None:
    assert not any(trust.hides_changes for trust in trusts(honest))
    # Bodies are those of changed pages, and of one visit in 25.
    assert share_with_body(honest, last_days=5.0) < 0.5


def test_a_lying_web_is_kept_nearly_as_fresh_as_an_honest_one(lying: FreshWeb, honest: FreshWeb) -> None:
    assert lying.copied_freshness(5.0) >= 0.95 * honest.copied_freshness(5.0)


def test_the_estimate_does_not_believe_what_304s_said(lying: FreshWeb) -> None:
    found, true = report(lying)
    assert found.fresh == pytest.approx(true, abs=0.12)


def test_the_report_counts_hosts_whose_304s_nothing_has_proved(tmp_path: Path) -> None:
    """Before a change was seen, a server that answers 304 to everything looks like one whose pages do not change."""
    world = quiet_world(**{**WEB, "changes__fastest": 0.01}, validators__honest=0.0, validators__frozen=1.0)
    with fresh_web(world, tmp_path) as web:
        web.run(days=2.0, slot_s=SLOT_S)
        found, _ = report(web)
    assert any("304s of 2 hosts" in note for note in found.notes)


def test_the_report_names_the_hosts_that_hide_changes(lying: FreshWeb, honest: FreshWeb) -> None:
    notes = " ".join(report(lying)[0].notes)
    assert all(host.name in notes for host in lying.world.hosts)
    assert "304" in notes
    assert not any("304" in note for note in report(honest)[0].notes)
