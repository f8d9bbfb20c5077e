"""Sums over servers: empty ones, and columns that are never whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.refresh import formulas, segments
from teia.refresh.segments import Part, Segments


@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=40), block=st.integers(1, 12), data=st.data())
def test_sums_of_pieces_are_those_of_the_whole(lengths: list[int], block: int, data: st.DataObject) -> None:
    column = np.random.default_rng(sum(lengths)).random(sum(lengths))
    asked: list[int] = []

    def made(part: Part) -> np.ndarray:
        asked.append(len(column[part]))
        return column[part]

    wanted = np.array(data.draw(st.lists(st.booleans(), min_size=len(lengths), max_size=len(lengths))))
    split = Segments(np.concatenate(([0], np.cumsum(lengths))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formulas, "BLOCK", block)
        patch.setattr(segments, "BLOCK", block)
        assert split.sums_of(made).tolist() == split.sums(column).tolist()
        assert max(asked, default=0) <= block
        whole = split.sums(np.where(np.repeat(wanted, lengths), column, 0.0))
        assert split.sums_of(made, wanted) == pytest.approx(whole)
