"""Readers of SQLite files that were left behind, in the middle of a query."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READ_MARKS = range(123, 128)
"""Octets of the file of a log's index that a reader locks as long as it reads (SQLite's wal.c, WAL_READ_LOCK)."""


def is_read(path: Path) -> bool:
    """Tell whether somebody is in the middle of reading a file: then its log cannot begin anew, and grows."""
    index = path.with_name(f"{path.name}-shm")
    if not index.exists():
        return False
    inode = f":{index.stat().st_ino}"
    locks = (line.split() for line in Path("/proc/locks").read_text("ascii").splitlines())
    return any(
        words[-3].endswith(inode) and any(int(words[-2]) <= mark <= int(words[-1]) for mark in READ_MARKS)
        for words in locks
        if words[-1] != "EOF"
    )


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Objects that refer to each other stay, as they do for hours in a server that seldom looks for them."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
