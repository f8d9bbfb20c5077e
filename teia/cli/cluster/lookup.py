"""`teia cluster lookup`: the owner of a host's cell, and the path to it over fingers (A2)."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from teia.cli.options import AsJson
from teia.cli.output import print_json
from teia.clock import WallClock, iso_utc
from teia.cluster.circle.circle import CAPACITY_MOST, Circle
from teia.cluster.views.host_lookup import HostHome, HostLocation, hypothetical_cells, locate_host, parse_host
from teia.cluster.views.view import ClusterView, NodeView
from teia.errors import UsageError
from teia.urls import SLOTS

Host = Annotated[str, typer.Argument(metavar="HOST", help="Host name, or a URL of the host.")]
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Folder of a node, which knows the cluster.")]
Nodes = Annotated[
    list[str] | None,
    typer.Option(
        "--node",
        metavar="NAME[=CAPACITY]",
        help="Without --data: NAME[=CAPACITY] of a node of a hypothetical cluster; may be repeated.",
    ),
]
Cells = Annotated[
    int, typer.Option("--cells", metavar="N", min=1, max=SLOTS, help="Number of cells of the hypothetical cluster.")
]
Start = Annotated[str | None, typer.Option("--from", metavar="NODE", help="Node where the look-up starts.")]
Hops = Annotated[bool, typer.Option("--hops", help="Show the path over fingers, hop by hop.")]
CELLS = 64
NODES_MOST = 10_000


def lookup(
    host: Host,
    hops: Hops = False,
    data: Data = None,
    node: Nodes = None,
    cells: Cells = CELLS,
    start: Start = None,
    as_json: AsJson = False,
) -> None:
    """Show the cell of a host in each collection, the node that owns it, and the nodes that would take over."""
    name = parse_host(host)
    # Exactly one of the two: a real cluster, or a hypothetical one.
    if (data is None) == (not node):
        raise UsageError("missing cluster; use --data DIR of a node, or name hypothetical nodes (--node a --node b=2)")
    where = locate_host(_hypothetical_view(node or [], cells) if data is None else _actual_view(data), name, start)
    if as_json:
        print_json(asdict(where))
        return
    print(f"{where.host}\n  site    {where.site}\n  key     {where.key}\n  slot    {where.slot}")
    for home in where.homes:
        print(_lines(where, home, hops))
    if not where.homes:
        print("  no collection yet")
    if len({home.home for home in where.homes}) > 1:
        print("  the collections have different numbers of cells, so the host's cells may be on different nodes")


def _actual_view(data: Path) -> ClusterView:
    from teia.cluster.views.node_file import cluster_source
    from teia.store.root import open_root

    return cluster_source(open_root(data), WallClock()).view()


def _hypothetical_view(words: list[str], cells: int) -> ClusterView:
    nodes = dict(_node(word) for word in words)
    if len(nodes) < len(words):
        raise UsageError("--node: duplicate node name")
    if len(nodes) > NODES_MOST:
        raise UsageError(f"--node: {len(nodes):,} nodes exceed the maximum of {NODES_MOST:,}")
    try:
        owned = hypothetical_cells(Circle(nodes), cells)
    except ValueError as error:
        raise UsageError(f"--node: {error}") from None
    lines = [
        NodeView(name, "normal", sum(cell.keeper == name for cell in owned), capacity=size)
        for name, size in sorted(nodes.items())
    ]
    return ClusterView(iso_utc(WallClock().now_s()), lines[0].name, lines, owned, [], [])


def _node(word: str) -> tuple[str, float]:
    name, _, capacity = word.partition("=")
    try:
        return name, float(capacity or 1)
    except ValueError:
        raise UsageError(f"--node {word}: the capacity must be a number up to {CAPACITY_MOST:g}, as in b=2") from None


def _lines(where: HostLocation, home: HostHome, with_hops: bool) -> str:
    collection = f"{home.collection}: " if home.collection else ""
    owner = home.keeper or "no node"
    moving = f", moving to {home.to}" if home.to else ""
    slots = f"slots {home.first_slot} to {home.end_slot - 1}"
    text = f"  {collection}cell {home.number:02d} ({slots}) is owned by {owner}{moving}"
    if len(home.order) > 1:
        text += f"\n    next owners: {', '.join(home.order[1:4])}{' …' if len(home.order) > 4 else ''}"
    if with_hops:
        number = len(home.hops)
        text += f"\n    {number} {'hop' if number == 1 else 'hops'} from {where.start}"
        for hop in home.hops:
            text += f"\n      {hop.start} {hop.start_id[:8]} -> finger 2^{hop.exponent} -> {hop.end} {hop.end_id[:8]}"
    return text
