"""The last requests to a host, wherever the log has them, and values in bins."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.crawler.fetch_rows import roll_out
from teia.crawler.lookup import Lookup
from teia.frontier.cell.cell import FrontierCell
from teia.store.root import open_root
from teia.views.host import last_requests, log_bins, quantile, timed_request
from tests.crawler.webs import ScriptedWeb, crawl_web, html, text_of


def test_the_same_requests_are_found_before_and_after_they_are_rolled_out(tmp_path: Path) -> None:
    pages = {f"/{n}": html(text=text_of(n)) for n in range(5)} | {"/": html(*(f"/{n}" for n in range(5)))}
    done = crawl_web(ScriptedWeb({"x.test": pages, "y.test": {}}), tmp_path, "x.test/", "y.test/", courtesy__delay_s=0)
    root = open_root(done.data)

    def look() -> list[list[object]]:
        with Lookup(root, "main") as lookup:
            number = lookup.cell_number("x.test")
            found = last_requests(lookup.folders[number], lookup.cells[number], "x.test")
            return [[round(each.time_s, 3), round(each.took_s, 3), each.outcome, each.bytes] for each in found]

    before = look()
    assert len(before) == sum(entry.host == "x.test" for entry in done.entries)
    assert before == sorted(before)
    for folder in root.collection("main").cells():
        frontier = FrontierCell(folder.frontier)
        roll_out(frontier, folder.log, at_least=1)
        frontier.close()
    assert look() == before


def test_an_early_request_is_one_that_waited_too_little() -> None:
    assert timed_request(0, 1, "200", 1, 5.0, 4.99).is_early
    assert not timed_request(0, 1, "200", 1, 5.0, 4.9999).is_early
    assert not timed_request(0, 1, "200", 1, None, None).is_early
    assert timed_request(5, 4, "200", 1, None, None).took_s == 0


def test_bins_hold_every_value_once() -> None:
    values = [0.001, 0.0011, 0.002, 0.5, 1, 1.5, 4.999, 5, 9.99, 10, 0, -1]
    bins = log_bins(values)
    assert sum(count for *_, count in bins) == 10, "what is not above 0 is in none"
    assert all(bins[n][1] == bins[n + 1][0] for n in range(len(bins) - 1))
    assert {low: count for low, _, count in bins if count} == {
        0.001: 2,
        0.002: 1,
        0.5: 1,
        1.0: 2,
        2.0: 1,
        5.0: 2,
        10.0: 1,
    }
    assert log_bins([]) == []


@pytest.mark.parametrize(("part", "value"), [(0.0, 1), (0.5, 3), (0.95, 5), (1.0, 5)])
def test_a_quantile_is_one_of_the_values(part: float, value: float) -> None:
    assert quantile([5, 1, 4, 2, 3], part) == value
    assert quantile([], part) is None
