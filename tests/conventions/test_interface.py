"""docs/interface.md: 25 checks and 25 faults that people found, each with tests that are there, in a real browser."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from .tree import ROOT

NAMED = re.compile(r"`((?:\w+/)+test_\w+\.py)::(test_\w+)`")
COMMAND_LINE = {("Checks", 25)}
WITH_BROWSER = {"browser", "page", "pages", "evening", "two", "portuguese"}
"""Fixtures of tests that hold a browser."""


@cache
def rows() -> dict[tuple[str, int], list[tuple[str, str]]]:
    """By table and number: the tests that a row names, as path and name."""
    text = (ROOT / "docs" / "interface.md").read_text(encoding="utf-8")
    found = {}
    for heading in ("Checks", "Found by people who used it"):
        table = re.split(r"(?m)^(?:## |What people missed)", text.partition(f"## {heading}\n")[2])[0]
        for line in re.findall(r"(?m)^\| (\d+) \|.*", table):
            row = next(each for each in table.splitlines() if each.startswith(f"| {line} |"))
            found[heading, int(line)] = NAMED.findall(row)
    return found


@cache
def parsed(path: str) -> ast.Module:
    return ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))


def test_both_tables_have_twenty_five_rows() -> None:
    for heading in ("Checks", "Found by people who used it"):
        assert [number for table, number in rows() if table == heading] == list(range(1, 26))


@pytest.mark.parametrize("row", sorted(rows()), ids=lambda row: f"{row[0].split()[0].lower()}-{row[1]}")
def test_a_row_names_tests_that_are_there_and_one_in_a_browser(row: tuple[str, int]) -> None:
    named = rows()[row]
    assert named, "no test is named"
    in_browser = []
    for path, name in named:
        tests = [each for each in parsed(path).body if isinstance(each, ast.FunctionDef) and each.name == name]
        assert tests, f"{path} has no {name}"
        in_browser += [name] if WITH_BROWSER & {each.arg for each in tests[0].args.args} else []
    assert in_browser or row in COMMAND_LINE, "no test is in a browser"
