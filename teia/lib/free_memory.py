"""Free memory that Python and the allocator keep, given back to the system."""

from __future__ import annotations

import ctypes
import gc


def give_back() -> None:
    """Give free memory back, where the C library can; after the end of something large.

    The GNU library keeps small blocks that were freed, and with them the page caches of closed databases: they would
    be in the process until its end, beside what the next step takes. Objects that refer to each other are freed first.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
    if trim is not None:
        trim(0)
