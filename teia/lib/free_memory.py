"""Free memory that Python and the C library keep, given back to the system."""

from __future__ import annotations

import ctypes
import gc
import resource
from collections.abc import Callable
from pathlib import Path

SMALL_BYTES = 256 << 20
"""Resident set of a process in which nothing large has been: to look for its garbage takes longer than it is worth."""

ARENAS = 4
_M_ARENA_MAX = -8  # of malloc.h


def limit_arenas() -> None:
    """Let all threads of this process share a few heaps of the C library.

    The GNU library makes up to eight for each core, and each keeps what was freed in it: a server whose threads make
    large answers in turns would have that much memory many times.
    """
    _call("mallopt", _M_ARENA_MAX, ARENAS)


def trim() -> None:
    """Give free blocks of the C library back; it takes some milliseconds."""
    _call("malloc_trim", 0)


def give_back() -> None:
    """Give free memory of a large process back, where the C library can.

    The GNU library keeps small blocks that were freed, and with them the page caches of closed databases: they would
    be in the process until its end, beside what the next step takes. Objects that refer to each other are freed first.
    """
    resident_pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    if resident_pages * resource.getpagesize() < SMALL_BYTES:
        return
    gc.collect()
    trim()


def _call(name: str, *arguments: int) -> None:
    function: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None)  # musl has none of them
    if function is not None:
        function(*arguments)
