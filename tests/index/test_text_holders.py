"""Pages with the same text: the index stores it once, and no reader notices."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tantivy import Query

from teia.index import text_holders
from teia.index.cell import CellIndex, anchor_words
from teia.index.entry import IndexEntry
from teia.index.reader import CellReader
from teia.index.text_holders import TextHolders

from .pages import page

TEXT = "The same words under many addresses, in the folder of each language. " * 20
OTHER = "Other words that only this page has, which says something else now. " * 20
A, B, C = (f"http://a.test/{name}" for name in "abc")


@pytest.fixture
def index(tmp_path: Path) -> CellIndex:
    return CellIndex(tmp_path / "index")


def copy(url: str, text: str = TEXT) -> IndexEntry:
    return page(
        url, text, "A title", headings=("First", "Second"), description=f"of {url}", links=(A, "http://b.test/")
    )


def referring(index: CellIndex) -> dict[str, str]:
    """URLs of pages that refer to others: to which."""
    searcher = index.searcher()
    urls = {entry.key: entry.url for entry in entries(index).values()}
    hits = searcher.search(Query.all_query(), limit=100).hits
    holders = [(index.entry(searcher, address).url, searcher.doc(address)["text_of"]) for _, address in hits]
    return {url: urls[holder[0]] for url, holder in holders if holder}


def entries(index: CellIndex) -> dict[str, IndexEntry]:
    return {each.entry.url: each.entry for each in index.entries(list(index.keys()))}


def test_the_second_page_with_a_text_refers_to_the_first_and_is_read_whole(index: CellIndex) -> None:
    for url in (A, B):
        index.put(copy(url))
    index.put(copy(C, OTHER))
    index.commit(1)
    assert referring(index) == {B: A}
    assert entries(index) == {A: copy(A), B: copy(B), C: copy(C, OTHER)}
    assert {entry.url: entry for entry in CellReader(index.folder).all_entries()} == entries(index)


def test_a_short_text_is_stored_with_each_page(index: CellIndex) -> None:
    for url in (A, B):
        index.put(copy(url, "few words"))
    index.commit(1)
    assert referring(index) == {}


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("is_removed", [True, False])
@pytest.mark.parametrize("is_reopened", [True, False])
def test_a_page_that_goes_or_changes_leaves_its_text_to_the_others(
    index: CellIndex, *, is_committed: bool, is_removed: bool, is_reopened: bool
) -> None:
    for url in (A, B, C):
        index.put(copy(url), ["chapter of a book"])
    if is_committed or is_reopened:
        index.commit(1)
    if is_reopened:  # another process does not know which page holds which text
        index.close()
        index = CellIndex(index.folder)
    if is_removed:
        index.remove(copy(A).key)
    else:
        index.put(copy(A, OTHER))
    index.commit(2)
    changed = {} if is_removed else {A: copy(A, OTHER)}
    assert entries(index) == {B: copy(B), C: copy(C), **changed}
    assert referring(index) in ({B: C}, {C: B}), "one of the two holds it now"
    found = index.searcher().doc_freq("anchor", anchor_words(["chapter"]))
    assert found >= 2, "the words on links to them are still there"


def test_a_page_that_is_indexed_again_with_its_text_still_holds_it(index: CellIndex) -> None:
    for url in (A, B):
        index.put(copy(url))
    index.commit(1)
    index.put(copy(A), ["new words"])
    index.commit(2)
    assert referring(index) == {B: A}
    index.put(copy(B), ["new words"])
    index.commit(3)
    assert referring(index) == {B: A}
    assert entries(index) == {A: copy(A), B: copy(B)}


def test_only_so_many_pages_refer_to_one(index: CellIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_holders, "MAX_REFERRING", 2)
    urls = [f"http://a.test/{number}" for number in range(7)]
    for url in urls:
        index.put(copy(url))
    index.commit(1)
    assert set(referring(index).values()) == {urls[0], urls[3]}
    assert entries(index) == {url: copy(url) for url in urls}


def test_few_texts_are_in_memory() -> None:
    holders = TextHolders(most=2)
    assert [holders.choose(key, key) for key in (1, 2, 3)] == [None, None, None]
    assert [holders.choose(9, number) for number in (2, 3)] == [2, 3]
    assert holders.choose(8, 1) is None, "forgotten"
    assert holders.holds(8, 1)


def test_the_position_stays_where_the_pages_are_not_all_taken(index: CellIndex) -> None:
    """To give a text away tantivy commits; after a crash the changes since the last position are taken again."""
    index.commit(1)
    for url in (A, B):
        index.put(copy(url))
    index.remove(copy(A).key)
    assert index.position == 1
    index.close()  # without a commit: the removal is lost, and repeated by the next indexer
    again = CellIndex(index.folder)
    assert entries(again) == {A: copy(A), B: copy(B)}


def test_a_page_that_was_removed_is_not_put_again_with_the_text_it_referred_to(index: CellIndex) -> None:
    for url in (A, B, C):
        index.put(copy(url))
    index.commit(1)
    index.remove(copy(B).key)
    index.put(copy(C, OTHER))
    index.remove(copy(A).key)
    index.commit(2)
    assert entries(index) == {C: copy(C, OTHER)}


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_to_pages_each_is_read_as_it_was_put(tmp_path: Path, seed: int) -> None:
    drawn = random.Random(seed)
    index, expected = CellIndex(tmp_path / "index"), dict[str, IndexEntry]()
    for step in range(80):
        url = f"http://a.test/{drawn.randrange(8)}"
        kind = drawn.random()
        if kind < 0.6:
            expected[url] = copy(url, f"{drawn.choice((TEXT, OTHER))}{drawn.randrange(2)}")
            index.put(expected[url], [f"word{drawn.randrange(3)}"])
        elif kind < 0.8:
            expected.pop(url, None)
            index.remove(copy(url).key)
        elif kind < 0.95:
            index.commit(step)
            assert entries(index) == expected
        else:
            index.commit(step)
            index.close()
            index = CellIndex(tmp_path / "index")
    index.commit(100)
    assert entries(index) == expected
    held = referring(index)
    assert not set(held.values()) & set(held), "no page refers to one that refers"
    index.close()


def test_a_page_whose_text_another_one_holds_is_read_without_packing_it(
    index: CellIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took three times as long as another page: the joined entry was packed, and unpacked by the reader."""
    index.put(copy(A))
    index.put(copy(B))
    index.commit(1)
    assert len(referring(index)) == 1
    monkeypatch.setattr("teia.index.entry.encode_entry", None)
    assert entries(index) == {url: copy(url) for url in (A, B)}
