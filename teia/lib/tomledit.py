"""Change of one value in a TOML text, and nothing else: the user's comments and order stay.

Only the plain form is understood, `[table]` on a line and `key = value` below it, because that is how people and we
write settings. Other forms (inline tables, dotted keys, quoted ones) are left alone, so the caller reads the result
back and compares.
"""

from __future__ import annotations

import re
import tomllib

_TABLE = re.compile(r"\s*\[\s*([\w.-]+)\s*\]\s*(?:#.*)?")


def with_value(text: str, table: str, key: str, value: str) -> str:
    """Return the text with `key` of `[table]` set to `value`, itself TOML; table and key are added if need be."""
    lines = text.removesuffix("\n").split("\n") if text else []  # never splitlines: U+2028 may stand in a value
    begin, end = _body_of(lines, table)
    line = f"{key} = {value}"
    if begin < 0:
        lines += [*([""] if lines and lines[-1].strip() else []), f"[{table}]", line]
        return "\n".join(lines) + "\n"
    first, after = _statement(lines, begin, end, key)
    if first < 0:
        # A new key goes above the blank lines before the next table.
        while end > begin and not lines[end - 1].strip():
            end -= 1
        first = after = end
    lines[first:after] = [line]
    return "\n".join(lines) + "\n"


def _body_of(lines: list[str], table: str) -> tuple[int, int]:
    """Return where the lines of a table begin and end; (-1, -1) if there is no such table."""
    begin = -1
    for number, line in enumerate(lines):
        header = _TABLE.fullmatch(line)
        if header and begin >= 0:
            return begin, number
        if header and header[1] == table:
            begin = number + 1
    return begin, len(lines) if begin >= 0 else -1


def _statement(lines: list[str], begin: int, end: int, key: str) -> tuple[int, int]:
    """Return the lines of `key = …`; a list may go on for several. (-1, -1) if the key is not there."""
    starts = re.compile(rf"\s*{re.escape(key)}\s*=")
    for first in range(begin, end):
        if not starts.match(lines[first]):
            continue
        for after in range(first + 1, end + 1):
            if _is_whole("\n".join(lines[first:after])):
                return first, after
    return -1, -1


def _is_whole(statement: str) -> bool:
    try:
        tomllib.loads(statement)
    except tomllib.TOMLDecodeError:
        return False
    return True
