# cython: language_level=3, boundscheck=False, wraparound=False
"""Products of sparse rows with a matrix, compiled (train_semantic.py uses them).

`columns` and `weights` hold the entries of all rows one after another; row `n` has those from `starts[n]` to
`starts[n + 1]`. All of these places are checked before the first is used.
"""

from libc.stdint cimport int32_t, int64_t


def times(
    const int64_t[::1] starts, const int32_t[::1] columns, const float[::1] weights, const float[:, ::1] dense,
    float[:, ::1] product,
):
    """Add the product of sparse rows and a matrix to `product`, which has as many rows as they."""
    _check(starts, columns, weights, dense.shape[0], product.shape[0])
    cdef Py_ssize_t row, at
    if dense.shape[1] != product.shape[1]:
        raise ValueError("the matrices differ in width")
    if dense.shape[1]:
        for row in range(product.shape[0]):
            for at in range(starts[row], starts[row + 1]):
                _add(&product[row, 0], weights[at], &dense[columns[at], 0], dense.shape[1])


def transposed_times(
    const int64_t[::1] starts, const int32_t[::1] columns, const float[::1] weights, const float[:, ::1] dense,
    float[:, ::1] product,
):
    """Add the product of sparse rows, transposed, and a matrix to `product`, which has as many rows as they columns."""
    _check(starts, columns, weights, product.shape[0], dense.shape[0])
    cdef Py_ssize_t row, at
    if dense.shape[1] != product.shape[1]:
        raise ValueError("the matrices differ in width")
    if dense.shape[1]:
        for row in range(dense.shape[0]):
            for at in range(starts[row], starts[row + 1]):
                _add(&product[columns[at], 0], weights[at], &dense[row, 0], dense.shape[1])


cdef int _check(
    const int64_t[::1] starts, const int32_t[::1] columns, const float[::1] weights, Py_ssize_t most, Py_ssize_t rows
) except -1:
    """Raise an error unless there are so many rows, all entries are theirs, and all columns are below `most`."""
    cdef Py_ssize_t at
    if starts.shape[0] != rows + 1 or starts[0] != 0 or starts[rows] != weights.shape[0]:
        raise ValueError("the rows do not have all entries")
    if columns.shape[0] != weights.shape[0]:
        raise ValueError("each entry has a column and a weight")
    for at in range(rows):
        if starts[at] > starts[at + 1]:
            raise ValueError("the rows are not in order")
    for at in range(columns.shape[0]):
        if not 0 <= columns[at] < most:
            raise ValueError("a column outside the matrix")
    return 0


cdef inline void _add(float* sums, float weight, const float* values, Py_ssize_t width) noexcept nogil:
    cdef Py_ssize_t at
    for at in range(width):
        sums[at] += weight * values[at]
