"""Fetch logs that others wrote, as `teia import log` reads them: refused with a message, or rows that can be stored."""

from __future__ import annotations

import io

import pyarrow.parquet as pq

from teia.crawler.fetch_rows import as_stored
from teia.errors import CorruptFile
from teia.lib.scratch import ScratchFolder
from teia.store.fetchlog import FetchRow
from teia.store.parquet import table_of
from teia.transfer.import_data import ImportResult
from teia.transfer.import_lists import _read_log

COLUMNS = ["started", "ended", "url", "host", "site", "outcome", "status", "digest", "changed", "links"]
FOLDER = ScratchFolder("teia-fuzz-log-")
FILE = FOLDER.path / "log.parquet"


def _seed(*names: str, **options: str) -> bytes:
    row = FetchRow(1.7e9, 1.7e9 + 1, "http://a.test/", "a.test", "a.test", "200", status=200, changed=True, links=3)
    table, file = table_of([row, row._replace(url="http://a.test/2")]).select(names), io.BytesIO()
    pq.write_table(table, file, write_statistics=False, store_schema=False, **options)
    return file.getvalue()


SEEDS = (
    _seed(*COLUMNS, compression="none"),
    _seed(*COLUMNS[:6], compression="zstd"),
    _seed("host", "url", compression="snappy", data_page_version="2.0"),
)


def fuzz_one(data: bytes) -> None:
    FILE.write_bytes(data)
    done = ImportResult("main")
    try:
        read = [row for rows in _read_log(FILE, done) for row in rows]
    except CorruptFile:
        return
    rows = [row for row in read if row is not None]
    assert done.refused == len(read) - len(rows)
    assert str([as_stored(row) for row in rows]) == str(rows), "as text, in which NaN is NaN"
    assert table_of(rows).num_rows == len(rows)
