"""Made-up queries beside people who search: figure 8 of docs/security.md (RELIABILITY 43, 44)."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from bench import attack

pytestmark = pytest.mark.slow
PAGES = 2_000


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def test_made_up_queries_are_answered_and_their_errors_counted(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = attack.queries(PAGES, 200, print, cache)
    assert (found["queries"], found["errors"], found["over_a_second"]) == (200, {}, 0)
    assert found["slowest_cpu_ms"] > 0
    assert found["slowest_query"]
    monkeypatch.setattr(attack.CollectionSearch, "search", lambda *_: 1 / 0)
    root, _ = attack.cached_root(PAGES, cache)
    answers = attack.search_many(root.path, ["word"], 3, seed=1)
    assert answers.errors == {"ZeroDivisionError: division by zero": 3}
    monkeypatch.undo()
    monkeypatch.setattr("teia.search.serve.shards.LocalShard.candidates", lambda *_: 1 / 0)
    answers = attack.search_many(root.path, ["ao"], 3, seed=1)
    assert answers.errors["not answered by the index"] > 0, "the search itself catches errors of an index"


def test_made_up_queries_have_words_and_broken_pieces_of_the_language() -> None:
    made = list(islice(attack.made_up(["word"], random.Random(1)), 500))
    assert any("word" in each for each in made)
    assert any(each.count("(") != each.count(")") for each in made)
    assert max(len(each.split()) for each in made) > 100
    assert made == list(islice(attack.made_up(["word"], random.Random(1)), 500))


def test_people_are_answered_beside_an_attacker(cache: Path) -> None:
    found = attack.beside(PAGES, 6.0, 1, print, cache)
    assert set(found["statuses"]) == {200}
    assert found["attacks"][200] > 10
    assert not any(status == 0 or status >= 500 for status in found["attacks"])
    assert found["ratio"] == pytest.approx(found["attacked_p99_ms"] / found["alone_p99_ms"], abs=0.02)


@pytest.mark.timeout(3 * 3_600)
def test_a_hundred_thousand_made_up_queries_over_a_million_pages(
    record_property: Callable[[str, object], None],
) -> None:
    """The collection is made in `.cache` first, which takes half an hour on two cores."""
    beside = attack.beside(attack.PAGES, attack.SECONDS, attack.TURNS, print)
    made = attack.queries(attack.PAGES, attack.QUERIES, print)
    record_property(
        "figure 8",
        f"{made['queries']} made-up queries over a million pages: {sum(made['errors'].values())} errors,"
        f" {made['over_a_second']} of more than 1 s of processor time, slowest {made['slowest_cpu_ms']:.0f} ms;"
        f" p99 of people beside an attacker {beside['ratio']} times that without",
    )
    assert attack.is_fine({"queries": made, "beside": beside}), (made, beside)
