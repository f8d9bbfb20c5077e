"""Decisions that override the circle: owners of cells, drained nodes, moves and their reasons.

There is one document a collection in the bucket `ring`, changed by compare-and-set, so that of two nodes that decide at
the same time one decides again. Every node follows it and computes the order of owners of a cell from it; no other
message is sent. A cell whose node is gone follows the circle until the node is back.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from teia.clock import Clock
from teia.cluster.circle.circle import Circle
from teia.cluster.circle.host_cell import point_of_slot
from teia.cluster.members.session import NodeState
from teia.cluster.nats.wire import Wire, open_bucket
from teia.cluster.placing.balance import CellTransfer
from teia.errors import ClusterError
from teia.lib.undecodable import UNDECODABLE

if TYPE_CHECKING:
    from nats.js.kv import KeyValue

VERSION = 1
BUCKET = "ring"
MOVES = 50
TRIES, TRY_AGAIN_S = 20, 0.05
_log = logging.getLogger(__name__)


class DecidedTransfer(msgspec.Struct, frozen=True):
    """A transfer that was decided, and its time."""

    time_s: float
    cell: int
    giver: str
    taker: str
    why: str


class RingDocument(msgspec.Struct, frozen=True):
    """The document. `tried`: the nodes with which each node has changed places because its servers are slow."""

    version: int = VERSION
    overrides: dict[str, str] = {}
    drained: list[str] = []
    moves: list[DecidedTransfer] = []
    tried: dict[str, list[str]] = {}
    balanced_s: float = 0.0


_encode = msgspec.json.Encoder().encode


def _decode(value: bytes) -> RingDocument:
    try:
        ring = msgspec.json.decode(value, type=RingDocument)
    except UNDECODABLE as error:
        raise ClusterError(f"the cell placements of this cluster cannot be read: {error}") from error
    if ring.version != VERSION:
        raise ClusterError(
            "the cell placements of this cluster were written by another version of teia; run the"
            " same version on all nodes"
        )
    return ring


class OwnerOverrides:
    """The document of one collection as last seen; `follow` keeps it current."""

    def __init__(self, wire: Wire, clock: Clock, collection: str, replicas: int) -> None:
        self.ring = RingDocument()
        self._revision = 0
        self._wire = wire
        self._clock = clock
        self._key = collection
        self._replicas = replicas
        self._bucket: KeyValue | None = None

    async def _open(self) -> KeyValue:
        if self._bucket is None:
            self._bucket = await open_bucket(self._wire, self._clock, BUCKET, self._replicas)
        return self._bucket

    async def read(self) -> RingDocument:
        """Read the document now."""
        from nats.js.errors import KeyNotFoundError

        bucket = await self._open()
        with contextlib.suppress(KeyNotFoundError):
            entry = await self._wire.retry(lambda: bucket.get(self._key), self._clock)
            self._accept(entry.value or b"", entry.revision or 0)
        return self.ring

    def _accept(self, value: bytes, revision: int) -> None:
        # A read may be older than this node's own write.
        if revision > self._revision:
            self.ring, self._revision = _decode(value), revision

    async def follow(self, changed: Callable[[], None], again_s: float) -> None:
        """Read the document again and again until cancelled; call `changed` when it has changed."""
        while True:
            before = self._revision
            try:
                await self.read()
            except Exception as error:  # noqa: BLE001  # after any error of NATS it is tried again
                _log.info("cell placements not read: %s", error)
            if self._revision != before:
                changed()
            await self._clock.sleep(again_s)

    async def change(self, decide: Callable[[RingDocument], RingDocument | None]) -> bool:
        """Change the document if no other node does meanwhile; `decide` returns None if there is nothing to change."""
        from nats.js.errors import KeyWrongLastSequenceError

        bucket = await self._open()
        for _ in range(TRIES):
            ring = decide(await self.read())
            if ring is None:
                return False
            # Another node was first: read and decide again.
            with contextlib.suppress(KeyWrongLastSequenceError):
                revision = await self._wire.request(bucket.update(self._key, _encode(ring), last=self._revision))
                self.ring, self._revision = ring, revision
                return True
            await self._clock.sleep(TRY_AGAIN_S)
        raise ClusterError("too many concurrent changes of this cluster; try again")


async def read_ring(wire: Wire, collection: str) -> RingDocument:
    """Return the decisions on a collection, for a reader that is no node."""
    from nats.js.errors import BucketNotFoundError, KeyNotFoundError

    try:
        bucket = await wire.request(wire.js.key_value(BUCKET))
        entry = await wire.request(bucket.get(collection))
    except (BucketNotFoundError, KeyNotFoundError):
        return RingDocument()
    return _decode(entry.value or b"")


class _OrderCache(NamedTuple):
    """Cached orders of cells, for one set of nodes and one document."""

    circle: Circle
    ring: RingDocument
    circle_orders: dict[int, list[str]]
    orders: dict[int, list[str]]


class CircleOrder:
    """The live nodes in the order of ownership of a cell: decisions first, then the circle (A2).

    All cells are requested several times a second, and little changes, so results are cached. Threads may share it.
    """

    def __init__(self, starts: Sequence[int], ring: Callable[[], RingDocument] = RingDocument) -> None:
        self.starts = starts
        """The first slot of each cell; split-off cells are appended, existing entries stay."""
        self._ring = ring
        self._known = _OrderCache(Circle({}), RingDocument(), {}, {})

    def __call__(self, cell: int, alive: Mapping[str, NodeState]) -> list[str]:
        known = self._cached(alive)
        if cell not in known.orders:
            known.orders[cell] = self._order_of(cell, known)
        return list(known.orders[cell])

    def by_circle(self, cell: int, alive: Mapping[str, NodeState]) -> list[str]:
        """Return the order by the circle alone."""
        return list(self._circle_order(cell, self._cached(alive)))

    def _cached(self, alive: Mapping[str, NodeState]) -> _OrderCache:
        """Return the cache for these nodes and the present decisions; a new one when either has changed."""
        known, ring = self._known, self._ring()
        capacities = {name: node.capacity for name, node in alive.items()}
        if known.circle.nodes != capacities:
            known = self._known = _OrderCache(Circle(capacities), ring, {}, {})
        # Identity first: equal documents need no comparison.
        elif known.ring is not ring and known.ring != ring:
            known = self._known = _OrderCache(known.circle, ring, known.circle_orders, {})
        return known

    def _order_of(self, cell: int, known: _OrderCache) -> list[str]:
        ring, order = known.ring, self._circle_order(cell, known)
        # Drained nodes come last: they own cells only if no other node lives.
        drained = [name for name in order if name in ring.drained]
        order = [name for name in order if name not in ring.drained] + drained
        chosen = ring.overrides.get(str(cell))
        if chosen in order and chosen not in drained:
            order.remove(chosen)
            order.insert(0, chosen)
        return order

    def _circle_order(self, cell: int, known: _OrderCache) -> list[str]:
        if cell not in known.circle_orders:
            nodes = known.circle.order(point_of_slot(self.starts[cell])) if known.circle.nodes else ()
            known.circle_orders[cell] = list(nodes)
        return known.circle_orders[cell]


def record_moves(
    ring: RingDocument, moves: Iterable[CellTransfer], circle: Callable[[int], str], now_s: float
) -> RingDocument:
    """Return the document with cells moved; an override that agrees with the circle is dropped."""
    overrides, decided = dict(ring.overrides), list(ring.moves)
    for move in moves:
        overrides[str(move.cell)] = move.taker
        decided.append(DecidedTransfer(round(now_s, 3), *move))
    overrides = {cell: node for cell, node in overrides.items() if circle(int(cell)) != node}
    return msgspec.structs.replace(ring, overrides=overrides, moves=decided[-MOVES:], balanced_s=now_s)


def set_drained(ring: RingDocument, node: str, *, undo: bool = False) -> RingDocument | None:
    """Return the document with a node drained, or no longer (`undo`); None if that is so already."""
    if (node in ring.drained) != undo:
        return None
    names = [name for name in ring.drained if name != node] if undo else [*ring.drained, node]
    overrides = {cell: name for cell, name in ring.overrides.items() if undo or name != node}
    return msgspec.structs.replace(ring, drained=names, overrides=overrides)


def why_moved(ring: RingDocument, cell: int, giver: str) -> str:
    """Return why a cell was to leave a node: overloaded, slow, asked, drained; empty if nothing was decided."""
    if giver in ring.drained:
        return "drained"
    return next((move.why for move in reversed(ring.moves) if (move.cell, move.giver) == (cell, giver)), "")
