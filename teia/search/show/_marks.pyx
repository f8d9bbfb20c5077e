# cython: language_level=3, boundscheck=False, wraparound=False
"""The loops of a snippet, compiled (marks.py calls them).

Indexes are not checked by Cython here; each loop says why they are good.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.string cimport memset

from teia.search.show import marks as plain
from teia.search.query.words import WORD

cdef extern from "string.h":
    void* memmem(const void* haystack, size_t size, const void* needle, size_t length) nogil

cdef extern from "Python.h":
    int PyUnicode_KIND(object text)
    void* PyUnicode_DATA(object text)
    Py_UCS4 PyUnicode_READ(int kind, void* data, Py_ssize_t index)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)

cdef enum:
    FEW = 40  # marks that are sorted here
    FIRST_SIGN = 0x345  # below this a character of a word is a letter or a number, and nothing else

cdef bytes TABLE = plain.TABLE
cdef const unsigned char* FOLDED = <const unsigned char*>PyBytes_AS_STRING(TABLE)
cdef Py_UCS4 KNOWN = <Py_UCS4>len(TABLE)
cdef Py_ssize_t MAX_MARKS = plain.MAX_MARKS
cdef double REPEATED = plain.REPEATED
cdef object match_word = WORD.match


def folded_octets(str text not None):
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(text), at
    cdef int kind = PyUnicode_KIND(text)
    cdef void* data = PyUnicode_DATA(text)
    cdef bytes octets = PyBytes_FromStringAndSize(NULL, size + 1)
    cdef unsigned char* out = <unsigned char*>PyBytes_AS_STRING(octets)
    cdef Py_UCS4 code
    out[0] = 32
    for at in range(size):  # one octet for each character, after the first
        code = PyUnicode_READ(kind, data, at)
        out[at + 1] = FOLDED[code] if code < KNOWN else 32
    return octets


def word_marks(str text not None, bytes octets not None, str beginning not None, str stem not None, made,
               Py_ssize_t number, double weight):
    if not beginning.isascii():
        return plain.word_marks(text, octets, beginning, stem, made, number, weight)
    cdef bytes wanted = b" " + beginning.encode("ascii")
    cdef const char* first = PyBytes_AS_STRING(octets)
    cdef const char* end = first + PyBytes_GET_SIZE(octets)
    cdef const char* here = first
    cdef const char* needle = PyBytes_AS_STRING(wanted)
    cdef size_t length = PyBytes_GET_SIZE(wanted)
    cdef Py_ssize_t start, until, seen = 0
    cdef int kind = PyUnicode_KIND(text)
    cdef void* data = PyUnicode_DATA(text)
    cdef list found = []
    if PyBytes_GET_SIZE(octets) != PyUnicode_GET_LENGTH(text) + 1:
        raise ValueError("these are not the octets of this text")
    while seen < MAX_MARKS:
        here = <const char*>memmem(here, end - here, needle, length)
        if here is NULL:
            break
        start = here - first  # a place of the text, since something follows the blank
        here += 1
        if start and PyUnicode_READ(kind, data, start - 1).isalnum():
            continue
        seen += 1
        until = word_end(text, kind, data, start)
        if until > start and made(text[start:until]) == stem:
            found.append((start, until, number, weight))
    return found


cdef Py_ssize_t word_end(str text, int kind, void* data, Py_ssize_t start) except -1:
    """Where the word ends that begins at a place."""
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(text), at
    cdef Py_UCS4 code
    for at in range(start, size):
        code = PyUnicode_READ(kind, data, at)
        if not code.isalnum():
            if code < FIRST_SIGN:
                return at
            match = match_word(text, start)
            return start if match is None else match.end()
    return size


def without_overlaps(list found not None):
    cdef list kept = []
    cdef Py_ssize_t end = 0, at, place
    cdef tuple mark
    if len(found) > FEW:
        return plain.without_overlaps(found)
    for at in range(1, len(found)):  # most stand in their order already
        mark = found[at]
        place = at
        while place and is_before(mark, <tuple>found[place - 1]):
            found[place] = found[place - 1]
            place -= 1
        found[place] = mark
    for mark in found:
        if <Py_ssize_t>mark[0] >= end:
            kept.append(mark)
            end = mark[1]
    return kept


cdef bint is_before(tuple one, tuple other):
    cdef Py_ssize_t start = one[0], start_of_other = other[0]
    if start != start_of_other:
        return start < start_of_other
    return <Py_ssize_t>one[1] > <Py_ssize_t>other[1]


cdef struct Place:
    Py_ssize_t start
    Py_ssize_t end
    Py_ssize_t word
    double weight


def best_mark(list marks not None, Py_ssize_t chars):
    cdef Py_ssize_t size = len(marks), words = 1, number, other, best = 0
    cdef double worth, best_worth = -1.0
    cdef Place* places = <Place*>PyMem_Malloc(max(1, size) * sizeof(Place))
    cdef char* seen = NULL
    if places is NULL:
        raise MemoryError
    try:
        for number in range(size):
            places[number].start, places[number].end, places[number].word, places[number].weight = marks[number]
            words = max(words, places[number].word + 1)
        seen = <char*>PyMem_Malloc(words)
        if seen is NULL:
            raise MemoryError
        for number in range(size):
            worth = 0.0
            memset(seen, 0, words)
            for other in range(number, size):
                if places[other].end > places[number].start + chars:
                    break
                worth += places[other].weight * (REPEATED if seen[places[other].word] else 1.0)
                seen[places[other].word] = 1
            if worth > best_worth + 1e-9:
                best, best_worth = number, worth
    finally:
        PyMem_Free(places)
        PyMem_Free(seen)
    return best


def parts_of(str text not None, list marks not None, Py_ssize_t start, Py_ssize_t end):
    cdef list parts = []
    cdef Py_ssize_t at = start, begin, until
    cdef tuple mark
    for mark in marks:
        begin, until = mark[0], mark[1]
        if begin >= end:
            break
        if begin >= start and until <= end:
            if begin > at:
                parts.append((text[at:begin], False))
            parts.append((text[begin:until], True))
            at = until
    if end > at:
        parts.append((text[at:end], False))
    return parts
