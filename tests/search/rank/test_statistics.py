"""How frequent terms are, over all shards."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from teia.clock import VirtualClock
from teia.search.rank.statistics import (
    EVERY_PAGE,
    EXPIRY_S,
    MAX_COMPLETIONS,
    PAGES,
    CountsDemand,
    Statistics,
    TermCounts,
)


class Shards:
    """Two shards that count how often they are asked."""

    def __init__(self) -> None:
        self.requests: list[CountsDemand] = []

    def __call__(self, demand: CountsDemand) -> Sequence[TermCounts]:
        self.requests.append(demand)
        pages = {term: 10 if term == PAGES else 2 for term in demand.terms}
        words = {word: {"pt": 3, "en": 1} for word in demand.words}
        one = TermCounts(dict(pages), {prefix: {"casa": 2, "caso": 5} for prefix in demand.prefixes}, dict(words))
        return [one, TermCounts(dict(pages), {prefix: {"casa": 9} for prefix in demand.prefixes}, dict(words))]


def test_counts_of_all_shards_are_added() -> None:
    counts = Statistics(VirtualClock()).counts(CountsDemand((("all", "cas"),), ("ca",), ("casa",)), Shards())
    assert counts.pages == 20
    assert counts.pages_with("all", "cas") == 4
    assert counts.completions("ca") == {"casa": 11, "caso": 5}
    assert counts.words["casa"] == {"pt": 6, "en": 2}
    assert counts.words[EVERY_PAGE] == {"pt": 6, "en": 2}


def test_the_rarer_a_term_the_more_it_tells() -> None:
    counts = TermCounts({PAGES: 100, ("all", "a"): 1, ("all", "b"): 50, ("all", "c"): 100})
    assert counts.idf("all", "a") > counts.idf("all", "b") > counts.idf("all", "c") > 0
    assert counts.idf("all", "unknown") > counts.idf("all", "a")


def test_what_is_known_is_not_requested_again_for_some_seconds() -> None:
    clock, shards = VirtualClock(), Shards()
    statistics = Statistics(clock)
    demand = CountsDemand((("all", "cas"),))
    for _ in range(3):
        assert statistics.counts(demand, shards).pages == 20
    assert len(shards.requests) == 1
    statistics.counts(CountsDemand((("all", "cas"), ("all", "new"))), shards)
    assert shards.requests[1].terms == (("all", "new"),)
    asyncio.run(clock.advance(EXPIRY_S + 0.1))
    statistics.counts(demand, shards)
    assert len(shards.requests) == 3


def test_languages_are_remembered_longer() -> None:
    clock, shards = VirtualClock(), Shards()
    statistics = Statistics(clock)
    statistics.counts(CountsDemand(words=("casa",)), shards)
    asyncio.run(clock.advance(EXPIRY_S + 0.1))
    statistics.counts(CountsDemand(words=("casa",)), shards)
    assert shards.requests[1].words == ()


def test_a_query_without_words_for_it_does_not_count_languages() -> None:
    shards = Shards()
    Statistics(VirtualClock()).counts(CountsDemand((("all", "cas"),)), shards)
    assert shards.requests[0].words == ()


def test_cleared_statistics_are_requested_again() -> None:
    shards = Shards()
    statistics = Statistics(VirtualClock())
    for _ in range(2):
        statistics.counts(CountsDemand((("all", "cas"),)), shards)
        statistics.clear()
    assert len(shards.requests) == 2


def test_that_there_is_nothing_is_not_remembered() -> None:
    statistics = Statistics(VirtualClock())
    demand = CountsDemand((("all", "new"),), ("ne",), ("new",))
    statistics.counts(demand, lambda _: [])
    assert statistics.counts(demand, Shards()).pages_with("all", "new") == 4


def test_no_shard_at_all_counts_nothing() -> None:
    counts = Statistics(VirtualClock()).counts(CountsDemand((("all", "cas"),)), lambda _: [])
    assert (counts.pages, counts.pages_with("all", "cas")) == (0, 0)
    assert counts.idf("all", "cas") == pytest.approx(0.693, abs=0.001)


def test_a_prefix_stands_for_its_most_frequent_words() -> None:
    many = {f"ca{number:03d}": number for number in range(200)}
    counts = TermCounts(prefixes={"ca": many})
    assert len(counts.completions("ca")) == MAX_COMPLETIONS
    assert next(iter(counts.completions("ca"))) == "ca199"
    assert counts.completions("zz") == {}
