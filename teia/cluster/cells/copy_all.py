"""Copy of all cells of a cluster into one folder, as they are now: for reports, SQL and exports over all nodes.

A cell's file follows from its log (open_cells.py). So every client that may read the log can build the file from the
last snapshot and the records after it, without a request to a node and without being one. A folder with earlier copies
gets only the new records. Fetched bodies and the Parquet files of the fetch log stay with the nodes that wrote them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop

from teia.clock import Clock
from teia.cluster.cells.copies import CellCopies
from teia.cluster.cells.log import CellLog
from teia.cluster.cells.open_cells import prepare_cells
from teia.cluster.cells.snapshots import Snapshots
from teia.cluster.cells.split import NotWhole, check_whole
from teia.cluster.members.agreement import agree, write_settings
from teia.cluster.members.shared_files import fetch_files
from teia.cluster.nats.objects import open_objects
from teia.cluster.nats.thread import LoopThread
from teia.cluster.nats.wire import Wire, connect
from teia.errors import ClusterError
from teia.store.root import Root

AT_ONCE = 4
"""Cells that are copied at the same time."""

TRIES, TRY_AGAIN_S = 5, 1.0
"""Tries when a cell is split during the copy: each reads the agreement again, which then has one more cell."""


@dataclass(frozen=True, slots=True)
class CopyResult:
    """Result of a copy: number of cells, and of commits read from logs in addition to the snapshots."""

    cells: int
    commits: int


async def replicate(
    root: Root, servers: Sequence[str], key: Path | None, ca: Path | None, collection: str, clock: Clock
) -> CopyResult:
    """Bring the copies in a folder, which the caller has locked, up to the present state of all cells."""
    with LoopThread(uvloop.new_event_loop()) as thread:
        return await thread.call(_replicate(thread, root, servers, key, ca, collection, clock))


async def _replicate(
    thread: LoopThread, root: Root, servers: Sequence[str], key: Path | None, ca: Path | None, collection: str,
    clock: Clock,
) -> CopyResult:  # fmt: skip
    wire = await connect(servers, key, "copy", ca=ca)
    try:
        for _ in range(TRIES):
            # A cell was split meanwhile: the agreement is read again, and has one cell more.
            with contextlib.suppress(NotWhole):
                return await _copy(wire, thread, root, servers, key, ca, collection, clock)
            await clock.sleep(TRY_AGAIN_S)
        raise ClusterError("a cell was split, and its owner has not reported it yet; copy again later")
    finally:
        await wire.end()


async def _copy(
    wire: Wire, thread: LoopThread, root: Root, servers: Sequence[str], key: Path | None, ca: Path | None,
    collection: str, clock: Clock,
) -> CopyResult:  # fmt: skip
    """Copy all cells of the agreement; NotWhole if one of them was split meanwhile."""
    objects = None
    try:
        agreement = await agree(wire, clock, collection, None, 1)
        folder = root.collection(agreement.config.collection.name)
        await fetch_files(wire, clock, collection, agreement.replicas, agreement.files, folder)
        config = write_settings(root, agreement)
        await asyncio.to_thread(prepare_cells, folder, len(agreement.starts), agreement.identity)
        folder.write_starts(agreement.starts)
        objects = await open_objects(
            config.cluster.snapshots, collection, clock, agreement.replicas,
            lambda: connect(servers, key, "copy snapshots", ca=ca),
        )  # fmt: skip
        snapshots = None if objects is None else Snapshots(objects, clock, agreement.identity)
        copies, limit = CellCopies(folder.cells(), thread, snapshots), asyncio.Semaphore(AT_ONCE)

        async def update_copy(cell: int) -> int:
            async with limit:
                log = CellLog(wire, clock, collection, cell, "copy", "")
                head = await log.head()
                commits = 0 if head is None else await copies.follow(log, head.seq)
                await asyncio.to_thread(check_whole, copies.folders[cell], agreement.starts)
                return commits

        commits = await asyncio.gather(*(update_copy(cell) for cell in range(len(agreement.starts))))
        return CopyResult(len(commits), sum(commits))
    finally:
        if objects is not None:
            await objects.close()
