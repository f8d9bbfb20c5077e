"""True freshness as it is measured beside a crawl (UX 2.9): against every visit and every change."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

from teia.clock import WallClock
from teia.collections.account import TRUE_RETENTION_S, note_truth, truth_of
from teia.collections.control_file import CrawlReports
from teia.collections.settings import saved
from teia.crawler.keep_fresh.host_plan import fresh_probabilities
from teia.crawler.lookup import Lookup
from teia.frontier.cell.revisits import captured_pages
from teia.frontier.cell.rows import url_from
from teia.indexer.open_search import FrontierFacts
from teia.lab.measure import live_freshness
from teia.lab.whatif.past import read_past
from teia.refresh.trust import Trust
from teia.store.root import Root, open_root
from teia.urls import site_of, slot_of
from teia.views.host import estimate_freshness
from teia.views.hosts import host_table
from teia.views.page import page_view
from teia.views.reports.freshness import freshness
from teia.views.reports.source import open_source
from tests.crawler.fresh_crawls import FreshWeb, fresh_web, quiet_world
from tests.waiting import until

SLOT_S = 1_800.0


@dataclass
class Kept:
    """A web that is kept fresh, and where."""

    web: FreshWeb
    root: Root


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    folder = tmp_path_factory.mktemp("kept")
    world = quiet_world(pages=60, hosts=2, seed=3, changes__rates="zipf:1.5", changes__fastest=20.0)
    with fresh_web(world, folder, courtesy__delay_s=SLOT_S) as web:
        web.run(1.5, SLOT_S)
        yield Kept(web, open_root(folder / "data"))


def true_share(web: FreshWeb) -> float:
    """By when each page last brought a body."""
    copied_s = {url: time_s for time_s, url in web.copied}
    held = [(page, copied_s[url]) for url, page in web.truth().items() if url in copied_s]
    fresh = [bisect_right(page.changes_s, time_s) == len(page.changes_s) for page, time_s in held]
    return sum(fresh) / len(held)


def test_what_is_measured_is_true(kept: Kept) -> None:
    web, root = kept.web, kept.root
    shares = []
    for _ in range(3):
        web.run(0.25, SLOT_S)
        shares.append(live_freshness.measure_freshness(web.world, root, "main", web.clock.now_s()))
        assert shares[-1] == pytest.approx(true_share(web), abs=1e-9)
    assert 0 < min(share or 0 for share in shares) < 1, "some had changed"


@pytest.mark.heavy
def test_an_answer_that_nothing_changed_makes_no_copy_younger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trust, "is_audit", lambda *_: False)  # so that the host is never found out
    """Servers that say 304 to everything: visits, but no other copies."""
    world = quiet_world(pages=60, hosts=3, seed=3, validators__frozen=1.0, validators__honest=0)
    with fresh_web(world, tmp_path, courtesy__delay_s=SLOT_S) as web:
        web.run(3, SLOT_S)
        found = live_freshness.measure_freshness(world, open_root(tmp_path / "data"), "main", web.clock.now_s())
        visited = [page for page in web.truth().values() if page.visits_s]
        by_visits = [bisect_right(page.changes_s, page.visits_s[-1]) == len(page.changes_s) for page in visited]
        assert found == pytest.approx(true_share(web), abs=1e-9)
        assert sum(by_visits) / len(by_visits) > true_share(web) + 0.2, "as it would look by visits"


@pytest.mark.heavy
def test_a_part_of_each_host_stands_for_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One page of each small host is looked at; these are fresher, for each host is visited as often as the largest.

    If each page looked at counted the same, the share would be 0.06 too high here. Of 30 pages chance makes as much.
    """
    monkeypatch.setattr(live_freshness, "MOST_PAGES", 90)
    world = quiet_world(pages=600, hosts=30, seed=3, changes__fastest=6.0)
    assert max(host.size for host in world.hosts) > 30 * min(host.size for host in world.hosts)
    found, true = [], []
    with fresh_web(world, tmp_path, courtesy__delay_s=SLOT_S) as web:
        web.run(4, SLOT_S)
        for _ in range(6):
            web.run(0.25, SLOT_S)
            found.append(
                live_freshness.measure_freshness(world, open_root(tmp_path / "data"), "main", web.clock.now_s()) or 0.0
            )
            true.append(true_share(web))
    assert mean(found) == pytest.approx(mean(true), abs=0.05)


def test_it_is_measured_beside_and_written_down(kept: Kept) -> None:
    root, clock = kept.root, WallClock()
    with (
        live_freshness.measure_regularly(kept.web.world, root, "main", clock),
        closing(CrawlReports(root.path / "control.sqlite")) as control,
    ):
        ((time_s, share),) = until(lambda: truth_of(control, "main", 0.0, 60), "it is measured")
    assert abs(time_s - clock.now_s()) < 60
    assert 0 <= share <= 1


def test_the_report_has_the_truth_beside_the_estimate(kept: Kept) -> None:
    web, root = kept.web, kept.root
    with open_source(root, "main") as source:
        assert freshness(source, clock=web.clock).true is None
        with CrawlReports(root.control) as reports:
            note_truth(reports, "main", web.clock.now_s() - 5.0, true_share(web))
        found = freshness(source, clock=web.clock)
    assert found.true == pytest.approx(true_share(web), abs=1e-6)
    assert found.fresh is not None
    assert found.error is not None
    assert found.error == found.fresh_error
    assert abs(found.fresh - found.true) <= 2 * found.error, "one point in twenty may lie outside, but not far"


def test_every_figure_of_freshness_comes_from_one_estimate(kept: Kept) -> None:
    """Reports, hosts, pages, search results and what-if, at one time."""
    clock, config = kept.web.clock, saved(kept.root, "main").config
    with open_source(kept.root, "main") as source:
        report, past = freshness(source, clock=clock), read_past(source, clock.now_s())
    hosts = host_table(kept.root, "main", clock.now_s()).hosts
    of_pages: list[float] = []
    with Lookup(kept.root, "main") as lookup:
        facts = FrontierFacts([lookup], clock)
        for row in report.rows:
            rows = captured_pages(lookup.cells[0], slot_of(site_of(row.host)), hosts[row.host].host_id, -(1 << 63), 99)
            urls = [url_from(row.host, each.tail) for each in rows]
            shown = [page_view(lookup, url, config, clock).fresh_probability or 0.0 for url in urls]
            hits = [facts.facts({each.key: url})[each.key] for each, url in zip(rows, urls, strict=True)]
            assert [hit.fresh_probability for hit in hits] == shown
            assert mean(shown) == pytest.approx(row.fresh, abs=1e-6)
            of_host = estimate_freshness(kept.root, "main", hosts[row.host], row.slot_s, clock.now_s())
            assert of_host.fresh == pytest.approx(row.fresh, abs=1e-4)
            of_pages += shown
    assert report.visited_again == report.pages == len(of_pages)
    assert mean(of_pages) == pytest.approx(report.fresh, abs=1e-6)
    predicted = [fresh_probabilities(part.columns, part.posterior, clock.now_s()) for part in past.parts]
    assert np.concatenate(predicted).mean() == pytest.approx(report.fresh, abs=1e-6)


def test_a_day_is_kept_and_few_points_are_shown(tmp_path: Path) -> None:
    with closing(CrawlReports(tmp_path / "control.sqlite")) as control:
        for number in range(150):
            note_truth(control, "main", 1_000.0 + 10 * number, number / 150)
        found = truth_of(control, "main", 0.0, 60)
        assert len(found) == 50
        assert found[-1] == (2_490.0, 149 / 150), "the newest is always there"
        assert found == sorted(found)
        assert truth_of(control, "main", 3_000.0, 60) == []
        assert len(truth_of(control, "main", 2_400.0, 60)) == 9
        note_truth(control, "main", 1_000.0 + TRUE_RETENTION_S + 20, 0.5)
        assert len(truth_of(control, "main", 0.0, 1_000)) == 149
