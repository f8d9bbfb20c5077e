"""CDXJ beside every closed WARC file, made while the crawl goes on.

Making an index reads and inflates a whole file: that is done by a process of its own, one file at a time and with low
priority, so that neither the loop nor the commit thread waits for it. What was closed while nobody looked (a crash, a
stop) is caught up with at the next start. An index is whole or not there, so the process may be ended at any time.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from teia.clock import Clock
from teia.crawl.cells import Cell
from teia.errors import StoreError
from teia.store.cdxj import unindexed

LOOK_S = 2.0
MAX_S = 3_600.0


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
    """Look at the name of each cell's open file; another one means that a file was closed."""
    looked_at: dict[int, str] = {}
    while True:
        for number, cell in enumerate(cells):
            open_file = cell.archive.position.file
            if looked_at.get(number) != open_file:
                looked_at[number] = open_file
                # A file that cannot be indexed now, for want of room or because it is damaged, is tried at the next
                # start; the audit says what is wrong with it.
                with suppress(StoreError):
                    for path in await asyncio.to_thread(unindexed, cell.folder.archive, open_file):
                        await _index(path)
        await clock.sleep(LOOK_S)


async def _index(path: Path) -> None:
    """Run the process that writes one index; it ends with us."""
    devnull = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "teia.store.cdxj", str(path), stdin=devnull, stdout=devnull, stderr=devnull
    )
    try:
        async with asyncio.timeout(MAX_S):
            await process.wait()
    except TimeoutError:
        pass
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
