"""`teia cluster move`, `drain`, `split`, `set` and `copy`: cells and settings of all nodes, by command (A14)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teia.cli.cluster.connection import ClusterAddress, on_cluster
from teia.cli.options import Settings
from teia.clock import WallClock
from teia.errors import ClusterError, UsageError

if TYPE_CHECKING:
    from teia.cluster.members.session import NodeState
    from teia.cluster.placing.cell_owners import OwnerOverrides, RingDocument

CellNumber = Annotated[
    int, typer.Argument(metavar="CELL", help="Number of the cell, as shown by `teia cluster status`.")
]
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="Name of a running node.")]
Wait = Annotated[
    float, typer.Option("--wait", metavar="S", min=0, help="Maximum time to wait for completion, in seconds.")
]
Undo = Annotated[bool, typer.Option("--undo", help="Let the node own cells again.")]

POLL_S = 0.5


@on_cluster
def move(address: ClusterAddress, cell: CellNumber, node: NodeName) -> None:
    """Move a cell to another node. It stays there until it is moved again."""

    async def action(overrides: OwnerOverrides, alive: dict[str, NodeState], starts: tuple[int, ...]) -> str:
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
            return f"moving cell {cell} from {owner or 'no owner'} to {node}"
        return f"cell {cell} already belongs to {node}"

    print(asyncio.run(_run_action(address, action, node)))


@on_cluster
def drain(address: ClusterAddress, node: NodeName, undo: Undo = False) -> None:
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

    print(asyncio.run(_run_action(address, action, node)))


@on_cluster
def split(address: ClusterAddress, cell: CellNumber, wait_s: Wait = 120.0) -> None:
    """Split a cell in two. Its owner keeps crawling its other cells meanwhile; the circle places the new cell."""
    print(asyncio.run(_split(address, cell, wait_s)))


async def _split(address: ClusterAddress, cell: int, wait_s: float) -> str:
    from teia.cluster.cells.split import request_split
    from teia.cluster.members.agreement import agree, amend_agreement, current_agreement, nudge

    clock, collection = WallClock(), address.collection
    async with address.connect("change") as wire:
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
    if now.splitting == cell:
        return f"the split of cell {cell} was requested; its owner has not executed it yet"
    if str(cell) in now.unsplit:
        raise ClusterError(f"cell {cell} was not split: {now.unsplit[str(cell)]}")
    return f"cell {cell} was split: its sites from slot {now.starts[number]} on are now in cell {number}"


@on_cluster
def set_(address: ClusterAddress, settings: Settings) -> None:
    """Change the settings of all nodes, also while none runs, such as a limit that ended the crawl."""
    print(asyncio.run(_set(address, settings)))


async def _set(address: ClusterAddress, settings: list[str]) -> str:
    from teia.cluster.crawl.settings import amend_settings, share_new_files
    from teia.cluster.members.agreement import agree, amend_agreement, nudge
    from teia.collections.settings import parse_edit
    from teia.config.load import toml_value
    from teia.config.tree import value_of
    from teia.store.root import Root

    edits, clock, collection = [parse_edit(each) for each in settings], WallClock(), address.collection
    async with address.connect("change") as wire:
        before = await agree(wire, clock, collection, None, 1)
        # Files that the settings name are read on this machine; there is no data folder.
        edits, files = await share_new_files(wire, clock, collection, before, Root(Path()), edits)
        now = await amend_agreement(
            wire, clock, collection, lambda agreement: amend_settings(agreement, edits, files), before.replicas
        )
        await nudge(wire, collection)
    keys = dict.fromkeys(edit.key for edit in edits)
    return "\n".join(
        f"{each}: {toml_value(value_of(before.config, each))} -> {toml_value(value_of(now.config, each))}"
        for each in keys
    )


Action = Callable[["OwnerOverrides", dict[str, "NodeState"], tuple[int, ...]], Awaitable[str]]


async def _run_action(address: ClusterAddress, action: Action, node: str) -> str:
    from teia.cluster.members.agreement import agree
    from teia.cluster.placing.cell_owners import OwnerOverrides
    from teia.cluster.views.status import node_states

    clock, collection = WallClock(), address.collection
    async with address.connect("change") as wire:
        agreement = await agree(wire, clock, collection, None, 1)
        states = {state.name: state for state in await node_states(wire)}
        alive = {name: each for name, each in states.items() if each.is_alive and each.collection == collection}
        if node not in alive:
            raise UsageError(f"no node {node!r} is running; running nodes: {', '.join(sorted(alive)) or 'none'}")
        overrides = OwnerOverrides(wire, clock, collection, agreement.replicas)
        return await action(overrides, alive, agreement.starts)


To = Annotated[Path, typer.Option("--to", metavar="DIR", help="Destination folder; created if it does not exist.")]


@on_cluster
def copy(address: ClusterAddress, to: To) -> None:
    """Copy the data of all nodes into one folder, for reports, SQL and exports; repeated runs copy what is new.

    Example: teia cluster copy --to all --data try && teia report hosts --data all
    """
    from teia.cluster.cells.copy_all import replicate
    from teia.store.root import open_root

    root = open_root(to, create=True)
    # A second copy into the same folder would mix its writes with these.
    with root.locked():
        servers, key, ca, collection = address.servers, address.key, address.ca, address.collection
        done = asyncio.run(replicate(root, servers, key, ca, collection, WallClock()))
    print(f"{done.cells} cells copied to {to}, up to date; {done.commits:,} commits read")
