"""Products of sparse rows: those of the same rows written out."""

from __future__ import annotations

import numpy as np
import pytest

from teia.search.rank import _sparse
from teia.search.rank.train_semantic import SparseRows


def _rows(dense: np.ndarray) -> SparseRows:
    rows, columns = np.nonzero(dense)
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(dense)))])
    return SparseRows(starts, columns.astype(np.int32), dense[rows, columns], dense.shape[1])


@pytest.mark.parametrize(("rows", "columns", "width"), [(5, 7, 3), (1, 1, 1), (4, 3, 0), (0, 3, 2)])
def test_products_are_those_of_the_rows_written_out(rows: int, columns: int, width: int) -> None:
    random = np.random.default_rng(1)
    dense = random.standard_normal((rows, columns), np.float32)
    dense[random.random(dense.shape) < 0.5] = 0
    sparse = _rows(dense)
    right, left = (random.standard_normal((size, width), np.float32) for size in (columns, rows))
    assert len(sparse) == rows
    np.testing.assert_allclose(sparse.times(right), dense @ right, atol=1e-5)
    np.testing.assert_allclose(sparse.transposed_times(left), dense.T @ left, atol=1e-5)


def test_a_matrix_that_is_not_contiguous_is_read_as_it_is() -> None:
    sparse = _rows(np.eye(3, dtype=np.float32))
    turned = np.arange(12, dtype=np.float32).reshape(4, 3).T
    np.testing.assert_array_equal(sparse.times(turned), turned)


@pytest.mark.parametrize(
    ("starts", "columns", "width"),
    [
        ([0, 1, 2], [0, 3], 2),  # a column beyond the matrix
        ([0, 1, 2], [0, -1], 2),
        ([0, 2, 1, 2], [0, 1], 2),  # a row that ends before it begins
        ([0, 1], [0, 1], 2),  # an entry of no row
        ([1, 1, 2], [0, 1], 2),
        ([0, 1, 2], [0], 2),  # a weight without a column
        ([0, 1, 2], [0, 1], 3),  # a result of another width
    ],
)
def test_places_outside_are_refused(starts: list[int], columns: list[int], width: int) -> None:
    parts = np.array(starts, np.int64), np.array(columns, np.int32), np.ones(2, np.float32)
    rows, matrix = len(starts) - 1, np.ones((3, 2), np.float32)
    with pytest.raises(ValueError, match=r"row|column|width"):
        _sparse.times(*parts, matrix, np.zeros((rows, width), np.float32))
    with pytest.raises(ValueError, match=r"row|column|width"):
        _sparse.transposed_times(*parts, np.ones((rows, 2), np.float32), np.zeros((3, width), np.float32))
