"""The files of the fetch log: what each column is, and how rows become Parquet.

Apart from the rows themselves (fetchlog.py), for Arrow takes a tenth of a second to load and a crawl writes a file of
its log when it has 50,000 rows, or is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from teia.durable import replacing

VERSION = "1"


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
    Column(
        "kind",
        pa.string(),
        "page, robots, sitemap, feed, requisite, probe; cached: out of a cache, its server was not asked",
    ),
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
        # Arrow would take a float for microseconds and drop its fraction: pass it whole microseconds.
        return pa.array([round(value * 1e6) for value in values], pa.int64()).cast(_TIME)
    if column.arrow == pa.bool_():
        return pa.array([None if value is None else bool(value) for value in values], pa.bool_())
    return pa.array(values, column.arrow)


def write_parquet(folder: Path, rows: Iterable[Sequence[Any]], serial: int) -> Path:
    """Write one file of the log, whole or not at all. Writing a serial number again replaces the file."""
    path = folder / f"fetches-{serial:08d}.parquet"
    with replacing(path) as file:
        pq.write_table(table_of(rows), file, compression="zstd", use_dictionary=True, write_statistics=True)
    return path


def is_readable(path: Path) -> bool:
    """Tell whether a file's footer can be read and is of our version: the check possible without reading it all."""
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError):
        return False
    return (schema.metadata or {}).get(b"teia.fetchlog") == VERSION.encode()
