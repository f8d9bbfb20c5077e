"""The files of one cell's index: pages that are indexed again for the words on links to them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from teia.index.cell import CellIndex, anchor_words
from teia.index.entry import PackedEntry, pack_entry
from teia.index.reader import CellReader
from teia.index.repeated import FILE, RepeatedLinesReader, number_of_line, number_of_title
from teia.indexer import cell_indexer
from teia.indexer.cell_indexer import CellIndexer
from teia.store.root import CellFolder
from tests.index.pages import indexed, page

PAGES = [page(f"http://a.test/{number}", f"words of {number}") for number in range(7)]


def test_pages_with_new_words_are_read_a_few_at_a_time_and_committed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: 5,000 pages with long texts were in memory at once, in 1.2 GB."""
    folder = CellFolder(0, tmp_path)
    indexed(folder.index, PAGES)
    reads: list[int] = []
    commits: list[int] = []

    def entries(index: CellIndex, keys: Sequence[int]) -> list[PackedEntry]:
        reads.append(len(keys))
        return read(index, keys)

    def commit(index: CellIndex, position: int) -> None:
        commits.append(position)
        write(index, position)

    read, write = CellIndex.entries, CellIndex.commit
    monkeypatch.setattr(CellIndex, "entries", entries)
    monkeypatch.setattr(CellIndex, "commit", commit)
    monkeypatch.setattr(cell_indexer, "READ_AT_ONCE", 3, raising=False)
    with closing(CellIndexer(folder)) as cell:
        cell.anchors.add("b.test", [(entry.key, "chapter") for entry in PAGES])
        assert cell.refresh(5_000, everything=True) == (7, 7)
        assert cell.refresh(5_000, everything=True) == (0, 0)
    assert reads == [3, 3, 1]
    assert len(commits) == 1
    assert CellReader(folder.index).searcher().doc_freq("anchor", anchor_words(["chapter"])) == 7


def test_lines_that_pages_of_a_host_repeat_are_known_after_a_commit(tmp_path: Path) -> None:
    folder = CellFolder(0, tmp_path)
    pages = [page(f"http://a.test/{number}", f"Menu of the site\nwords of {number}") for number in range(4)]
    with closing(CellIndexer(folder)) as cell:
        cell.put([PackedEntry(each, pack_entry(each)) for each in pages])
        cell.commit()
        assert RepeatedLinesReader(folder.index / FILE).of("a.test") == {
            number_of_line("Menu of the site"),
            number_of_title(""),
        }
