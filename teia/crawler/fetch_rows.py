"""Rows of the fetch log: made from visits, kept with the frontier until there are enough, then moved to Parquet.

The commit thread moves them during the crawl, so that a crawl of weeks keeps no more than `ROLL_OUT_ROWS` of a cell in
its database: readers hold those in memory, and a stop has to move the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from teia.crawler.sites.identity import IDENTITY_REQUESTS
from teia.crawler.sites.soft404 import PROBE
from teia.crawler.visit import ActiveVisit
from teia.errors import CorruptFile
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.old_names import NEW_NAMES_FORMAT
from teia.frontier.cell.rows import CaptureLocation
from teia.frontier.tables import pending_log
from teia.records import Outcome
from teia.store.fetchlog import FetchRow, LogPart
from teia.store.root import Root
from teia.urls import site_of

if TYPE_CHECKING:
    from teia.store.sql import FetchLog

T = TypeVar("T")

CACHED = "cached"
"""Kind of a row for a page from the operator's cache proxy (C7): no request to its server."""

IMPORTED_RUN = -1
"""The `run` of rows from `teia import log`: requests of other crawlers, which the politeness audit skips."""

ROLL_OUT_ROWS = 50_000
"""Number of rows of a file that is written during a crawl, and the most of any file: it is in memory, in columns."""

ROLL_OUT_AT_END = 5_000
"""Number of rows that are worth a file when a crawl ends; fewer stay with the frontier, where readers see them too.

A collection that is crawled a little every hour would have thousands of small files otherwise.
"""

MAX_ROW_BYTES = 64 << 10
"""Size of an imported row; one of our own has some 400 bytes."""

_OLD_COLUMNS = FetchRow._fields.index("images")
"""Number of columns that nodes of the version before can read."""

_encode = msgspec.msgpack.Encoder().encode
_decode_row = msgspec.msgpack.Decoder(FetchRow).decode
_CODES = {outcome.value: outcome.tarantula_code for outcome in Outcome}


def _decode(packed: bytes) -> FetchRow:
    """Return a stored row; of one that a newer teia wrote (a neighbour in a cluster), the columns known here."""
    try:
        return _decode_row(packed)
    except msgspec.ValidationError:
        values, known = msgspec.msgpack.decode(packed), len(FetchRow._fields)
        # New columns are at the end of a row; anything else is damage.
        if not isinstance(values, list) or len(values) <= known:
            raise
        return msgspec.convert(values[:known], FetchRow)


def _read(packed: bytes, frontier: Path) -> FetchRow:
    try:
        return _decode(packed)
    except msgspec.DecodeError as error:
        raise CorruptFile(
            frontier, f"a row of its fetch log cannot be read ({error}); restore it from a backup"
        ) from error


def log_row(visit: ActiveVisit, archived: CaptureLocation, committed_s: float) -> FetchRow | None:
    """Return the row for a request that was sent; None for a URL that was settled without one."""
    fetched, item, result = visit.fetched, visit.item, visit.result
    if fetched is None:
        return None
    decoded_bytes = links = in_scope = unindexable = images = mail_links = None
    media_type = language = digest = text_digest = redirect_to = truncated = ""
    if result is not None:
        decoded_bytes, media_type, language = result.payload_bytes, result.media_type, result.language
        digest, text_digest, redirect_to = result.digest.hex(), result.text_digest.hex(), result.redirect_to
        links, in_scope = result.links_seen, result.links_seen - result.links_out_of_scope
        unindexable, truncated = result.links_unindexable, result.truncated
        images, mail_links = result.images, result.mail_links
    queue = visit.queue
    kind = CACHED if visit.from_cache else PROBE if item.purpose in IDENTITY_REQUESTS else item.purpose
    file, offset, length = archived if archived.file else (None, None, None)
    # By position: with names, a row takes twice as long, and every request has one.
    return FetchRow(
        fetched.started_s, fetched.ended_s, item.url, queue.host, site_of(queue.host), visit.outcome,
        fetched.status or None, _CODES.get(visit.outcome), kind, visit.address or None, None, queue.cell, item.depth,
        item.visits + 1, item.failures + 1, visit.delay_before_s, visit.waited_s, visit.bytes_received, decoded_bytes,
        media_type or None, None, language or None, digest or None, text_digest or None, visit.changed,
        redirect_to or None, links, in_scope, unindexable, truncated or None, visit.detail or None, file, offset,
        length, images, mail_links, visit.parsed_s, committed_s,
    )  # fmt: skip


def as_stored(row: FetchRow) -> FetchRow:
    """Return a row as readers of the log will see it; ValueError if they could not read it, or if it is too large."""
    packed = _encode(row)
    if len(packed) > MAX_ROW_BYTES:
        raise ValueError(f"it has more than {MAX_ROW_BYTES:,} bytes")
    return _decode_row(packed)


def write_log(frontier: FrontierCell, rows: Iterable[FetchRow | None]) -> None:
    """Store rows with the frontier, inside its transaction; without the newest columns while older nodes read them."""
    is_mixed = frontier.journal is not None and frontier.journal.format < NEW_NAMES_FORMAT
    columns = _OLD_COLUMNS if is_mixed else len(FetchRow._fields)
    pending_log.append(frontier, (_encode(row[:columns]) for row in rows if row is not None))


class PackedRows:
    """Rows that are decoded while they are iterated: as objects they take six times as much memory."""

    def __init__(self, packed: Sequence[bytes], frontier: Path) -> None:
        self._packed, self._frontier = packed, frontier

    def __iter__(self) -> Iterator[FetchRow]:
        return (_read(each, self._frontier) for each in self._packed)


def log_part(frontier: FrontierCell, folder: Path) -> LogPart:
    """Return a cell's log as readers see it: its Parquet files and the rows still in the frontier."""
    rows, serial = with_serial(frontier, lambda _: [row for _, row in pending_log.walk(frontier)])
    return LogPart(folder, serial, PackedRows(rows, frontier.path))


def with_serial(frontier: FrontierCell, read: Callable[[int], T]) -> tuple[T, int]:
    """Return what `read` finds in the log, and the number of the file that is written next; both of one instant.

    `read` is called with that number, and again if rows were moved to a file meanwhile: they would be missing, or there
    twice.
    """
    while True:
        serial = pending_log.next_serial(frontier)
        found = read(serial)
        if pending_log.next_serial(frontier) == serial:
            return found, serial


@contextmanager
def fetch_log(root: Root, collection: str) -> Iterator[FetchLog]:
    """Open the fetch log of a collection as of now, for SQL and reports."""
    from teia.store.sql import FetchLog  # loads DuckDB, which the end of a small crawl does without

    with FetchLog(log_parts(root, collection)) as log:
        yield log


def log_parts(root: Root, collection: str) -> list[LogPart]:
    """Return the logs of a collection's cells as readers see them."""
    parts = []
    for folder in root.collection(collection).cells():
        with closing(FrontierCell(folder.frontier, read_only=True)) as cell:
            parts.append(log_part(cell, folder.log))
    return parts


def forget_locations(frontier: FrontierCell, is_lost: Callable[[str, int, int], bool]) -> None:
    """Clear the archive positions of lost records in the rows still in the frontier; inside a transaction."""
    for seq, packed in pending_log.read(frontier):  # a list, because rows are replaced meanwhile
        row = _decode(packed)
        if row.warc_file and is_lost(row.warc_file, row.warc_offset or 0, row.warc_length or 0):
            row = row._replace(warc_file=None, warc_offset=None, warc_length=None)
            pending_log.replace(frontier, seq, _encode(row))


def roll_out(frontier: FrontierCell, folder: Path, at_least: int = ROLL_OUT_ROWS) -> None:
    """Move the rows to Parquet files once there are enough; after a crash, the same file is written again."""
    # The number of the next file is committed with the rows' deletion: a file is written under it once or again.
    while pending_log.count(frontier) >= max(1, at_least):
        _roll_out_some(frontier, folder)


def _roll_out_some(frontier: FrontierCell, folder: Path) -> None:
    from teia.store.parquet import write_parquet

    serial, last = pending_log.next_serial(frontier), 0

    def rows() -> Iterator[FetchRow]:
        nonlocal last
        for last, packed in pending_log.walk(frontier, ROLL_OUT_ROWS):  # noqa: B007  # it is used below
            yield _read(packed, frontier.path)

    write_parquet(folder, rows(), serial)
    # The rows leave the frontier only once the file is complete.
    with frontier.transaction():
        pending_log.delete_rolled_out(frontier, last, serial)
