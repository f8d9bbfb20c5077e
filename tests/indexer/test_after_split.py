"""What becomes of an index when its cell is split."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import FoundUrl
from teia.frontier.cell.split import delete_slots
from teia.index.reader import CellReader
from teia.indexer.after_split import is_due, prune, release
from teia.indexer.cell_indexer import CellIndexer
from teia.store.root import CellFolder
from teia.urls import key_of, site_of, slot_of
from tests.index.pages import indexed, page

HOSTS = sorted((f"s{number}.test" for number in range(6)), key=lambda host: slot_of(site_of(host)))
PAGES = [page(f"http://{host}/{number}", f"words of {host} {number}") for host in HOSTS for number in range(3)]


def found_in(folder: Path) -> set[int]:
    reader = CellReader(folder)
    return set(reader.entries(reader.searcher(), [entry.key for entry in PAGES]))


def test_pages_that_a_split_took_along_leave_the_index_once(tmp_path: Path) -> None:
    folder = CellFolder(0, tmp_path)
    indexed(folder.index, PAGES)
    with closing(FrontierCell(folder.frontier)) as frontier, closing(CellIndexer(folder)) as cell:
        with frontier.transaction():
            frontier.add_links([FoundUrl(host, key_of(f"http://{host}/"), "/", 0) for host in HOSTS], 1.0)
        assert not is_due(folder.index, frontier)
        with frontier.transaction():
            delete_slots(frontier, 4, slot_of(site_of(HOSTS[3])), 1024, ())
        assert not is_due(folder.index, frontier)  # who has them now may still want them from here
        release(folder.index, 1)
        assert is_due(folder.index, frontier)
        assert prune(cell, folder.index, frontier) == 9
        assert not is_due(folder.index, frontier)
        assert found_in(folder.index) == {entry.key for entry in PAGES if entry.host in HOSTS[:3]}
