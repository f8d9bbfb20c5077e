"""CDXJ beside every closed WARC file, made while the crawl continues.

Making an index reads and inflates a whole file. A separate process does that, one file at a time and with low priority,
so that neither the loop nor the commit thread waits for it. Files that were closed without an index (a crash, a stop)
are indexed at the next start. An index is whole or absent, so the process may be ended at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from teia.clock import Clock
from teia.crawler.open_cell import Cell
from teia.errors import StoreError
from teia.lib.child_process import DEVNULL, ChildProcess
from teia.lib.entry_points import command_of
from teia.store.cdxj import main, unindexed_files

CHECK_S = 2.0
MAX_S = 3_600.0
LOW_PRIORITY = 10


@asynccontextmanager
async def indexing(cells: Sequence[Cell], clock: Clock) -> AsyncIterator[None]:
    """Index the WARC files that are closed, and those that will be, until the block ends."""
    task = asyncio.create_task(_index_closed(cells, clock))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _index_closed(cells: Sequence[Cell], clock: Clock) -> None:
    """Watch the name of each cell's open file; a new name means that a file was closed."""
    last_open: dict[int, str] = {}
    while True:
        for number, cell in enumerate(cells):
            open_file = cell.archive.position.file
            if last_open.get(number) != open_file:
                last_open[number] = open_file
                # A file that cannot be indexed now, because the disk is full or the file is damaged, is tried again at
                # the next start; the audit reports the damage.
                with suppress(StoreError):
                    for path in await asyncio.to_thread(unindexed_files, cell.folder.archive, open_file):
                        await _index(path)
        await clock.sleep(CHECK_S)


async def _index(path: Path) -> None:
    """Run the process that writes one index; it is killed when the crawler stops."""
    process = ChildProcess(command_of(main, str(path)), stdout=DEVNULL, stderr=DEVNULL, nice=LOW_PRIORITY)
    # Stopped or timed out: an index is whole or absent, so killing loses nothing.
    await process.end_async(MAX_S)
