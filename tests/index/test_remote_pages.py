"""An index that reckons with pages of other machines: its means are those of all, and nothing more is found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from teia.index.remote_pages import NO_WORD, Extent, relative_difference, sum_extents
from teia.index.union import UnionReader
from teia.search.query.words import words_of
from teia.search.rank.tantivy_query import every_page

from .pages import indexed, page


@pytest.fixture
def readers(tmp_path: Path) -> Iterator[tuple[UnionReader, UnionReader, UnionReader]]:
    """Short pages here, long ones there, and all of them together."""
    indexed(tmp_path / "0", [page(f"http://a.test/{n}", "one two three", "a title") for n in range(30)])
    long = "many more words are on pages like this " * 9
    indexed(tmp_path / "1", [page(f"http://b.test/{n}", long, headings=("a heading",)) for n in range(7)])
    folders = {"cell 0": tmp_path / "0", "cell 1": tmp_path / "1"}
    with ExitStack() as stack:
        made = [UnionReader({name: folders[name]}) for name in folders] + [UnionReader(folders)]
        for reader in made:
            stack.callback(reader.close)
        yield made[0], made[1], made[2]


def test_extents_add_up(readers: tuple[UnionReader, UnionReader, UnionReader]) -> None:
    here, there, both = readers
    assert both.extent() == sum_extents([here.extent(), there.extent()])
    assert both.extent().without(there.extent()) == here.extent()
    assert both.extent().pages == 37


def test_an_index_that_reckons_with_others_scores_as_all_together(
    readers: tuple[UnionReader, UnionReader, UnionReader],
) -> None:
    """What tantivy explains must name the mean of all pages; another format of its files would show here."""
    here, there, both = readers
    before = here.extent()
    assert relative_difference(before, both.extent()) > 0.5
    here.include_elsewhere(there.extent())
    assert here.extent() == before
    assert here.elsewhere == there.extent()
    view = here.searcher()
    from teia.index.remote_pages import extent_of

    assert extent_of(view, here.schema, Extent()).words[0] == pytest.approx(
        both.extent().words[0] * before.pages / both.extent().pages, abs=1
    )


def test_nothing_more_is_found(readers: tuple[UnionReader, UnionReader, UnionReader]) -> None:
    here, there, _ = readers
    here.include_elsewhere(there.extent())
    view = here.searcher()
    assert len(view.search(every_page(here.schema), limit=100).hits) == 30
    assert len(list(here.all_entries())) == 30
    assert not words_of(NO_WORD)


def test_what_is_elsewhere_may_change_again_and_again(readers: tuple[UnionReader, UnionReader, UnionReader]) -> None:
    here, there, _ = readers
    first, old = here.extent(), here.searcher()
    for pages in (5, 5_000_000, 0, 7):
        here.include_elsewhere(Extent(pages, tuple(pages * words for words in (40, 3, 0, 60))))
        assert here.extent() == first
        assert here.searcher().doc_freq("exact", "two") == 30
    assert old.doc_freq("exact", "two") == 30  # a view that is still used stays as it is
    del there


def test_extents_know_how_far_apart_they_are() -> None:
    assert relative_difference(Extent(10, (100, 0, 0, 50)), Extent(20, (200, 0, 0, 100))) == 0.0
    assert relative_difference(Extent(10, (100, 0, 0, 50)), Extent(10, (90, 0, 0, 50))) == pytest.approx(0.1)
    assert sum_extents([]) == Extent()
