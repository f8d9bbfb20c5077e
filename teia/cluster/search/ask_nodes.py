"""Search over all nodes of a cluster: queries to the nodes, and one result from their answers (F8).

    directory    the node that answers for each cell, requested from all nodes every two seconds
    shards       one for each node, for the cells it answers for; search/serve/gateway.py queries them all at once
    facts        sizes of shards, so that scores can be compared; ranks and facts of pages (remote_shards.py)

Of two nodes that claim a cell the one with the higher epoch is queried. A node that does not answer is left out, its
cells are named, and it is not queried again until it reports its presence: one query waits for it, not all. A cell
without a node is named too, and counts made without it are not used for the next query.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self

import uvloop

from teia.clock import Clock
from teia.cluster.nats.thread import LoopThread
from teia.cluster.nats.wire import Wire, connect
from teia.cluster.search.messages import (
    SEARCH,
    VERSION,
    AnotherTeia,
    NodePresence,
    SearchReply,
    SearchRequest,
    cell_subject,
    decode,
    encode,
    format_cells,
    presence_subject,
)
from teia.errors import ClusterError, IndexFailure
from teia.index.entry import IndexEntry
from teia.search.rank.formula import Candidates, Ranking
from teia.search.rank.plan import Plan
from teia.search.serve.remote_shards import ReceivedFacts, RemoteShard
from teia.search.serve.searcher import Searcher, SearchOptions
from teia.search.serve.shards import Shard
from teia.search.show.results import Results

DEADLINE_S = 0.7
"""Time that a query waits for a node that does not answer. Further requests to the other nodes come on top."""

PRESENCE_S = 0.25
GRACE_S = 0.03
"""Wait for answers to `who`, and the shorter wait for more of them once every cell has a node."""

PATIENCE = 0.8
"""Share of the deadline after which a node without an answer counts as silent.

A shorter wait, because a query had less time left, may be too short for a live node: then only presence is requested.
"""

FRESH_S = 2.0
AGAIN_S = 0.1
"""Wait before a request without listeners is repeated once: a server may not know a new subscription yet."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CellResponders:
    """The node that answers for each cell; `silent` are cells without a node.

    `incompatible` are nodes of another version, which are not queried.
    """

    cells: Mapping[str, tuple[int, ...]]
    silent: tuple[int, ...] = ()
    cell_count: int = 0
    incompatible: tuple[str, ...] = ()


def assign_cells(present: Iterable[NodePresence]) -> CellResponders:
    """Assign every cell to the node that owns it with the highest epoch."""
    best: dict[int, tuple[int, int, str]] = {}
    cell_count = 0
    for each in present:
        cell_count = max(cell_count, each.cell_count)
        for owned in each.cells:
            # The highest epoch wins, then the last record; names only break ties.
            best[owned.cell] = max(best.get(owned.cell, (-1, -1, "")), (owned.epoch, owned.sequence, each.node))
    by_node: dict[str, list[int]] = {}
    for cell, (_, _, node) in sorted(best.items()):
        by_node.setdefault(node, []).append(cell)
    silent = tuple(cell for cell in range(cell_count) if cell not in best)
    return CellResponders({node: tuple(cells) for node, cells in sorted(by_node.items())}, silent, cell_count)


class NodeDirectory:
    """Nodes and their cells as last reported; looks in the loop of its wire, and any thread may leave a node out."""

    def __init__(self, wire: Wire, clock: Clock, collection: str) -> None:
        self._wire = wire
        self._clock = clock
        self._collection = collection
        self.responders = CellResponders({})
        self.present: tuple[str, ...] = ()
        """All nodes that answered, also those without cells."""
        self.updated_at = float("-inf")
        self._lock = Lock()
        """Held while a new `responders` is made from the present one."""

    def leave_out(self, node: str) -> None:
        """Count the cells of a node as silent, until it reports again."""
        with self._lock:
            responders = self.responders
            if node in responders.cells:
                cells = {name: cells for name, cells in responders.cells.items() if name != node}
                silent = tuple(sorted((*responders.silent, *responders.cells[node])))
                self.responders = replace(responders, cells=cells, silent=silent)

    async def query_presence(self) -> CellResponders:
        """Request the presence of all nodes."""
        client = self._wire.client
        inbox = client.new_inbox()
        subscription = await self._wire.request(client.subscribe(inbox))
        present: dict[str, NodePresence] = {}
        incompatible: set[str] = set()
        loop = asyncio.get_running_loop()
        until = loop.time() + PRESENCE_S
        try:
            await self._wire.request(client.publish(presence_subject(self._collection), b"", reply=inbox))
            while (left_s := until - loop.time()) > 0:
                try:
                    message = await asyncio.wait_for(subscription.next_msg(timeout=left_s), left_s)
                except Exception:  # noqa: BLE001  # no more answers; the client has several errors for that
                    break
                try:
                    each = decode(message.data, NodePresence)
                except AnotherTeia as error:
                    incompatible.add(error.node)
                except ClusterError as error:
                    _log.info("unknown node: %s", error)
                else:
                    present[each.node] = each
                    found = assign_cells(present.values())
                    if found.cell_count and not found.silent:
                        until = min(until, loop.time() + GRACE_S)
        finally:
            with contextlib.suppress(Exception):
                await subscription.unsubscribe()
        self._update(present, tuple(sorted(incompatible)))
        return self.responders

    def _update(self, present: Mapping[str, NodePresence], incompatible: tuple[str, ...]) -> None:
        if incompatible != self.responders.incompatible and incompatible:
            _log.warning("nodes with another version of teia, not queried names=%s", ",".join(incompatible))
        self.present = tuple(sorted(present))
        found = assign_cells(present.values())
        with self._lock:
            # If no node answers, the known cells still exist but are unreachable, and the next query looks again.
            cell_count = found.cell_count or self.responders.cell_count
            silent = found.silent if found.cell_count else tuple(range(cell_count))
            self.responders = CellResponders(found.cells, silent, cell_count, incompatible)
        self.updated_at = self._clock.ticks_s() if present else float("-inf")


class NodeShard(RemoteShard):
    """The cells that one node answers for. A failure makes the directory look again."""

    def __init__(self, search: ClusterSearch, node: str, cells: tuple[int, ...], received: ReceivedFacts) -> None:
        super().__init__(f"{node} (cells {format_cells(cells)})", len(cells), self._send, received)
        self.node = node
        self.numbers = cells
        self._search = search

    def _send(self, query: bytes) -> Future[bytes]:
        request = self._search.submit(self._query_node(query))
        request.add_done_callback(partial(self._note_cancelled, self._search.ticks_s()))
        return request

    def _note_cancelled(self, began_s: float, request: Future[bytes]) -> None:
        """Report that the query's time was over first; the next query must not wait for this node too."""
        if request.cancelled():
            self._search.note_abandoned(self.node, self._search.ticks_s() - began_s)

    async def _query_node(self, query: bytes) -> bytes:
        try:
            answer = await self._search.request(self.numbers, query)
        except Exception:
            self._search.note_silent(self.node)
            raise
        if answer.error:
            self._search.refresh_directory()
            raise IndexFailure(answer.error)
        missing = set(self.numbers) - {owned.cell for owned in answer.cells}
        if missing:
            self._search.refresh_directory()
        gone = {f"cell {cell}": f"{self.node} does not own it any more" for cell in sorted(missing)}
        self.omitted_cells = gone | answer.left_out
        return answer.body


class MissingShard(RemoteShard):
    """Cells without a node."""

    def __init__(self, responders: CellResponders) -> None:
        cells = responders.silent
        super().__init__(
            f"{'cell' if len(cells) == 1 else 'cells'} {format_cells(cells)}", len(cells), self._fail, ReceivedFacts()
        )
        self._why = "no node answers for it" + (
            f", and {_describe_incompatible(responders.incompatible)}" if responders.incompatible else ""
        )

    def _fail(self, _: bytes) -> Future[bytes]:
        future: Future[bytes] = Future()
        future.set_exception(IndexFailure(self._why))
        return future


def _describe_incompatible(nodes: Sequence[str]) -> str:
    return (
        f"{', '.join(nodes)} {'runs' if len(nodes) == 1 else 'run'} another version of teia; run the same"
        " version on all nodes"
    )


class ClusterSearch:
    """A collection of a cluster, opened for search like one on this machine; threads may share it."""

    def __init__(
        self, servers: Sequence[str], key: Path | None, collection: str, clock: Clock, *, ca: Path | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._collection = collection
        self._deadline_s = deadline_s
        self._facts = ReceivedFacts()
        self._lock = Lock()
        self._shards: tuple[Shard, ...] = ()
        self._responders: CellResponders | None = None
        self._is_refreshing = False
        self._is_closed = False
        self._silent_since: dict[str, float] = {}
        self._thread = LoopThread(uvloop.new_event_loop())
        # Entered by hand: `close` ends it.
        self._thread.__enter__()
        try:
            self._wire = self._thread.wait_for(connect(servers, key, "search", ca=ca))
            self._directory = NodeDirectory(self._wire, clock, collection)
            # At first a server may not know all subscriptions yet.
            if not self._thread.wait_for(self._directory.query_presence()).cell_count:
                self._thread.wait_for(self._directory.query_presence())
        except BaseException:
            self._thread.__exit__(None, None, None)
            raise
        self._searcher = Searcher(
            self._current, clock, ranking=Ranking(priors=self._facts), facts=self._facts, deadline_s=deadline_s
        )

    # -- nodes to query ------------------------------------------------------------------------------------

    def note_silent(self, node: str) -> None:
        """Stop querying a node that did not answer, until it reports its presence."""
        with self._lock:
            self._silent_since[node] = self._clock.ticks_s()
        self._directory.leave_out(node)
        self.refresh_directory()

    def note_abandoned(self, node: str, waited_s: float) -> None:
        """Note that a query waited `waited_s` for a node and then continued without it."""
        if waited_s >= PATIENCE * self._deadline_s:
            self.note_silent(node)
        else:
            self.refresh_directory()

    def refresh_directory(self) -> None:
        """Request the presence of nodes in the background; not once this is being closed."""
        with self._lock:
            if not self._is_refreshing and not self._is_closed:
                self._is_refreshing = True
                asyncio.run_coroutine_threadsafe(self._refresh_directory(), self._thread.loop)

    async def _refresh_directory(self) -> None:
        began = self._clock.ticks_s()
        try:
            await self._directory.query_presence()
        except ClusterError as error:
            _log.info("nodes not identified: %s", error)
        finally:
            self._is_refreshing = False
        with self._lock:  # a node may have reported its presence before it fell silent
            self._silent_since = {node: since for node, since in self._silent_since.items() if since >= began}
            again = list(self._silent_since)
        for node in again:
            self.note_silent(node)

    def _current(self) -> Sequence[Shard]:
        """Return the present shards."""
        # In the background: this query uses the nodes known so far.
        if self._clock.ticks_s() - self._directory.updated_at > FRESH_S:
            self.refresh_directory()
        responders = self._directory.responders
        with self._lock:
            if responders is not self._responders and (self._responders is None or responders != self._responders):
                self._shards = self._make_shards(responders)
            self._responders = responders
            return self._shards

    def _make_shards(self, responders: CellResponders) -> tuple[Shard, ...]:
        nodes = [NodeShard(self, node, cells, self._facts) for node, cells in responders.cells.items()]
        names = {shard.name for shard in nodes}
        # Sizes of shards that no longer exist.
        for name in set(self._facts.extents) - names:
            self._facts.extents.pop(name, None)
        if not responders.cell_count:
            others = f"; {_describe_incompatible(responders.incompatible)}" if responders.incompatible else ""
            raise IndexFailure(f"no node of this cluster answers searches in {self._collection!r}{others}")
        return (*nodes, *([MissingShard(responders)] if responders.silent else []))

    def ticks_s(self) -> float:
        return self._clock.ticks_s()

    def submit(self, work: Coroutine[Any, Any, bytes]) -> Future[bytes]:
        """Run a coroutine in the loop of the connection."""
        return asyncio.run_coroutine_threadsafe(work, self._thread.loop)

    async def request(self, cells: tuple[int, ...], query: bytes) -> SearchReply:
        """Send a question to the owner of these cells."""
        from nats import errors

        octets = encode(SearchRequest(VERSION, SEARCH, cells, int(1000 * self._deadline_s), query))
        # The owner of several cells listens on the subject of each; one message is enough.
        subject, client = cell_subject(self._collection, cells[0]), self._wire.client
        for is_last in (False, True):
            try:
                answer = await client.request(subject, octets, timeout=self._deadline_s)
                return decode(answer.data, SearchReply)
            except errors.NoRespondersError:
                if is_last:
                    raise IndexFailure("no subscriber") from None
                await asyncio.sleep(AGAIN_S)
            except (errors.Error, TimeoutError, OSError) as error:
                raise IndexFailure("no response in time") from error
        raise AssertionError("unreachable")

    # -- as CollectionSearch -------------------------------------------------------------------------------

    @property
    def pages(self) -> int:
        """Number of searchable pages."""
        counts = [self._count_pages(shard) for shard in self._current()]
        return sum(counts)

    @staticmethod
    def _count_pages(shard: Shard) -> int:
        with contextlib.suppress(IndexFailure):
            return shard.candidates(Plan(None), 1).total
        return 0

    def some(self, n: int) -> list[IndexEntry]:
        """Return up to `n` pages, the newest of each node."""
        found: list[IndexEntry] = []
        for shard in self._current():
            with contextlib.suppress(IndexFailure):
                best: Candidates = shard.candidates(Plan(None), min(n, 50))
                found += shard.entries(best.rows["key"].tolist()).values()
        return found[:n]

    def search(self, text: str, n: int = 10, offset: int = 0, options: SearchOptions | None = None) -> Results:
        """Answer a query; see `teia.search.serve.searcher.Searcher`."""
        return self._searcher.search(text, n, offset, options)

    def similar(self, url: str, n: int = 10) -> Results:
        """Return pages on the same subject as a page."""
        return self._searcher.similar(url, n)

    def indexed_page(self, url: str) -> IndexEntry | None:
        """Return a page as the index has it, with its text; None if it is not there."""
        return self._searcher.indexed_page(url)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self._searcher.close()
        with contextlib.suppress(ClusterError):
            self._thread.wait_for(self._wire.end())
        self._thread.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
