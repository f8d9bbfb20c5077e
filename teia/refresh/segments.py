"""Sums over the pages of each server, where some servers have none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from teia.refresh.formulas import BLOCK, blocks
from teia.refresh.model import Floats, Numbers, Rows

Part = slice | Numbers
"""Some places of a column."""


class Segments:
    """Stretches of a column, one after the other: stretch `s` is `starts[s]` to `starts[s + 1]`."""

    def __init__(self, starts: Numbers) -> None:
        self.starts = starts
        self.lengths = np.diff(starts)
        self._filled = np.flatnonzero(self.lengths)
        self._begins = starts[self._filled]

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def number(self) -> Rows:
        """The stretch of each place."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.lengths)

    def sums(self, column: Floats | Numbers) -> Floats:
        """`np.add.reduceat` gives an empty stretch the value of its neighbour; here it has 0."""
        result = np.zeros(len(self))
        if len(self._filled):
            result[self._filled] = np.add.reduceat(column, self._begins)
        return result

    def spread(self, values: Floats) -> Floats:
        """Give each place of a stretch the stretch's value."""
        return np.repeat(values, self.lengths)

    def runs(self, places: int) -> Iterator[tuple[int, int]]:
        """Stretches one after the other that have about so many places together, or one that has more."""
        cuts = np.searchsorted(self.starts, np.arange(0, self.starts[-1], places))
        return ((first, last) for first, last in pairwise((*cuts.tolist(), len(self))) if first < last)

    def sums_of(self, made: Callable[[Part], Floats], wanted: NDArray[np.bool_] | None = None) -> Floats:
        """Sums of a column that is never whole: `made` gives the values of some places; 0 for what is not wanted.

        A column of ten million is fresh memory every time, which the system has to clear first: a third of the time.
        """
        result, column = np.zeros(len(self)), np.empty(0)
        for first, last in self.runs(BLOCK):
            here = None if wanted is None else wanted[first:last]
            if here is not None and not here.any():
                continue
            begin, size = int(self.starts[first]), int(self.starts[last] - self.starts[first])
            column = column if len(column) >= size else np.empty(size)
            places = None
            if here is not None and not here.all():
                places = np.repeat(here, self.lengths[first:last])
                column[:size] = 0.0
            for part in blocks(size, places):
                column[:size][part] = made(_moved(part, begin, size))
            filled = np.flatnonzero(self.lengths[first:last])
            if len(filled):
                begins = self.starts[first:last][filled] - begin
                result[first + filled] = np.add.reduceat(column[:size], begins)
        return result


class Whole(Segments):
    """All places as one stretch. It is summed block by block: put together, it would be the column."""

    def __init__(self, places: int) -> None:
        super().__init__(np.array([0, places]))

    @cached_property
    def number(self) -> Rows:
        return np.broadcast_to(np.int32(0), int(self.starts[-1]))

    def sums_of(self, made: Callable[[Part], Floats], wanted: NDArray[np.bool_] | None = None) -> Floats:  # noqa: ARG002
        return np.array([sum(float(made(part).sum()) for part in blocks(int(self.starts[-1])))])


def _moved(part: Part, by: int, size: int) -> Part:
    return slice(part.start + by, min(part.stop, size) + by) if isinstance(part, slice) else part + by
