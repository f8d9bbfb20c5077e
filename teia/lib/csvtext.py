"""Comma-separated values that a spreadsheet never runs as formulas.

A spreadsheet runs a cell that begins with `=`, `+`, `-` or `@` as a formula, and so a title or a header that a foreign
server sent could start a program on the machine of the user who opens the file. Such a text gets an apostrophe before
it, which is how spreadsheets mark text; numbers stay numbers. Where the comma separates decimals, as in Brazil, a
spreadsheet separates cells at semicolons, and does not take the quotes within a line for quotes: so the text after a
semicolon, a tab or a line end inside a text may be the beginning of a cell, and is marked in the same way.

Every CSV that we write is written here.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from typing import Any, TextIO

# The four codes are the full-width forms of `=`, `+`, `-` and `@`, which spreadsheets read alike.
_FORMULA = re.compile(r"[\s\x00-\x1f]*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
# Signs after which a spreadsheet may begin another cell or row.
_ENDS = frozenset(";\t\r\n")
_GAP = re.compile(r"([;\s\x00-\x1f]++)([=+\-@\uff1d\uff0b\uff0d\uff20])?")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?%?", re.ASCII)


class CsvWriter:
    """Writes rows whose texts begin no formula."""

    def __init__(self, file: TextIO) -> None:
        self._rows = csv.writer(file, lineterminator="\n")

    def writerow(self, row: Iterable[Any]) -> None:
        self._rows.writerow([escape_formula(value) for value in row])

    def writerows(self, rows: Iterable[Iterable[Any]]) -> None:
        for row in rows:
            self.writerow(row)


def csv_text(columns: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table as one text."""
    out = io.StringIO()
    CsvWriter(out).writerows((columns, *rows))
    return out.getvalue()


def escape_formula(value: Any) -> Any:
    """Return a value as a cell may hold it; lists become one text."""
    if isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    elif isinstance(value, dict):
        value = str(value)
    # `-5` begins with a sign too, but it is a number and runs nothing.
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    marked = f"'{value}" if _FORMULA.match(value) else value
    return marked if _ENDS.isdisjoint(marked) else _GAP.sub(_marked, marked)


def _marked(gap: re.Match[str]) -> str:
    """Return signs that may separate cells, and an apostrophe before the formula that they would begin."""
    return gap[0] if gap[2] is None or _ENDS.isdisjoint(gap[1]) else f"{gap[1]}'{gap[2]}"
