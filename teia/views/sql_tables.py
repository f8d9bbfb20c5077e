"""The frontier as tables for SQL: `pages` and `hosts` beside the fetch log's `fetches` (`teia sql`).

    pages   one row for every known URL, fetched or not: its state, its origin, the results of the last visits
    hosts   one row for every server

DuckDB cannot open our SQLite files without an extension that it would have to download. So the tables that a query
names are copied, a batch of rows at a time, to Parquet files in a temporary folder, and read from there as often as the
query likes: memory stays bounded however many URLs there are, and a query that names neither does not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from teia.durable import disk_errors
from teia.frontier.cell.alias_evidence import ALIAS, pair_names
from teia.frontier.cell.schema import FOUND_BY, STATE_NAMES
from teia.frontier.tables.hosts import UrlCounts, all_hosts, count_urls
from teia.frontier.tables.pages import PageEntry, all_urls
from teia.lib.message import decoded
from teia.lib.scratch import ScratchFolder
from teia.store.root import Root
from teia.store.sql import FetchLog
from teia.urls import site_of
from teia.views.reports.source import OpenCell, log_parts, snapshot

BATCH_ROWS = 20_000
_TIME = pa.timestamp("us", "UTC")
_BITS = {f"by_{name}": bit for name, bit in FOUND_BY.items()}

PAGES = pa.schema(
    [
        ("url", pa.string()), ("host", pa.string()), ("site", pa.string()), ("cell", pa.int16()),
        ("state", pa.string()), ("outcome", pa.string()), ("depth", pa.int32()), ("in_links", pa.int64()),
        ("found", _TIME), *((name, pa.bool_()) for name in _BITS), ("failures", pa.int32()),
        ("visits", pa.int64()), ("changes", pa.int64()), ("last_visit", _TIME), ("last_change", _TIME),
        ("status", pa.int16()), ("media_type", pa.string()), ("language", pa.string()), ("title", pa.string()),
        ("digest", pa.string()), ("text_digest", pa.string()), ("redirect_to", pa.string()),
        ("canonical", pa.string()), ("noindex", pa.bool_()),
        ("warc_file", pa.string()), ("warc_offset", pa.int64()), ("warc_length", pa.int64()),
    ]
)  # fmt: skip
HOSTS = pa.schema(
    [
        ("host", pa.string()), ("site", pa.string()), ("cell", pa.int16()), ("found", _TIME),
        ("urls", pa.int64()), ("queued", pa.int64()), ("failed", pa.int64()), ("excluded", pa.int64()),
        ("requests", pa.int64()), ("bytes", pa.int64()), ("response_s", pa.float64()), ("address", pa.string()),
        ("parked", pa.string()), ("alias_of", pa.string()),
    ]
)  # fmt: skip

Rows = Generator[tuple[Any, ...], None, None]


def _pages(cell: OpenCell) -> Rows:
    for _, host, url, row, page in all_urls(cell.frontier):
        yield (
            *(url, host, site_of(host), cell.number, STATE_NAMES[row.state], row.outcome or None),
            *(row.depth, row.in_links, _time(row.found_s), *(bool(row.found_by & bit) for bit in _BITS.values())),
            *(row.failures, *(_page(page) if page is not None else _NEVER_VISITED)),
        )


def _page(page: PageEntry) -> tuple[Any, ...]:
    return (
        *(page.visits, page.changes, _time(page.last_visit_s), _time(page.last_change_s), page.status),
        *(page.media_type or None, page.language or None, page.title or None),
        *(page.digest.hex() or None, page.text_digest.hex() or None),
        *(page.redirect_to or None, page.canonical or None, bool(page.noindex)),
        *((page.file, page.offset, page.length) if page.file else (None, None, None)),
    )


_NEVER_VISITED = (0, 0, *(None,) * 14)
"""The last columns of a page that was never visited: visits, changes, and no results."""


def _hosts(cell: OpenCell) -> Rows:
    aliases = {host: main for host, main, state in pair_names(cell.frontier) if state == ALIAS}
    urls = dict(count_urls(cell.frontier))
    for host in all_hosts(cell.frontier):
        counts = urls.get(host.host_id, UrlCounts())
        yield (
            *(host.name, site_of(host.name), cell.number, _time(host.found_s)),
            *(counts.known, counts.queued, counts.failed, counts.excluded, host.requests, host.bytes),
            *(host.response_s, host.address or None, str(decoded(host.parked)) or None, aliases.get(host.name)),
        )


def _time(unix_s: float | None) -> int | None:
    return None if unix_s is None else round(unix_s * 1e6)


@dataclass(frozen=True, slots=True)
class SqlTable:
    """A table of the frontier: its columns, and how a cell's rows of it are read."""

    schema: Any
    rows: Callable[[OpenCell], Rows]


VIEWS = {"pages": SqlTable(PAGES, _pages), "hosts": SqlTable(HOSTS, _hosts)}


def copy_table(view: SqlTable, cells: Sequence[OpenCell], path: Path, check_deadline: Callable[[], None]) -> Any:
    """Copy a table to a Parquet file and return it as a dataset that DuckDB reads in place."""
    import pyarrow.dataset as ds  # takes a while, and many queries name neither table

    with disk_errors(path, "written"), pq.ParquetWriter(path, view.schema, compression="lz4") as writer:
        for cell in cells:
            with closing(view.rows(cell)) as rows:
                # Memory is bounded by the batch, and the query may be stopped between two.
                while batch := list(islice(rows, BATCH_ROWS)):
                    check_deadline()
                    columns = zip(*batch, strict=True)
                    arrays = [pa.array(values, each.type) for values, each in zip(columns, view.schema, strict=True)]
                    writer.write_batch(pa.record_batch(arrays, schema=view.schema))
    return ds.dataset(path, schema=view.schema)


@contextmanager
def sql_views(
    root: Root, collection: str, sql: str, check_deadline: Callable[[], None] = lambda: None, memory_mb: int = 512
) -> Iterator[FetchLog]:
    """Open the views of a collection that a query may use: `fetches`, and of the others those it names.

    `check_deadline` is called now and then while tables are copied; it may raise. Users query through sql_child.py.
    """
    # A name inside a text or a comment only costs a copy that is not used.
    wanted = [name for name in VIEWS if name in sql.lower()]
    with snapshot(root, collection) as cells, ScratchFolder("teia-sql-") as folder:
        tables = {
            name: copy_table(VIEWS[name], cells, folder.path / f"{name}.parquet", check_deadline) for name in wanted
        }
        with FetchLog(log_parts(cells), tables, memory_mb) as log:
            yield log
