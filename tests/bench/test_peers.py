"""The comparison of crawlers: the rate at which pages become searchable counts the time of the index."""

from __future__ import annotations

import pytest

from bench.peers import runner
from bench.peers.contenders import PRODUCT, Contender, ours
from bench.peers.measure import Cost
from bench.peers.runner import Run, searchable_ratios

PAGES = frozenset(f"/{number}.html" for number in range(1_200))
PEER = Contender("wget2", "links and files", ("wget2",))


def _run(contender: Contender, seconds: float, index_s: float = 0.0) -> Run:
    rate = len(PAGES) / seconds
    return Run(contender.title, PAGES, rate, 1.0, 1.0, 1.0, seconds, index_s, contender.setting == PRODUCT)


def test_a_page_is_searchable_when_the_index_is_complete() -> None:
    """Seen: 861 pages/s were reported, and the last of them could be found after three times as long."""
    runs = [{each.title: _run(each, 2.0, 4.0 if each.setting == PRODUCT else 0.0) for each in (*ours(), PEER)}]
    rows = {each.title: runner._row(each, runs) for each in (*ours(), PEER)}
    assert rows[f"teia ({PRODUCT})"].pages_per_s == 600
    assert rows[f"teia ({PRODUCT})"].searchable_pages_per_s == 200
    # Contenders without an index make nothing searchable.
    assert [row.searchable_pages_per_s for row in rows.values()].count(None) == 3
    assert searchable_ratios([*ours(), PEER], runs) == {"wget2": 0.33}


def test_the_wait_for_the_indexer_is_read_from_the_summary_of_the_crawl(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = Cost(5.0, 1.0, 1, 'a line\n{"index_seconds": 3.0}\n')
    monkeypatch.setattr(runner, "measure", lambda *_: cost)

    class OnePage:
        """A site whose log has one request."""

        url = "http://127.0.0.1/"

        def mark(self) -> int:
            return 0

        def hits(self, since: int) -> list[object]:
            return [type("Hit", (), {"path": f"/{since}.html", "is_page": True, "time_s": 0.0})]

    product = next(each for each in ours() if each.setting == PRODUCT)
    run = runner.run_once(product, OnePage())  # type: ignore[arg-type]
    assert (run.pages_per_s, run.searchable_pages_per_s) == (0.5, 0.2)
