"""The cluster as a node sees it, for its viewers: `DIR/cluster.json`, written once a second while the node lives.

It is a `ClusterView` as JSON, made from the sessions alone: the nodes, the cells that each reports, its number of known
URLs in them, and the batches of links that it received from each other node. A change between two looks is a move: a
cell with another owner, the time without an owner as far as was seen, and the loss of known URLs, if any.
`NodeFileReader` reads the file; without one the machine is alone (single_machine.py). A file that is no longer written
is shown as an old one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from teia.clock import Clock, from_iso, iso_utc
from teia.cluster.views.single_machine import SingleMachine
from teia.cluster.views.view import CellView, ClusterSource, ClusterView, ExchangeView, MoveView, NodeView
from teia.lib.undecodable import UNDECODABLE
from teia.store.root import Root
from teia.urls import cell_range

if TYPE_CHECKING:
    from teia.cluster.members.session import NodeSession, NodeState

FILE = "cluster.json"
WRITE_S = 1.0
STALE_S = 10.0
RATE_S = 20.0
"""Time span over which pages and batches a second are measured."""

MOVES = 50
SILENT_BEATS = 2.5
"""Beats without a renewal after which a node counts as silent: two were missed."""


def cluster_source(root: Root, clock: Clock) -> ClusterSource:
    """Return the source of views of the cluster that a data folder belongs to."""
    return NodeFileReader(root, clock, SingleMachine(root, clock))


@dataclass(slots=True)
class NodeFileReader:
    """Reader of the file of this folder's node; without one the machine is alone."""

    root: Root
    clock: Clock
    alone: ClusterSource

    def view(self) -> ClusterView:
        import msgspec

        try:
            stored = msgspec.json.decode((self.root.path / FILE).read_bytes(), type=ClusterView)
        except (OSError, *UNDECODABLE):
            return self.alone.view()
        # Old, but a process still holds the folder: the node is busy, not gone.
        if self.clock.now_s() - from_iso(stored.time) <= STALE_S or self.root.lock_holder() is not None:
            return stored
        nodes = [replace(node, state="off") if node.name == stored.here else node for node in stored.nodes]
        return replace(stored, nodes=nodes)


@dataclass(slots=True)
class _Last:
    """The last seen state of a cell: its owner, the time, and its number of known URLs."""

    owner: str
    at: float
    urls: int


@dataclass(slots=True)
class NodeFileWriter:
    """Writer of views of a session's cluster."""

    root: Root
    collection: str
    starts: tuple[int, ...]
    """The first slot of each cell."""
    clock: Clock
    wanted_owner: Callable[[int], str] = lambda cell: ""  # noqa: ARG005
    """Function that returns the node that should own a cell; empty if unknown."""
    move_reason: Callable[[int, str], str] = lambda cell, giver: ""  # noqa: ARG005
    """Function that returns the reason why a cell was to leave a node; empty if nothing was decided."""
    on_move: Callable[[int, str, str, str], None] = lambda cell, giver, taker, why: None  # noqa: ARG005
    """Called for each move: cell, giver, taker, reason."""
    _last: dict[int, _Last] = field(default_factory=dict)
    _moves: deque[MoveView] = field(default_factory=lambda: deque(maxlen=MOVES))
    _moved: Counter[str] = field(default_factory=Counter)
    _counts: dict[str, deque[tuple[float, float]]] = field(default_factory=dict)

    async def write_forever(self, session: NodeSession) -> None:
        """Write the file once a second, until cancelled; on a full disk skip it."""
        while True:
            with suppress(OSError):
                self.write(session)
            await self.clock.sleep(WRITE_S)

    def write(self, session: NodeSession) -> None:
        """Write the present view. No fsync: after a crash of the machine the file is of no use."""
        import msgspec

        pace = session.pace
        view = self.view(session.nodes(), session.report_ages(), session.node.name, pace.beat_s, pace.silence_s)
        path = self.root.path / FILE
        new = path.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(view))
        # Readers see the old file or the new one, never a part.
        new.replace(path)

    def view(
        self, nodes: Mapping[str, NodeState], ago: Mapping[str, float], here: str, beat_s: float, silence_s: float
    ) -> ClusterView:
        """Return the cluster as sessions report it; `ago` are the seconds since each node's last report."""
        now_s = self.clock.now_s()
        cells = self._cells(nodes)
        node_views = [
            self._node_view(
                node, ago.get(name, 0.0), now_s, beat_s, silence_s, sum(cell.keeper == name for cell in cells)
            )
            for name, node in sorted(nodes.items())
        ]
        counts = {name: dict(node.load) for name, node in sorted(nodes.items()) if node.is_alive}
        moves = list(reversed(self._moves))
        links = [each for name in sorted(nodes) for each in self._exchanges(nodes[name])]
        return ClusterView(iso_utc(now_s), here, node_views, cells, moves, links, counts, dict(self._moved))

    def _node_view(
        self, node: NodeState, ago_s: float, now_s: float, beat_s: float, silence_s: float, cells: int
    ) -> NodeView:
        is_silent = node.is_alive and ago_s > SILENT_BEATS * beat_s
        state = node.state if not node.is_alive else "idle" if node.load.get("idle") else node.busy
        return NodeView(
            name=node.name,
            state="silent" if is_silent else state,
            cells=cells,
            region=node.region or None,
            capacity=node.capacity,
            pages_per_s=self._rate(node, "pages", node.load.get("pages")) if node.is_alive and not is_silent else None,
            load=node.load.get("load") if node.is_alive else None,
            lag_s=node.load.get("lag_s") if node.is_alive else None,
            seen=iso_utc(now_s - ago_s),
            dies_in_s=round(max(0.0, silence_s - ago_s), 1) if is_silent else None,
        )

    def _exchanges(self, node: NodeState) -> list[ExchangeView]:
        """Return the links on their way to a node, by the node that sends them; none of its own cells to each other."""
        if not node.is_alive:
            return []
        rates = {giver: self._rate(node, f"from {giver}", merged) for giver, (merged, _) in node.received.items()}
        return [
            ExchangeView(giver, node.name, rates[giver] or 0.0, waiting)
            for giver, (_, waiting) in sorted(node.received.items())
            if giver != node.name
        ]

    def _rate(self, node: NodeState, what: str, count: float | None) -> float | None:
        """Return a rate per second, from a node's reported counts; a count that starts again adds nothing."""
        now = self.clock.ticks_s()
        if count is None:
            return None
        # By instance: a node that was restarted counts from zero.
        seen = self._counts.setdefault(f"{node.name} {node.instance} {what}", deque())
        if not seen or now > seen[-1][0]:
            seen.append((now, count))
        while now - seen[0][0] > RATE_S:
            seen.popleft()
        passed_s = now - seen[0][0]
        more = sum(max(0.0, after - before) for (_, before), (_, after) in pairwise(seen))
        return round(more / passed_s, 2) if passed_s >= WRITE_S else None

    # -- cells and their moves -----------------------------------------------------------------------------

    def _cells(self, nodes: Mapping[str, NodeState]) -> list[CellView]:
        starts = self.starts
        return [self._cell(number, *cell_range(number, starts), nodes) for number in range(len(starts))]

    def _cell(self, number: int, first: int, end: int, nodes: Mapping[str, NodeState]) -> CellView:
        key = str(number)
        claims = {name: node.cells[key] for name, node in nodes.items() if node.is_alive and key in node.cells}
        last, name = self._last.get(number), f"{self.collection}/{number:02d}"
        # During a hand-over both nodes may still report the cell; the new one is right.
        owner = next((each for each in sorted(claims) if last is None or each != last.owner), None)
        if owner is None and last is not None and last.owner in claims:
            owner = last.owner
        if owner is None:
            return CellView(name, self.collection, number, first, end, None, 0 if last is None else last.urls)
        urls, now = claims[owner], self.clock.ticks_s()
        if last is not None and last.owner != owner:
            move = self._move(name, number, last, owner, urls, nodes)
            self._moves.append(move)
            self._moved[move.why] += 1
            self.on_move(number, move.giver, move.taker, move.why)
        self._last[number] = _Last(owner, now, urls)
        to = self.wanted_owner(number)
        next_owner = to if to and to != owner else None
        queued = nodes[owner].queued.get(key)
        return CellView(name, self.collection, number, first, end, owner, urls, queued, to=next_owner)

    def _move(
        self, cell: str, number: int, last: _Last, taker: str, urls: int, nodes: Mapping[str, NodeState]
    ) -> MoveView:
        giver = nodes.get(last.owner)
        why = {"dead": "died", "left": "left"}.get("" if giver is None else giver.state, "")
        why = why or self.move_reason(number, last.owner) or "handed over"
        gap_s = round(self.clock.ticks_s() - last.at, 1)
        return MoveView(iso_utc(self.clock.now_s()), cell, last.owner, taker, why, gap_s, max(0, last.urls - urls))
