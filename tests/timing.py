"""How long something takes, so that a test of it does not fail on a busy machine."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(limit_s: float, work: Callable[[], T], tries: int = 3) -> T:
    """Return what some work gives, if it takes this thread less than `limit_s` of processor time at least once.

    What others use of the machine only ever adds; so does walking over what other tests have left, and that can take
    longer than the work itself: garbage is not collected meanwhile.
    """
    took = []
    for _ in range(tries):
        gc.disable()
        before_s = time.thread_time()
        try:
            result = work()
        finally:
            took.append(time.thread_time() - before_s)
            gc.enable()
        if took[-1] < limit_s:
            return result
    raise AssertionError(f"took {', '.join(f'{each:.2f}' for each in took)} s, and may take {limit_s} s")
