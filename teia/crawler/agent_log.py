"""What the agents of A1 did for a cell that no other table shows: its owners, their joins, hand-overs and load states.

The events of a cell are rows of its `meta` table, a ring for each role. So they are committed with the visits, and in a
cluster they travel with the cell: whoever owns it next, and every copy of it, has its whole recent past. `teia trace`
merges them with the rows of the frontier and the fetch log (views/trace.py).

Events are noted in any thread. The commit thread writes them with the next transaction of their cell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from threading import Lock
from typing import Any

import msgspec

from teia.clock import Clock
from teia.frontier.cell.connection import CellConnection
from teia.lib.undecodable import UNDECODABLE
from teia.records import AgentMessage, AgentRole

PREFIX = "agent."
KEPT = 32
"""Events of each role that a cell keeps, the newest."""


class AgentEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event; `node` is empty on a single machine, `message` if the role sent none of the paper's messages."""

    number: int
    time_s: float
    role: AgentRole
    what: str
    message: AgentMessage | None = None
    node: str = ""
    values: dict[str, Any] = {}


class AgentLog:
    """The events of the cells that one crawl writes; `node` is the name of this node in a cluster."""

    def __init__(self, clock: Clock, node: str = "") -> None:
        self.node = node
        self._clock = clock
        self._lock = Lock()
        self._noted: defaultdict[int, list[AgentEvent]] = defaultdict(list)
        self._next: dict[tuple[int, str], int] = {}

    def note(
        self,
        cells: Iterable[int],
        role: AgentRole,
        what: str,
        message: AgentMessage | None = None,
        time_s: float | None = None,
        values: dict[str, Any] | None = None,
    ) -> None:
        """Note an event of some cells, at a time or now."""
        at_s = round(self._clock.now_s() if time_s is None else time_s, 6)
        event = AgentEvent(0, at_s, role, what, message, self.node, values or {})
        with self._lock:
            for cell in cells:
                # A cell that never commits keeps no more than a ring holds.
                self._noted[cell] = [*self._noted[cell][-KEPT:], event]

    def forget_numbers(self, cell: int) -> None:
        """Read a cell's numbers again before the next event: another node may have written some since."""
        with self._lock:
            for key in [each for each in self._next if each[0] == cell]:
                del self._next[key]

    def write(self, cell: int, frontier: CellConnection) -> None:
        """Write the events of a cell, inside a transaction; if that fails, they are lost."""
        with self._lock:
            noted = self._noted.pop(cell, [])
        rows = {}
        for event in noted:
            number = self._next_number(cell, frontier, event.role)
            numbered = msgspec.structs.replace(event, number=number)
            rows[f"{PREFIX}{event.role}.{number % KEPT:02d}"] = msgspec.json.encode(numbered).decode()
        if rows:
            frontier.set_meta(rows)

    def _next_number(self, cell: int, frontier: CellConnection, role: AgentRole) -> int:
        with self._lock:
            number = self._next.get((cell, role))
        if number is None:
            number = max((each.number for each in read_events(frontier) if each.role == role), default=-1) + 1
        with self._lock:
            self._next[cell, role] = number + 1
        return number


def read_events(frontier: CellConnection) -> list[AgentEvent]:
    """Return the events of a cell, the oldest first; those of a newer teia that cannot be read are left out."""
    found = []
    for text in frontier.meta_under(PREFIX).values():
        try:
            found.append(msgspec.json.decode(text, type=AgentEvent))
        except UNDECODABLE:
            continue
    return sorted(found, key=lambda event: (event.time_s, event.number))
