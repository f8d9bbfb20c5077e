# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Looking up many keys in a large sorted array, for keys that are spread evenly, such as hashes.

Halving waits for memory at nearly every step. Where a key lies between the first and the last says nearly where it is,
and what is there says it better; so for all keys a first and then a second guess are made, and each guess's place is
asked for before the next key is looked at. From the second guess on the key is looked for in growing steps, so that any
keys are found, only not as fast.
"""

from libc.stdint cimport int64_t, uint32_t

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define teia_expect(place) __builtin_prefetch(place)
    #else
    #define teia_expect(place) ((void)(place))
    #endif
    """
    void teia_expect(const void* place) noexcept nogil

ctypedef fused Number:
    float
    uint32_t

cdef enum:
    STEP = 16


def look_up(const int64_t[::1] known, const Number[::1] column, const int64_t[::1] keys, int64_t[::1] places,
            Number[::1] found):
    """Write what a column has for each key of the sorted `known`, and 0 for other keys; `places` is room to work in."""
    cdef Py_ssize_t at, size = known.shape[0], place
    cdef double first, scale
    if column.shape[0] != size or places.shape[0] != keys.shape[0] or found.shape[0] != keys.shape[0]:
        raise ValueError("there is not one of each")
    if size == 0:
        found[:] = 0
        return
    first = <double>known[0]
    scale = (size - 1) / max(1.0, <double>known[size - 1] - first)
    for at in range(keys.shape[0]):  # here and below every place is an index of `known`
        places[at] = within((<double>keys[at] - first) * scale, size)
        teia_expect(&known[places[at]])
    for at in range(keys.shape[0]):
        place = places[at]
        places[at] = within(place + (<double>keys[at] - <double>known[place]) * scale, size)
        teia_expect(&known[places[at]])
        teia_expect(&column[places[at]])
    for at in range(keys.shape[0]):
        place = nearest(known, keys[at], places[at])
        found[at] = column[place] if place < size and known[place] == keys[at] else 0


cdef Py_ssize_t within(double guess, Py_ssize_t size) noexcept nogil:
    if guess <= 0:
        return 0
    return size - 1 if guess >= size - 1 else <Py_ssize_t>guess


cdef Py_ssize_t nearest(const int64_t[::1] known, int64_t key, Py_ssize_t guess) noexcept nogil:
    """How many are less than a key. All before `low` are, none from `high` on is."""
    cdef Py_ssize_t low = 0, high = known.shape[0], step = STEP, middle
    if known[guess] < key:
        low = guess + 1
        while high - low > step and known[low + step] < key:
            low += step + 1
            step *= 2
        high = min(high, low + step)
    else:
        high = guess
        while high - low > step and known[high - step] >= key:
            high -= step
            step *= 2
        low = max(low, high - step)
    while low < high:
        middle = low + (high - low) // 2
        if known[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low
