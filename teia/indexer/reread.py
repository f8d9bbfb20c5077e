"""Index entries from the archive: parse children read captures again, as they did after the fetch.

This is for pages that the hand-over does not have: after a crash, when the indexer had fallen far behind, and for `teia
rebuild index`. A page that crashes every child, or whose capture is damaged, has no entry.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass

from teia.clock import Clock
from teia.config.sections import Config
from teia.crawler.child import answer_reader
from teia.crawler.child.messages import ReadTask, RenderedDocument, encode_parts, result_of
from teia.crawler.lookup import Lookup
from teia.errors import CorruptFile, StoreError
from teia.frontier.tables.pages import VisitEntry
from teia.index.entry import PackedEntry, open_encoded
from teia.parse.children.child import LostAnswer
from teia.parse.children.pool import ChildLimits, ChildPool
from teia.store.reader import split_head

AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class RereadRequest:
    """A page whose entry is wanted, from its last good capture, or from that of a visit."""

    url: str
    key: int
    visit: VisitEntry | None = None


class Rereader:
    """Reader of captures with parse children, which are started at the first need."""

    def __init__(self, reading: bytes, config: Config, clock: Clock) -> None:
        self._reading = reading
        self._limits = config.limits
        self._children = config.parse.children or max(1, (os.cpu_count() or 2) - 1)
        self._clock = clock
        self._pool: ChildPool | None = None
        self.read = 0
        self.unreadable: set[int] = set()
        """Keys of the pages of the last call whose captures are damaged or missing."""

    async def entries(self, lookup: Lookup, wanted: Sequence[RereadRequest]) -> dict[int, PackedEntry]:
        """Return entries of pages from their captures, by key."""
        found: dict[int, PackedEntry] = {}
        self.unreadable = set()
        if wanted and self._pool is None:
            self._pool = ChildPool(answer_reader, self._children, ChildLimits.from_settings(self._limits), self._clock)
            await self._pool.start()
        for start in range(0, len(wanted), AT_ONCE):
            # Batches bound the bodies in memory.
            batch = wanted[start : start + AT_ONCE]
            for each, entry in zip(batch, await self._batch(lookup, batch), strict=True):
                if entry is not None:
                    found[each.key] = entry
        return found

    async def _batch(self, lookup: Lookup, batch: Sequence[RereadRequest]) -> list[PackedEntry | None]:
        tasks = [self._task(lookup, each) for each in batch]
        return await asyncio.gather(*(self._read(task) for task in tasks))

    def _task(self, lookup: Lookup, wanted: RereadRequest) -> ReadTask | None:
        url = wanted.url
        entry = lookup.find(url)
        if entry is None or entry.page is None or not entry.page.file:
            return None
        page, visit = entry.page, wanted.visit
        try:
            if visit is None:
                head, body = split_head(lookup.record(entry.cell, page.file, page.offset).block)
                conversion = lookup.conversion(entry.cell, page)
            else:
                capture = lookup.capture(url, visit.time_s, decoded=False)
                head, body = capture.head, capture.payload
                conversion = lookup.conversion(entry.cell, visit)
        except (CorruptFile, StoreError):
            self.unreadable.add(wanted.key)
            return None
        # The time of the last change, as after the fetch: later visits found the same capture.
        seen_s, status = (page.last_change_s, page.status) if visit is None else (visit.time_s, capture.status)
        when = (seen_s, seen_s)
        rendered = None if conversion is None else RenderedDocument(conversion.block, conversion.time_s)
        return ReadTask(
            self._reading, "entry", url, str(status), status, *when, "", b"", head, "", "", 0, 0, rendered=rendered,
            body=body,
        )  # fmt: skip

    async def _read(self, task: ReadTask | None) -> PackedEntry | None:
        if task is None or self._pool is None:
            return None
        answered: asyncio.Future[bytes | LostAnswer] = asyncio.get_running_loop().create_future()
        self._pool.submit(*encode_parts(task), done=answered.set_result)
        result = result_of(await answered)
        self.read += 1
        if isinstance(result, LostAnswer) or not result.entry:
            return None
        return open_encoded(result.entry)

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()
