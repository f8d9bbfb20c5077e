from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from teia.errors import QueryError
from teia.store.fetchlog import FetchRow, LogPart
from teia.store.parquet import write_parquet
from teia.store.sql import MAX_SQL_CHARS, FetchLog

from .answers import START_S


def row(number: int) -> FetchRow:
    url = f"http://h{number % 3}.test/{number}"
    return FetchRow(
        START_S + number, START_S + number + 0.5, url, f"h{number % 3}.test", "test", "200", 200, bytes=number
    )


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FetchLog]:
    """Two cells: one with two files and pending rows, one with pending rows alone."""
    for cell in ("00", "01"):
        (tmp_path / cell).mkdir()
    write_parquet(tmp_path / "00", [row(number) for number in range(10)], 0)
    write_parquet(tmp_path / "00", [row(number) for number in range(10, 20)], 1)
    write_parquet(tmp_path / "00", [row(0)], 2)  # written, but its commit never came
    parts = [
        LogPart(tmp_path / "00", 2, [row(20), row(21)]),
        LogPart(tmp_path / "01", 0, [row(22)]),
    ]
    hosts = pa.table({"host": ["h0.test", "h1.test"], "queued": [5, 6]})
    with FetchLog(parts, {"hosts": hosts}, memory_mb=128, threads=1) as opened:
        yield opened


def test_every_fetch_is_seen_once(log: FetchLog) -> None:
    answer = log.query("SELECT count(*) AS n, count(DISTINCT url) AS urls, sum(bytes) AS total FROM fetches")
    assert answer.columns == ("n", "urls", "total")
    assert answer.rows == [(23, 23, sum(range(23)))]


def test_other_tables_join(log: FetchLog) -> None:
    answer = log.query("SELECT host, queued, count(*) FROM fetches JOIN hosts USING (host) GROUP BY ALL ORDER BY host")
    assert answer.rows == [("h0.test", 5, 8), ("h1.test", 6, 8)]


def test_times_are_utc_to_the_microsecond(log: FetchLog) -> None:
    ((first, hour),) = log.query("SELECT min(started), date_trunc('hour', min(started)) FROM fetches").rows
    assert first.isoformat() == "2023-11-14T22:13:20.250000+00:00"
    assert hour.isoformat() == "2023-11-14T22:00:00+00:00"


def test_an_empty_log_answers(tmp_path: Path) -> None:
    with FetchLog([LogPart(tmp_path, 0)]) as log:
        assert log.query("SELECT count(*) FROM fetches").rows == [(0,)]


def test_rows_are_limited_and_keep_their_order(log: FetchLog) -> None:
    answer = log.query("SELECT bytes FROM fetches ORDER BY bytes DESC", max_rows=3)
    assert (answer.rows, answer.cut) == ([(22,), (21,), (20,)], True)
    assert not log.query("SELECT 1", max_rows=1).cut


def test_a_damaged_file_is_left_out_and_named(tmp_path: Path) -> None:
    write_parquet(tmp_path, [row(0)], 0)
    bad = write_parquet(tmp_path, [row(1)], 1)
    bad.write_bytes(bad.read_bytes()[:-9])
    with FetchLog([LogPart(tmp_path, 2)]) as log:
        assert log.damaged == (bad,)
        assert log.query("SELECT url FROM fetches").rows == [("http://h0.test/0",)]


def test_a_folder_with_a_quote_in_its_name_works(tmp_path: Path) -> None:
    folder = tmp_path / "it's"
    folder.mkdir()
    write_parquet(folder, [row(0)], 0)
    with FetchLog([LogPart(folder, 1)]) as log:
        assert log.query("SELECT count(*) FROM fetches").rows == [(1,)]


# ---- the fence ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "DROP VIEW fetches",
        "CREATE TABLE x AS SELECT 1",
        "INSERT INTO hosts VALUES ('a', 1)",
        "COPY fetches TO 'out.csv'",
        "ATTACH 'other.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '100GB'",
        "PRAGMA version",
        "CALL pragma_version()",
        "EXPORT DATABASE 'x'",
        "SELECT 1; DROP VIEW fetches",
        "SELECT 1; SELECT 2",
        "",
        " ; ",
        "-- nothing",
    ],
)
def test_only_one_reading_statement_is_answered(log: FetchLog, sql: str) -> None:
    with pytest.raises(QueryError, match="only one read-only statement"):
        log.query(sql)
    assert log.query("SELECT count(*) FROM fetches").rows == [(23,)]


@pytest.mark.parametrize(
    "source",
    [
        "read_text('/etc/passwd')",
        "read_csv('/etc/passwd')",
        "read_blob('/proc/self/environ')",
        "'/etc/passwd'",
        "glob('/*')",
        "read_parquet('{folder}/00/fetches-00000002.parquet')",
        "read_parquet('{folder}/00/*.parquet')",
        "read_csv('http://127.0.0.1:1/')",
        "sniff_csv('/etc/passwd')",
        "query('SELECT * FROM read_text(''/etc/passwd'')')",
    ],
)
def test_no_other_file_is_read(log: FetchLog, tmp_path: Path, source: str) -> None:
    with pytest.raises(QueryError, match=r"disabled|Permission|denied|does not exist"):
        log.query(f"SELECT * FROM {source.format(folder=tmp_path)}")


def test_deleting_within_a_select_deletes_nothing(log: FetchLog) -> None:
    for name in ("fetches", "pending_fetches", "hosts"):
        with pytest.raises(QueryError):
            log.query(f"WITH gone AS (DELETE FROM {name} RETURNING *) SELECT * FROM gone")
    assert log.query("SELECT count(*) FROM fetches").rows == [(23,)]


def test_nothing_of_the_process_is_seen(log: FetchLog) -> None:
    secret_table = pa.table({"secret": [1]})
    with pytest.raises(QueryError, match="does not exist"):
        log.query("SELECT * FROM secret_table")
    assert secret_table.num_rows == 1


def test_a_query_without_end_is_stopped(log: FetchLog) -> None:
    with pytest.raises(QueryError, match="took longer than"):
        log.query("SELECT count(*) FROM range(100000000000) a, range(1000) b", timeout_s=0.3)
    assert log.query("SELECT 1").rows == [(1,)]


def test_memory_is_limited(log: FetchLog) -> None:
    with pytest.raises(QueryError, match="Out of Memory"):
        log.query("SELECT list(a) FROM range(200000000) t(a)")
    assert log.query("SELECT 1").rows == [(1,)]


def test_nothing_is_spilled_to_disk(log: FetchLog) -> None:
    assert log.query("SELECT value FROM duckdb_settings() WHERE name = 'temp_directory'").rows in ([("",)], [(None,)])


@pytest.mark.parametrize(
    "sql", ["SELEC 1", "SELECT nothing FROM fetches", "SELECT ?", "SELECT 'a", "SELECT \0", "x" * (MAX_SQL_CHARS + 1)]
)
def test_mistakes_are_reported_in_one_line(log: FetchLog, sql: str) -> None:
    with pytest.raises(QueryError) as raised:
        log.query(sql)
    assert "\n" not in str(raised.value)
    assert str(raised.value)
