"""Sums over servers: empty ones, and columns that are never whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.refresh import formulas, segments
from teia.refresh.segments import Part, Segments, Whole


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


@given(places=st.integers(1, 60), block=st.integers(1, 12))
def test_the_whole_is_summed_in_blocks_and_one_stretch(places: int, block: int) -> None:
    """Of whole numbers, such as counts, the sum is the same to the last bit."""
    column = np.random.default_rng(places).integers(0, 1 << 40, places).astype(np.float64)
    asked: list[int] = []

    def made(part: Part) -> np.ndarray:
        asked.append(len(column[part]))
        return column[part]

    whole = Whole(places)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formulas, "BLOCK", block)
        assert whole.sums_of(made).tolist() == whole.sums(column).tolist() == [column.sum()]
    assert max(asked) <= block
    assert sum(asked) == places
    assert whole.number.tolist() == [0] * places
    assert Segments(np.array([0, 2, 2, 5])).number.tolist() == [0, 0, 2, 2, 2]
