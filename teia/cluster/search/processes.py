"""A node's index and its answers, as the node manages them: two processes that get the list of cells it owns.

The librarian (search_process.py) lives as long as the node and answers searches. The indexer is started for each shift,
with the cells of the shift, when the librarian has fetched what it can of pages whose captures lie elsewhere. The node
waits for neither: a node that cannot be searched continues to crawl. A librarian that died is started again with the
next shift.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from teia.clock import Clock
from teia.cluster.cells.log import CellLog
from teia.cluster.nats.servers import write_private
from teia.cluster.search.messages import (
    BORROW_S,
    LINGER_AT_MOST_S,
    MAX_LINE_BYTES,
    CellOwnership,
    LibrarianSettings,
    OwnedCells,
    ReadyCells,
)
from teia.config.sections import Config
from teia.indexer.keep_process import IndexerProcess
from teia.lib.child_process import PIPE, ChildProcess
from teia.lib.entry_points import command_of
from teia.lib.undecodable import UNDECODABLE
from teia.store.root import Root

REPORT_S = 2.0
END_S = 5.0
_encode = msgspec.json.Encoder().encode
_log = logging.getLogger(__name__)


def run_librarian(arguments: Sequence[str]) -> int:
    """Be the librarian process."""
    from teia.cluster.search.search_process import main  # the node itself does not search

    return main(arguments)


def librarian_file(root: Root, collection: str) -> Path:
    """Return the file with the addresses of the cluster, for searches in a node's folder.

    Readable by its owner alone.
    """
    return root.collection(collection).path / "search.json"


def read_librarian_settings(root: Root, collection: str) -> LibrarianSettings | None:
    """Return the addresses of the cluster whose node runs in this folder; None if none does."""
    try:
        settings = msgspec.json.decode(librarian_file(root, collection).read_bytes(), type=LibrarianSettings)
    except (OSError, *UNDECODABLE):
        return None
    return None if root.lock_holder() is None else settings


class NodeIndex:
    """The index of one node; it does nothing if the collection has no index."""

    def __init__(self, root: Root, config: Config, settings: LibrarianSettings, clock: Clock) -> None:
        self._root = root
        self._config = config
        self._settings = settings
        self._clock = clock
        self._process: ChildProcess | None = None
        self._input: asyncio.WriteTransport | None = None
        self._listening: asyncio.Task[None] | None = None
        self._ready: frozenset[int] = frozenset()
        self._reported: tuple[CellOwnership, ...] = ()
        self._report_at = 0.0
        self._has_changed = asyncio.Event()
        write_private(librarian_file(root, settings.collection), _encode(settings))

    @property
    def is_enabled(self) -> bool:
        return self._config.index.enabled

    # -- the librarian -------------------------------------------------------------------------------------

    async def _start(self) -> None:
        """Start the librarian, unless it runs."""
        if not self.is_enabled or (self._process is not None and self._process.status is None):
            return
        self._process = ChildProcess(command_of(run_librarian), stdin=PIPE, stdout=PIPE)
        self._ready, self._reported = frozenset(), ()
        self._input = await self._process.connect_input()
        self._input.write(_encode(self._settings) + b"\n")
        self._listening = asyncio.get_running_loop().create_task(self._listen(self._process))

    async def _listen(self, process: ChildProcess) -> None:
        async for line in process.lines(MAX_LINE_BYTES):
            with contextlib.suppress(*UNDECODABLE):
                self._ready = frozenset(msgspec.json.decode(line, type=ReadyCells).ready)
                self._has_changed.set()
        # The process has ended: waiting for it would be in vain.
        self._has_changed.set()

    def report_cells(self, logs: Mapping[int, CellLog]) -> None:
        """Report the owned cells: at once if they changed, now and then if only their logs have grown."""
        owned = tuple(CellOwnership(cell, log.epoch, log.last) for cell, log in sorted(logs.items()))
        has_changed = [(each.cell, each.epoch) for each in owned] != [
            (each.cell, each.epoch) for each in self._reported
        ]
        now = self._clock.ticks_s()
        if self._input is None or not (has_changed or (owned != self._reported and now >= self._report_at)):
            return
        self._reported, self._report_at = owned, now + REPORT_S
        if not self._input.is_closing():
            self._input.write(_encode(OwnedCells(owned)) + b"\n")

    async def restart(self) -> None:
        """Replace the librarian: it knows only the cells that existed at its start."""
        if self._process is not None:
            await self.close(lambda: True)
            await self._start()

    async def close(self, is_hurried: Callable[[], bool]) -> None:
        """End the librarian. Unless hurried it may stay a little, so that others can fetch pages from here."""
        process, self._process, self._input = self._process, None, None
        if process is None:
            return
        process.close_input()
        await process.end_async(LINGER_AT_MOST_S + END_S, is_hurried)
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])

    # -- the indexer ---------------------------------------------------------------------------------------

    @asynccontextmanager
    async def shift(self, logs: Mapping[int, CellLog], is_over: Callable[[], bool]) -> AsyncIterator[None]:
        """Index these cells for the `with` block; if all is over then, also what is left of them."""
        if not self.is_enabled:
            yield
            return
        await self._start()
        self.report_cells(logs)
        indexing = asyncio.get_running_loop().create_task(self._start_indexer(frozenset(logs)))
        try:
            yield
        finally:
            # If all is over, even an indexer that has not begun yet has work to do.
            indexer = await self._started_indexer(indexing, wait=is_over())
            if indexer is not None:
                if is_over():
                    await indexer.finish()
                if indexer.error:
                    _log.warning("not all pages could be indexed: %s", indexer.error)
                await indexer.kill()

    @staticmethod
    async def _started_indexer(indexing: asyncio.Task[IndexerProcess | None], *, wait: bool) -> IndexerProcess | None:
        """Return the indexer, if it was started."""
        if not wait and not indexing.done():
            indexing.cancel()
        await asyncio.wait([indexing])
        return None if indexing.cancelled() else indexing.result()

    async def _start_indexer(self, cells: frozenset[int]) -> IndexerProcess | None:
        """Start the indexer when the librarian has fetched what there is."""
        until = self._clock.ticks_s() + BORROW_S
        while not cells <= self._ready and self._clock.ticks_s() < until:
            if self._process is None or self._process.status is not None:
                break
            self._has_changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REPORT_S):
                    await self._has_changed.wait()
        return await IndexerProcess.start(self._root, [self._config], cells)
