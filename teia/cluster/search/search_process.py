"""The process of a node that answers searches and fetches data for its index from other nodes.

It is a process of its own, so that a busy crawl does not slow searches down, nor searches the crawl. The node writes
lines of JSON to it: first its identity and servers (`LibrarianSettings`), then, at every change and every few seconds,
the cells it owns (`OwnedCells`). For new cells it fetches entries of pages whose captures are elsewhere, and then
writes a line (`ReadyCells`), so that the indexer can begin with them. It ends with the node. When a node leaves cleanly
it stays a little longer, so that the new owners of its cells can fetch pages from here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from teia.clock import Clock, WallClock
from teia.cluster.nats.wire import connect
from teia.cluster.search.answer import Answerer
from teia.cluster.search.fetch_for_index import IndexDataFetcher
from teia.cluster.search.give_for_index import IndexDataServer
from teia.cluster.search.messages import (
    BORROW_S,
    LINGER_AT_MOST_S,
    MAX_LINE_BYTES,
    CellOwnership,
    LibrarianSettings,
    OwnedCells,
    ReadyCells,
)
from teia.errors import TeiaError
from teia.lib.undecodable import UNDECODABLE
from teia.store.root import open_root

LINGER_S = 5.0
POLL_S = 0.25
_log = logging.getLogger(__name__)


class Librarian:
    """The work of the process: answering, fetching, borrowing; see the module."""

    def __init__(self, answerer: Answerer, fetcher: IndexDataFetcher, server: IndexDataServer, clock: Clock) -> None:
        self._answerer = answerer
        self._fetcher = fetcher
        self._server = server
        self._clock = clock
        self._owned: dict[int, CellOwnership] = {}

    async def serve(self, lines: asyncio.StreamReader, gather_s: float) -> None:
        """Follow the node's messages until its pipe is closed."""
        # The fetcher sees the same dictionary, which `_update_cells` changes in place.
        fetching = asyncio.create_task(self._fetcher.fetch_forever(self._owned, gather_s))
        try:
            while line := await lines.readline():
                try:
                    await self._update_cells(msgspec.json.decode(line, type=OwnedCells))
                except (TeiaError, OSError, *UNDECODABLE) as error:
                    _log.warning("cells not opened for search: %s", error)
        finally:
            fetching.cancel()
            await asyncio.wait([fetching])
        with contextlib.suppress(TeiaError, OSError):
            await self._linger()

    async def _linger(self) -> None:
        """Give up all cells, and stay until no pages are requested any more, if other nodes are present."""
        # No more searches from here on; pages are still given.
        await self._answerer.set_cells({})
        began = self._clock.ticks_s()
        if not await self._fetcher.others():
            return
        while True:
            now = self._clock.ticks_s()
            requested_at = max(began, self._server.requested_at or began)
            if now - requested_at >= LINGER_S or now - began >= LINGER_AT_MOST_S:
                return
            await self._clock.sleep(POLL_S)

    async def _update_cells(self, message: OwnedCells) -> None:
        cells = {owned.cell: owned for owned in message.cells}
        new = sorted(cells.keys() - self._owned.keys())
        self._owned.clear()
        self._owned.update(cells)
        await self._answerer.set_cells(cells)
        if not new:
            return
        # The indexer waits for this, but not for ever.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BORROW_S):
                for cell in new:
                    await self._borrow(cell)
        print(msgspec.json.encode(ReadyCells(tuple(sorted(cells)))).decode(), flush=True)

    async def _borrow(self, cell: int) -> None:
        try:
            await self._fetcher.borrow(cell)
        except (TeiaError, OSError) as error:
            _log.warning("cell=%d pages not fetched: %s", cell, error)


async def _main(clock: Clock) -> None:
    lines = asyncio.StreamReader(MAX_LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    settings = msgspec.json.decode(await lines.readline(), type=LibrarianSettings)
    root = open_root(Path(settings.data))
    key, ca = (None if each is None else Path(each) for each in (settings.key, settings.ca))
    wire = await connect(settings.servers, key, f"{settings.node} search", ca=ca)
    server = IndexDataServer(root, settings.collection, clock)
    answerer = Answerer(wire, clock, root, settings.collection, settings.node, server, settings.shared)
    fetcher = IndexDataFetcher(wire, clock, root, settings.collection, settings.shared, settings.node)
    try:
        await answerer.start()
        await Librarian(answerer, fetcher, server, clock).serve(lines, settings.gather_s)
    finally:
        await answerer.close()
        await wire.end()


def main(_: Sequence[str]) -> int:
    """Run the librarian; its settings come on standard input."""
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("teia.cluster").setLevel(logging.INFO)
    import uvloop

    try:
        uvloop.run(_main(WallClock()))
    except TeiaError as error:
        print(f"teia: {error}", file=sys.stderr, flush=True)
        return 1
    return 0
