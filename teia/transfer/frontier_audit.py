"""`teia audit frontier`: the frontier compared with itself, with the archive and with the fetch log.

A flipped byte that SQLite does not notice is found by the checksum of its page (frontier/page_sums.py); every
audit checks those. Pages that were written by a faulty program have good checksums, so the contents are compared too:
the tables with each other, each page's row with the record that it names, and each visit with its row of the fetch log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

from teia.crawler.fetch_rows import IMPORTED_RUN, fetch_log
from teia.errors import StoreError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.page_sums import damaged_pages, sum_all
from teia.frontier.tables.consistency import captures, contradictions
from teia.frontier.tables.pages import visits_of
from teia.store.audit import MAX_DETAILS, Audit
from teia.store.reader import ArchiveReader
from teia.store.root import CellFolder, Root
from teia.urls import key_of

MAX_ROWS = 1_000_000
"""Requests of each cell that are compared, the latest first."""

SAME_TIME_S = 1e-5
"""Greatest difference of two times that are the same: the log has them to the microsecond."""


def audit_frontier(root: Root, name: str) -> Audit:
    """Compare the frontier of a collection with the archive and the log, URL by URL."""
    checked, complaints = 0, list[str]()
    folders = root.collection(name).cells()
    for folder in folders:
        where = f"cell {folder.number:02d}: "
        try:
            with closing(FrontierCell(folder.frontier, read_only=True)) as cell:
                checked += cell.known
                complaints += [where + each for each in contradictions(cell)]
                complaints += [where + each for each in _archive_complaints(folder, cell)]
        except StoreError as error:
            complaints.append(str(error))
    try:
        complaints += _log_complaints(root, name, folders)
    except StoreError as error:
        complaints.append(str(error))
    return Audit(checked, len(complaints), tuple(complaints[:MAX_DETAILS]))


def damage(root: Root, name: str) -> list[str]:
    """Return the pages of a collection's frontiers that do not match their checksums, in words."""
    return [
        f"cell {folder.number:02d}: page {number} of {folder.frontier.name} does not match its checksum"
        for folder in root.collection(name).cells()
        if folder.frontier.exists()
        for number in damaged_pages(folder.frontier)
    ]


def accept(root: Root, name: str) -> None:
    """Take the frontiers of a collection as they are; the caller has locked the root."""
    for folder in root.collection(name).cells():
        # Opened and closed: its log is moved into the file before the checksums are computed.
        FrontierCell(folder.frontier).close()
        sum_all(folder.frontier)


def _archive_complaints(folder: CellFolder, cell: FrontierCell) -> Iterator[str]:
    reader, may_lack = ArchiveReader(folder.archive), cell.is_of_cluster
    for url, file, offset, length, digest in captures(cell):
        if may_lack and not reader.path_of(file).exists():  # on another node
            continue
        try:
            record = reader.read(file, offset)
        except StoreError as error:
            yield f"{url}: its capture cannot be read ({error})"
            continue
        found = record.headers.get("warc-payload-digest", "")
        if record.length != length:
            yield f"{url}: its capture has {record.length} bytes in the archive, not {length}"
        if digest and found and found != digest:
            yield f"{url}: its capture has another digest in the archive"


def _log_complaints(root: Root, name: str, folders: Sequence[CellFolder]) -> Iterator[str]:
    """Yield visits whose outcome or capture differs from that of their row in the log."""
    with fetch_log(root, name) as log:
        for folder in folders:
            sql = f"""
                SELECT host, url, epoch(started), outcome, warc_file, warc_offset FROM fetches
                WHERE kind = 'page' AND coalesce(run, 0) <> {IMPORTED_RUN} AND cell = {folder.number}
                ORDER BY started DESC
            """  # noqa: S608  # our own text
            with closing(FrontierCell(folder.frontier, read_only=True)) as cell:
                for row in log.query(sql, MAX_ROWS).rows:
                    yield from _visit_complaints(cell, *row)


def _visit_complaints(
    cell: FrontierCell, host: str, url: str, started_s: float, outcome: str, file: str | None, offset: int | None
) -> Iterator[str]:
    row_key = cell.find_row_key(host, key_of(url))
    # A URL that failed without an answer has no visit; a site may have moved to another cell.
    if row_key is None:
        return
    for visit in visits_of(cell, row_key, started_s - SAME_TIME_S, started_s + SAME_TIME_S)[:1]:
        if visit.outcome != outcome:
            yield f"{url}: its visit ended with {visit.outcome}, in the log with {outcome}"
        elif visit.file and file and (visit.file, visit.offset) != (file, offset):
            yield f"{url}: its visit names another record than the log"
