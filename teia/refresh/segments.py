"""Sums over the pages of each server, where some servers have none."""

from __future__ import annotations

import numpy as np

from teia.refresh.model import Floats, Numbers


class Segments:
    """Stretches of a column, one after the other: stretch `s` is `starts[s]` to `starts[s + 1]`."""

    def __init__(self, starts: Numbers) -> None:
        self.starts = starts
        self.lengths = np.diff(starts)
        self._filled = np.flatnonzero(self.lengths)
        self._begins = starts[self._filled]

    def __len__(self) -> int:
        return len(self.lengths)

    def sums(self, column: Floats) -> Floats:
        """`np.add.reduceat` gives an empty stretch the value of its neighbour; here it has 0."""
        result = np.zeros(len(self))
        if len(self._filled):
            result[self._filled] = np.add.reduceat(column, self._begins)
        return result

    def spread(self, values: Floats) -> Floats:
        """Give each place of a stretch the stretch's value."""
        return np.repeat(values, self.lengths)
