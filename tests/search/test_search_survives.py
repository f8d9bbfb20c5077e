"""Whatever is typed, a search of a real index ends with an answer, and soon (RELIABILITY 43)."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from teia.clock import WallClock
from teia.index.entry import IndexEntry
from teia.search.serve.searcher import Searcher, SearchOptions
from tests.index.pages import page

from .library import as_one, as_shards, cells_of
from .test_queries_of_death import DEADLY, LONG
from .texts import FRAGMENTS, queries

WORDS = "a b café imposto renda de what e mail 12 30 gato cachorro NOT AND hindi हिन्दी ss x straße"
LIMIT_S = 1.0
SLOW_MACHINE = 5
"""A test machine may be busy: what must take a second may take so many here."""


def pages() -> Iterator[list[IndexEntry]]:
    words = WORDS.split()
    chance = random.Random(1)
    for cell in range(3):
        yield [
            page(
                f"http://{'abc'[cell]}.test/{number}",
                " ".join(chance.choices(words, k=40)),
                " ".join(chance.choices(words, k=3)),
                language=chance.choice(["pt", "en", "", "eo"]),
                media_type=chance.choice(["text/html", "application/pdf", "x/y"]),
                date_s=chance.randrange(1_500_000_000, 1_800_000_000),
                links=["http://a/b"],
            )
            for number in range(40)
        ]


@pytest.fixture(scope="module")
def searchers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Searcher]]:
    folder = tmp_path_factory.mktemp("survives")
    cells_of(folder, list(pages()))
    opened = [Searcher(shards, WallClock(), deadline_s=60) for shards in (as_one(folder, 3), as_shards(folder, 3))]
    yield opened
    for each in opened:
        each.close()


def survive(searcher: Searcher, text: str, options: SearchOptions | None = None) -> None:
    began = time.thread_time()
    results = searcher.search(text, 5, options=options)
    assert time.thread_time() - began < LIMIT_S * SLOW_MACHINE
    assert not results.is_partial or any("Spelling" in warning for warning in results.warnings), results.warnings
    json.dumps(results.as_json(), allow_nan=False)
    if results.total == 0 and not results.warnings:
        assert results.hits == ()


@pytest.mark.heavy
@pytest.mark.parametrize("text", [*DEADLY.values(), *LONG.values()], ids=[*DEADLY, *LONG])
def test_queries_of_death_are_answered(searchers: list[Searcher], text: str) -> None:
    for searcher in searchers:
        survive(searcher, text)


@pytest.mark.heavy
def test_naughty_strings_are_answered(searchers: list[Searcher], conformance: Path) -> None:
    texts = json.loads((conformance / "strings" / "blns.json").read_text("utf-8"))
    assert len(texts) > 400
    for text in texts:
        for searcher in searchers:
            survive(searcher, text)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=queries)
def test_any_text_is_answered(searchers: list[Searcher], text: str) -> None:
    for searcher in searchers:
        survive(searcher, text, SearchOptions(explain=True, facets=True, expand=True))


def fuzz(searcher: Searcher, times: int, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(times):
        joint = chance.choice(["", " ", " ", " "])
        survive(searcher, joint.join(chance.choices(FRAGMENTS, k=chance.randint(1, 12))))


@pytest.mark.heavy
def test_five_thousand_made_up_queries_are_answered(searchers: list[Searcher]) -> None:
    fuzz(searchers[0], 5_000, 1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_made_up_queries_are_answered(
    searchers: list[Searcher], record_property: Callable[[str, object], None]
) -> None:
    fuzz(searchers[0], 100_000, 2)
    record_property("figure 8", "100,000 made-up queries: all answered, none raised")
