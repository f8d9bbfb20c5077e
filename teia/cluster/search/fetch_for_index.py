"""Data that a node fetches from others for its own index, every few seconds.

    links      the owner of cell 0 has copies of all link files, and computes PageRank from them as one machine does
               (indexer/ranks.py): the same numbers from the same links. Link files only grow, so only new parts are
               fetched
    ranks      the other nodes fetch the rank file from there
    words      anchor texts of other nodes' links to pages here are fetched from each of them, and left for the indexer
    pages      of a cell that was taken over, whose captures lie elsewhere: their entries, from a node that has indexed
               them

All of it is derived, and fetched again if it gets lost. Memory holds a piece of half a megabyte, and the keys of the
pages of one range. A node that gives nothing is left out: the others give what they have.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from teia.clock import Clock
from teia.cluster.nats.wire import Wire
from teia.cluster.search.ask_nodes import CellResponders, NodeDirectory
from teia.cluster.search.give_for_index import (
    LINKS,
    MAX_KEYS,
    RANKS,
    AnchorsReply,
    AnchorsRequest,
    FilePiece,
    FileRequest,
    PagesReply,
    PagesRequest,
    encode,
)
from teia.cluster.search.messages import (
    ANCHORS,
    FILE,
    GATHER_S,
    PAGES,
    VERSION,
    SearchReply,
    SearchRequest,
    decode,
    node_subject,
)
from teia.cluster.search.messages import encode as encode_envelope
from teia.errors import ClusterError, CorruptFile, TeiaError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.tables.page_changes import changed_captures
from teia.graph.rankfile import RankFile
from teia.index.borrowed import BorrowedEntries, LackingPages
from teia.index.outgoing import spool
from teia.index.position import read_position
from teia.indexer.ranks import link_copy, rank_file
from teia.lib.undecodable import UNDECODABLE
from teia.store.archive import archive_path
from teia.store.root import CellFolder, Root

ANSWER_S = 10.0
RANGE_KEYS = 20_000
"""Pages that are found missing and borrowed before the next range is looked at."""

BORROW_AGAIN_S = 60.0
"""Interval between two looks for pages that the index lacks: a node may have come back."""

MAX_ROUNDS = 10_000
"""Most pieces of one file that are fetched in one go: five gigabytes."""

Message = TypeVar("Message")
_log = logging.getLogger(__name__)


class IndexDataFetcher:
    """The fetching side of one node; runs in the loop of its wire."""

    def __init__(self, wire: Wire, clock: Clock, root: Root, collection: str, shared: str, node: str) -> None:
        self._wire = wire
        self._clock = clock
        self._collection = root.collection(collection)
        self._cells = {folder.number: folder for folder in self._collection.cells()}
        self._shared = shared
        self._node = node
        self._directory = NodeDirectory(wire, clock, shared)
        self._copied: dict[Path, tuple[str, str, int]] = {}
        """By copied file: the node it is from, its version, and the number of bytes copied."""
        self._anchors: dict[str, tuple[str, dict[int, int]]] = {}
        """By node: the identity of its file of anchor texts, and the last row that each cell has."""
        self._spooled = 0
        self._borrow_at = clock.ticks_s() + BORROW_AGAIN_S

    async def fetch_forever(self, owned: Mapping[int, Any], pause_s: float = GATHER_S) -> None:
        """Fetch what is new, again and again, until cancelled; `owned` are the present cells of this node."""
        while True:
            try:
                await self.fetch(list(owned))
            except (TeiaError, OSError) as error:
                _log.info("word statistics not fetched: %s", error)
            await self._clock.sleep(pause_s)

    async def fetch(self, owned: Collection[int]) -> None:
        """Fetch what is new once."""
        if not owned:
            return
        responders = await self._directory.query_presence()
        if 0 in owned:
            for node, cells in responders.cells.items():
                if node != self._node:
                    await self._tolerate_failure(self._fetch_links(node, cells))
        else:
            await self._tolerate_failure(self._fetch_ranks(responders))
        for node in responders.cells:
            if node != self._node:
                await self._tolerate_failure(self._fetch_anchors(node, owned))
        if self._clock.ticks_s() >= self._borrow_at:
            self._borrow_at = self._clock.ticks_s() + BORROW_AGAIN_S
            for cell in owned:
                if (await asyncio.to_thread(missing_keys, self._cells[cell], None))[0]:
                    await self.borrow(cell)

    @staticmethod
    async def _tolerate_failure(action: Coroutine[Any, Any, None]) -> None:
        """Run one action with one node, so that its failure does not stop the others."""
        try:
            await action
        except ClusterError as error:
            _log.info("word statistics not fetched: %s", error)

    async def others(self) -> list[str]:
        """Return the other nodes that are present."""
        await self._directory.query_presence()
        return [node for node in self._directory.present if node != self._node]

    # -- requests ------------------------------------------------------------------------------------------

    async def _request(self, node: str, kind: str, question: msgspec.Struct, expected: type[Message]) -> Message:
        from nats import errors

        octets = encode_envelope(SearchRequest(VERSION, kind, (), int(1000 * ANSWER_S), encode(question)))
        try:
            answer = await self._wire.client.request(node_subject(self._shared, node), octets, timeout=ANSWER_S)
        except (errors.Error, TimeoutError, OSError) as error:
            raise ClusterError(f"{node} does not respond ({type(error).__name__})") from error
        answered = decode(answer.data, SearchReply)
        if answered.error:
            raise ClusterError(f"{node} does not send {kind}: {answered.error}")
        try:
            return msgspec.msgpack.decode(answered.body, type=expected)
        except UNDECODABLE as error:
            raise ClusterError(f"the response of {node} cannot be read: {error}") from error

    # -- PageRank ------------------------------------------------------------------------------------------

    async def _fetch_links(self, node: str, cells: Iterable[int]) -> None:
        for cell in cells:
            await self._append(node, cell, link_copy(self._collection, cell))

    async def _append(self, node: str, cell: int, path: Path) -> None:
        """Bring a copy of a growing file up to date; if the file was replaced, start over."""
        source, identity, copied = self._copied.get(path, ("", "", 0))
        # The same place in another node's file has other content.
        if source != node or not await asyncio.to_thread(path.exists):
            identity, copied = "", 0
        for _ in range(MAX_ROUNDS):
            piece = await self._request(node, FILE, FileRequest(LINKS, cell, identity, copied), FilePiece)
            if not piece.identity:
                return
            await asyncio.to_thread(_write_at, path, piece)
            identity, copied = piece.identity, piece.start + len(piece.data)
            self._copied[path] = node, identity, copied
            if copied >= piece.size or not piece.data:
                return

    async def _fetch_ranks(self, responders: CellResponders) -> None:
        node = next((node for node, cells in responders.cells.items() if 0 in cells), None)
        path = rank_file(self._collection)
        if node is None:
            return
        first = await self._request(node, FILE, FileRequest(RANKS, 0, "", 0), FilePiece)
        if not first.identity or self._copied.get(path) == (node, first.identity, first.size):
            return
        new = path.with_name("ranks.new")
        piece, copied = first, 0
        for _ in range(MAX_ROUNDS):
            if piece.identity != first.identity:
                return  # it was replaced meanwhile; next time
            await asyncio.to_thread(_write_at, new, piece)
            copied = piece.start + len(piece.data)
            if copied >= piece.size:
                break
            piece = await self._request(node, FILE, FileRequest(RANKS, 0, first.identity, copied), FilePiece)
        try:
            # Checked before it replaces the old file.
            await asyncio.to_thread(RankFile.open, new)
        except CorruptFile as error:
            raise ClusterError(f"the ranks sent by {node} are incomplete: {error}") from error
        new.replace(path)
        self._copied[path] = node, first.identity, first.size

    # -- anchor texts --------------------------------------------------------------------------------------

    async def _fetch_anchors(self, node: str, owned: Collection[int]) -> None:
        for _ in range(MAX_ROUNDS):
            identity, known = self._anchors.get(node, ("", {}))
            after = {cell: known.get(cell, 0) for cell in sorted(owned)}
            reply = await self._request(node, ANCHORS, AnchorsRequest(identity, after), AnchorsReply)
            # A new file of anchor texts: its rows are numbered from the beginning.
            if reply.identity != identity:
                known = {}
            for cell, rows in reply.rows.items():
                self._spooled += 1
                # The time makes the name unique after a restart, the counter within a second.
                name = f"{node}-{self._clock.now_s():.0f}-{self._spooled:08d}"
                fetched = [(host, target, text) for _, host, target, text in rows]
                await asyncio.to_thread(spool, self._cells[cell].handover, name, fetched)
                known[cell] = rows[-1][0]
            self._anchors[node] = reply.identity, known
            if not reply.rows:
                return

    # -- pages whose captures are elsewhere ----------------------------------------------------------------

    async def borrow(self, cell: int) -> int:
        """Fetch the entries of a cell's pages to be indexed whose captures are not here; return their number.

        All present nodes are queried, not only owners of the cell.
        """
        folder, wanted, others = self._cells[cell], 0, list[str]()
        # Entries left by an earlier process may be out of date.
        await asyncio.to_thread(BorrowedEntries(folder.path).remove)
        borrowed: BorrowedEntries | None = None
        try:
            async for keys in _wanted(folder):
                if borrowed is None:
                    others, borrowed = await self.others(), BorrowedEntries(folder.path, writing=True)
                wanted += len(keys)
                for node in list(others):
                    try:
                        await self._borrow_from(node, cell, keys, borrowed)
                    except ClusterError as error:
                        others.remove(node)  # the next range would wait for it again
                        _log.info("cell=%d pages not fetched: %s", cell, error)
            fetched = 0 if borrowed is None else len(borrowed)
        finally:
            if borrowed is not None:
                borrowed.close()
        if wanted:
            _log.info("cell=%d pages with captures on other nodes=%d fetched=%d", cell, wanted, fetched)
        return fetched

    async def _borrow_from(self, node: str, cell: int, keys: Sequence[int], borrowed: BorrowedEntries) -> None:
        for start in range(0, len(keys), MAX_KEYS):
            rest = tuple(keys[start : start + MAX_KEYS])
            while rest:
                reply = await self._request(node, PAGES, PagesRequest(cell, rest), PagesReply)
                await asyncio.to_thread(borrowed.put, list(reply.entries.items()))
                # No progress: the remaining entries would never fit.
                rest = reply.rest if len(reply.rest) < len(rest) else ()


async def _wanted(folder: CellFolder) -> AsyncIterator[list[int]]:
    """Yield the keys of all pages to be borrowed, a range at a time."""
    for find in (missing_keys, remote_keys):
        keys, until = await asyncio.to_thread(find, folder, None)
        while keys:
            yield keys
            keys, until = await asyncio.to_thread(find, folder, until)


def remote_keys(folder: CellFolder, after: int | None, most: int = RANGE_KEYS) -> tuple[list[int], int]:
    """Return keys of pages that the index has still to take and whose captures are not in this node's archive.

    They follow the change `after`, or the index's position if it is None. The second value is the last change looked
    at.
    """
    is_here = cache(lambda file: archive_path(folder.archive, file).exists())
    until = after if after is not None else read_position(folder.index) or 0
    keys: list[int] = []
    with closing(FrontierCell(folder.frontier, read_only=True)) as frontier:
        for change, key, file in changed_captures(frontier, until):
            until = change
            if not is_here(file):
                keys.append(key)
                if len(keys) >= most:
                    break
    return keys, until


def missing_keys(folder: CellFolder, after: int | None, most: int = RANGE_KEYS) -> tuple[list[int], int]:
    """Return keys of pages that the index reached and could not take: those after a key, and the last of them."""
    pages = LackingPages(folder.index)
    try:
        keys = [key for key, _ in pages.after(after, most)]
        return keys, keys[-1] if keys else 0
    finally:
        pages.close()


def _write_at(path: Path, piece: FilePiece) -> None:
    """Write a piece at its place; the bytes behind it are of an older version and are cut off."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.truncate(piece.start)
        file.seek(piece.start)
        file.write(piece.data)
