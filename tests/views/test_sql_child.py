"""A question in SQL has no more memory, time or answer than it is given, whatever it asks (issue 15, 16)."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from teia.errors import QueryError, TeiaError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.tables import pending_log
from teia.store.fetchlog import json_value
from teia.store.root import Root, open_root
from teia.transfer.frontier_audit import audit_frontier
from teia.views.sql_child import QueryLimits, run_query
from teia.views.sql_tables import sql_views
from tests.crawler.webs import ScriptedWeb, crawl_web, html

LITTLE = QueryLimits(seconds=20.0, memory_bytes=300 << 20, rows=100, answer_bytes=1 << 20)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    web = ScriptedWeb({"a.test": {"/": html("/1", "/2"), "/1": html(), "/2": html()}})
    return open_root(crawl_web(web, tmp_path_factory.mktemp("asked"), "a.test/").data)


def test_an_answer_is_what_it_is_without_a_child(root: Root) -> None:
    sql = "SELECT count(*) AS n, max(status) AS s, 1.5::DECIMAL(4, 2) AS d, NULL AS x, [1, 2] AS l FROM fetches"
    found = run_query(root, "main", sql, LITTLE)
    assert (found.rows.columns, found.damaged) == (("n", "s", "d", "x", "l"), ())
    assert found.rows.rows == [(4, 404, 1.5, None, [1, 2])]
    assert not found.rows.cut
    pages = run_query(root, "main", "SELECT count(*) FROM pages JOIN hosts USING (host) WHERE state = 'done'", LITTLE)
    assert pages.rows.rows == [(3,)]
    many = run_query(root, "main", "SELECT range FROM range(101)", LITTLE)
    assert (len(many.rows.rows), many.rows.cut) == (100, True)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT repeat('x', 2000000000)",  # 3.9 GB and 29 s before, past DuckDB's own limit and its interrupt
        "SELECT string_agg(repeat('x', 1000), ',') FROM range(10000000)",
        "SELECT unnest(range(200000000))",  # 4.7 GB
        "SELECT " + ", ".join(f"repeat('x', 100000) c{n}" for n in range(500)) + " FROM range(1000)",  # 8.7 GB
    ],
)
def test_a_query_that_takes_gigabytes_is_refused(root: Root, sql: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(QueryError, match="needs more than 300 MiB of memory"):
        run_query(root, "main", sql, LITTLE)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 64 << 10, "and not by who asks"


def test_a_log_that_cannot_be_read_is_not_taken_for_a_lack_of_memory(root: Root, tmp_path: Path) -> None:
    """A row that nothing could decode gave "the query needs more than 2048 MiB of memory"."""
    shutil.copytree(root.path, tmp_path / "data")
    damaged = open_root(tmp_path / "data")
    folder, *_ = damaged.collection("main").cells()
    with closing(FrontierCell(folder.frontier)) as cell, cell.transaction():
        pending_log.append(cell, [b"\xc1"])
    with pytest.raises(QueryError, match="a row of its fetch log cannot be read") as caught:
        run_query(damaged, "main", "SELECT count(*) FROM fetches", LITTLE)
    assert "memory" not in str(caught.value)
    assert "a row of its fetch log" in str(audit_frontier(damaged, "main").details)


@pytest.mark.parametrize("mib", [1, 4, 8, 16, 24])
def test_too_little_memory_to_open_the_log_is_no_other_error(root: Root, mib: int) -> None:
    """DuckDB said so while it was opened, and the timer had no thread: the collection was called damaged."""
    little = replace(LITTLE, memory_bytes=mib << 20)
    with suppress(QueryError):
        run_query(root, "main", "SELECT count(*) FROM fetches", little)
        return
    with pytest.raises(QueryError, match=f"needs more than {mib} MiB of memory"):
        run_query(root, "main", "SELECT count(*) FROM fetches", little)


def test_an_answer_that_is_too_long_is_refused(root: Root) -> None:
    with pytest.raises(QueryError, match="the result is larger than 1 MiB"):
        run_query(root, "main", "SELECT repeat('x', 100000) FROM range(50)", LITTLE)


@pytest.mark.parametrize(
    "sql",
    [
        # 113 kB of Arrow and 105 MB of rows: a dictionary of one text
        f"SELECT list('{'x' * 1000}'::ENUM('{'x' * 1000}')) FROM range(100000)",
        "SELECT list(true) FROM range(4000000)",  # a bit each
        "SELECT list([]::BOOLEAN[]) FROM range(150000)",  # two characters of JSON each
        "SELECT list({'a': NULL}) FROM range(20000)",
    ],
)
def test_an_answer_that_is_long_only_as_rows_is_refused_where_memory_is_bounded(root: Root, sql: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(QueryError, match=r"the result is larger than 1 MiB|needs more than 300 MiB of memory"):
        run_query(root, "main", sql, LITTLE)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 16 << 10, "and not by who asks"


def test_values_are_what_they_are_as_json(root: Root) -> None:
    sql = """SELECT 170141183460469231731687303715884105727::HUGEINT AS huge, 'NaN'::DOUBLE AS nan, 'ab'::BLOB AS blob,
        TIMESTAMP '2026-01-02 03:04:05' AS moment, DATE '2026-01-02' AS day, {'a': [1.5], 'b': NULL} AS struct,
        MAP {'k': 1} AS map, 'line\nend\u2028é' AS text, 'x'::ENUM('x', 'y') AS word, INTERVAL 90 SECOND AS span"""
    found = run_query(root, "main", sql, LITTLE).rows
    with sql_views(root, "main", sql) as log:
        assert found.rows == [tuple(json_value(value) for value in row) for row in log.query(sql).rows]
    assert len(found.rows[0]) == 10


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT DATE '290000-01-01'", "a value cannot be displayed"),
        (f"SELECT {'[' * 40}1{']' * 40}", "more than 32 levels deep"),
    ],
)
def test_values_that_are_no_json_are_refused_in_words(root: Root, sql: str, why: str) -> None:
    with pytest.raises(QueryError, match=why):
        run_query(root, "main", sql, LITTLE)


def test_the_requesting_process_loads_neither_duckdb_nor_arrow() -> None:
    """A terminal would wait for them twice: here and in the child."""
    loaded = "import sys, teia.views.sql_child; print(sorted({'duckdb', 'pyarrow', 'numpy'} & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", loaded], capture_output=True, check=True, timeout=60)
    assert said.stdout.strip() == b"[]"


def test_a_query_that_takes_too_long_is_ended_and_leaves_nothing(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    cross = "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(100) c, pages WHERE a.range + b.range = 7"
    began_s = time.monotonic()
    with pytest.raises(QueryError, match=r"(took longer than|stopped after) 0\.5 s"):
        run_query(root, "main", cross, replace(LITTLE, seconds=0.5))
    assert time.monotonic() - began_s < 20
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sql", ["SELECT", "DROP VIEW fetches", "SELECT 1; SELECT 2", "SELECT * FROM '/etc/passwd'"])
def test_what_was_refused_is_refused_in_words(root: Root, sql: str) -> None:
    with pytest.raises(TeiaError) as raised:
        run_query(root, "main", sql, LITTLE)
    assert "memory" not in str(raised.value)
