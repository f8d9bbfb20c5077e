"""Progress of long work: the part of a total that is done, counted where the work is done and shown elsewhere.

    with counted_work(total) as work:      # a command
        ...                                # calls `advance(n)` deep within
        print(work.share)

One work is counted at a time in a process. `advance` costs nothing to speak of where nothing is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Work:
    """Work under way; `total` of 0 means that its amount is not known."""

    def __init__(self, total: float) -> None:
        self.total = total
        self.done = 0.0

    @property
    def share(self) -> float | None:
        """Part of the work that is done, from 0 to 1; None if the total is not known."""
        return min(1.0, self.done / self.total) if self.total > 0 else None


_counted: list[Work] = []


@contextmanager
def counted_work(total: float) -> Iterator[Work]:
    """Count what is done within the block."""
    work = Work(total)
    _counted.append(work)
    try:
        yield work
    finally:
        _counted.remove(work)


def advance(amount: float) -> None:
    """Count an amount as done."""
    if _counted:
        _counted[-1].done += amount


def left_s(work: Work, passed_s: float) -> float | None:
    """Estimate the seconds that are left by the mean pace so far; None while that says too little.

    The first seconds are slower or faster than the rest: files are opened, and the disk's cache is read.
    """
    share = work.share
    if share is None or passed_s < LEAST_S or share < LEAST_SHARE:
        return None
    return passed_s * (1 - share) / share


LEAST_S, LEAST_SHARE = 3.0, 0.02
