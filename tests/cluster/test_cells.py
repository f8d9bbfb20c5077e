"""A cell's files brought up to its log, and its archive cut where the log says it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.cluster.cells import KeptCells, OwnTail
from teia.crawl.cells import note_position
from teia.frontier.cell import FrontierCell
from teia.store.archive import Position
from teia.store.root import CellFolder


def test_the_archive_is_cut_at_the_last_position_on_our_own_disk(tmp_path: Path) -> None:
    """What others wrote after us is not here, and what of ours is in the log stays, to the byte."""
    folder = CellFolder(0, tmp_path)
    folder.archive.mkdir()
    frontier = FrontierCell(folder.frontier)
    (folder.archive / "ours-1").write_bytes(bytes(900))
    (folder.archive / "ours-2").write_bytes(bytes(700))
    tail = OwnTail(frontier, folder)
    tail.cut()  # nothing is known yet: nothing is cut
    for file, offset in (("ours-1", 900), ("ours-2", 300), ("ours-2", 500), ("theirs-1", 40), ("theirs-1", 4_000)):
        with frontier.transaction():
            note_position(frontier, Position(file, offset))
        tail.look()
    tail.cut()
    sizes = {path.name: path.stat().st_size for path in folder.archive.iterdir()}
    assert sizes == {"ours-1": 900, "ours-2": 500}
    frontier.close()


def test_kept_cells_are_found_by_their_number() -> None:
    cells = KeptCells({5: "five", 2: "two"})  # type: ignore[dict-item]  # any object will do
    assert list(cells) == ["five", "two"]
    assert (cells[5], len(cells), cells.keeps(2), cells.keeps(0)) == ("five", 2, True, False)
    with pytest.raises(KeyError):
        cells[0]
    for _ in cells:
        cells.drop(5)
    assert list(cells) == ["two"]
