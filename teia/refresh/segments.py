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
"""A selection of the places of a column."""


class Segments:
    """Consecutive stretches of a column: stretch `s` is `starts[s]` to `starts[s + 1]`."""

    def __init__(self, starts: Numbers) -> None:
        self.starts = starts
        self.lengths = np.diff(starts)
        self._filled = np.flatnonzero(self.lengths)
        self._begins = starts[self._filled]

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def number(self) -> Rows:
        """Index of the stretch that each place belongs to."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.lengths)

    def sums(self, column: Floats | Numbers) -> Floats:
        """Return the sum of each stretch; 0 for an empty one, where `np.add.reduceat` gives its neighbour's value."""
        result = np.zeros(len(self))
        if len(self._filled):
            result[self._filled] = np.add.reduceat(column, self._begins)
        return result

    def spread(self, values: Floats) -> Floats:
        """Repeat each stretch's value for all its places."""
        return np.repeat(values, self.lengths)

    def runs(self, places: int) -> Iterator[tuple[int, int]]:
        """Yield runs of consecutive stretches with about `places` places; a larger stretch is a run of its own."""
        cuts = np.searchsorted(self.starts, np.arange(0, self.starts[-1], places))
        return ((first, last) for first, last in pairwise((*cuts.tolist(), len(self))) if first < last)

    def sums_of(self, made: Callable[[Part], Floats], wanted: NDArray[np.bool_] | None = None) -> Floats:
        """Return sums of a column that is computed block by block: `made` gives the values of some places.

        Stretches that are not wanted have 0. A column of ten million is newly allocated memory every time, which the
        system has to clear first: a third of the time.
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
    """All places as one stretch, summed block by block, so that the whole column is never in memory."""

    def __init__(self, places: int) -> None:
        super().__init__(np.array([0, places]))

    @cached_property
    def number(self) -> Rows:
        return np.broadcast_to(np.int32(0), int(self.starts[-1]))

    def sums_of(self, made: Callable[[Part], Floats], wanted: NDArray[np.bool_] | None = None) -> Floats:  # noqa: ARG002
        return np.array([sum(float(made(part).sum()) for part in blocks(int(self.starts[-1])))])


def _moved(part: Part, by: int, size: int) -> Part:
    return slice(part.start + by, min(part.stop, size) + by) if isinstance(part, slice) else part + by
