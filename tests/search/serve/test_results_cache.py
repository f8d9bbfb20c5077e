"""Searches that are repeated: answered from memory, as long as the answer is the same (F11)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from teia.clock import VirtualClock
from teia.search.serve import results_cache
from teia.search.serve.results_cache import ResultsCache
from teia.search.serve.searcher import Searcher, SearchOptions
from teia.search.serve.shards import LocalShard
from teia.search.show.results import Facts, Results
from tests.index.pages import indexed, page
from tests.search.library import NOW_S, as_one


class Repeated:
    """A search over one page whose shard counts what it is asked for, with room for two answers."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.clock, self.asked = folder, VirtualClock(NOW_S), 0
        self.add("http://a.test/1", "imposto de renda")
        (shard,) = as_one(folder, 1)
        assert isinstance(shard, LocalShard)
        candidates = shard.candidates
        monkeypatch.setattr(shard, "candidates", lambda *args, **how: self._count() or candidates(*args, **how))
        answers = ResultsCache(self.clock, shard.reader.state, 2)
        self.searcher = Searcher([shard], self.clock, answers=answers, deadline_s=60)

    def _count(self) -> None:
        self.asked += 1

    def add(self, url: str, text: str) -> None:
        indexed(self.folder / "0", [page(url, text)])


@pytest.fixture
def repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repeated]:
    made = Repeated(tmp_path, monkeypatch)
    yield made
    made.searcher.close()


def test_a_repeated_search_asks_no_shard_and_says_the_same(repeated: Repeated) -> None:
    first = repeated.searcher.search("renda")
    again = repeated.searcher.search("renda")
    assert repeated.asked == 1
    assert replace(again, took_ms=0.0) == replace(first, took_ms=0.0)
    assert [hit.url for hit in again.hits] == ["http://a.test/1"]


def test_a_repeated_search_has_the_facts_of_now(repeated: Repeated, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that was visited meanwhile says so, and its probability follows the clock."""
    key = repeated.searcher.search("renda").hits[0].key
    facts = Facts(last_visit_s=NOW_S + 5.0, backlinks=7, fresh_probability=0.25)
    present = replace(repeated.searcher._components, facts=SimpleNamespace(facts=lambda _urls: {key: facts}))
    monkeypatch.setattr(repeated.searcher, "_components", present)
    (hit,) = repeated.searcher.search("renda").hits
    assert (hit.last_visit_s, hit.backlinks, hit.fresh_probability) == (NOW_S + 5.0, 7, 0.25)
    assert repeated.asked == 1


@pytest.mark.parametrize(
    ("text", "n", "offset", "options"),
    [
        ("imposto", 10, 0, None),
        ("renda", 5, 0, None),
        ("renda", 10, 1, None),
        ("renda", 10, 0, SearchOptions(explain=True)),
        ("renda", 10, 0, SearchOptions(reader_languages=("pt",))),
    ],
)
def test_another_search_is_not_a_repeated_one(
    repeated: Repeated, text: str, n: int, offset: int, options: SearchOptions | None
) -> None:
    repeated.searcher.search("renda")
    repeated.searcher.search(text, n, offset, options)
    assert repeated.asked == 2


def test_a_page_that_is_indexed_between_two_searches_is_found(repeated: Repeated) -> None:
    assert repeated.searcher.search("renda").total == 1
    repeated.add("http://a.test/2", "renda de bilro")
    assert repeated.searcher.search("renda").total == 2


def test_an_answer_is_used_for_a_minute(repeated: Repeated) -> None:
    repeated.searcher.search("renda")
    asyncio.run(repeated.clock.advance(results_cache.MAX_AGE_S - 1))
    repeated.searcher.search("renda")
    assert repeated.asked == 1
    asyncio.run(repeated.clock.advance(2))
    repeated.searcher.search("renda")
    assert repeated.asked == 2


def test_the_answers_that_were_used_last_are_kept(repeated: Repeated) -> None:
    for text in ("renda", "imposto", "renda", "bilro", "renda"):
        repeated.searcher.search(text)
    assert repeated.asked == 3
    repeated.searcher.search("imposto")
    assert repeated.asked == 4


def test_an_answer_without_all_shards_and_one_that_a_commit_overtook_are_not_kept() -> None:
    states = iter([0, 0, 0, 1, 1])
    cache = ResultsCache(VirtualClock(NOW_S), lambda: next(states), 2)
    partial, whole = (Results("q", "", total, is_partial=total == 1) for total in (1, 2))
    assert cache.answer("q", lambda: partial).total == 1
    assert cache.answer("q", lambda: whole).total == 2

    def overtaken() -> Results:
        cache.answer("q", lambda: Results("q", "", 4))  # another thread, after the commit
        return Results("q", "", 3)

    assert cache.answer("other", overtaken).total == 3
    assert cache.answer("other", lambda: Results("q", "", 5)).total == 5
