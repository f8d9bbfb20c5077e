"""Free memory that Python and the allocator keep, given back to the system."""

from __future__ import annotations

import ctypes
import gc
import resource
from pathlib import Path

SMALL_BYTES = 256 << 20
"""Resident set of a process in which nothing large has been: to look for its garbage takes longer than it is worth."""


def give_back() -> None:
    """Give free memory of a large process back, where the C library can.

    The GNU library keeps small blocks that were freed, and with them the page caches of closed databases: they would
    be in the process until its end, beside what the next step takes. Objects that refer to each other are freed first.
    """
    resident_pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    if resident_pages * resource.getpagesize() < SMALL_BYTES:
        return
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
    if trim is not None:
        trim(0)
