"""The report of freshness."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.crawler.commit import CommitGroup
from teia.store.root import open_root
from teia.views.reports.freshness import freshness
from teia.views.reports.source import open_source
from tests.crawler.fresh_crawls import fresh_web, quiet_world


def test_a_crawl_that_is_two_hours_old_reports_the_freshness_that_is_counted_from_its_folder(tmp_path: Path) -> None:
    """Its plans were made before anything was known of the rates, and some hosts have none yet."""
    world = quiet_world(hosts=4, pages=60, seed=5, changes__slowest=0.5, changes__fastest=10.0, text__paragraphs=2)
    with fresh_web(world, tmp_path, courtesy__delay_s=300.0, refresh__replan_s=900.0) as web:
        web.run(0.1, 300.0)
        planned = web.refresh.account()  # asking has it counted
        web._commit(CommitGroup())
        reported = web.refresh.account()
        with open_source(open_root(web.data), "main") as source:
            counted = freshness(source, clock=web.clock)
    assert planned is not None
    assert reported is not None
    assert counted.fresh is not None
    assert abs(planned["fresh"] - counted.fresh) > 0.02, "the plans alone would not do"
    names = ("fresh", "fresh_error", "best", "best_error", "possible", "pages", "visited_again")
    assert {name: reported[name] for name in names} == pytest.approx(
        {name: getattr(counted, name) for name in names}, abs=1e-4
    )
