"""No text of a CSV is a formula; numbers are numbers, and everything can be read back."""

from __future__ import annotations

import ast
import csv
import io
import time
from pathlib import Path

import pytest

import teia
from teia.lib.csvtext import CsvWriter, escape_formula


@pytest.mark.parametrize(
    "text",
    [
        "=cmd|' /C calc'!A0",
        "+1+1",
        "-2+3",
        "@SUM(A1)",
        "\nx",
        " =1",
        "=",
        "-",
        "＝1",
        "+55 11 5555",
        "-x",
    ],
)
def test_a_text_that_would_be_a_formula_has_an_apostrophe(text: str) -> None:
    assert escape_formula(text) == f"'{text}"


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("x;=cmd|' /C calc'!A0", "x;'=cmd|' /C calc'!A0"),
        ("x; \u00a0@SUM(A1);+1;-1", "x; \u00a0'@SUM(A1);'+1;'-1"),
        ("x;;\uff1d1", "x;;'\uff1d1"),
        (";=1", ";'=1"),
        ("x\t=1", "x\t'=1"),
        ('x"\n=1', "x\"\n'=1"),
        ("\t=1", "'\t'=1"),
        ("\r=1", "'\r'=1"),
        ("=1;=2", "'=1;'=2"),
        (["a;", "=b"], "a; '=b"),
    ],
)
def test_a_formula_behind_what_separates_cells_elsewhere_has_an_apostrophe(text: object, marked: str) -> None:
    assert escape_formula(text) == marked


def test_a_spreadsheet_that_separates_at_semicolons_finds_no_formula() -> None:
    out = io.StringIO()
    CsvWriter(out).writerows([["a", "b"], ["x;=1", 'y,";=2\r\n=3'], ["=4", "z;\t-5"]])
    for separator in ";\t,":
        cells = [cell for line in out.getvalue().splitlines() for cell in line.split(separator)]
        assert not [cell for cell in cells if cell.strip().startswith(("=", "+", "-", "@"))], separator


def test_a_long_text_of_separators_is_read_in_one_pass() -> None:
    text = ";\t " * 200_000
    began_s = time.process_time()
    assert escape_formula(text) == text
    assert time.process_time() - began_s < 5


@pytest.mark.parametrize(
    "value",
    [
        -5,
        2.5,
        None,
        True,
        "-5",
        "+3.25",
        "-1e-05",
        "-.5",
        "-12%",
        "",
        "x",
        "a=b",
        "http://x/?a=-1",
        "'=1",
        "1-2",
        "a; b=c",
        "/x;id=1",
        "a =b; c",
        "x;'=1",
    ],
)
def test_numbers_and_other_texts_stay(value: object) -> None:
    assert escape_formula(value) == value


def test_lists_are_one_text_and_judged_as_one() -> None:
    assert escape_formula(("=a", "b")) == "'=a b"
    assert escape_formula(["a", "=b"]) == "a =b"


def test_rows_are_read_back() -> None:
    out = io.StringIO()
    CsvWriter(out).writerows([["=n", "t"], [-1, "=cmd|x"], [2, 'a "b", c']])
    assert list(csv.reader(io.StringIO(out.getvalue()))) == [["'=n", "t"], ["-1", "'=cmd|x"], ["2", 'a "b", c']]


@pytest.mark.heavy
def test_every_csv_is_written_here() -> None:
    writers = set()
    for path in Path(teia.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.Attribute)
                and node.attr in {"writer", "DictWriter"}
                and "csv" in ast.dump(node.value)
            ):
                writers.add(path.name)
    assert writers == {"csvtext.py"}
