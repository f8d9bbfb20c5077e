"""One row per fetch: what reports, the politeness audit and `teia sql` read.

    log/fetches-<serial>.parquet     zstd, the columns of `SCHEMA`; written once, never changed

A fetch's row is committed with its page, in the frontier's own database. When enough rows are there they are rolled
out: written to the Parquet file with the next serial number, and then, in one transaction, deleted there and the
number raised. A crash between the two leaves a file whose number does not count yet; readers pass over it and the next
roll-out writes it again. So a row is seen exactly once at any instant (`LogPart.next_serial`).

Times are UTC to the microsecond. `rest_s` is the rest that courtesy demanded between the server's last answer and this
request, `rested_s` what it got by the clock that never jumps; both are null for a host's first request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from teia.durable import disk_errors, replacing

VERSION = "1"
_FILE = re.compile(r"fetches-(\d{8,})\.parquet")


class FetchRow(NamedTuple):
    """One fetch. The order of the fields is the order of the columns everywhere; None is null."""

    started: float
    ended: float
    url: str
    host: str
    site: str
    outcome: str
    status: int | None = None
    tarantula_code: int | None = None
    kind: str = "page"
    address: str | None = None
    run: int | None = None
    cell: int | None = None
    depth: int | None = None
    visit: int | None = None
    attempt: int = 1
    rest_s: float | None = None
    rested_s: float | None = None
    bytes: int = 0
    decoded_bytes: int | None = None
    media_type: str | None = None
    charset: str | None = None
    language: str | None = None
    digest: str | None = None
    text_digest: str | None = None
    changed: bool | None = None
    redirect_to: str | None = None
    links: int | None = None
    links_in_scope: int | None = None
    links_unindexable: int | None = None
    truncated: str | None = None
    detail: str | None = None
    warc_file: str | None = None
    warc_offset: int | None = None
    warc_length: int | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its Arrow type and its meaning."""

    name: str
    arrow: Any
    meaning: str


_TIME = pa.timestamp("us", "UTC")
COLUMNS: tuple[Column, ...] = (
    Column("started", _TIME, "when the request was sent"),
    Column("ended", _TIME, "when the last byte or the error came"),
    Column("url", pa.string(), "canonical URL asked for"),
    Column("host", pa.string(), "its host"),
    Column("site", pa.string(), "its registered domain"),
    Column("outcome", pa.string(), "status as text, or the name of what went wrong"),
    Column("status", pa.int16(), "HTTP status; null without an answer"),
    Column("tarantula_code", pa.int16(), "T8's own code for the outcome; null where it has none"),
    Column("kind", pa.string(), "page, robots, sitemap, feed, requisite, probe"),
    Column("address", pa.string(), "address the answer came from"),
    Column("run", pa.int32(), "which run of the collection this was part of (C5's session); -1: imported"),
    Column("cell", pa.int16(), "cell of the site"),
    Column("depth", pa.int16(), "hops from a seed, as known then"),
    Column("visit", pa.int32(), "how many times the URL had been asked for, this time included"),
    Column("attempt", pa.int16(), "1, or more when a failure is tried again"),
    Column("rest_s", pa.float64(), "rest demanded before this request"),
    Column("rested_s", pa.float64(), "rest the server had"),
    Column("bytes", pa.int64(), "received, head included"),
    Column("decoded_bytes", pa.int64(), "of the body, decompressed"),
    Column("media_type", pa.string(), "type of the body, parameters removed"),
    Column("charset", pa.string(), "encoding its text was read in"),
    Column("language", pa.string(), "language found in its text"),
    Column("digest", pa.string(), "SHA-256 of the decoded body, hex"),
    Column("text_digest", pa.string(), "digest of the normalised text (F3)"),
    Column("changed", pa.bool_(), "whether the text differs from the visit before; null if none before"),
    Column("redirect_to", pa.string(), "where a redirect leads, canonical"),
    Column("links", pa.int32(), "references found"),
    Column("links_in_scope", pa.int32(), "of them, within the collection's scope"),
    Column("links_unindexable", pa.int32(), "of them, to images, archives and other unindexable types (C5)"),
    Column("truncated", pa.string(), "why the body is incomplete: length, time, disconnect"),
    Column("detail", pa.string(), "what exactly went wrong, one line"),
    Column("warc_file", pa.string(), "file of the response or revisit record"),
    Column("warc_offset", pa.int64(), "where in it"),
    Column("warc_length", pa.int64(), "compressed length of that record"),
)
SCHEMA = pa.schema([(column.name, column.arrow) for column in COLUMNS], metadata={"teia.fetchlog": VERSION})


def table_of(rows: Iterable[Sequence[Any]]) -> Any:
    """Return rows, each a `FetchRow` or a tuple in its order, as an Arrow table."""
    by_column = list(zip(*rows, strict=True)) or [() for _ in COLUMNS]
    arrays = [_array(values, column) for values, column in zip(by_column, COLUMNS, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


def _array(values: Sequence[Any], column: Column) -> Any:
    if column.arrow == _TIME:
        return pa.array([round(value * 1e6) for value in values], pa.int64()).cast(_TIME)
    if column.arrow == pa.bool_():
        return pa.array([None if value is None else bool(value) for value in values], pa.bool_())
    return pa.array(values, column.arrow)


# ---- files ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogPart:
    """One cell's log as its frontier describes it: files below `next_serial` count, `pending` rows are not out yet."""

    folder: Path
    next_serial: int
    pending: Sequence[Sequence[Any]] = ()


def write_parquet(folder: Path, rows: Iterable[Sequence[Any]], serial: int) -> Path:
    """Write one file of the log, whole or not at all. Writing a serial number again replaces the file."""
    path = folder / f"fetches-{serial:08d}.parquet"
    with replacing(path) as file:
        pq.write_table(table_of(rows), file, compression="zstd", use_dictionary=True, write_statistics=True)
    return path


def log_files(part: LogPart) -> list[Path]:
    """Return the Parquet files of a cell's log that count, in order."""
    numbered: list[tuple[int, Path]] = []
    with disk_errors(part.folder, "read"):
        for path in part.folder.iterdir():
            match = _FILE.fullmatch(path.name)
            if match and int(match[1]) < part.next_serial:
                numbered.append((int(match[1]), path))
    return [path for _, path in sorted(numbered)]


def is_readable(path: Path) -> bool:
    """Whether a file's footer can be read and is of our version: what can be known without reading it all."""
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError):
        return False
    return (schema.metadata or {}).get(b"teia.fetchlog") == VERSION.encode()
