"""All cells of a cluster copied into one folder, as they are now: for reports, SQL and exports over all nodes.

A cell's file is what its log says (cells.py), and anybody who may read the log can have it: from the last snapshot and
the records after it, without asking a node and without being one. A folder that has copies from before is brought up
by what is new. Answers and Parquet files of the fetch log stay with the nodes that wrote them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop

from teia.clock import Clock
from teia.cluster.agreement import agree, write_down
from teia.cluster.cells import prepare
from teia.cluster.copies import Copies
from teia.cluster.journal import CellLog
from teia.cluster.objects import open_objects
from teia.cluster.snapshots import Snapshots
from teia.cluster.thread import LoopThread
from teia.cluster.wire import connect
from teia.store.root import Root

AT_ONCE = 4
"""Cells that are copied at the same time."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What was copied: cells, and commits that were read from logs, beside what snapshots had."""

    cells: int
    commits: int


async def replicate(
    root: Root, servers: Sequence[str], key: Path | None, ca: Path | None, collection: str, clock: Clock
) -> Copied:
    """Bring the copies of a folder, which the caller has locked, up to what all cells are now."""
    with LoopThread(uvloop.new_event_loop()) as thread:
        return await thread.call(_replicate(thread, root, servers, key, ca, collection, clock))


async def _replicate(
    thread: LoopThread, root: Root, servers: Sequence[str], key: Path | None, ca: Path | None, collection: str,
    clock: Clock,
) -> Copied:  # fmt: skip
    wire = await connect(servers, key, "copy", ca=ca)
    objects = None
    try:
        agreement = await agree(wire, clock, collection, None, 1)
        config = write_down(root, agreement)
        folder = root.collection(config.collection.name)
        await asyncio.to_thread(prepare, folder, len(agreement.starts), agreement.identity)
        folder.write_starts(agreement.starts)
        objects = await open_objects(
            config.cluster.snapshots, collection, clock, agreement.replicas,
            lambda: connect(servers, key, "copy snapshots", ca=ca),
        )  # fmt: skip
        snapshots = None if objects is None else Snapshots(objects, clock, agreement.identity)
        copies, places = Copies(folder.cells(), thread, snapshots), asyncio.Semaphore(AT_ONCE)

        async def bring(cell: int) -> int:
            async with places:
                log = CellLog(wire, clock, collection, cell, "copy", "")
                head = await log.head()
                return 0 if head is None else await copies.follow(log, head.seq)

        commits = await asyncio.gather(*(bring(cell) for cell in range(len(agreement.starts))))
        return Copied(len(commits), sum(commits))
    finally:
        if objects is not None:
            await objects.close()
        await wire.end()
