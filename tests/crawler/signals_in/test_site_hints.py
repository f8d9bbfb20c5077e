"""What a site reports of its pages, tested by visits: no report gets credit for changes that come anyway."""

from __future__ import annotations

from math import exp
from pathlib import Path

import pytest

from teia.crawler.signals_in.site_hints import source_trust, unchanged_probability
from teia.frontier.cell import revisits
from teia.refresh.history import DAY_S, History, VisitResult
from teia.urls import site_of, slot_of
from tests.crawler.fresh_crawls import fresh_web, quiet_world


def visited(visits: int, changed: int) -> History:
    history = History.start(0.0)
    for number in range(visits):
        result = VisitResult.CHANGED if number < changed else VisitResult.SAME_BYTES
        history.observe(result, (number + 1) * DAY_S, None, 1e15)
    return history


@pytest.mark.parametrize(("visits", "changed"), [(1, 0), (1, 1), (10, 3), (10, 10)])
def test_equal_intervals_give_chos_estimate(visits: int, changed: int) -> None:
    found = unchanged_probability(visited(visits, changed), [], DAY_S)
    assert found == pytest.approx((visits - changed + 0.5) / (visits + 1.0))


def test_other_pages_count_as_a_few_visits() -> None:
    """Of 40 visits 30 found a change: as if six of eight had."""
    none, others = visited(0, 0), [visited(10, 9), visited(10, 9), visited(10, 6), visited(10, 6)]
    assert unchanged_probability(none, others, DAY_S) == pytest.approx((2 + 0.5) / (8 + 1))
    assert unchanged_probability(visited(4, 0), others, DAY_S) == pytest.approx((4 + 2 + 0.5) / (4 + 8 + 1))
    assert unchanged_probability(none, [], DAY_S) == pytest.approx(exp(-0.5 / 15)), "nothing is known"


def test_a_sitemap_that_calls_every_page_new_earns_nothing_by_pages_that_change_anyway(tmp_path: Path) -> None:
    """The first revisits of a page find a change without any report, as those of the other pages did."""
    rates = {"changes__slowest": 2.0, "changes__fastest": 6.0, "changes__pareto": 0.0, "changes__regular": 0.0}
    sitemaps = {"sitemaps__honest": 0.0, "sitemaps__lying": 1.0, "sitemaps__bare": 0.0, "sitemaps__fast_dates": True}
    world = quiet_world(pages=40, hosts=1, seed=4, text__paragraphs=2, **rates, **sitemaps)
    with fresh_web(world, tmp_path, courtesy__delay_s=1_800.0) as web:
        web.announce_sitemaps()
        web.run(2.0, 1_800.0)
        frontier = web.crawl.committer.cells[0].frontier
        ((host_id, host, *_),) = revisits.hosts_with_pages(frontier)
        (trust,) = source_trust(frontier, slot_of(site_of(host)), host_id).values()
    assert trust.tested > 40
    assert trust.changed > 0.7 * trust.tested
    assert trust.weight < 0.4, "it was 0.75"
