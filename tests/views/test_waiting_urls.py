"""Why URLs wait: what is counted, what is listed and what is taken along are the same (UX 2.8)."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.collections.settings import change, saved
from teia.config.sections import Config
from teia.crawler.lookup import Lookup
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.revisits import LATEST_S
from teia.frontier.cell.schema import LANE_DUE, LANE_LATER, LANE_REFRESH
from teia.records import Edit, Operator
from teia.store.root import Root, open_root
from teia.views import queue as views_waiting_urls
from teia.views.hosts import HostTable, count_wait_reasons, host_table
from teia.views.queue import QueueFilter, WaitingUrl, preview_queue, waiting_urls
from tests.crawler.webs import crawl_web
from tests.views.test_queue import web

NOW_S = 2e9
WHYS = ("next", "resting", "behind", "retry", "suspect", "parked", "not_due")
MOVED = [
    (LANE_DUE, NOW_S + 60), (LANE_DUE, NOW_S - 60), (LANE_REFRESH, NOW_S + 90), (LANE_REFRESH, NOW_S - 90),
    (LANE_REFRESH, LATEST_S), (LANE_LATER, 1.0),
]  # fmt: skip
"""Where the first URLs of a host are put: two to be tried again, three known pages, one that may be a trap."""

NO_TEXTS = ", ".join(["''"] * 7)
PAGE = f"INSERT INTO pages VALUES (?, ?, ?, 1, 0, 1.0, 1.0, 200, x'', x'', 0, {NO_TEXTS}, 0, '', '', 0, 0, 0, 0)"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """Two hosts with URLs that wait for all kinds of things."""
    data = crawl_web(web(), tmp_path, "a.test/", "b.test/", limits__pages=5, courtesy__delay_s=0.05).data
    root = open_root(data)
    line = host_table(root, "main", NOW_S).hosts["a.test"]
    cell = FrontierCell(root.collection("main").cells()[line.cell].frontier)
    with cell.transaction():
        places = cell.db.execute("SELECT slot, host_id, key FROM queue WHERE host_id = ?", (line.host_id,)).fetchall()
        for place, (lane, at_s) in zip(places, MOVED, strict=False):
            for table in ("queue", "urls"):
                sql = f"UPDATE {table} SET lane = ?, rank = ? WHERE slot = ? AND host_id = ? AND key = ?"
                cell.db.execute(sql, (lane, int(at_s * 1000), *place))
            if lane == LANE_REFRESH:
                cell.db.execute(PAGE, place)
    cell.close()
    return root


def seen(root: Root, **settings: object) -> tuple[HostTable, Config]:
    wanted = {"refresh__keep": True, **settings}
    change(
        root,
        "main",
        [Edit(key.replace("__", "."), Operator.SET, value) for key, value in wanted.items()],
        WallClock(),
    )
    return host_table(root, "main", NOW_S), saved(root, "main").config


def taken(root: Root, table: HostTable, config: Config, only: QueueFilter) -> list[WaitingUrl]:
    with Lookup(root, "main") as lookup:
        found = waiting_urls(lambda: nullcontext(lookup), table, config, only, NOW_S, lambda keys: [1.0] * len(keys))
        return list(chain.from_iterable(found))


@pytest.mark.parametrize("paused", [[], ["a.test"]])
def test_every_reason_is_listed_with_the_urls_that_are_counted(root: Root, paused: list[str]) -> None:
    table, config = seen(root, courtesy__paused=paused)
    whys = asdict(count_wait_reasons(table))
    new = table.hosts["a.test"].waits.new
    if paused:  # all but known pages that are not due; b.test goes on
        expected = {"parked": new + 4, "not_due": 2, "next": 1, "retry": 0, "suspect": 0}
    else:
        expected = {"parked": 0, "not_due": 2, "next": 2, "retry": 1, "suspect": 1}
    assert {why: whys[why] for why in expected} == expected
    with Lookup(root, "main") as lookup:
        for why in WHYS:
            found = preview_queue(lookup, table, config, NOW_S, 100, QueueFilter(why=why))
            assert [each.why for each in found] == [why] * whys[why], why
            one = preview_queue(lookup, table, config, NOW_S, 100, QueueFilter(host="a.test", why=why))
            assert {each.url for each in one} == {each.url for each in found if each.host == "a.test"}
            assert {each.url for each in taken(root, table, config, QueueFilter(why=why))} == {
                each.url for each in found
            }
    all_of_them = taken(root, table, config, QueueFilter())
    assert Counter(each.why for each in all_of_them) == Counter({why: whys[why] for why in WHYS if whys[why]})
    assert len({each.url for each in all_of_them}) == whys["total"]


def test_what_never_comes_has_no_time(root: Root) -> None:
    """A page that no plan visits again is due at the end of all days, which no calendar has."""
    table, config = seen(root)
    with Lookup(root, "main") as lookup:
        found = preview_queue(lookup, table, config, NOW_S, 100, QueueFilter(why="not_due"))
    assert [each.expected_s is None for each in found] == [False, True]
    assert [each.since for each in taken(root, table, config, QueueFilter(why="not_due"))].count(None) == 1


def test_urls_are_taken_a_few_at_a_time(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    table, config = seen(root)
    whole = taken(root, table, config, QueueFilter())
    monkeypatch.setattr(views_waiting_urls, "AT_ONCE", 1)
    assert taken(root, table, config, QueueFilter()) == whole
    assert [each.url for each in taken(root, table, config, QueueFilter(contains="areia"))] == [
        each.url for each in whole if "areia" in each.url
    ]
