"""Lab text for measuring search: words as they are spread in real text, pages that are what their numbers say."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from teia.clock import VirtualClock
from teia.errors import StoreError
from teia.lab.corpus.collection import DESCRIPTION, CorpusCollection, open_collection, open_or_make
from teia.lab.corpus.pages import Corpus
from teia.lab.corpus.questions import BANDS, PUBLISHED, TEMPLATES, QuerySampler, SampleQuery, list_kinds
from teia.lab.corpus.timed import TimedSearch, Timing, WatchCost, summarize, time_warm
from teia.lab.corpus.vocabulary import SHIFT, make_vocabulary, zipf_ranks
from teia.search.query.parser import parse

PAGES, WORDS, CELLS = 600, 6_000, 2


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus(PAGES, 1, cells=CELLS, words=WORDS)


# ---- words ----------------------------------------------------------------------------------------------------------


def test_words_come_as_zipf_and_mandelbrot_say() -> None:
    counts = np.bincount(zipf_ranks(np.random.default_rng(1).random(400_000), WORDS), minlength=WORDS)
    expected = 1 / (np.arange(WORDS) + SHIFT)
    expected *= counts.sum() / expected.sum()
    for low, high in ((0, 10), (10, 100), (100, 1_000), (1_000, WORDS)):
        assert counts[low:high].sum() == pytest.approx(expected[low:high].sum(), rel=0.15)


def test_a_vocabulary_has_each_word_once_and_those_of_f11_at_their_places() -> None:
    words = make_vocabulary("pt", 1, WORDS).words
    assert len(set(words)) == len(words) == WORDS
    assert (words[0], words[600], words[700]) == ("de", "café", "sistema de busca")


def test_the_seed_decides_the_made_up_words() -> None:
    assert make_vocabulary("en", 1, WORDS) == make_vocabulary("en", 1, WORDS)
    assert make_vocabulary("en", 1, WORDS).words[-100:] != make_vocabulary("en", 2, WORDS).words[-100:]


# ---- pages ----------------------------------------------------------------------------------------------------------


def test_a_page_is_the_same_whenever_it_is_made(corpus: Corpus) -> None:
    other = Corpus(PAGES, 1, cells=CELLS, words=WORDS)
    assert [other.indexable(number) for number in (7, 3)] == [corpus.indexable(number) for number in (7, 3)]
    assert Corpus(PAGES, 2, cells=CELLS, words=WORDS).indexable(7) != corpus.indexable(7)


def test_every_page_comes_once_and_hosts_take_turns(corpus: Corpus) -> None:
    entries = [page.entry for page in corpus.indexables()]
    assert len({entry.key for entry in entries}) == PAGES
    assert len({entry.host for entry in entries[:50]}) > 5


def test_lengths_languages_and_links_are_those_of_a_web(corpus: Corpus) -> None:
    entries = [page.entry for page in corpus.indexables()]
    lengths = [len(entry.text.encode()) for entry in entries]
    assert 2_500 < np.mean(lengths) < 4_500  # F11's pages: 2,053 MB for 609,212
    assert max(lengths) > 4 * np.median(lengths)
    assert {entry.language for entry in entries} == {"en", "pt"}
    linked = {link.key for entry in entries for link in entry.links}
    assert len(linked & {entry.key for entry in entries}) > PAGES // 2


def test_pages_of_a_site_are_in_one_cell(corpus: Corpus) -> None:
    cells: dict[str, set[int]] = {}
    for page in corpus.indexables():
        cells.setdefault(page.entry.host, set()).add(page.cell)
    assert {len(each) for each in cells.values()} == {1}
    assert {cell for each in cells.values() for cell in each} == set(range(CELLS))


def test_words_of_a_subject_come_back_on_a_page_and_are_rare_elsewhere(corpus: Corpus) -> None:
    pages = [Counter(page.entry.text.lower().split()) for page in corpus.indexables(0, 300)]
    pages_with = Counter(word for page in pages for word in page)
    repeated = [word for page in pages for word, count in page.items() if count >= 4 and pages_with[word] < 15]
    assert len(repeated) > 100


# ---- queries --------------------------------------------------------------------------------------------------------


def test_published_times_are_those_of_the_paper() -> None:
    """F11: table 26."""
    assert len(PUBLISHED) == 8
    assert max(PUBLISHED, key=lambda each: each.first_s).text == '"quero café"'
    assert sum(each.first_s for each in PUBLISHED) == pytest.approx(19.2054)
    assert sum(each.again_s for each in PUBLISHED) == pytest.approx(0.0150)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> CorpusCollection:
    folder = tmp_path_factory.mktemp("corpus") / "collection"
    return open_or_make(folder, PAGES, 1, VirtualClock(1_700_000_000), cells=CELLS, progress=lambda _: None)


@pytest.fixture(scope="module")
def queries() -> list[SampleQuery]:
    return QuerySampler(Corpus(PAGES, 1, cells=CELLS)).sample(2)


@pytest.mark.slow
def test_there_are_as_many_queries_of_every_kind_and_all_can_be_answered(queries: list[SampleQuery]) -> None:
    counts = Counter((query.kind, query.words) for query in queries)
    assert set(counts.values()) == {2}
    assert {kind for kind, _ in counts} == {template.kind for template in TEMPLATES} | {"pasted text"}
    assert {each.kind for each in PUBLISHED} <= {kind for kind, _ in counts}
    assert all(parse(query.text).is_answerable for query in queries)
    assert [words for kind, words in list_kinds(queries) if kind == "all words"] == list(BANDS)


@pytest.mark.slow
def test_the_same_corpus_gets_the_same_queries(queries: list[SampleQuery]) -> None:
    assert QuerySampler(Corpus(PAGES, 1, cells=CELLS)).sample(2) == queries


# ---- a collection ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_collection_is_made_once(built: CorpusCollection) -> None:
    said: list[str] = []
    again = open_or_make(built.folder, PAGES, 1, VirtualClock(), cells=CELLS, progress=said.append)
    assert (again, said) == (built, [])
    assert open_collection(built.folder) == built


@pytest.mark.slow
def test_a_collection_has_every_page_and_ranks(built: CorpusCollection) -> None:
    reader = built.reader()
    assert reader.searcher().num_docs == PAGES
    reader.close()
    assert len(built.ranks()) >= PAGES
    assert built.record.index_bytes > built.record.text_bytes


def test_a_folder_that_is_not_complete_is_no_collection(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no complete collection"):
        open_collection(tmp_path)
    (tmp_path / DESCRIPTION).write_text('{"version":')
    with pytest.raises(StoreError, match="no complete collection"):
        open_collection(tmp_path)


@pytest.mark.slow
def test_what_is_found_is_what_was_requested(built: CorpusCollection, queries: list[SampleQuery]) -> None:
    """F11: every kind of table 26, phrases included."""
    search = TimedSearch(built)
    timings = time_warm(search, queries)
    by_kind = {(each.query.kind, each.query.words): each for each in timings}
    for (kind, words), timing in by_kind.items():
        if kind in {"one word", "any word", "all words", "pasted text"} or "as written" in words:
            assert timing.total >= 1, timing.query
            assert timing.shown >= 1
    assert by_kind["nothing found", "low"].total == 0
    search.close()


@pytest.mark.slow
def test_tantivys_part_of_a_search_is_distinguished_from_ours(built: CorpusCollection) -> None:
    search = TimedSearch(built)
    timing = search.measure(SampleQuery("any word", "high", "rede disco"))
    assert {"search", "doc", "doc_freq"} <= set(timing.calls)
    assert 0 < timing.tantivy_ms < timing.ms
    assert sum(timing.calls.values()) == pytest.approx(timing.tantivy_cpu_ms)
    search.close()


def test_watching_a_call_takes_a_little_within_it_and_a_little_around_it() -> None:
    cost = WatchCost.measure(calls=200)
    assert 0 < cost.within_s < cost.whole_s < 0.001


def test_a_spread_tells_the_middle_and_the_end() -> None:
    timings = [Timing(SampleQuery("", "", ""), ms, ms / 2, ms / 4, ms / 4, int(ms), 1) for ms in range(1, 101)]
    told = summarize(timings)
    assert (told.p50_ms, told.max_ms, told.own) == (50.5, 100, pytest.approx(1.0))
    assert told.p95_ms == pytest.approx(95.05)
    assert all(one <= other for one, other in pairwise((told.p50_ms, told.p95_ms, told.max_ms)))
