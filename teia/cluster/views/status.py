"""The state of a cluster: its nodes, the owner of each cell, the content of NATS. Only reads."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from teia.clock import Clock, iso_utc
from teia.cluster.cells.log import CellLog
from teia.cluster.members.agreement import agree
from teia.cluster.members.session import BUCKET, NodeState
from teia.cluster.nats.wire import Wire
from teia.cluster.placing.cell_owners import read_ring
from teia.errors import ClusterError


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node: `state` is alive, left or dead, `cells` the numbers of those it owns."""

    name: str
    region: str
    state: str
    cells: list[int]
    load: dict[str, float]
    capacity: float
    busy: str = ""
    """Load state of a live node: idle, normal or overloaded (A5)."""
    is_drained: bool = False
    landmarks: dict[str, float] = field(default_factory=dict)
    """Round trips in milliseconds to each landmark (A14)."""


@dataclass(frozen=True, slots=True)
class CellStatus:
    """One cell: its owner, the epoch, the number of known URLs in it; no owner after it was given up."""

    id: int
    keeper: str
    epoch: int
    urls: int | None


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The whole state; `streams` has messages and bytes by stream, `strategy` names the placement of sites (A4)."""

    nodes: list[NodeStatus] = field(default_factory=list)
    cells: list[CellStatus] = field(default_factory=list)
    streams: dict[str, dict[str, int]] = field(default_factory=dict)
    strategy: str = ""
    overrides: dict[str, str] = field(default_factory=dict)
    """Cells that are not where the circle puts them, and the owner of each."""
    moves: list[dict[str, Any]] = field(default_factory=list)
    """Recent decisions, the last first: time, cell, giver, taker, why."""


async def status_of(wire: Wire, clock: Clock, collection: str) -> ClusterStatus:
    """Read the state of a cluster from NATS. The reports of nodes are up to a beat old."""
    strategy = ""
    with suppress(ClusterError):  # no node has begun it yet
        strategy = (await agree(wire, clock, collection, None, 1)).strategy
    status = ClusterStatus(strategy=strategy)
    states = await node_states(wire)
    infos = await wire.request(wire.js.streams_info())
    streams = {info.config.name or "": info.state for info in infos}
    name = f"TEIA_{collection}"
    if name in streams:
        info = await wire.request(wire.js.stream_info(name, subjects_filter=f"{collection}.log.*"))
        # The subjects of the stream are the cells that exist.
        numbers = sorted(int(subject.rsplit(".", 1)[1]) for subject in info.state.subjects or {})
        for number in numbers:
            status.cells.append(await _cell(wire, clock, collection, number, states))
    ring = await read_ring(wire, collection)
    status.overrides.update(ring.overrides)
    status.moves.extend(
        {"time": iso_utc(move.time_s), "cell": move.cell, "giver": move.giver, "taker": move.taker, "why": move.why}
        for move in reversed(ring.moves)
    )
    for state in sorted(states, key=lambda each: each.name):
        owned = [cell.id for cell in status.cells if cell.keeper == state.name]
        busy, is_drained = state.busy if state.is_alive else "", state.name in ring.drained
        own = NodeStatus(state.name, state.region, state.state, owned, state.load, state.capacity, busy, is_drained)
        status.nodes.append(replace(own, landmarks=state.landmarks))
    ours = {each: at for each, at in streams.items() if each.startswith(("TEIA_", "KV_", "OBJ_"))}
    status.streams.update({each: {"messages": at.messages, "bytes": at.bytes} for each, at in sorted(ours.items())})
    return status


async def _cell(wire: Wire, clock: Clock, collection: str, number: int, states: list[NodeState]) -> CellStatus:
    head = await CellLog(wire, clock, collection, number, "", "").head()
    if head is None or head.record.kind == "release":
        return CellStatus(number, "", head.record.epoch if head else 0, None)
    reported = [state.cells for state in states if state.name == head.record.node]
    urls = reported[0].get(str(number)) if reported else None
    return CellStatus(number, head.record.node, head.record.epoch or head.seq, urls)


async def node_states(wire: Wire) -> list[NodeState]:
    """Return the last reports of all nodes."""
    from nats.js.errors import BucketNotFoundError, NoKeysError

    try:
        bucket = await wire.request(wire.js.key_value(BUCKET))
        names: list[Any] = await wire.request(bucket.keys())  # Any: the client gives no type
    except (BucketNotFoundError, NoKeysError):
        return []
    entries = [await wire.request(bucket.get(name)) for name in names]
    return [msgspec.json.decode(entry.value or b"", type=NodeState) for entry in entries]
