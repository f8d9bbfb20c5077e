"""The index of a cell that was split forgets what went when the new cell's index has it, and not before."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from teia.clock import VirtualClock
from teia.cluster.members.session import NodeState
from teia.cluster.search.forget_after_split import PATIENCE_S, SplitCleanup, ancestors
from teia.frontier.cell.cell import FrontierCell
from teia.index.borrowed import LackingPages
from teia.index.position import write_position
from teia.indexer.after_split import is_due
from teia.store.root import CellFolder

STARTS = (0, 512, 256, 384)
"""Two cells; the third was split off the first, the fourth off the third."""


def test_a_cell_comes_from_the_one_that_had_its_slots_before() -> None:
    assert [list(ancestors(cell, STARTS, 2)) for cell in range(4)] == [[], [], [0], [2, 0]]


class Owners:
    """The keeper of cell 0, and that of the cells that were split off it."""

    def __init__(self, path: Path) -> None:
        self.clock = VirtualClock()
        self.folders = {number: CellFolder(number, path / str(number)) for number in (0, 2, 3)}
        for folder in self.folders.values():
            folder.index.mkdir(parents=True)
            with closing(FrontierCell(folder.frontier)) as cell:
                if not folder.number:
                    cell.db.execute("INSERT INTO meta VALUES ('split 2', 256)")
        self.alive: dict[str, NodeState] = {}
        self.ends = {name: self._end(name, cells) for name, cells in (("old", {0}), ("new", {2, 3}))}

    def _end(self, name: str, cells: set[int]) -> SplitCleanup:
        session: Any = SimpleNamespace(node=NodeState(name, "x"), alive=lambda: self.alive)
        owner: Any = SimpleNamespace(owned=dict.fromkeys(cells))
        copies: Any = SimpleNamespace(folders=self.folders)
        order: Any = SimpleNamespace(starts=STARTS)
        return SplitCleanup(session, owner, copies, order, 2, self.clock)

    def may_forget(self) -> bool:
        """Let both look, and hear of each other; whether the old cell's index may forget what went."""
        for _ in range(2):
            for name, end in self.ends.items():
                asyncio.run(end.check())
                self.alive[name] = end._session.node
        with closing(FrontierCell(self.folders[0].frontier, read_only=True)) as cell:
            return is_due(self.folders[0].index, cell)


def test_nothing_is_forgotten_that_a_new_cell_lacks(tmp_path: Path) -> None:
    owners = Owners(tmp_path)
    owners.ends["new"]._goals = {2: 50, 3: 70}
    assert not owners.may_forget()
    write_position(owners.folders[2].index, 50)
    assert not owners.may_forget()  # what was split off that in its turn has not come so far
    write_position(owners.folders[3].index, 90)
    assert owners.may_forget()


def test_what_nobody_has_is_not_waited_for_without_end(tmp_path: Path) -> None:
    owners = Owners(tmp_path)
    for number in (2, 3):
        write_position(owners.folders[number].index, 1)
    with closing(LackingPages(owners.folders[2].index)) as pages:
        pages.add([(7, "http://a.test/")])
    assert not owners.may_forget()
    asyncio.run(owners.clock.advance(PATIENCE_S))
    assert owners.may_forget()
