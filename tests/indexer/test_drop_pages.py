"""Pages that must go leave the files of an index at once; the others stay as they were."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from teia.graph.linkfile import LinkFile
from teia.index.anchors import AnchorTexts
from teia.index.borrowed import LackingPages
from teia.index.cell import CellIndex, anchor_words
from teia.index.position import read_position
from teia.index.reader import CellReader
from teia.indexer.cell_indexer import broken_index_folder, new_index_folder
from teia.indexer.drop_pages import drop_pages, indexed_urls
from teia.store.root import CellFolder
from teia.urls import key_of
from tests.index.pages import indexed, page

BAD, GOOD, OTHER = "http://a.test/bad", "http://a.test/good", "http://b.test/"
WORD = "xqslander"


def is_bad(url: str) -> bool:
    return url == BAD


def is_in_files(folder: CellFolder) -> bool:
    """Tell whether the lists of words in the files have the word, of pages that were dropped too."""
    searcher = CellReader(folder.index).searcher()
    return bool(searcher.doc_freq("exact", WORD))


@pytest.fixture
def cell(tmp_path: Path) -> CellFolder:
    """A cell with an index of three pages, one of them bad, and what an indexer has beside it."""
    folder = CellFolder(0, tmp_path / "00")
    pages = [page(BAD, "xqslander about somebody"), page(GOOD, "harmless words", links=[BAD]), page(OTHER, "others")]
    indexed(folder.index, pages, {GOOD: ["praise"]})
    with closing(AnchorTexts(folder.index / "anchors.sqlite")) as anchors:
        anchors.add("b.test", [(key_of(GOOD), "praise")])
    with closing(LinkFile(folder.index / "links.bin")) as links:
        links.append(key_of(BAD), [key_of(GOOD)])
        links.flush()
    with closing(LackingPages(folder.index)) as lacking:
        lacking.add([(key_of(url), url) for url in (BAD, OTHER)])
    return folder


def urls(folder: CellFolder) -> list[str]:
    return sorted(entry.url for entry in CellReader(folder.index).all_entries())


def hits(folder: CellFolder, field: str, word: str) -> int:
    import tantivy

    reader = CellReader(folder.index)
    return reader.searcher().search(tantivy.Query.term_query(reader.schema, field, word)).count or 0


@pytest.mark.heavy
def test_a_page_leaves_the_files_of_the_index_and_the_others_stay(cell: CellFolder) -> None:
    position = read_position(cell.index)
    assert is_in_files(cell)
    assert drop_pages(cell, is_bad, is_concerned=True) == 1
    assert not is_in_files(cell)
    assert (urls(cell), indexed_urls(cell, is_bad)) == ([GOOD, OTHER], [])
    assert read_position(cell.index) == position
    assert (hits(cell, "anchor", anchor_words(["praise"])), hits(cell, "all", "harmless")) == (1, 1)
    assert not new_index_folder(cell).exists()
    with closing(LackingPages(cell.index)) as lacking:
        assert [url for _, url in lacking.after(None, 10)] == [OTHER]
    assert drop_pages(cell, is_bad, is_concerned=True) == 0


@pytest.mark.heavy
def test_a_page_that_was_dropped_before_leaves_the_files_too(cell: CellFolder) -> None:
    with closing(CellIndex(cell.index)) as index:
        index.remove(key_of(BAD))
        index.commit(index.position)
    broken_index_folder(cell).mkdir()
    assert is_in_files(cell), "until its next merge"
    assert drop_pages(cell, is_bad, is_concerned=False) == 0
    assert is_in_files(cell)
    assert drop_pages(cell, is_bad, is_concerned=True) == 0
    assert not is_in_files(cell)
    assert not broken_index_folder(cell).exists()
    assert urls(cell) == [GOOD, OTHER]


def test_a_cell_without_an_index_has_nothing_to_drop(tmp_path: Path) -> None:
    assert drop_pages(CellFolder(0, tmp_path / "00"), is_bad, is_concerned=True) == 0
