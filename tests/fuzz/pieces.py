"""Texts, numbers and choices out of the bytes of a fuzzer; any bytes give some, and the same bytes give the same."""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

Item = TypeVar("Item")


class Pieces:
    """Bytes that are used up from the front; numbers are 0 and texts are empty when there are no more."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def octets(self, size: int) -> bytes:
        piece = self._data[self._at : self._at + size]
        self._at += len(piece)
        return piece

    def number(self, size: int = 1, *, signed: bool = False) -> int:
        """Return a number of so many octets."""
        return int.from_bytes(self.octets(size).ljust(size, b"\0"), "little", signed=signed)

    def choice(self, items: Sequence[Item]) -> Item:
        return items[self.number() % len(items)]

    def field(self) -> bytes:
        """Return what comes before the next 0xFF, which is never in UTF-8."""
        end = self._data.find(b"\xff", self._at)
        piece = self._data[self._at : end if end >= 0 else None]
        self._at = end + 1 if end >= 0 else len(self._data)
        return piece

    def text(self) -> str:
        return text_of(self.field())

    def rest(self) -> bytes:
        return self.octets(self.left)


def text_of(data: bytes) -> str:
    """Return a text; octets that are not UTF-8 become lone surrogates, as in texts of careless programs."""
    return data.decode("utf-8", "surrogateescape")


def clean_text_of(data: bytes) -> str:
    """Return a text without surrogates, as pages are decoded."""
    return data.decode("utf-8", "replace")


@cache
def folder() -> Path:
    """Return a folder for files, in memory where that can be; it is removed when the process ends in order."""
    made = tempfile.TemporaryDirectory(prefix="teia-fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    atexit.register(made.cleanup)
    return Path(made.name)
