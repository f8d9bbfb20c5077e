# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What is done with each of some hundred candidates, compiled: making rows of them, scoring, ordering, grouping.

After a search of many megabytes every step of numpy waits for memory, and there are tens of them. These give what
rows.py and grouping.py give. Rows come as buffers of the records below, which are checked to be as long as they say; no
other index is computed from outside.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memcpy, memset

cdef enum:
    PARTS = 5
    MAX_BITS = 3
    MAX_LANGUAGES = 64

cdef packed struct Candidate:
    double text
    int64_t key
    int64_t digest
    int64_t simhash
    int64_t date_s
    int64_t languages
    int32_t shard

cdef packed struct Ranked:
    Candidate found
    double score
    double authority
    double news
    double readable
    double semantics
    double passages


cdef class Records:
    """An array of records, held for a while."""

    cdef Py_buffer view
    cdef Py_ssize_t size

    def __cinit__(self, rows, Py_ssize_t octets, bint written):
        PyObject_GetBuffer(rows, &self.view, PyBUF_WRITABLE if written else PyBUF_SIMPLE)
        self.size = self.view.len // octets
        if self.size * octets != self.view.len or self.size != len(rows):
            raise ValueError("these are rows of another kind")

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


# ---- making ---------------------------------------------------------------------------------------------------------


def packed_rows(list hits not None, list keys not None, list digests not None, list simhashes not None,
                list dates_s not None, list languages not None):
    cdef Py_ssize_t size = len(hits), at
    cdef Candidate* rows
    for column in (keys, digests, simhashes, dates_s, languages):
        if len(<list>column) != size:
            raise ValueError("columns of one length are needed")
    octets = PyByteArray_FromStringAndSize(NULL, size * sizeof(Candidate))
    rows = <Candidate*>PyByteArray_AS_STRING(octets)
    for at in range(size):  # all lists are of this length
        rows[at].text = (<tuple>hits[at])[0]
        rows[at].key = keys[at]
        rows[at].digest = digests[at]
        rows[at].simhash = simhashes[at]
        rows[at].date_s = dates_s[at]
        rows[at].languages = languages[at]
        rows[at].shard = 0
    return octets


# ---- ordering -------------------------------------------------------------------------------------------------------


cdef int by_key(const Candidate* a, const Candidate* b) noexcept nogil:
    if a.key != b.key:
        return -1 if a.key < b.key else 1
    return (a.shard > b.shard) - (a.shard < b.shard)


cdef int by_text(const void* one, const void* other) noexcept nogil:
    cdef const Candidate* a = <const Candidate*>one
    cdef const Candidate* b = <const Candidate*>other
    if a.text != b.text:
        return -1 if a.text > b.text else 1
    return by_key(a, b)


cdef int by_score(const void* one, const void* other) noexcept nogil:
    cdef const Ranked* a = <const Ranked*>one
    cdef const Ranked* b = <const Ranked*>other
    if a.score != b.score:
        return -1 if a.score > b.score else 1
    return by_key(&a.found, &b.found)


def order_by_text(rows):
    cdef Records records = Records(rows, sizeof(Candidate), True)
    cdef Candidate* each = <Candidate*>records.view.buf
    cdef Py_ssize_t at
    for at in range(1, records.size):
        if not each[at].text < each[at - 1].text:
            qsort(each, records.size, sizeof(Candidate), by_text)
            return


def order_by_score(rows, Py_ssize_t first):
    cdef Records records = Records(rows, sizeof(Ranked), True)
    cdef Ranked* each = <Ranked*>records.view.buf
    cdef Py_ssize_t at
    first = min(max(first, 0), records.size)
    qsort(each, first, sizeof(Ranked), by_score)
    if first:
        for at in range(first, records.size):
            each[at].score = min(each[at].found.text, each[first - 1].score)


# ---- scoring --------------------------------------------------------------------------------------------------------


def exponents(rows, double[::1] found, double now_s, double days_a_half):
    cdef Records records = Records(rows, sizeof(Candidate), False)
    cdef const Candidate* each = <const Candidate*>records.view.buf
    cdef Py_ssize_t at
    if found.shape[0] > records.size:
        raise ValueError("there are fewer rows")
    for at in range(found.shape[0]):
        found[at] = -(max(0.0, now_s - <double>each[at].date_s) / 86400.0) / days_a_half


def score_rows(rows, ranked, const double[::1] eminence, const double[::1] recency, list likely not None,
               double authority, double news, double foreign):
    cdef Records given = Records(rows, sizeof(Candidate), False), made = Records(ranked, sizeof(Ranked), True)
    cdef const Candidate* each = <const Candidate*>given.view.buf
    cdef Ranked* out = <Ranked*>made.view.buf
    cdef Py_ssize_t at, number, languages = len(likely), first = eminence.shape[0]
    cdef int64_t bits[MAX_LANGUAGES]
    cdef double least[MAX_LANGUAGES]
    cdef double language_penalty
    if made.size != given.size or first > given.size or recency.shape[0] != first or languages > MAX_LANGUAGES:
        raise ValueError("there is not one of each")
    for number in range(languages):
        bits[number], least[number] = likely[number]
    for at in range(given.size):
        memcpy(&out[at].found, &each[at], sizeof(Candidate))
        out[at].score = each[at].text
        out[at].authority = out[at].news = out[at].readable = out[at].passages = 1.0
        out[at].semantics = 0.0
    for at in range(first):
        language_penalty = 0.0
        if languages and each[at].languages:
            language_penalty = 1.0
            for number in range(languages):
                if each[at].languages & bits[number] and least[number] < language_penalty:
                    language_penalty = least[number]
        out[at].authority = 1.0 + authority * eminence[at]
        out[at].news = 1.0 + news * recency[at]
        out[at].readable = 1.0 - foreign * language_penalty
        out[at].score = each[at].text * out[at].authority * out[at].news * out[at].readable


# ---- grouping -------------------------------------------------------------------------------------------------------


cdef bint are_alike(const Candidate* one, const Candidate* other) noexcept nogil:
    cdef uint64_t differ = <uint64_t>(one.simhash ^ other.simhash)
    cdef int bit
    for bit in range(MAX_BITS):
        differ &= differ - 1  # takes the lowest bit away; none of none
    return differ == 0 or one.digest == other.digest


cdef Py_ssize_t slot_of(const Candidate* row, int part, Py_ssize_t slots) noexcept nogil:
    """Where rows are kept that share a part; rows that are alike share one. `slots` is a power of two."""
    cdef uint64_t value
    if part == PARTS - 1:
        value = <uint64_t>row.digest & 0xFFFFFFFFULL
    else:
        value = (<uint64_t>row.simhash >> (16 * part)) & 0xFFFF
    return part * slots + <Py_ssize_t>(((value * 0x9E3779B97F4A7C15ULL) >> 32) & <uint64_t>(slots - 1))


def leaders_of(rows):
    """Rows may be longer than candidates; they begin as those do."""
    cdef Py_ssize_t octets = max(<Py_ssize_t>rows.itemsize, <Py_ssize_t>sizeof(Candidate))
    cdef Records records = Records(rows, octets, False)
    cdef const char* first = <const char*>records.view.buf
    cdef const Candidate* here
    cdef Py_ssize_t size = records.size, slots = 64, slot
    cdef int32_t row, other, leader
    cdef int32_t* heads
    cdef int32_t* after
    cdef int part
    cdef list found = list(range(size))
    while slots < 2 * size:
        slots *= 2
    heads = <int32_t*>PyMem_Malloc(PARTS * (slots + size) * sizeof(int32_t))
    if heads is NULL:
        raise MemoryError
    after = heads + PARTS * slots  # for each part and row: the next row that stands for itself in the same slot
    memset(heads, -1, PARTS * slots * sizeof(int32_t))
    for row in range(size):
        here = <const Candidate*>(first + row * octets)
        if here.simhash == 0:
            continue
        leader = row
        for part in range(PARTS):
            other = heads[slot_of(here, part, slots)]
            while other >= 0:
                if other < leader and are_alike(here, <const Candidate*>(first + other * octets)):
                    leader = other
                other = after[part * size + other]
        if leader != row:
            found[row] = leader
            continue
        for part in range(PARTS):
            slot = slot_of(here, part, slots)
            after[part * size + row] = heads[slot]
            heads[slot] = row
    PyMem_Free(heads)
    return found
