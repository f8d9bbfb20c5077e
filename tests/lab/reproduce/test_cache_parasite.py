"""C7's experiment: how copies from a cache are judged, and what its tables count."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from teia.lab.reproduce.cache_parasite import (
    FULL,
    QUICK,
    ParasiteResult,
    ParasiteSettings,
    Users,
    announcements_table,
    cache_parasite,
    current_visits,
    gain_table,
    paper_table,
)
from teia.lab.reproduce.registry import ExperimentInput, Table

CLASSES = ("updates performed", "updates discarded", "new documents")


def test_a_copy_counts_from_when_it_was_had_if_it_was_still_true_then() -> None:
    changes = [2.0, 5.0]
    assert current_visits(changes, [(1.0, 1.5)]) == [1.5]
    assert current_visits(changes, [(1.0, 2.5)]) == [], "the page changed while the cache kept it"
    assert current_visits(changes, [(3.0, 4.0), (2.1, 2.2), (4.9, 5.1)]) == [2.2, 4.0]


def test_the_table_counts_as_the_paper_does() -> None:
    counts = {"updated": 80, "new": 5, "discarded": 10, "repeated": 5, "asked": 200, "served_within_1s": 90}
    rows = {
        row.labels: row
        for row in announcements_table(ParasiteResult(0.6, 0.7, 100, {**counts, "not_cached": 110}, 300)).rows
    }
    assert rows["updates performed", "share"].ours == 0.8
    assert rows["updates discarded", "number"].ours == 15
    assert rows["total of requests", "number"].ours == 100
    assert rows["answered from the cache within 1 s", "share of requests to it"].ours == 0.45
    assert rows["updates performed", "number"].other == 7_880


def test_what_is_served_through_is_an_update_under_the_papers_conditions() -> None:
    counts = {"updated": 85, "new": 5, "discarded": 4, "repeated": 2, "not_cached": 9}
    result = ParasiteResult(0.6, 0.7, 100, counts, 107, served_through=4, from_caches=90)
    rows = {row.labels: row for row in paper_table(result, QUICK).rows}
    assert [rows[name, "share"].ours for name in CLASSES] == [0.89, 0.06, 0.05]
    assert [rows[name, "share"].other for name in CLASSES] == [0.89, 0.057, 0.053]
    assert rows["served through", "number"].ours == 4


def test_users_of_the_papers_conditions_request_every_page_and_few_twice() -> None:
    settings = ParasiteSettings(1, QUICK, True, is_as_in_paper=True)
    urls = [f"http://a.test/{number}" for number in range(400)]
    users = Users([1, 2], urls, np.ones(400), settings)
    requested = list(users.pages())
    assert set(requested) == set(urls)
    assert 0.03 <= 1 - len(urls) / len(requested) <= 0.09
    by_popularity = Users([1], urls, np.ones(400), ParasiteSettings(1, QUICK, True))
    assert len(list(islice(by_popularity.pages(), 500))) == 500


def test_a_crawl_without_signals_has_a_table_too() -> None:
    empty = ParasiteResult(0.5, 0.5, 0, {}, 0)
    assert all(row.ours == 0 for row in announcements_table(empty).rows if row.labels[1] == "share")
    assert [row.difference for row in gain_table(empty, empty, QUICK).rows] == [0.0, 0.0, 0.0]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_parasite_renews_copies_at_no_cost_to_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C7, with a real Squid, on the clock of a full run; two crawls of six days of the web, over two minutes."""
    monkeypatch.setattr("teia.lab.reproduce.cache_parasite.QUICK", replace(FULL, days=6.0))
    run = ExperimentInput(1, True, tmp_path, lambda _: None)
    papers, first, second = [table for table in cache_parasite.body(run) if isinstance(table, Table)]
    shares = {row.labels[0]: row for row in papers.rows if row.labels[1] == "share"}
    assert all(abs(shares[name].difference or 0) < 0.06 for name in CLASSES)
    counted = {row.labels: row.ours for row in first.rows}
    assert counted["updates performed", "number"] > 20
    assert counted["answered from the cache within 1 s", "share of requests to it"] > 0.1
    fresh, weighted, requests = second.rows
    assert fresh.other is not None
    assert weighted.other is not None
    assert requests.other is not None
    assert weighted.ours > weighted.other
    assert requests.ours <= 1.05 * requests.other
