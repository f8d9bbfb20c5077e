"""A6: what shortens the queue of the Sydney strategy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from teia.config.sections import SydneySettings
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import FoundUrl, SettledVisit
from teia.frontier.cell.schema import STATE_DONE
from teia.frontier.queue.order import Hint, Order, is_aside, order_named
from teia.lab.reproduce.catalogue import EXPERIMENTS
from teia.lab.reproduce.queue_length import (
    Links,
    breadth_first,
    even_web,
    index_web,
    our_sydney,
    papers_sydney,
    queue_length,
    queues_table,
)
from teia.lab.reproduce.registry import ExperimentInput, compute_digest
from teia.urls import key_of


def test_index_pages_make_the_queue_as_short_as_the_paper_says_and_even_pages_do_not() -> None:
    """Published: 0.50 to 0.64 of breadth-first's for 8 to 16 links, and 1% of the pages fetched again."""
    table = queues_table({"index": [index_web(4_000, seed) for seed in range(4)], "even": [even_web(2_000, 1)]})
    rows = {row.labels: row.ours for row in table.rows}
    for measure in ("queue, teia", "queue, as printed"):
        assert 0.4 < rows["index", "8", measure] <= rows["index", "16", measure] < 0.7
        assert rows["even", "8", measure] > 0.9
    assert 0.003 < rows["index", "16", "fetched again"] < 0.03
    assert "A6" in EXPERIMENTS


def test_every_page_is_reached_and_the_printed_strategy_comes_back_for_the_rest() -> None:
    star: Links = [range(1, 10), *([[]] * 9)]
    assert breadth_first(star).longest == 9
    assert our_sydney(star, 3).longest == 3
    assert papers_sydney(star, 3).longest == 4, "three pages, and the first page for the rest"
    assert papers_sydney(star, 3).again == pytest.approx(2 / 10)
    assert papers_sydney(star, 9).again == 0


@contextmanager
def frontier(path: Path, order: Order) -> Iterator[FrontierCell]:
    cell = FrontierCell(path, order)
    try:
        cell.db.execute("PRAGMA synchronous = OFF")
        yield cell
    finally:
        cell.close()


def longest_queue(links: Links, path: Path, order: Order) -> int:
    """Crawl a web of one host with the frontier of the product."""
    found = lambda page, hint: FoundUrl("a.test", key_of(f"http://a.test/{page}"), f"/{page}", 1, hint=hint)  # noqa: E731
    longest = 0
    with frontier(path, order) as cell:
        with cell.transaction():
            host_id = cell.host_id("a.test", 0.0)
            cell.add_links([found(0, None)], 0.0)
        while items := cell.next_urls(host_id, "a.test", 1, (), 0.0):
            (item,) = items
            page = int(item.url.rpartition("/")[2])
            with cell.transaction():
                cell.settle(SettledVisit(host_id, item, "200", STATE_DONE, 0.0), "a.test")
                hint = Hint(page=item.key) if order.sample_size else None
                cell.add_links([found(to, hint) for to in dict.fromkeys(links[page]) if to != page], 0.0)
            ranks = cell.db.execute("SELECT rank FROM queue").fetchall()
            longest = max(longest, sum(not (order.sample_size and is_aside(rank)) for (rank,) in ranks))
    return longest


def test_the_frontier_has_the_queue_that_the_model_computes(tmp_path: Path) -> None:
    links = index_web(600, 3)
    assert longest_queue(links, tmp_path / "b.sqlite", order_named("breadth")) == breadth_first(links).longest
    order = order_named("sydney", SydneySettings(links=3))
    assert longest_queue(links, tmp_path / "s.sqlite", order) == pytest.approx(our_sydney(links, 3).longest, rel=0.1)


def test_the_experiment_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.lab.reproduce.queue_length.QUICK_PAGES", 200)
    runs = [list(queue_length.body(ExperimentInput(seed, True, tmp_path, print))) for seed in (1, 1, 2)]
    digests = [compute_digest(results) for results in runs]
    assert digests[0] == digests[1] != digests[2]
