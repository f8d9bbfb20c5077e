"""The same pages rank alike in one cell and in eight, each with a subject of its own (SEARCH 6)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from teia.clock import VirtualClock
from teia.index.entry import IndexEntry
from teia.lab.text.prose import Lexicons
from teia.lab.text.words import TOPICS
from teia.search.serve.searcher import Searcher, SearchOptions
from tests.index.pages import page

from .library import NOW_S, as_one, as_shards, cells_of

PAGES, QUERIES, CELLS = 1_200, 200, 8


def written() -> list[list[IndexEntry]]:
    """Pages of the lab's prose, those of a language and a topic in one cell; subjects differ in length too."""
    library, chance = Lexicons(7), random.Random(8)
    subjects = [(language, topic) for language in ("pt", "en") for topic in TOPICS][:CELLS]
    cells: list[list[IndexEntry]] = [[] for _ in subjects]
    for number in range(PAGES):
        at = number % CELLS
        language, topic = subjects[at]
        lexicon = library.lexicon(language, topic, "utf-8")
        place, person = chance.choice(lexicon.places), chance.choice(lexicon.people)
        passages = (chance.choice(lexicon.passages) for _ in range(chance.randint(2, 6) + at // 3))
        text = b" ".join(passages).replace(b"\x01", place).replace(b"\x02", person).decode()
        title = (chance.choice(lexicon.heads) + b" " + chance.choice(lexicon.tails)).decode()
        cells[at].append(page(f"http://{topic}.test/{number}", text, title, language=language))
    return cells


def asked(cells: list[list[IndexEntry]]) -> list[str]:
    """Queries of one to four words that stand together in some page."""
    chance = random.Random(9)
    queries = []
    while len(queries) < QUERIES:
        words = chance.choice(chance.choice(cells)).text.split()
        length = chance.randint(1, 4)
        start = chance.randrange(max(1, len(words) - length))
        queries.append(" ".join(word.strip(".,;:") for word in words[start : start + length]))
    return queries


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[str]]]:
    folder = tmp_path_factory.mktemp("alike")
    cells = written()
    queries = asked(cells)
    cells_of(folder / "one", [[entry for cell in cells for entry in cell]])
    cells_of(folder / "eight", cells)
    arrangements = {
        "one cell": as_one(folder / "one", 1),
        "eight cells as one": as_one(folder / "eight", CELLS),
        "eight shards": as_shards(folder / "eight", CELLS),
    }
    found = {}
    for name, shards in arrangements.items():
        with Searcher(shards, VirtualClock(NOW_S), deadline_s=60) as searcher:
            results = (searcher.search(query, options=SearchOptions(grouped=False)) for query in queries)
            found[name] = [[hit.url for hit in each.hits] for each in results]
    return found


def overlap(one: list[list[str]], other: list[list[str]]) -> float:
    """How many of the first ten agree, on average; less than ten found count as ten."""
    shared = [10 * len(set(a) & set(b)) / max(1, len(a)) for a, b in zip(one, other, strict=True)]
    return sum(shared) / len(shared)


def test_cells_that_are_searched_as_one_rank_exactly_as_one(answers: dict[str, list[list[str]]]) -> None:
    assert answers["eight cells as one"] == answers["one cell"]


def test_shards_that_only_share_statistics_rank_alike(answers: dict[str, list[list[str]]]) -> None:
    assert overlap(answers["one cell"], answers["eight shards"]) >= 9


def test_there_was_something_to_compare(answers: dict[str, list[list[str]]]) -> None:
    assert len(answers["one cell"]) == QUERIES
    assert sum(len(each) == 10 for each in answers["one cell"]) > QUERIES / 2


@pytest.mark.heavy
def test_the_rarity_of_words_is_what_makes_shards_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the measure would notice: a word that is everywhere in its cell counts for little there."""
    from teia.search.rank import tantivy_query as compiling

    cells = written()
    queries = asked(cells)
    cells_of(tmp_path / "one", [[entry for cell in cells for entry in cell]])
    cells_of(tmp_path / "eight", cells)
    with Searcher(as_one(tmp_path / "one", 1), VirtualClock(NOW_S), deadline_s=60) as searcher:
        truth = [
            [hit.url for hit in searcher.search(query, options=SearchOptions(grouped=False)).hits] for query in queries
        ]
    monkeypatch.setattr(compiling.Compiler, "_idf", lambda *_: 1.0)
    with Searcher(as_shards(tmp_path / "eight", CELLS), VirtualClock(NOW_S), deadline_s=60) as searcher:
        naive = [
            [hit.url for hit in searcher.search(query, options=SearchOptions(grouped=False)).hits] for query in queries
        ]
    assert overlap(truth, naive) < 9
