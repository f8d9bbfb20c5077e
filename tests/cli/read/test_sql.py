from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from teia.cli.output import plain_lines, printable
from teia.store.fetchlog import json_value
from tests.cli.conftest import Teia
from tests.crawler.handmade import make


@pytest.fixture
def data(tmp_path: Path) -> str:
    make(tmp_path / "data")
    return "data"


def test_json_has_columns_rows_and_whether_there_were_more(teia: Teia, data: str) -> None:
    sql = "SELECT host, urls, found FROM hosts WHERE host = 'a.test'"
    done = teia("sql", sql, "--data", data, "--json")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert json.loads(line) == {
        "columns": ["host", "urls", "found"],
        "rows": [["a.test", 8, "2023-11-14T22:13:20.000000Z"]],
        "cut": False,
    }


def test_rows_beyond_the_limit_are_cut_and_this_is_reported(teia: Teia, data: str) -> None:
    done = teia("sql", "SELECT * FROM range(10001)", "--data", data, "--json")
    result = json.loads(done.stdout)
    assert (len(result["rows"]), result["cut"]) == (10_000, True)
    done = teia("sql", "SELECT * FROM range(10001)", "--data", data, "--csv")
    assert len(done.stdout.splitlines()) == 10_001
    assert "only the first 10,000 rows" in done.stderr


def test_csv_is_read_back_by_others(teia: Teia, data: str) -> None:
    done = teia(
        "sql",
        "SELECT outcome, count(*) AS n, 'a,\"b\"' AS t FROM fetches GROUP BY ALL ORDER BY n DESC, 1",
        "--data",
        data,
        "--csv",
    )
    rows = list(csv.reader(io.StringIO(done.stdout)))
    assert rows == [["outcome", "n", "t"], ["200", "8", 'a,"b"'], ["timeout", "3", 'a,"b"'], ["404", "1", 'a,"b"']]


def test_text_is_an_aligned_table(teia: Teia, data: str) -> None:
    done = teia("sql", "SELECT host, count(*) AS n FROM pages GROUP BY ALL ORDER BY n DESC", "--data", data)
    assert done.stdout == "host    n\na.test  8\nb.test  3\nc.test  1\n"


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("DELETE FROM pages", "only one read-only statement is allowed"),
        ("SELECT 1; SELECT 2", "only one read-only statement is allowed"),
        ("SELECT nothing FROM pages", "nothing"),
        ("SELECT * FROM '/etc/passwd'", "does not exist"),
        ("SELECT FROM WHERE", "yntax error"),
    ],
)
def test_what_cannot_be_answered_is_one_line(teia: Teia, data: str, sql: str, why: str) -> None:
    done = teia("sql", sql, "--data", data)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("teia: ")
    assert why in line


def test_csv_and_json_exclude_each_other(teia: Teia, data: str) -> None:
    assert teia("sql", "SELECT 1", "--data", data, "--json", "--csv").returncode == 2


def test_values_that_json_lacks_become_plain() -> None:
    assert json_value(float("inf")) is None
    assert json_value([b"\x00\xff", {"a": float("nan")}]) == ["00ff", {"a": None}]


def test_control_characters_of_the_web_are_shown_and_not_obeyed() -> None:
    assert printable("a\x1b[2Jb\nc") == "a\\x1b[2Jb\\x0ac"
    assert plain_lines(["t"], [["\x07"]], [False]) == ["t", "\\x07"]


def test_csv_holds_no_formula_and_json_holds_all_as_it_is(teia: Teia, data: str) -> None:
    sql = "SELECT '=cmd|x' AS a, -5 AS b, '@x' AS c, -1.5::DECIMAL(3, 1) AS \"=d\""
    in_csv = teia("sql", sql, "--data", data, "--csv").stdout
    assert in_csv == "a,b,c,'=d\n'=cmd|x,-5,'@x,-1.5\n"
    assert json.loads(teia("sql", sql, "--data", data, "--json").stdout)["rows"] == [["=cmd|x", -5, "@x", -1.5]]
