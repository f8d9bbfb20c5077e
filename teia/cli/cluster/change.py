"""`teia cluster move`, `drain`, `split` and `set`: who keeps what, and what all go by, by decree (A14)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teia.errors import ClusterError, UsageError

if TYPE_CHECKING:
    from teia.cluster.members.session import NodeState
    from teia.cluster.placing.cell_owners import Overrides, Ring

CellNumber = Annotated[int, typer.Argument(metavar="CELL", help="Its number, as `teia cluster status` shows it.")]
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="A node that lives.")]
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="A cluster that `teia cluster up` started.")]
Nats = Annotated[list[str] | None, typer.Option("--nats", metavar="URL", help="A NATS server of any other cluster.")]
Key = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="The key that NATS lets us in with.")]
Ca = Annotated[Path | None, typer.Option("--ca", metavar="FILE", help="Who vouches for the servers (TLS).")]
Collection = Annotated[str, typer.Option("--collection", metavar="NAME", help="With --nats: which collection.")]
Wait = Annotated[float, typer.Option("--wait", metavar="S", min=0, help="How long to wait until it is done.")]
Undo = Annotated[bool, typer.Option("--undo", help="Let it keep cells again.")]
Settings = Annotated[
    list[str], typer.Argument(metavar="KEY=VALUE...", help="A setting and its value; += and -= change lists.")
]

LOOK_S = 0.5


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

    async def deed(overrides: Overrides, alive: dict[str, NodeState], starts: tuple[int, ...]) -> str:
        from teia.clock import WallClock
        from teia.cluster.placing.balance import Transfer
        from teia.cluster.placing.cell_owners import CircleOrder, moved

        if not 0 <= cell < len(starts):
            raise UsageError(f"there is no cell {cell}; they are numbered from 0 to {len(starts) - 1}")
        order = CircleOrder(starts, lambda: overrides.ring)
        keeper = next((name for name, state in alive.items() if str(cell) in state.cells), "")

        def decide(ring: Ring) -> Ring | None:
            if node in ring.drained:
                raise UsageError(f"{node} is drained; `teia cluster drain {node} --undo` lets it keep cells again")
            if order(cell, alive)[0] == node:
                return None
            circle = {number: order.by_circle(number, alive)[0] for number in range(len(starts))}
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

    async def deed(overrides: Overrides, alive: dict[str, NodeState], _: tuple[int, ...]) -> str:
        from teia.cluster.placing.cell_owners import drained

        def decide(ring: Ring) -> Ring | None:
            if not undo and not set(alive) - {node, *ring.drained}:
                raise UsageError(f"{node} cannot be drained: no other node would be left to keep its cells")
            return drained(ring, node, undo=undo)

        if not await overrides.change(decide):
            return f"{node} {'is not drained' if undo else 'is drained already'}"
        return f"{node} keeps cells again" if undo else f"{node} gives its {len(alive[node].cells)} cells to the others"

    print(_do(deed, node, data, nats, key, ca, collection))


def split(
    cell: CellNumber,
    data: Data = None,
    nats: Nats = None,
    key: Key = None,
    ca: Ca = None,
    collection: Collection = "main",
    wait_s: Wait = 120.0,
) -> None:
    """Divide a cell in two. Its keeper does it, crawling its other cells meanwhile; the new cell goes by the circle."""
    nats, key, collection = servers_of(data, nats, key, collection)
    print(asyncio.run(_split(cell, nats, key, ca, collection, wait_s)))


async def _split(cell: int, nats: list[str], key: Path | None, ca: Path | None, collection: str, wait_s: float) -> str:
    from teia.clock import WallClock
    from teia.cluster.cells.split import wish
    from teia.cluster.members.agreement import agree, amend_agreement, current_agreement, nudge
    from teia.cluster.nats.wire import connect

    wire, clock = await connect(nats, key, "change", ca=ca), WallClock()
    try:
        before = await agree(wire, clock, collection, None, 1)
        now = await amend_agreement(wire, clock, collection, lambda said: wish(said, cell), before.replicas)
        await nudge(wire, collection)
        number, until = len(now.starts), clock.ticks_s() + wait_s
        while now.splitting == cell and clock.ticks_s() < until:
            await clock.sleep(LOOK_S)
            now = await current_agreement(wire, clock, collection, before.replicas)
    finally:
        await wire.end()
    if now.splitting == cell:
        return f"cell {cell} is to be split; its keeper has not done it yet"
    if str(cell) in now.unsplit:
        raise ClusterError(f"cell {cell} was not split: {now.unsplit[str(cell)]}")
    return f"cell {cell} is split: from slot {now.starts[number]} on its sites are in cell {number}"


def set_(
    settings: Settings,
    data: Data = None,
    nats: Nats = None,
    key: Key = None,
    ca: Ca = None,
    collection: Collection = "main",
) -> None:
    """Change what all nodes go by, also while none runs: a limit that made them leave can be raised."""
    nats, key, collection = servers_of(data, nats, key, collection)
    print(asyncio.run(_set(settings, nats, key, ca, collection)))


async def _set(settings: list[str], nats: list[str], key: Path | None, ca: Path | None, collection: str) -> str:
    from teia.clock import WallClock
    from teia.cluster.crawl.settings import amended
    from teia.cluster.members.agreement import agree, amend_agreement, nudge
    from teia.cluster.nats.wire import connect
    from teia.collections.edits import parse_edit
    from teia.config.load import toml_value
    from teia.config.tree import value_of

    edits = [parse_edit(each) for each in settings]
    wire, clock = await connect(nats, key, "change", ca=ca), WallClock()
    try:
        before = await agree(wire, clock, collection, None, 1)
        now = await amend_agreement(wire, clock, collection, lambda said: amended(said, edits), before.replicas)
        await nudge(wire, collection)
    finally:
        await wire.end()
    keys = dict.fromkeys(edit.key for edit in edits)
    return "\n".join(
        f"{each}: {toml_value(value_of(before.config, each))} -> {toml_value(value_of(now.config, each))}"
        for each in keys
    )


Deed = Callable[["Overrides", dict[str, "NodeState"], tuple[int, ...]], Awaitable[str]]


def _do(
    deed: Deed, node: str, data: Path | None, nats: list[str] | None, key: Path | None, ca: Path | None, collection: str
) -> str:
    nats, key, collection = servers_of(data, nats, key, collection)
    return asyncio.run(_ask(deed, node, nats, key, ca, collection))


def servers_of(
    data: Path | None, nats: list[str] | None, key: Path | None, collection: str
) -> tuple[list[str], Path | None, str]:
    """Whom to talk to, with which key, about which collection."""
    if (data is None) == (not nats):
        raise UsageError("give the folder of a local cluster (--data DIR) or the servers of another (--nats URL)")
    if data is not None:
        from teia.cluster.local import read_local

        local = read_local(data)
        nats, key, collection = local.urls, Path(local.key), local.collection
    logging.basicConfig(format="%(message)s", level=logging.ERROR)  # what goes wrong is told once, at the end
    return nats or [], key, collection


async def _ask(deed: Deed, node: str, nats: list[str], key: Path | None, ca: Path | None, collection: str) -> str:
    from teia.clock import WallClock
    from teia.cluster.members.agreement import agree
    from teia.cluster.nats.wire import connect
    from teia.cluster.placing.cell_owners import Overrides
    from teia.cluster.views.status import node_states

    wire, clock = await connect(nats, key, "change", ca=ca), WallClock()
    try:
        agreement = await agree(wire, clock, collection, None, 1)
        states = {state.name: state for state in await node_states(wire)}
        alive = {name: each for name, each in states.items() if each.is_alive and each.collection == collection}
        if node not in alive:
            raise UsageError(f"no node called {node!r} lives; there are {', '.join(sorted(alive)) or 'none'}")
        overrides = Overrides(wire, clock, collection, agreement.replicas)
        return await deed(overrides, alive, agreement.starts)
    finally:
        await wire.end()
