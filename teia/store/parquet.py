"""The files of the fetch log: what each column is, and how rows become Parquet.

Apart from the rows themselves (fetchlog.py), for Arrow takes a tenth of a second to load and a crawl writes a file of
its log when it has 50,000 rows, or is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from teia.durable import replacing

VERSION = "1"
ROWS_AT_ONCE = 2_048


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its Arrow type and its description."""

    name: str
    arrow: Any
    description: str


_TIME = pa.timestamp("us", "UTC")
COLUMNS: tuple[Column, ...] = (
    Column("started", _TIME, "time when the request was sent"),
    Column("ended", _TIME, "time of the last byte, or of the error"),
    Column("url", pa.string(), "canonical URL of the request"),
    Column("host", pa.string(), "host of the URL"),
    Column("site", pa.string(), "registered domain of the host"),
    Column("outcome", pa.string(), "outcome: HTTP status as text, or the name of the error"),
    Column("status", pa.int16(), "HTTP status; null without a response"),
    Column("tarantula_code", pa.int16(), "status code of Tarântula (T8) for the outcome; null if it has none"),
    Column(
        "kind",
        pa.string(),
        "page, robots, sitemap, feed, requisite or probe; render: a request of a page that was rendered; cached: from a"
        " cache, without a request to its server",
    ),
    Column("address", pa.string(), "IP address of the response"),
    Column("run", pa.int32(), "number of the run of the collection; -1: imported"),
    Column("cell", pa.int16(), "cell of the site"),
    Column("depth", pa.int16(), "depth: links from a seed, as known at that time"),
    Column("visit", pa.int32(), "number of requests for the URL so far, including this one"),
    Column("attempt", pa.int16(), "number of the attempt: 1, or more after failures"),
    Column("rest_s", pa.float64(), "delay required before this request"),
    Column("rested_s", pa.float64(), "actual delay before this request"),
    Column("bytes", pa.int64(), "bytes received, including headers"),
    Column("decoded_bytes", pa.int64(), "size of the body after decompression"),
    Column("media_type", pa.string(), "media type of the body, without parameters"),
    Column("charset", pa.string(), "character encoding of the text"),
    Column("language", pa.string(), "language detected in the text"),
    Column("digest", pa.string(), "SHA-256 of the decoded body, hex"),
    Column("text_digest", pa.string(), "digest of the normalized text"),
    Column(
        "changed",
        pa.bool_(),
        "true if the page changed since its visit before; null for a first visit, or if the answer does not tell",
    ),
    Column("redirect_to", pa.string(), "canonical target of a redirect"),
    Column("links", pa.int32(), "number of references found"),
    Column("links_in_scope", pa.int32(), "number of references in the scope of the collection"),
    Column(
        "links_unindexable", pa.int32(), "number of references to images, archives and other types that are not indexed"
    ),
    Column("truncated", pa.string(), "reason why the body is incomplete: length, time, disconnect"),
    Column("detail", pa.string(), "details of the error, in one line"),
    Column("warc_file", pa.string(), "WARC file of the response or revisit record"),
    Column("warc_offset", pa.int64(), "offset of the record in the file"),
    Column("warc_length", pa.int64(), "compressed length of the record"),
    Column("images", pa.int32(), "number of image tags of a web page"),
    Column("mail_links", pa.int32(), "number of e-mail addresses that a web page links to"),
    Column("parsed", _TIME, "time when a parse process had read the response; null without one, or if unknown"),
    Column("committed", _TIME, "time when the visit and its links were committed; null in rows of older versions"),
)
SCHEMA = pa.schema([(column.name, column.arrow) for column in COLUMNS], metadata={"teia.fetchlog": VERSION})


def table_of(rows: Iterable[Sequence[Any]]) -> Any:
    """Return rows, each a `FetchRow` or a tuple in its order, as an Arrow table."""
    # Some rows at a time: as objects of Python they take six times as much memory as in columns.
    left = iter(rows)
    parts = iter(lambda: list(islice(left, ROWS_AT_ONCE)), [])
    return pa.concat_tables([SCHEMA.empty_table(), *map(_part_of, parts)])


def _part_of(rows: Sequence[Sequence[Any]]) -> Any:
    arrays = [_array(values, column) for values, column in zip(zip(*rows, strict=True), COLUMNS, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


def _array(values: Sequence[Any], column: Column) -> Any:
    if column.arrow == _TIME:
        # Arrow would take a float for microseconds and drop its fraction: pass it whole microseconds.
        whole = [None if value is None else round(value * 1e6) for value in values]
        return pa.array(whole, pa.int64()).cast(_TIME)
    if column.arrow == pa.bool_():
        return pa.array([None if value is None else bool(value) for value in values], pa.bool_())
    return pa.array(values, column.arrow)


def with_all_columns(batch: Any) -> Any:
    """Return rows of a file with all columns of the log; those that an older teia did not write are null."""
    present = set(batch.schema.names)
    arrays = [
        batch.column(column.name).cast(column.arrow)
        if column.name in present
        else pa.nulls(batch.num_rows, column.arrow)
        for column in COLUMNS
    ]
    return pa.record_batch(arrays, schema=SCHEMA)


def write_parquet(folder: Path, rows: Iterable[Sequence[Any]], serial: int) -> Path:
    """Write one file of the log, whole or not at all. Writing a serial number again replaces the file."""
    path = folder / f"fetches-{serial:08d}.parquet"
    table = table_of(rows)
    with replacing(path) as file:
        pq.write_table(table, file, compression="zstd", use_dictionary=True, write_statistics=True)
    # Arrow would keep some 50 MB for the next file, which comes after 50,000 requests of a cell.
    del table
    pa.default_memory_pool().release_unused()
    return path


def commit_times(path: Path) -> list[float]:
    """Return the times of the commits of a file's rows, in their order; none of rows that an older teia wrote."""
    if not is_readable(path) or "committed" not in pq.read_schema(path).names:
        return []
    rows = pq.read_table(path, columns=["committed"], filters=pc.field("run").is_null())
    column = rows["committed"].drop_null()
    return [micro_s / 1e6 for micro_s in column.cast(pa.int64()).to_pylist()]


def is_readable(path: Path) -> bool:
    """Tell whether a file's footer can be read and is of our version: the check possible without reading it all."""
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError, ValueError):  # ValueError: the name of a column is no UTF-8
        return False
    return (schema.metadata or {}).get(b"teia.fetchlog") == VERSION.encode()
