"""One row per fetch, for reports, the politeness audit and `teia sql`.

    log/fetches-<serial>.parquet     zstd, the columns of store/parquet.py; written once, never changed

A fetch's row is committed with its page, in the frontier's own database. When there are enough rows they are rolled
out: written to the Parquet file with the next serial number, and then, in one transaction, deleted there and the number
raised. A crash between the two leaves a file whose number does not count yet; readers skip it and the next roll-out
writes it again. So a row is seen exactly once at any instant (`LogPart.next_serial`).

Times are UTC to the microsecond. `rest_s` is the politeness delay required between the server's last answer and this
request, `rested_s` the actual delay by the monotonic clock; both are null for a host's first request.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from teia.clock import iso_utc
from teia.durable import disk_errors

MAX_SQL_CHARS = 64 << 10
"""Longest query that `store/sql.py` reads."""

OF_PAGES = "kind NOT IN ('robots', 'probe', 'render')"
"""Condition for visits to pages: without robots.txt, tests of a site, and what a rendered page requested."""

_FILE = re.compile(r"fetches-(\d{8,})\.parquet")


class FetchRow(NamedTuple):
    """One fetch. The order of the fields is the order of the columns everywhere; None is null.

    New fields go to the end: rows that an older teia wrote are shorter, and are read with None for the rest.
    """

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
    images: int | None = None
    mail_links: int | None = None
    parsed: float | None = None
    committed: float | None = None


# ---- questions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rows:
    """An answer: column names, rows, and whether there were more of them."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    cut: bool


class Log(Protocol):
    """Interface for SQL over `fetches`: all of the log (sql.py), or the rows that are in no file yet (pending.py)."""

    def query(self, sql: str, max_rows: int = ...) -> Rows:
        """Answer one SELECT."""

    def add_table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Add a table beside `fetches`, looked up by its first column; another of that name is replaced."""


def json_value(value: Any) -> Any:
    """Convert a value of an answer for JSON: times in ISO 8601 and UTC, bytes as hex, no infinities."""
    if isinstance(value, datetime):
        return iso_utc((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp())
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): json_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    return value if value is None or isinstance(value, str | int | bool) else str(value)


# ---- files ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogPart:
    """One cell's log as its frontier describes it: files below `next_serial` count, `pending` rows are not out yet."""

    folder: Path
    next_serial: int
    pending: Iterable[FetchRow] = ()


def log_files(part: LogPart) -> list[Path]:
    """Return the Parquet files of a cell's log that count, in order."""
    numbered: list[tuple[int, Path]] = []
    with disk_errors(part.folder, "read"):
        for path in part.folder.iterdir():
            match = _FILE.fullmatch(path.name)
            # A higher number is a file whose transaction never came: its rows are still in `pending`.
            if match and int(match[1]) < part.next_serial:
                numbered.append((int(match[1]), path))
    return [path for _, path in sorted(numbered)]
