"""Answers of a node to searches in the cells it owns.

The cells are searched as one index (index/union.py), in threads, because a search cannot be interrupted. A question
that waits longer than its sender does is dropped; one that comes while too many wait is refused at once. If some of the
requested cells have moved away, the answer covers the others and names those it covers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from teia.clock import Clock
from teia.cluster.nats.wire import Wire
from teia.cluster.search.messages import (
    SEARCH,
    VERSION,
    CellOwnership,
    NodePresence,
    SearchReply,
    SearchRequest,
    cell_subject,
    decode,
    encode,
    format_cells,
    node_subject,
    presence_subject,
)
from teia.crawler.lookup import Lookup
from teia.errors import ClusterError, IndexFailure, TeiaError
from teia.index.union import UnionReader
from teia.indexer.open_search import CollectionRanks, FrontierFacts
from teia.indexer.ranks import rank_file
from teia.search.serve.shard_server import ShardServer
from teia.search.serve.shards import LocalShard
from teia.store.root import Root

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

THREADS = 4
MAX_WAITING = 64
"""Most questions under way or waiting for a thread; beyond that a node answers that it is busy."""

MAX_SETS = 2
"""Sets of cells that stay open: the owned cells, and those that a gateway still requests after a change.

Beyond them only sets that a thread is searching are open.
"""

DataHandler = Callable[[SearchRequest], bytes]
"""Function that answers other requests of nodes than searches (give_for_index.py); called in a thread."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Opened:
    """Some cells, open for search; closed when they are put away and no thread uses them any more."""

    serving: ShardServer
    stack: ExitStack
    users: int = 0
    is_evicted: bool = False

    def close_unused(self) -> None:
        if self.is_evicted and not self.users:
            self.stack.close()


class Answerer:
    """One node's answers about one collection; `set_cells` is called whenever the owned cells or their logs change."""

    def __init__(
        self,
        wire: Wire,
        clock: Clock,
        root: Root,
        collection: str,
        node: str,
        serve_data: DataHandler | None = None,
        shared: str = "",
    ) -> None:
        """Set up; `shared` is the collection's name in the cluster, if it differs from that of its folder."""
        self._wire = wire
        self._clock = clock
        self._root = root
        self._collection = collection
        self._shared = shared or collection
        self._node = node
        self._serve_data = serve_data
        self._folders = {folder.number: folder for folder in root.collection(collection).cells()}
        self._owned: dict[int, CellOwnership] = {}
        self._opened: dict[frozenset[int], _Opened] = {}
        self._lock = Lock()
        self._threads = ThreadPoolExecutor(THREADS, "answers")
        self._subscriptions: dict[str, Subscription] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting = 0

    async def start(self) -> None:
        """Begin to answer."""
        await self._listen(presence_subject(self._shared), self._report_presence)
        await self._listen(node_subject(self._shared, self._node), self._accept)

    async def set_cells(self, owned: Mapping[int, CellOwnership]) -> None:
        """Answer for these cells from now on, and for no others."""
        before, self._owned = set(self._owned), {cell: each for cell, each in owned.items() if cell in self._folders}
        for cell in sorted(set(self._owned) - before):
            await self._listen(cell_subject(self._shared, cell), self._accept)
        for cell in sorted(before - set(self._owned)):
            await self._end(cell_subject(self._shared, cell))
        if set(self._owned) != before:
            loop = asyncio.get_running_loop()
            # In a thread, because opening reads many files.
            await loop.run_in_executor(self._threads, self._open_ahead, frozenset(self._owned))

    @property
    def owned(self) -> dict[int, CellOwnership]:
        return self._owned

    async def close(self) -> None:
        for subject in list(self._subscriptions):
            await self._end(subject)
        for task in self._tasks:
            task.cancel()
        self._threads.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            self._close_all_but(0)

    async def _listen(self, subject: str, callback: Callable[[Msg], Awaitable[None]]) -> None:
        self._subscriptions[subject] = await self._wire.request(self._wire.client.subscribe(subject, cb=callback))

    async def _end(self, subject: str) -> None:
        subscription = self._subscriptions.pop(subject, None)
        if subscription is not None:
            with contextlib.suppress(Exception):  # without NATS there is nothing to unsubscribe from
                await self._wire.request(subscription.unsubscribe())

    # -- messages ------------------------------------------------------------------------------------------

    async def _report_presence(self, message: Msg) -> None:
        """Report this node and its cells."""
        presence = NodePresence(VERSION, self._node, tuple(self._owned.values()), len(self._folders))
        await self._respond(message, encode(presence))

    async def _accept(self, message: Msg) -> None:
        """Accept a question, and answer it later from a thread, so that others can be accepted meanwhile."""
        if self._waiting >= MAX_WAITING:
            await self._respond(message, encode(SearchReply(VERSION, self._node, error="it is busy; try again")))
            return
        self._waiting += 1
        self._threads.submit(self._answer, message, self._clock.ticks_s(), asyncio.get_running_loop())

    def _send_answer(self, message: Msg, octets: bytes | None) -> None:
        """Send an answer that a thread has made."""
        self._waiting -= 1
        if octets is not None:
            task = asyncio.get_running_loop().create_task(self._respond(message, octets))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _respond(self, message: Msg, octets: bytes) -> None:
        if message.reply:
            with contextlib.suppress(Exception):  # the sender will notice
                await self._wire.client.publish(message.reply, octets)

    # -- in threads ----------------------------------------------------------------------------------------

    def _answer(self, message: Msg, came_s: float, loop: asyncio.AbstractEventLoop) -> None:
        octets = None
        try:
            octets = self._make_answer(message.data, came_s)
        finally:  # after any error its place is free again
            loop.call_soon_threadsafe(self._send_answer, message, octets)

    def _make_answer(self, octets: bytes, came_s: float) -> bytes | None:
        """Return the answer, as bytes; None if its sender no longer waits for it."""
        kind = "?"
        try:
            request = decode(octets, SearchRequest)
            kind = request.kind
            if self._clock.ticks_s() >= came_s + request.within_ms / 1000:
                return None
            if request.kind != SEARCH:
                if self._serve_data is None:
                    raise ClusterError(f"unknown kind of request {request.kind!r}")
                return encode(SearchReply(VERSION, self._node, body=self._serve_data(request)))
            return self._search(request)
        except TeiaError as error:
            return encode(SearchReply(VERSION, self._node, error=_line(error)))
        except Exception as error:  # noqa: BLE001  # one question fails, the next may not
            _log.warning("request not answered kind=%s", kind, exc_info=True)
            return encode(SearchReply(VERSION, self._node, error=f"{type(error).__name__}: {_line(error)}"))

    def _search(self, request: SearchRequest) -> bytes:
        # One reference for the whole answer: the loop may replace the dictionary.
        owned = self._owned
        cells = frozenset(cell for cell in request.cells if cell in owned)
        if not cells:
            raise IndexFailure(f"it does not own {format_cells(request.cells)}")
        with self._using(cells) as serving:
            body = serving.answer(request.body)
            left_out = dict(serving.omitted_cells)
        return encode(
            SearchReply(VERSION, self._node, tuple(owned[cell] for cell in sorted(cells)), left_out, body=body)
        )

    def _open_ahead(self, cells: frozenset[int]) -> None:
        """Open cells in advance, so that the first search does not wait for it."""
        with self._lock:
            self._close_all_but(MAX_SETS - 1)
        if cells:
            # a later question gets the error
            with contextlib.suppress(TeiaError, OSError), self._using(cells) as serving:
                serving.warm()

    @contextlib.contextmanager
    def _using(self, cells: frozenset[int]) -> Iterator[ShardServer]:
        """Open some cells, and keep them open for the `with` block."""
        with self._lock:
            # Taken out and put back last: the order is that of use.
            opened = self._opened.pop(cells, None)
            if opened is None:
                self._close_all_but(MAX_SETS - 1)
                opened = self._open_cells(cells)
            self._opened[cells] = opened
            opened.users += 1
        try:
            yield opened.serving
        finally:
            with self._lock:
                opened.users -= 1
                opened.close_unused()

    def _open_cells(self, cells: frozenset[int]) -> _Opened:
        folder = self._root.collection(self._collection)
        with ExitStack() as stack:
            lookup = stack.enter_context(contextlib.closing(Lookup(self._root, self._collection)))
            reader = UnionReader({f"cell {cell}": self._folders[cell].index for cell in sorted(cells)})
            stack.callback(reader.close)
            facts = FrontierFacts([lookup], self._clock)
            stack.callback(facts.close)
            ranks = CollectionRanks([rank_file(folder)])
            serving = ShardServer(LocalShard(self._node, reader), reader, self._clock, ranks, facts)
            return _Opened(serving, stack.pop_all())

    def _close_all_but(self, count: int) -> None:
        """Put away the least recently used sets of cells.

        A set that a thread still searches is closed by that thread.
        """
        while len(self._opened) > count:
            oldest = self._opened.pop(next(iter(self._opened)))
            oldest.is_evicted = True
            oldest.close_unused()


def _line(error: BaseException) -> str:
    """Return an error as text that can be sent: the name of a file may have bytes that are no text."""
    return str(error).partition("\n")[0][:200].encode("utf-8", "backslashreplace").decode()
