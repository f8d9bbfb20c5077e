"""The head of an answer: bytes from the web, read tolerantly and only once."""

from __future__ import annotations

import re
from collections.abc import KeysView, Sequence
from dataclasses import dataclass

_BLOCK_END = re.compile(rb"\r?\n\r?\n")
_LINE_END = re.compile(r"\r?\n|\r")
_STATUS_LINE = re.compile(r"HTTP/\d(?:\.\d)? +(\d{3})", re.IGNORECASE)


class Headers:
    """Header fields in the order they came. Names are lower-case; values are Latin-1 text without blanks around."""

    __slots__ = ("_values", "fields")

    def __init__(self, fields: Sequence[tuple[str, str]]) -> None:
        self.fields = tuple(fields)
        self._values: dict[str, list[str]] = {}
        for name, value in self.fields:
            self._values.setdefault(name, []).append(value)

    @property
    def names(self) -> KeysView[str]:
        return self._values.keys()

    def first(self, name: str) -> str:
        """Return the value of the first field of this (lower-case) name, or an empty text."""
        values = self._values.get(name)
        return values[0] if values else ""

    def all(self, name: str) -> list[str]:
        """Return the values of every field of this name; many servers send one twice."""
        return list(self._values.get(name, ()))

    def tokens(self, name: str) -> list[str]:
        """Return a comma-separated list, over all fields of this name, in lower case."""
        if name not in self._values:
            return []
        parts = (part.strip().lower() for value in self.all(name) for part in value.split(","))
        return [part for part in parts if part]


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """A status (0 where there is no status line) and the headers."""

    status: int
    headers: Headers


def parse_head(head: bytes) -> ResponseHead:
    """Read the last block of a head, so that 1xx answers before the final one do not count.

    Lines may end in LF alone, a folded line continues the one before, and a line without a colon is dropped.
    """
    block = _last_block(head).decode("latin-1")
    status_line, *lines = _LINE_END.split(block)
    match = _STATUS_LINE.match(status_line)
    fields: list[tuple[str, str]] = []
    for line in lines if match else (status_line, *lines):
        # A folded line (obsolete, RFC 9112, 5.2) continues the value before it.
        if line[:1] in {" ", "\t"} and fields:
            name, value = fields.pop()
            fields.append((name, f"{value} {line.strip()}".strip()))
            continue
        name, colon, value = line.partition(":")
        if colon:
            fields.append((name.strip().lower(), value.strip(" \t\0")))
    return ResponseHead(int(match.group(1)) if match else 0, Headers(fields))


def _last_block(head: bytes) -> bytes:
    blocks = [block for block in _BLOCK_END.split(head) if block.strip()]
    return blocks[-1] if blocks else b""
