"""How long something takes, so that a test of it does not fail on a busy machine."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def processor_time(work: Callable[[], T], tries: int = 3) -> tuple[float, T]:
    """Return the least processor time of some tries in seconds, and the last result.

    What others use of the machine only ever adds; so does the garbage that other tests have left.
    """
    gc.collect()
    gc.freeze()
    try:
        took = []
        for _ in range(tries):
            before_s = time.process_time()
            result = work()
            took.append(time.process_time() - before_s)
    finally:
        gc.unfreeze()
    return min(took), result
