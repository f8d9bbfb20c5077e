"""Previews of a crawl that has a budget for all hosts."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from teia.collections.control_file import CrawlReports
from teia.crawler.lookup import Lookup
from teia.store.root import open_root
from teia.views.host import week_plan
from teia.views.host_budget import BudgetPaces
from teia.views.hosts import HostWaitReasons, host_table
from teia.views.queue import QueueFilter, preview_queue
from tests.crawler.fresh_crawls import fresh_web, quiet_world


def test_previews_follow_the_budget_of_the_running_crawl(tmp_path: Path) -> None:
    """They showed what politeness allows: 144 requests a day where the budget has 24."""
    world = quiet_world(pages=6, hosts=1, seed=3, text__paragraphs=2)
    (host,) = (each.name for each in world.hosts)
    settings = {"refresh__budget": 24, "courtesy__delay_s": 600.0, "refresh__replan_s": 3_600.0}
    with fresh_web(world, tmp_path, **settings) as web:
        web.run_paced(6.0, {host: 600.0}, 600.0)  # the price follows the rates, which are learnt
        root, now_s, config = open_root(web.data), web.clock.at_s, web.crawl.config
        table = host_table(root, "main", now_s)

        def forecast() -> tuple[float, float]:
            """Hours between the first expected visits, and visits of a week."""
            with Lookup(root, "main") as lookup:
                first = preview_queue(lookup, table, config, now_s, 5, QueueFilter(host=host))
                plan = week_plan(*BudgetPaces(lookup, config, now_s).of_host(table.hosts[host]))
            assert plan is not None
            times = [each.expected_s or 0.0 for each in first]
            return max(late - early for early, late in pairwise(times)) / 3_600.0, plan.known + plan.new

        assert forecast() == pytest.approx((600 / 3_600.0, 7 * 144), rel=0.02), "no crawl is running"
        with CrawlReports(root.control) as reports:
            reports.begin("main", now_s)
            reports.write_account("main", {"freshness": web.refresh.account()}, now_s)
        assert forecast() == pytest.approx((1.0, 7 * 24), rel=0.1)
        # Of another host only new URLs are known. They are worth more than the price, so politeness alone limits them.
        with Lookup(root, "main") as lookup:
            unknown = replace(table.hosts[host], host_id=99, waits=HostWaitReasons(new=3))
            assert BudgetPaces(lookup, config, now_s).of_host(unknown)[0].paced_s == pytest.approx(600.0)
