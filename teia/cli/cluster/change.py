"""`teia cluster move`, `drain`, `split` and `set`: owners of cells and settings of all nodes, by command (A14)."""

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
    from teia.cluster.placing.cell_owners import OwnerOverrides, RingDocument

CellNumber = Annotated[
    int, typer.Argument(metavar="CELL", help="Number of the cell, as shown by `teia cluster status`.")
]
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="Name of a running node.")]
Data = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Folder of a cluster started by `teia cluster up`.")
]
Nats = Annotated[list[str] | None, typer.Option("--nats", metavar="URL", help="NATS server of any other cluster.")]
Key = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="File with the key for the NATS servers.")]
Ca = Annotated[
    Path | None, typer.Option("--ca", metavar="FILE", help="File with the CA certificate of the NATS servers (TLS).")
]
Collection = Annotated[str, typer.Option("--collection", metavar="NAME", help="Name of the collection, with --nats.")]
Wait = Annotated[
    float, typer.Option("--wait", metavar="S", min=0, help="Maximum time to wait for completion, in seconds.")
]
Undo = Annotated[bool, typer.Option("--undo", help="Let the node own cells again.")]
Settings = Annotated[
    list[str],
    typer.Argument(metavar="KEY=VALUE...", help="Setting and value: KEY=VALUE; KEY+=ITEM and KEY-=ITEM change lists."),
]

POLL_S = 0.5


def move(
    cell: CellNumber,
    node: NodeName,
    data: Data = None,
    nats: Nats = None,
    key: Key = None,
    ca: Ca = None,
    collection: Collection = "main",
) -> None:
    """Move a cell to another node. It stays there until it is moved again."""

    async def action(overrides: OwnerOverrides, alive: dict[str, NodeState], starts: tuple[int, ...]) -> str:
        from teia.clock import WallClock
        from teia.cluster.placing.balance import CellTransfer
        from teia.cluster.placing.cell_owners import CircleOrder, record_moves

        if not 0 <= cell < len(starts):
            raise UsageError(f"unknown cell {cell}; cells are numbered from 0 to {len(starts) - 1}")
        order = CircleOrder(starts, lambda: overrides.ring)
        owner = next((name for name, state in alive.items() if str(cell) in state.cells), "")

        # Called again with the newest ring if another command or node changed it meanwhile.
        def decide(ring: RingDocument) -> RingDocument | None:
            if node in ring.drained:
                raise UsageError(f"{node} is drained; undo it first with `teia cluster drain {node} --undo`")
            if order(cell, alive)[0] == node:
                return None
            circle = {number: order.by_circle(number, alive)[0] for number in range(len(starts))}
            transfer = CellTransfer(cell, owner, node, "asked")
            return record_moves(ring, [transfer], circle.__getitem__, WallClock().now_s())

        if await overrides.change(decide):
            return f"moving cell {cell} from {owner or 'nobody'} to {node}"
        return f"cell {cell} already belongs to {node}"

    print(_do(action, node, data, nats, key, ca, collection))


def drain(
    node: NodeName,
    undo: Undo = False,
    data: Data = None,
    nats: Nats = None,
    key: Key = None,
    ca: Ca = None,
    collection: Collection = "main",
) -> None:
    """Drain a node: it gives its cells to the others and takes none. Then stop it, or --undo."""

    async def action(overrides: OwnerOverrides, alive: dict[str, NodeState], _: tuple[int, ...]) -> str:
        from teia.cluster.placing.cell_owners import set_drained

        def decide(ring: RingDocument) -> RingDocument | None:
            # A live node that is not drained must remain to own the cells.
            if not undo and not set(alive) - {node, *ring.drained}:
                raise UsageError(f"{node} cannot be drained: it is the only node left")
            return set_drained(ring, node, undo=undo)

        if not await overrides.change(decide):
            return f"{node} {'is not drained' if undo else 'is already drained'}"
        return (
            f"{node} owns cells again"
            if undo
            else (f"draining {node}: its {len(alive[node].cells)} cells move to the others")
        )

    print(_do(action, node, data, nats, key, ca, collection))


def split(
    cell: CellNumber,
    data: Data = None,
    nats: Nats = None,
    key: Key = None,
    ca: Ca = None,
    collection: Collection = "main",
    wait_s: Wait = 120.0,
) -> None:
    """Split a cell in two. Its owner keeps crawling its other cells meanwhile; the circle places the new cell."""
    nats, key, collection = servers_of(data, nats, key, collection)
    print(asyncio.run(_split(cell, nats, key, ca, collection, wait_s)))


async def _split(cell: int, nats: list[str], key: Path | None, ca: Path | None, collection: str, wait_s: float) -> str:
    from teia.clock import WallClock
    from teia.cluster.cells.split import request_split
    from teia.cluster.members.agreement import agree, amend_agreement, current_agreement, nudge
    from teia.cluster.nats.wire import connect

    wire, clock = await connect(nats, key, "change", ca=ca), WallClock()
    try:
        # None: read the agreement of the running cluster, and never create one.
        before = await agree(wire, clock, collection, None, 1)
        now = await amend_agreement(
            wire, clock, collection, lambda agreement: request_split(agreement, cell), before.replicas
        )
        # The nodes read the change at once instead of at their next look.
        await nudge(wire, collection)
        # The new cell gets the next number.
        number, until = len(now.starts), clock.ticks_s() + wait_s
        # The owner clears this mark when it has split the cell, or has found that it cannot.
        while now.splitting == cell and clock.ticks_s() < until:
            await clock.sleep(POLL_S)
            now = await current_agreement(wire, clock, collection, before.replicas)
    finally:
        await wire.end()
    if now.splitting == cell:
        return f"the split of cell {cell} was requested; its owner has not executed it yet"
    if str(cell) in now.unsplit:
        raise ClusterError(f"cell {cell} was not split: {now.unsplit[str(cell)]}")
    return f"cell {cell} was split: its sites from slot {now.starts[number]} on are now in cell {number}"


def set_(
    settings: Settings,
    data: Data = None,
    nats: Nats = None,
    key: Key = None,
    ca: Ca = None,
    collection: Collection = "main",
) -> None:
    """Change the settings of all nodes, also while none runs, such as a limit that ended the crawl."""
    nats, key, collection = servers_of(data, nats, key, collection)
    print(asyncio.run(_set(settings, nats, key, ca, collection)))


async def _set(settings: list[str], nats: list[str], key: Path | None, ca: Path | None, collection: str) -> str:
    from teia.clock import WallClock
    from teia.cluster.crawl.settings import amend_settings
    from teia.cluster.members.agreement import agree, amend_agreement, nudge
    from teia.cluster.nats.wire import connect
    from teia.collections.settings import parse_edit
    from teia.config.load import toml_value
    from teia.config.tree import value_of

    edits = [parse_edit(each) for each in settings]
    wire, clock = await connect(nats, key, "change", ca=ca), WallClock()
    try:
        before = await agree(wire, clock, collection, None, 1)
        now = await amend_agreement(
            wire, clock, collection, lambda agreement: amend_settings(agreement, edits), before.replicas
        )
        await nudge(wire, collection)
    finally:
        await wire.end()
    keys = dict.fromkeys(edit.key for edit in edits)
    return "\n".join(
        f"{each}: {toml_value(value_of(before.config, each))} -> {toml_value(value_of(now.config, each))}"
        for each in keys
    )


Action = Callable[["OwnerOverrides", dict[str, "NodeState"], tuple[int, ...]], Awaitable[str]]


def _do(
    action: Action,
    node: str,
    data: Path | None,
    nats: list[str] | None,
    key: Path | None,
    ca: Path | None,
    collection: str,
) -> str:
    nats, key, collection = servers_of(data, nats, key, collection)
    return asyncio.run(_run_action(action, node, nats, key, ca, collection))


def servers_of(
    data: Path | None, nats: list[str] | None, key: Path | None, collection: str
) -> tuple[list[str], Path | None, str]:
    """Return the NATS servers, the key file and the collection of a command."""
    if (data is None) == (not nats):
        raise UsageError("missing cluster; use --data DIR for a local cluster, or --nats URL")
    if data is not None:
        from teia.cluster.local import read_local

        local = read_local(data)
        nats, key, collection = local.urls, Path(local.key), local.collection
    logging.basicConfig(format="%(message)s", level=logging.ERROR)  # an error is printed once, at the end
    return nats or [], key, collection


async def _run_action(
    action: Action, node: str, nats: list[str], key: Path | None, ca: Path | None, collection: str
) -> str:
    from teia.clock import WallClock
    from teia.cluster.members.agreement import agree
    from teia.cluster.nats.wire import connect
    from teia.cluster.placing.cell_owners import OwnerOverrides
    from teia.cluster.views.status import node_states

    wire, clock = await connect(nats, key, "change", ca=ca), WallClock()
    try:
        agreement = await agree(wire, clock, collection, None, 1)
        states = {state.name: state for state in await node_states(wire)}
        alive = {name: each for name, each in states.items() if each.is_alive and each.collection == collection}
        if node not in alive:
            raise UsageError(f"no node {node!r} is running; running nodes: {', '.join(sorted(alive)) or 'none'}")
        overrides = OwnerOverrides(wire, clock, collection, agreement.replicas)
        return await action(overrides, alive, agreement.starts)
    finally:
        await wire.end()
