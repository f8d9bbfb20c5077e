"""`teia cluster move` and `drain`: who keeps what, by decree (A14)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teia.errors import UsageError

if TYPE_CHECKING:
    from teia.cluster.overrides import Overrides, Ring
    from teia.cluster.session import NodeState

CellNumber = Annotated[int, typer.Argument(metavar="CELL", help="Its number, as `teia cluster status` shows it.")]
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="A node that lives.")]
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="A cluster that `teia cluster up` started.")]
Nats = Annotated[list[str] | None, typer.Option("--nats", metavar="URL", help="A NATS server of any other cluster.")]
Key = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="The key that NATS lets us in with.")]
Ca = Annotated[Path | None, typer.Option("--ca", metavar="FILE", help="Who vouches for the servers (TLS).")]
Collection = Annotated[str, typer.Option("--collection", metavar="NAME", help="With --nats: which collection.")]
Undo = Annotated[bool, typer.Option("--undo", help="Let it keep cells again.")]


def move(
    cell: CellNumber,
    node: NodeName,
    data: Data = None,
    nats: Nats = None,
    key: Key = None,
    ca: Ca = None,
    collection: Collection = "main",
) -> None:
    """Have another node keep a cell. It is handed over whole, and stays there until it is moved again."""

    async def deed(overrides: Overrides, alive: dict[str, NodeState], cells: int) -> str:
        from teia.clock import WallClock
        from teia.cluster.balance import Transfer
        from teia.cluster.overrides import CircleOrder, moved
        from teia.urls import cell_starts

        if not 0 <= cell < cells:
            raise UsageError(f"there is no cell {cell}; they are numbered from 0 to {cells - 1}")
        order = CircleOrder(cell_starts(cells), lambda: overrides.ring)
        keeper = next((name for name, state in alive.items() if str(cell) in state.cells), "")

        def decide(ring: Ring) -> Ring | None:
            if node in ring.drained:
                raise UsageError(f"{node} is drained; `teia cluster drain {node} --undo` lets it keep cells again")
            if order(cell, alive)[0] == node:
                return None
            circle = {number: order.by_circle(number, alive)[0] for number in range(cells)}
            transfer = Transfer(cell, keeper, node, "asked")
            return moved(ring, [transfer], circle.__getitem__, WallClock().now_s())

        if await overrides.change(decide):
            return f"cell {cell} goes from {keeper or 'nobody'} to {node}"
        return f"cell {cell} is {node}'s already"

    print(_do(deed, node, data, nats, key, ca, collection))


def drain(
    node: NodeName,
    undo: Undo = False,
    data: Data = None,
    nats: Nats = None,
    key: Key = None,
    ca: Ca = None,
    collection: Collection = "main",
) -> None:
    """Have a node give its cells to the others and take none; it goes on living. Stop it then, or --undo."""

    async def deed(overrides: Overrides, alive: dict[str, NodeState], _cells: int) -> str:
        from teia.cluster.overrides import drained

        def decide(ring: Ring) -> Ring | None:
            if not undo and not set(alive) - {node, *ring.drained}:
                raise UsageError(f"{node} cannot be drained: no other node would be left to keep its cells")
            return drained(ring, node, undo=undo)

        if not await overrides.change(decide):
            return f"{node} {'is not drained' if undo else 'is drained already'}"
        return f"{node} keeps cells again" if undo else f"{node} gives its {len(alive[node].cells)} cells to the others"

    print(_do(deed, node, data, nats, key, ca, collection))


Deed = Callable[["Overrides", dict[str, "NodeState"], int], Awaitable[str]]


def _do(
    deed: Deed, node: str, data: Path | None, nats: list[str] | None, key: Path | None, ca: Path | None, collection: str
) -> str:
    if (data is None) == (not nats):
        raise UsageError("give the folder of a local cluster (--data DIR) or the servers of another (--nats URL)")
    if data is not None:
        from teia.cluster.local import read_local

        local = read_local(data)
        nats, key, collection = local.urls, Path(local.key), local.collection
    logging.basicConfig(format="%(message)s", level=logging.ERROR)  # what goes wrong is told once, at the end
    return asyncio.run(_ask(deed, node, nats or [], key, ca, collection))


async def _ask(deed: Deed, node: str, nats: list[str], key: Path | None, ca: Path | None, collection: str) -> str:
    from teia.clock import WallClock
    from teia.cluster.agreement import agree
    from teia.cluster.overrides import Overrides
    from teia.cluster.status import node_states
    from teia.cluster.wire import connect

    wire, clock = await connect(nats, key, "change", ca=ca), WallClock()
    try:
        agreement = await agree(wire, clock, collection, None, 1)
        states = {state.name: state for state in await node_states(wire)}
        alive = {name: each for name, each in states.items() if each.is_alive and each.collection == collection}
        if node not in alive:
            raise UsageError(f"no node called {node!r} lives; there are {', '.join(sorted(alive)) or 'none'}")
        overrides = Overrides(wire, clock, collection, agreement.replicas)
        return await deed(overrides, alive, agreement.config.collection.cells)
    finally:
        await wire.end()
