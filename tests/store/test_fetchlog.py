from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from teia.clock import from_iso
from teia.store.fetchlog import FetchRow, LogPart, log_files
from teia.store.parquet import COLUMNS, SCHEMA, is_readable, with_all_columns, write_parquet
from tests.conftest import ROOT

from .answers import START_S

FULL = FetchRow(
    started=START_S + 0.123456,
    ended=START_S + 1.654321,
    url="http://a.test/é?x='1'",
    host="a.test",
    site="a.test",
    outcome="200",
    status=200,
    tarantula_code=None,
    kind="page",
    address="127.77.0.1",
    run=3,
    cell=7,
    depth=2,
    visit=4,
    attempt=1,
    rest_s=5.0,
    rested_s=5.25,
    bytes=1234,
    decoded_bytes=5678,
    media_type="text/html",
    charset="utf-8",
    language="pt",
    digest="ab" * 32,
    text_digest="cd" * 8,
    changed=True,
    redirect_to=None,
    links=91,
    links_in_scope=60,
    links_unindexable=12,
    truncated=None,
    detail=None,
    warc_file="teia-main-07-20231114221320-00001.warc.gz",
    warc_offset=3_000_000_000,
    images=3,
    mail_links=1,
    warc_length=6_400,
)
LEAST = FetchRow(START_S, START_S, "http://b.test/", "b.test", "b.test", "timeout", tarantula_code=-10)


def test_fields_and_columns_are_the_same() -> None:
    assert [column.name for column in COLUMNS] == list(FetchRow._fields) == SCHEMA.names
    assert all(column.description for column in COLUMNS)


def test_every_column_is_documented() -> None:
    page = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    missing = [c.name for c in COLUMNS if f"| `{c.name}` | {c.arrow} | {c.description} |" not in page]
    assert not missing


def test_rows_come_back_from_parquet(tmp_path: Path) -> None:
    path = write_parquet(tmp_path, [FULL, LEAST], 0)
    full, least = pq.read_table(path).to_pylist()
    for row, wanted in ((full, FULL), (least, LEAST)):
        for name, value in wanted._asdict().items():
            if name in {"started", "ended"}:
                assert row[name].timestamp() == pytest.approx(value, abs=1e-7)
                assert row[name].utcoffset().total_seconds() == 0
            else:
                assert row[name] == value
    assert from_iso(full["started"].isoformat()) == FULL.started


def test_columns_that_an_older_log_lacks_are_null(tmp_path: Path) -> None:
    older = pq.read_table(write_parquet(tmp_path, [FULL], 0)).drop_columns(["images", "mail_links"])
    (batch,) = older.to_batches()
    (row,) = with_all_columns(batch).to_pylist()
    assert (row["url"], row["warc_length"], row["images"], row["mail_links"]) == (
        FULL.url,
        FULL.warc_length,
        None,
        None,
    )


def test_no_rows_are_a_table_too(tmp_path: Path) -> None:
    assert pq.read_table(write_parquet(tmp_path, [], 0)).num_rows == 0


def test_files_are_compressed_and_carry_their_version(tmp_path: Path) -> None:
    path = write_parquet(tmp_path, [FULL] * 10, 0)
    assert pq.read_metadata(path).row_group(0).column(2).compression == "ZSTD"
    assert pq.read_schema(path).metadata[b"teia.fetchlog"] == b"1"


def test_a_file_the_frontier_has_not_counted_does_not_count(tmp_path: Path) -> None:
    files = [write_parquet(tmp_path, [FULL], serial) for serial in range(3)]
    (tmp_path / ".fetches-00000001.parquet.tmp").write_bytes(b"torn")
    assert log_files(LogPart(tmp_path, 2)) == files[:2]
    again = write_parquet(tmp_path, [FULL, LEAST], 2)
    assert again == files[2]
    assert pq.read_metadata(again).num_rows == 2


@pytest.mark.parametrize("data", [b"", b"PAR1", b"x" * 100])
def test_damaged_files_are_known_by_their_footer(tmp_path: Path, data: bytes) -> None:
    path = write_parquet(tmp_path, [FULL], 0)
    assert is_readable(path)
    path.write_bytes(data)
    assert not is_readable(path)
