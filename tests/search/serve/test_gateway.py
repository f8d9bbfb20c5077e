"""Shards that are late or fail are left out and named; the others answer (F8, UX 6.8)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from teia.clock import WallClock
from teia.search.serve.gateway import MIN_WAIT_S, Gateway
from teia.search.serve.searcher import Searcher
from teia.search.serve.shards import LocalShard
from tests.index.pages import page
from tests.search.library import as_one, as_shards, cells_of


class Failing(LocalShard):
    """A shard that breaks when it is asked one thing."""

    def __init__(self, shard: LocalShard, what: str, how: Any) -> None:
        super().__init__(shard.name, shard.reader)
        setattr(self, what, how)


@pytest.fixture
def shards(tmp_path: Path) -> list[LocalShard]:
    cells_of(tmp_path, [[page(f"http://a{n}.test/", f"common words of cell {n}")] for n in range(3)])
    return as_shards(tmp_path, 3)


@pytest.fixture
def never() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def broken(*_: object) -> None:
    raise OSError("the disk is gone\nsecond line")


@pytest.mark.parametrize("what", ["counts", "candidates", "entries"])
def test_a_shard_that_fails_is_left_out_and_named(shards: list[LocalShard], what: str) -> None:
    with Searcher([Failing(shards[0], what, broken), *shards[1:]], WallClock()) as searcher:
        results = searcher.search("common")
    assert {hit.host for hit in results.hits} == {"a1.test", "a2.test"}
    assert results.is_partial
    assert (results.shards_queried, results.shards_answered) == (3, 2)
    assert results.warnings == ("2 of 3 cells responded. Missing: cell 0: the disk is gone",)


def test_a_shard_that_is_late_is_left_out_in_time(shards: list[LocalShard], never: threading.Event) -> None:
    late = Failing(shards[1], "candidates", lambda *_: never.wait(60))
    with Searcher([shards[0], late, shards[2]], WallClock(), deadline_s=0.5) as searcher:
        began = time.monotonic()
        results = searcher.search("common")
        assert time.monotonic() - began < 5
    assert {hit.host for hit in results.hits} == {"a0.test", "a2.test"}
    assert results.is_partial
    assert "cell 1: no response in time" in results.warnings[0]


def test_when_nobody_answers_there_is_an_answer_that_says_so(shards: list[LocalShard]) -> None:
    with Searcher([Failing(shard, "counts", broken) for shard in shards], WallClock()) as searcher:
        results = searcher.search("common")
    assert (results.total, results.hits) == (0, ())
    assert results.warnings[0].startswith("0 of 3 cells responded")


def test_a_cell_without_an_index_is_named_where_cells_are_one(tmp_path: Path) -> None:
    cells_of(tmp_path, [[page("http://a.test/", "common words")]])
    with Searcher(as_one(tmp_path, 2), WallClock()) as searcher:
        results = searcher.search("common")
    assert len(results.hits) == 1
    assert (results.shards_queried, results.shards_answered) == (2, 1)
    assert results.warnings == ("1 of 2 cells responded. Missing: cell 1: it has no index of this version yet",)


def test_many_threads_may_search_at_once(shards: list[LocalShard]) -> None:
    answers: list[int] = []
    with Searcher(shards, WallClock(), deadline_s=30) as searcher:

        def search() -> None:
            answers.extend(searcher.search("common words").total for _ in range(20))

        threads = [threading.Thread(target=search) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [3] * 120


def test_a_turn_has_an_end(shards: list[LocalShard]) -> None:
    gateway = Gateway(shards, WallClock())
    fan_out = gateway.start_query(0.0)
    assert fan_out.left_s == MIN_WAIT_S
    gateway.close()


# ---- questions that are begun together ------------------------------------------------------------------------------


def test_questions_that_are_begun_together_are_under_way_at_once(shards: list[LocalShard]) -> None:
    """One after the other they would wait at the barrier for ever."""
    meeting = threading.Barrier(2 * len(shards))
    gateway = Gateway(shards, WallClock())
    fan_out = gateway.start_query(30.0)
    both = [fan_out.start_all(lambda shard: (meeting.wait(20), shard.name)[1]) for _ in range(2)]
    assert [sorted(each.collect().values()) for each in both] == [["cell 0", "cell 1", "cell 2"]] * 2
    gateway.close()


def test_a_shard_that_failed_at_one_question_is_left_out_of_those_begun_with_it(shards: list[LocalShard]) -> None:
    gateway = Gateway([Failing(shards[0], "entries", broken), *shards[1:]], WallClock())
    fan_out = gateway.start_query(30.0)
    pages, names = fan_out.start_all(lambda shard: shard.entries([1])), fan_out.start_all(lambda shard: shard.name)
    assert sorted(pages.collect()) == [1, 2]
    assert sorted(names.collect().values()) == ["cell 1", "cell 2"]
    assert fan_out.omitted == {"cell 0": "the disk is gone"}
    gateway.close()


def test_a_single_shard_is_queried_when_its_answer_is_taken(shards: list[LocalShard]) -> None:
    """By whoever takes it, without a thread between."""
    asked: list[int] = []
    gateway = Gateway(shards[:1], WallClock())
    begun = gateway.start_query(30.0).start_all(lambda _: asked.append(threading.get_ident()))
    assert asked == []
    begun.collect()
    assert asked == [threading.get_ident()]
    gateway.close()


# ---- other spellings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "cells", "offered"),
    [
        ("brakfost", [["brakfast"], ["breakfost"] * 2, ["breakfast"] * 9], "breakfost"),  # one slip before two
        ("brakfost", [["nothing"], ["breakfast"] * 3, ["nothing"]], "breakfast"),  # two, where nobody has one
        ("brakfost", [["brakfost"], ["nothing"], ["breakfast"] * 30], None),  # a word that is written so somewhere
    ],
)
def test_the_same_spelling_is_offered_however_pages_are_spread(
    tmp_path: Path, typed: str, cells: list[list[str]], offered: str | None
) -> None:
    pages = [
        [page(f"http://a{number}.test/{at}", f"{word} text {number} {at}") for at, word in enumerate(words)]
        for number, words in enumerate(cells)
    ]
    cells_of(tmp_path, pages)
    for spread in (as_one(tmp_path, 3), as_shards(tmp_path, 3)):
        with Searcher(spread, WallClock(), deadline_s=30) as searcher:
            suggested = [each.instead for each in searcher.search(typed).suggestions]
        assert suggested == ([offered] if offered else [])
