"""A2: the cost of a look-up in Chord, CAN and Pastry (sections 3.2.1 to 3.2.3 of the paper) and in our circle.

The paper chooses Chord and gives theory. Here all of them are built, for up to 10,000 nodes, and queried. Peer-to-peer
systems are designed so that a node need not know all others. Our circle gives that up for one hop and even shares: a
cluster has tens of nodes, and each is notified of all of them anyway. Two more measurements decide between Chord by
messages and our table (docs/decisions/0051-look-up.md): look-ups while nodes come and go, and their time over NATS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log, log2
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from teia.errors import LabError
from teia.lab.lookup.can import Can
from teia.lab.lookup.churn import measure_churn
from teia.lab.lookup.over_nats import measure_look_ups
from teia.lab.lookup.overlay import Overlay, random_key
from teia.lab.lookup.pastry import BASE, LEAVES_A_SIDE, Pastry
from teia.lab.lookup.rings import chord_ring, finger_ring, one_hop_ring
from teia.lab.reproduce.registry import ExperimentInput, Figure, PlotLine, ResultRow, Results, Table, experiment
from teia.lib.message import Message

SIZES = (10, 30, 100, 300, 1_000, 3_000, 10_000)
QUICK_SIZES = (10, 100, 300)
LOOK_UPS, QUICK_LOOK_UPS = 2_000, 300
JOINS, NODES_SAMPLED = 200, 200
CHURN_NODES, QUICK_CHURN_NODES = 100, 20
LIFETIMES_S = (3_600.0, 600.0, 120.0)
CHURN_S, QUICK_CHURN_S = 600, 60
NATS_NODES, QUICK_NATS_NODES = (8, 32), (4,)
# Sizes that the table of extremes shows.
WORST_AT = frozenset({100, 10_000})


@dataclass(frozen=True, slots=True)
class OverlayKind:
    """An overlay, its constructor for a number of nodes, and its theoretical costs; None where theory gives none."""

    name: str
    make: Callable[[int, int, np.random.Generator], Overlay]
    hops: Callable[[float], float] | None
    known_nodes: Callable[[float], float] | None
    taken: Callable[[float], float]
    """Share that a new node takes, in units of 1 / (n + 1)."""


def _can(dimensions: int) -> OverlayKind:
    return OverlayKind(
        f"CAN, {dimensions} dimensions",
        lambda count, _seed, rng: Can(count, dimensions, rng),
        lambda n: dimensions / 4 * n ** (1 / dimensions),
        lambda _: 2 * dimensions,
        # Half of the mean zone, 1 / (2n), in units of 1 / (n + 1).
        lambda n: 0.5 * (n + 1) / n,
    )


KINDS = (
    OverlayKind("Chord", lambda n, seed, _: chord_ring(n, seed), lambda n: log2(n) / 2, log2, lambda _: 1.0),
    _can(2),
    _can(4),
    OverlayKind(
        "Pastry",
        lambda n, _, rng: Pastry(n, rng),
        lambda n: log(n, BASE),
        lambda n: min(n - 1, (BASE - 1) * log(n, BASE) + 2 * LEAVES_A_SIDE),
        lambda _: 1.0,
    ),
    OverlayKind("ours, by fingers", lambda n, seed, _: finger_ring(n, seed), None, None, lambda _: 1.0),
    OverlayKind("ours", lambda n, seed, _: one_hop_ring(n, seed), lambda n: 1 - 1 / n, lambda n: n - 1, lambda _: 1.0),
)


@dataclass(frozen=True, slots=True)
class Cost:
    """The measured cost of one overlay of one size; `taken` and `largest` are in mean shares."""

    nodes: int
    hops: float
    most_hops: int
    known_nodes: float
    taken: float
    taken_most: float
    givers: float
    largest: float


def measure_cost(overlay: Overlay, nodes: int, look_ups: int, rng: np.random.Generator) -> Cost:
    """Measure look-ups of random keys from random nodes, the tables of random nodes, and the shares of new nodes."""
    hops = [overlay.hops(int(rng.integers(nodes)), random_key(rng)) for _ in range(look_ups)]
    sampled = rng.choice(nodes, min(nodes, NODES_SAMPLED), replace=False)
    joins = [overlay.join_share(rng) for _ in range(JOINS)]
    shares = [join.share * (nodes + 1) for join in joins]
    return Cost(
        nodes,
        float(np.mean(hops)),
        max(hops),
        float(np.mean([overlay.known_nodes(int(node)) for node in sampled])),
        float(np.mean(shares)),
        max(shares),
        float(np.mean([join.givers for join in joins])),
        overlay.largest_share(),
    )


@experiment(
    "A2",
    title="Look-ups over Chord, CAN, Pastry and our circle",
    paper="the collaborative peer-to-peer crawler (COPPE/UFRJ), sections 3.2.1 to 3.2.3",
)
def lookup_cost(run: ExperimentInput) -> Results:
    """Measure hops, the nodes a node must know, and the keys moved by a new node, for growing numbers of nodes."""
    found = {kind.name: list(_costs(run, number, kind)) for number, kind in enumerate(KINDS)}
    yield hops_table(found)
    yield known_table(found)
    yield join_table(found)
    yield spread_table(found)
    yield churn_table(run)
    yield times_table(run)
    yield _figure("hops", "Hops of a look-up", "hops", found, lambda cost: cost.hops, lambda kind: kind.hops)
    yield _figure("known", "Nodes that a node must know", "nodes", found, lambda cost: cost.known_nodes, lambda _: None)


def _costs(run: ExperimentInput, number: int, kind: OverlayKind) -> Iterator[Cost]:
    for nodes in QUICK_SIZES if run.quick else SIZES:
        run.progress(f"A2: {kind.name}, {nodes:,} nodes")
        rng = run.random(2, number, nodes)
        overlay = kind.make(nodes, run.seed, rng)
        yield measure_cost(overlay, nodes, QUICK_LOOK_UPS if run.quick else LOOK_UPS, rng)


_Found = dict[str, list[Cost]]
COLUMNS = ("overlay", "nodes")


def _labels(kind: OverlayKind, cost: Cost) -> tuple[str, str]:
    return kind.name, f"{cost.nodes}"


def hops_table(found: _Found) -> Table:
    rows = [
        ResultRow(_labels(kind, cost), cost.hops, None if kind.hops is None else kind.hops(cost.nodes))
        for kind in KINDS
        for cost in found[kind.name]
    ]
    note = (
        "Theory: log2(n)/2 for Chord, d/4 · n^(1/d) for CAN with equal zones, log16(n) for Pastry, 1 - 1/n where"
        " every node knows all others. Every look-up ended at the owner; the last hop, to the owner, is counted."
        " Zones of CAN were split at random points, and large ones are crossed in one hop; equal zones agree with"
        " theory (tests/lab/lookup/test_lookup.py). Pastry's leaves end a look-up early, above all with few nodes."
        " Our nodes at 64 points each continue from their nearest point, which costs no message."
    )
    return Table("hops", "Hops of a look-up, on average", COLUMNS, tuple(rows), Message("theory"), note)


def known_table(found: _Found) -> Table:
    rows = [
        ResultRow(
            _labels(kind, cost), cost.known_nodes, None if kind.known_nodes is None else kind.known_nodes(cost.nodes)
        )
        for kind in KINDS
        for cost in found[kind.name]
    ]
    note = (
        "Theory: log2(n) fingers for Chord, 2d neighbours for CAN with equal zones, 15 · log16(n) entries and 16"
        " leaves for Pastry, where the same node may be both, all others for us. Lists of successors (Chord) and of"
        " near nodes (Pastry's M), which look-ups do not need, are not counted. The cost of ours besides memory:"
        " with T = 15 s every node renews its session every 3 s, and all nodes receive it: n/3 small messages per"
        " second at each node."
    )
    return Table(
        "known", "Other nodes that a node must know, on average", COLUMNS, tuple(rows), Message("theory"), note
    )


def join_table(found: _Found) -> Table:
    rows = [
        ResultRow(_labels(kind, cost), cost.taken, kind.taken(cost.nodes))
        for kind in KINDS
        for cost in found[kind.name]
    ]
    note = (
        f"Means of {JOINS} newcomers. Nothing moves between nodes that were there before. 1 is the fair share of"
        " 1 / (n + 1); a newcomer of CAN gets half a zone, more than half the mean because large zones are hit more"
        " often."
    )
    title = "Keys that move when a node joins, in fair shares"
    return Table("moved", title, COLUMNS, tuple(rows), Message("theory"), note)


def spread_table(found: _Found) -> Table:
    measures: dict[str, Callable[[Cost], float]] = {
        "longest look-up, hops": lambda cost: cost.most_hops,
        "largest node, in mean shares": lambda cost: cost.largest,
        "luckiest newcomer, in fair shares": lambda cost: cost.taken_most,
        "nodes that give to a newcomer": lambda cost: cost.givers,
    }
    rows = [
        ResultRow(
            (*_labels(kind, cost), name), measure(cost), _harmonic(kind, cost) if name.startswith("largest") else None
        )
        for kind in KINDS
        for cost in found[kind.name]
        if cost.nodes in WORST_AT
        for name, measure in measures.items()
    ]
    note = (
        "With one point a node the largest of n arcs is 1 + 1/2 + … + 1/n mean ones long, so the busiest of 10,000"
        " nodes has ten times its share; 64 points a node are what makes shares even, and spread a newcomer's work of"
        " receiving over as many givers."
    )
    return Table("spread", "Worst cases", (*COLUMNS, "measure"), tuple(rows), Message("theory"), note)


def churn_table(run: ExperimentInput) -> Table:
    nodes, seconds = (QUICK_CHURN_NODES, QUICK_CHURN_S) if run.quick else (CHURN_NODES, CHURN_S)
    rows = []
    for lifetime_s in LIFETIMES_S:
        run.progress(f"A2: {nodes} nodes that live {lifetime_s:g} s")
        found = measure_churn(nodes, lifetime_s, seconds, run.seed)
        label = f"{lifetime_s:g} s"
        values = {
            "look-ups that end at a living owner": (
                found.right_by_table / found.look_ups,
                found.right / found.look_ups,
            ),
            "messages per node and second": (found.table_messages, found.messages),
            "hops": (1.0, found.hops / max(1, found.ended)),
            "wait for silent nodes, s": (0.0, found.late_s / max(1, found.ended)),
        }
        rows += [ResultRow((label, name), *pair) for name, pair in values.items()]
    note = (
        f"{nodes} nodes for {seconds} s of virtual time; nodes crash after exponential lifetimes, and as many join."
        " Chord stabilises every 5 s, and a silent point costs three requests of 1 s. Our table has a dead node until"
        " it was silent for 15 s. Its messages are the renewals of sessions that each node receives. Links need"
        " neither: they are sent to the subject of their cell, and wait there while it has no owner."
    )
    return Table(
        "churn", "Look-ups while nodes come and go", ("lifetime", "measure"), tuple(rows), Message("Chord"), note
    )


def times_table(run: ExperimentInput) -> Table:
    rows = []
    for nodes in QUICK_NATS_NODES if run.quick else NATS_NODES:
        run.progress(f"A2: {nodes} nodes over NATS")
        with TemporaryDirectory() as folder:
            look_ups = QUICK_LOOK_UPS if run.quick else LOOK_UPS
            found = asyncio.run(measure_look_ups(Path(folder), nodes, look_ups, run.seed))
        if found.right < look_ups:
            raise LabError(f"{look_ups - found.right} of {look_ups} look-ups over NATS ended at a wrong node")
        label = f"{nodes}"
        table_ms, chord_ms = 1000 * np.array(found.table_s), 1000 * np.array(found.chord_s)
        rows += [
            ResultRow((label, "look-up, median, ms"), float(np.median(table_ms)), float(np.median(chord_ms))),
            ResultRow(
                (label, "look-up, 99th percentile, ms"),
                float(np.percentile(table_ms, 99)),
                float(np.percentile(chord_ms, 99)),
            ),
            ResultRow((label, "hops"), 1.0 - 1.0 / nodes, found.hops),
            ResultRow((label, "messages of a node that joins"), 1.0, found.join_messages),
        ]
        rows.append(ResultRow((label, "one request over NATS, median, ms"), 1000 * float(np.median(found.request_s))))
    note = (
        "One NATS server and all points on this machine, a connection each; on a network each hop takes a round trip"
        " more. Ours looks the owner up in memory; a node that joins writes its session once. The messages of Chord are"
        " those that a point sent until all had joined and renewed their fingers."
    )
    title = "Look-ups by Chord over NATS, and in our table"
    return Table("times", title, ("nodes", "measure"), tuple(rows), Message("Chord"), note, varies=True)


def _harmonic(kind: OverlayKind, cost: Cost) -> float | None:
    # Expected length of the longest of n random arcs, in mean arcs: the n-th harmonic number.
    return float(np.sum(1 / np.arange(1, cost.nodes + 1))) if kind.name == "Chord" else None


def _figure(
    name: str,
    title: str,
    y_label: str,
    found: _Found,
    measured: Callable[[Cost], float],
    theory: Callable[[OverlayKind], Callable[[float], float] | None],
) -> Figure:
    series = []
    for kind in KINDS:
        x = [float(cost.nodes) for cost in found[kind.name]]
        series.append(PlotLine(kind.name, x, [measured(cost) for cost in found[kind.name]]))
        expected = theory(kind)
        if expected is not None:
            series.append(PlotLine(f"{kind.name}, theory", x, [expected(nodes) for nodes in x], ours=False))
    return Figure(name, title, "nodes", y_label, tuple(series), log_x=True, log_y=True)
