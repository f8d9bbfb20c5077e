"""A collection opened for reading: find one URL, its history, its captures, its links.

Everything is opened read-only, so a reader can neither hold up a running crawl nor change its data. It sees the data
committed at that instant.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from teia.crawler.outlinks import outlinks_of
from teia.errors import CorruptFile, StoreError
from teia.frontier.cell.alias_evidence import alias_row, url_at_main
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import tail_of, url_from
from teia.frontier.cell.schema import STATE_NAMES
from teia.records import Link
from teia.store.reader import ArchiveReader, ArchiveRecord, StoredAnswer
from teia.store.root import CellFolder, Root
from teia.urls import host_of, host_to_cell, key_of, site_of, slot_of, split

if TYPE_CHECKING:
    from teia.index.reader import CellReader

SAME_TIME_S = 0.001
"""Largest difference of equal times: record dates have microseconds, the frontier has floats."""

MAX_CHAIN = 16
"""Longest chain of aliases that is followed."""


@dataclass(frozen=True, slots=True)
class PageEntry:
    """Result of the last good visit of a URL, and the location of its capture."""

    visits: int
    changes: int
    last_visit_s: float
    last_change_s: float
    status: int
    digest: bytes
    text_digest: bytes
    media_type: str
    language: str
    title: str
    canonical: str
    redirect_to: str
    noindex: bool
    file: str
    offset: int
    length: int


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


class PageSummary(NamedTuple):
    """Summary of a page for search results, and the location of the rest."""

    cell: int
    host: str
    host_id: int
    in_links: int
    visits: int
    last_visit_s: float


@dataclass(frozen=True, slots=True)
class VisitEntry:
    """One line of a URL's history."""

    time_s: float
    outcome: str
    digest: bytes
    changed: bool | None
    file: str
    offset: int


class Lookup:
    """A collection open for reading; see the module docstring."""

    def __init__(self, root: Root, name: str) -> None:
        self.root, self.name = root, name
        collection = root.collection(name)
        self.folders = collection.cells()
        self.indexes: dict[Path, CellReader] = {}
        self._readers = [ArchiveReader(folder.archive) for folder in self.folders]
        self.cell_number = host_to_cell(collection.starts())
        # If one cell cannot be opened, those already open are closed.
        with ExitStack() as stack:
            self.cells = [self._opened(folder, stack) for folder in self.folders]
            self._stack = stack.pop_all()

    @staticmethod
    def _opened(folder: CellFolder, stack: ExitStack) -> FrontierCell:
        cell = FrontierCell(folder.frontier, read_only=True)
        stack.callback(cell.close)
        return cell

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- URLs ----------------------------------------------------------------------------------------------

    def cell_of_host(self, host: str) -> int:
        """Return the cell that knows a host: by its name, or the one to which a cluster moved its site (A4)."""
        location = self._locate_host(host)
        return self.cell_number(host) if location is None else location[0]

    def _locate_host(self, host: str) -> tuple[int, int] | None:
        """Return the cell that knows a host, and the host's number there."""
        home = self.cell_number(host)
        for number in (home, *(number for number in range(len(self.cells)) if number != home)):
            row = self.cells[number].db.execute("SELECT host_id FROM hosts WHERE name = ?", (host,)).fetchone()
            if row is not None:
                return number, row[0]
        return None

    def find(self, url: str) -> UrlEntry | None:
        """Return the frontier's entry of a canonical URL; None if it is unknown."""
        host = split(url).host
        home = self._locate_host(host)
        if home is None:
            return None
        number, host_id = home
        db = self.cells[number].db
        key = key_of(url)
        row_key = (slot_of(site_of(host)), host_id, key)
        sql = """
            SELECT state, outcome, depth, in_links, found_s, found_by, failures, lane, rank, pattern
            FROM urls WHERE slot = ? AND host_id = ? AND key = ?
        """
        known = db.execute(sql, row_key).fetchone()
        if known is None:
            return None
        state, page = STATE_NAMES[known[0]], self._page(number, row_key)
        return UrlEntry(url, host, number, host_id, key, page, state, *known[1:])

    def links_to(self, url: str, cell: int, host_id: int) -> tuple[int, int]:
        """Return the key of a URL whose host is known, and the number of links to it; for bulk callers."""
        key = key_of(url)
        row_key = (slot_of(site_of(host_of(url))), host_id, key)
        sql = "SELECT in_links FROM urls WHERE slot = ? AND host_id = ? AND key = ?"
        found = self.cells[cell].db.execute(sql, row_key).fetchone()
        return key, found[0] if found is not None else 0

    def page_summary(self, url: str, key: int) -> PageSummary | None:
        """Like the page part of `find`, in one query, for bulk callers; None if the page was not visited."""
        host = host_of(url)
        home = self.cell_number(host)
        wanted = (host, slot_of(site_of(host)), key)
        for number in (home, *(number for number in range(len(self.cells)) if number != home)):
            row = self.cells[number].db.execute(_SUMMARY_SQL, wanted).fetchone()
            if row is not None:
                return PageSummary(number, host, *row)
        return None

    def _page(self, number: int, row_key: tuple[int, int, int]) -> PageEntry | None:
        sql = f"SELECT {_PAGE_COLUMNS} FROM pages WHERE slot = ? AND host_id = ? AND key = ?"  # noqa: S608  # our text
        row = self.cells[number].db.execute(sql, row_key).fetchone()
        return None if row is None else PageEntry(*row)

    def visits(self, entry: UrlEntry) -> list[VisitEntry]:
        """Return the URL's history, oldest first."""
        sql = """
            SELECT time_s, outcome, digest, changed, file, offset FROM visits
            WHERE slot = ? AND host_id = ? AND key = ? ORDER BY time_s
        """
        rows = self.cells[entry.cell].db.execute(sql, (slot_of(site_of(entry.host)), entry.host_id, entry.key))
        return [
            VisitEntry(time_s, outcome, digest, None if changed is None else bool(changed), file, offset)
            for time_s, outcome, digest, changed, file, offset in rows
        ]

    def urls_of_host(self, host: str, limit: int) -> list[str]:
        """Return some URLs of a host, those found first."""
        sql = """
            SELECT u.tail FROM urls AS u JOIN hosts AS h ON h.host_id = u.host_id AND h.slot = u.slot
            WHERE h.name = ? LIMIT ?
        """
        rows = self.cells[self.cell_of_host(host)].db.execute(sql, (host, limit))
        return [url_from(host, tail) for (tail,) in rows]

    def hosts(self, limit: int) -> list[str]:
        """Return names of hosts, at most so many of each cell."""
        return [name for cell in self.cells for (name,) in cell.db.execute("SELECT name FROM hosts LIMIT ?", (limit,))]

    def pages(self) -> Iterator[tuple[str, int, PageEntry]]:
        """Yield every URL with a stored capture, its cell and its page, in archive order."""
        for number, cell in enumerate(self.cells):
            columns = ", ".join(f"p.{name.strip()}" for name in _PAGE_COLUMNS.split(","))
            sql = f"""
                SELECT h.name, u.tail, {columns} FROM pages AS p
                JOIN urls AS u ON u.slot = p.slot AND u.host_id = p.host_id AND u.key = p.key
                JOIN hosts AS h ON h.host_id = p.host_id
                WHERE p.file <> '' ORDER BY p.file, p.offset
            """  # noqa: S608  # our own column names
            for host, tail, *page in cell.db.execute(sql):
                yield url_from(host, tail), number, PageEntry(*page)

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

    def record(self, number: int, file: str, offset: int) -> ArchiveRecord:
        """Return a record of a cell's archive."""
        return self._readers[number].read(file, offset)

    def links(self, number: int, page: PageEntry) -> tuple[Link, ...]:
        """Return the links of a stored capture."""
        return outlinks_of(self.metadata(number, page))

    def capture(self, url: str, time_s: float | None = None) -> StoredAnswer:
        """Return the stored answer of a URL: the last good one, or that of a time; a revisit leads to its body."""
        wanted, seen = (url, time_s), set[tuple[str, float | None]]()
        # Revisit records of a damaged archive may refer to each other.
        while wanted not in seen:
            seen.add(wanted)
            answer = self._answer(*wanted)
            if answer.refers_to is None:
                return answer
            wanted = answer.refers_to
        raise StoreError(f"the captures of {url} in {self.name} refer to each other, and none contains the body")

    def _answer(self, url: str, time_s: float | None) -> StoredAnswer:
        entry = self.find(url)
        if entry is None or entry.page is None:
            raise StoreError(f"there is no capture of {url} in {self.name}")
        file, offset = entry.page.file, entry.page.offset
        if time_s is not None:
            at_that_time = [visit for visit in self.visits(entry) if abs(visit.time_s - time_s) < SAME_TIME_S]
            file, offset = (at_that_time[0].file, at_that_time[0].offset) if at_that_time else ("", 0)
        if not file:
            raise StoreError(f"there is no capture of {url} at that time in {self.name}")
        return self._readers[entry.cell].answer(file, offset)


_SUMMARY_SQL = """
    SELECT h.host_id, u.in_links, p.visits, p.last_visit_s FROM hosts AS h
    JOIN urls AS u ON u.slot = ?2 AND u.host_id = h.host_id AND u.key = ?3
    JOIN pages AS p ON p.slot = ?2 AND p.host_id = h.host_id AND p.key = ?3
    WHERE h.name = ?1
"""
_PAGE_COLUMNS = (
    "visits, changes, last_visit_s, last_change_s, status, digest, text_digest, media_type, language, title,"
    " canonical, redirect_to, noindex, file, offset, length"
)


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
    return None if target is None else f"its host is an alias of {split(target).host}: see {target}"
