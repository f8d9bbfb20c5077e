"""A collection opened for reading: find one URL, its history, its captures, its links.

Everything is opened read-only, so a reader can neither hold up a running crawl nor change its data. It sees the data
committed at that instant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from teia.crawler.links import field_of, outlinks_of
from teia.crawler.page_summaries import PageSummaries
from teia.errors import CorruptFile, StoreError
from teia.frontier.cell.alias_evidence import alias_row, url_at_main
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import RowKey
from teia.frontier.cell.rows import tail_of
from teia.frontier.cell.schema import STATE_NAMES
from teia.frontier.tables import pages
from teia.frontier.tables.hosts import all_hosts
from teia.frontier.tables.pages import PageEntry, VisitEntry
from teia.lib.message import Message
from teia.records import Link
from teia.store.reader import ArchiveReader, ArchiveRecord, StoredAnswer
from teia.store.root import Root
from teia.urls import host_of, key_of, site_of, slot_of, split

if TYPE_CHECKING:
    from teia.index.reader import CellReader

SAME_TIME_S = 0.001
"""Largest difference of equal times: record dates have microseconds, the frontier has floats."""

MAX_CHAIN = 16
"""Longest chain of aliases that is followed."""


@dataclass(frozen=True, slots=True)
class UrlEntry:
    """One URL as the frontier knows it; `page` once it has been visited."""

    url: str
    host: str
    cell: int
    host_id: int
    key: int
    page: PageEntry | None
    state: str
    outcome: str
    depth: int
    in_links: int
    found_s: float
    found_by: int
    failures: int
    lane: int
    rank: int
    pattern: int

    @property
    def row_key(self) -> RowKey:
        return slot_of(site_of(self.host)), self.host_id, self.key


class Lookup(PageSummaries[FrontierCell]):
    """A collection open for reading; see the module docstring."""

    def __init__(self, root: Root, name: str) -> None:
        self.indexes: dict[Path, CellReader] = {}
        super().__init__(root, name, lambda path: FrontierCell(path, read_only=True))
        self._readers = [ArchiveReader(folder.archive) for folder in self.folders]

    # -- URLs ----------------------------------------------------------------------------------------------

    def find(self, url: str) -> UrlEntry | None:
        """Return the frontier's entry of a canonical URL; None if it is unknown."""
        host = split(url).host
        home = self.locate_host(host)
        if home is None:
            return None
        number, host_id = home
        cell, key = self.cells[number], key_of(url)
        row_key = (slot_of(site_of(host)), host_id, key)
        known = pages.find_url(cell, row_key)
        if known is None:
            return None
        state, page = STATE_NAMES[known.state], pages.find_page(cell, row_key)
        return UrlEntry(url, host, number, host_id, key, page, state, *known[1:])

    def links_to(self, url: str, cell: int, host_id: int) -> tuple[int, int]:
        """Return the key of a URL whose host is known, and the number of links to it; for bulk callers."""
        key = key_of(url)
        found = pages.find_url(self.cells[cell], (slot_of(site_of(host_of(url))), host_id, key))
        return key, found.in_links if found is not None else 0

    def visits(self, entry: UrlEntry, after_s: float = 0.0) -> list[VisitEntry]:
        """Return the URL's history after a time, oldest first."""
        return pages.visits_of(self.cells[entry.cell], entry.row_key, after_s)

    def urls_of_host(self, host: str, limit: int) -> list[str]:
        """Return some URLs of a host, those found first."""
        return pages.urls_of_host(self.cells[self.cell_of_host(host)], host, limit)

    def hosts(self, limit: int) -> list[str]:
        """Return names of hosts, at most so many of each cell."""
        return [host.name for cell in self.cells for host in islice(all_hosts(cell), limit)]

    def pages(self) -> Iterator[tuple[str, int, PageEntry]]:
        """Yield every URL with a stored capture, its cell and its page, in archive order."""
        for number, cell in enumerate(self.cells):
            for each in pages.all_pages(cell):
                if each.page is not None and each.page.file:
                    yield each.url, number, each.page

    # -- captures ------------------------------------------------------------------------------------------

    def metadata(self, number: int, page: PageEntry) -> bytes:
        """Return the block of the metadata record behind a stored capture; empty where there is none."""
        if not page.file:
            return b""
        try:
            # The metadata record follows the record of the answer.
            record = self._readers[number].read(page.file, page.offset + page.length)
        except CorruptFile:
            return b""
        return record.block if record.kind == "metadata" else b""

    def conversion(self, number: int, capture: PageEntry | VisitEntry) -> ArchiveRecord | None:
        """Return the document that the page's scripts made, if the archive has one of a capture."""
        if not capture.file:
            return None
        reader, at = self._readers[number], capture.offset + capture.length
        try:
            metadata = reader.read(capture.file, at)
            if metadata.kind != "metadata" or not field_of(metadata.block, "rendered"):
                return None
            record = reader.read(capture.file, at + metadata.length)
        except StoreError:
            return None
        return record if record.kind == "conversion" else None

    def record(self, number: int, file: str, offset: int) -> ArchiveRecord:
        """Return a record of a cell's archive."""
        return self._readers[number].read(file, offset)

    def links(self, number: int, page: PageEntry) -> tuple[Link, ...]:
        """Return the links of a stored capture."""
        return outlinks_of(self.metadata(number, page))

    def capture(self, url: str, time_s: float | None = None, *, decoded: bool = True) -> StoredAnswer:
        """Return the stored answer of a URL: the last good one, or that of a time; a revisit leads to its body."""
        wanted, seen = (url, time_s), set[tuple[str, float | None]]()
        # Revisit records of a damaged archive may refer to each other.
        while wanted not in seen:
            seen.add(wanted)
            answer = self._answer(*wanted, decoded=decoded)
            if answer.refers_to is None:
                return answer
            wanted = answer.refers_to
        raise StoreError(f"the captures of {url} in {self.name} refer to each other, and none contains the body")

    def _answer(self, url: str, time_s: float | None, *, decoded: bool) -> StoredAnswer:
        entry = self.find(url)
        if entry is None or entry.page is None:
            raise StoreError(Message("there is no capture of {url} in {name}", url=url, name=self.name))
        file, offset = entry.page.file, entry.page.offset
        if time_s is not None:
            at_that_time = [visit for visit in self.visits(entry) if abs(visit.time_s - time_s) < SAME_TIME_S]
            file, offset = (at_that_time[0].file, at_that_time[0].offset) if at_that_time else ("", 0)
        if not file:
            raise StoreError(Message("there is no capture of {url} at that time in {name}", url=url, name=self.name))
        return self._readers[entry.cell].answer(file, offset, decoded)


# ---- names of one site (A7) ------------------------------------------------------------------------------------------


def main_url(lookup: Lookup, url: str) -> str | None:
    """Return the main URL of an alias' URL; None if its host is not an alias."""
    found = None
    for _ in range(MAX_CHAIN):
        host = split(url).host
        pair = alias_row(lookup.cells[lookup.cell_number(host)], host)
        if pair is None:
            break
        found = url = url_at_main(pair, pair.other, tail_of(url, host))
    return found


def alias_note(lookup: Lookup, url: str) -> str | None:
    """Explain that the host of a URL is another name of a site; None if it is not."""
    target = main_url(lookup, url)
    return (
        None
        if target is None
        else Message("its host is an alias of {host}: see {url}", host=split(target).host, url=target)
    )
