# cython: language_level=3, boundscheck=False, wraparound=False
"""The words of a text, stemmed and folded, by a table of those that were met before, compiled (stems.py uses it).

tests/index/test_stems.py compares it with tantivy's analysers. Indexes are not checked by Cython here: a place in the
table is taken modulo its size, and what is written is measured first.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    str PyUnicode_DecodeUTF8(const char* text, Py_ssize_t size, const char* errors)

cdef enum:
    FIRST_SLOTS = 1 << 12
    FIRST_ROOM = 1 << 16
    MAX_OCTETS = 1 << 30  # places are numbers of 32 bits
    LONGEST = 64  # octets of a run that is remembered

# Random in each process: a page that knew them could be made of words which all belong in one slot.
cdef uint64_t FIRST_VALUE = int.from_bytes(os.urandom(8), "little")
cdef uint64_t MULTIPLIER = int.from_bytes(os.urandom(8), "little") | 1

cdef struct Slot:
    uint32_t hashed
    uint32_t at  # of the run in the table's octets; its stems follow it, then its folded words
    uint32_t length  # of the run; 0: the slot is free
    uint32_t stems
    uint32_t folded

cdef struct Text:
    char* octets
    size_t used
    size_t room


cdef class WordTable:
    """Stems and folded words of runs of letters. `analyse` makes those of a new run; a full table is emptied."""

    cdef Slot* slots
    cdef size_t size
    cdef Text known
    cdef readonly size_t runs
    cdef readonly size_t passed  # slots of other runs, by all look-ups
    cdef size_t most
    cdef object analyse
    cdef uint8_t letters[256]

    def __cinit__(self, analyse, bytes letters not None, size_t most):
        if len(letters) != 256:
            raise ValueError("256 kinds of octets are needed")
        self.analyse, self.most = analyse, most
        for code in range(256):
            self.letters[code] = letters[code]
        self.size = FIRST_SLOTS
        self.slots = <Slot*>PyMem_Malloc(self.size * sizeof(Slot))
        if self.slots is NULL:
            raise MemoryError
        _begin(&self.known, FIRST_ROOM)
        self._clear()

    def __dealloc__(self):
        PyMem_Free(self.slots)
        PyMem_Free(self.known.octets)

    cdef void _clear(self) noexcept:
        memset(self.slots, 0, self.size * sizeof(Slot))
        self.runs = self.known.used = 0

    def words(self, str text not None):
        """Return the stems of a text and its folded words, each divided by blanks."""
        cdef Py_ssize_t size = 0
        cdef const char* octets
        cdef Text stems, folded
        try:
            octets = PyUnicode_AsUTF8AndSize(text, &size)
        except UnicodeEncodeError:  # a lone surrogate, which is no letter
            return self.words(text.encode("utf-8", "replace").decode())
        stems.octets = folded.octets = NULL
        try:
            _begin(&stems, size + 64)
            _begin(&folded, size + 64)
            self._divide(octets, size, &stems, &folded)
            return (
                PyUnicode_DecodeUTF8(stems.octets, stems.used, NULL),
                PyUnicode_DecodeUTF8(folded.octets, folded.used, NULL),
            )
        finally:
            PyMem_Free(stems.octets)
            PyMem_Free(folded.octets)

    cdef int _divide(self, const char* octets, size_t size, Text* stems, Text* folded) except -1:
        cdef size_t at = 0, start
        cdef const char* found
        cdef Slot* slot
        cdef bytes new_stems, new_folded
        while True:
            while at < size and not self.letters[<uint8_t>octets[at]]:
                at += 1
            if at >= size:
                return 0
            start = at
            while at < size and self.letters[<uint8_t>octets[at]]:
                at += 1
            slot = self._slot(octets + start, at - start) if at - start <= LONGEST else NULL
            if slot is not NULL and slot.length:
                found = self.known.octets + slot.at + slot.length
                _add_word(stems, found, slot.stems)
                _add_word(folded, found + slot.stems, slot.folded)
                continue
            new_stems, new_folded = self.analyse(octets[start:at])
            _add_word(stems, PyBytes_AS_STRING(new_stems), PyBytes_GET_SIZE(new_stems))
            _add_word(folded, PyBytes_AS_STRING(new_folded), PyBytes_GET_SIZE(new_folded))
            if slot is not NULL:
                self._keep(octets + start, at - start, new_stems, new_folded)

    cdef Slot* _slot(self, const char* run, size_t length) noexcept:
        """Return the slot of a run, or the free one where it belongs; at least half of the slots are free."""
        cdef uint32_t hashed = _hashed(run, length)
        cdef size_t place = hashed & (self.size - 1)
        cdef Slot* slot = &self.slots[place]
        while slot.length and not (
            slot.hashed == hashed and slot.length == length and memcmp(self.known.octets + slot.at, run, length) == 0
        ):
            place = (place + 1) & (self.size - 1)
            slot = &self.slots[place]
            self.passed += 1
        return slot

    cdef int _keep(self, const char* run, size_t length, bytes stems, bytes folded) except -1:
        if self.runs >= self.most or self.known.used + length + len(stems) + len(folded) > MAX_OCTETS:
            self._clear()
        if 2 * self.runs >= self.size:
            self._double()
        # Looked up again: another thread may have come between.
        cdef Slot* slot = self._slot(run, length)
        if slot.length:
            return 0
        cdef size_t at = self.known.used
        _add(&self.known, run, length)
        _add(&self.known, PyBytes_AS_STRING(stems), PyBytes_GET_SIZE(stems))
        _add(&self.known, PyBytes_AS_STRING(folded), PyBytes_GET_SIZE(folded))
        slot.hashed, slot.at, slot.length = _hashed(run, length), at, length
        slot.stems, slot.folded = PyBytes_GET_SIZE(stems), PyBytes_GET_SIZE(folded)
        self.runs += 1
        return 0

    cdef int _double(self) except -1:
        cdef size_t size = 2 * self.size, number, place
        cdef Slot* slots = <Slot*>PyMem_Malloc(size * sizeof(Slot))
        if slots is NULL:
            raise MemoryError
        memset(slots, 0, size * sizeof(Slot))
        for number in range(self.size):
            if self.slots[number].length:
                place = self.slots[number].hashed & (size - 1)
                while slots[place].length:
                    place = (place + 1) & (size - 1)
                slots[place] = self.slots[number]
        PyMem_Free(self.slots)
        self.slots, self.size = slots, size
        return 0


cdef int _begin(Text* text, size_t room) except -1:
    text.octets, text.used, text.room = <char*>PyMem_Malloc(room), 0, room
    if text.octets is NULL:
        raise MemoryError
    return 0


cdef int _add(Text* text, const char* octets, size_t length) except -1:
    cdef char* larger
    if text.used + length > text.room:
        larger = <char*>PyMem_Realloc(text.octets, 2 * (text.used + length))
        if larger is NULL:
            raise MemoryError
        text.octets, text.room = larger, 2 * (text.used + length)
    memcpy(text.octets + text.used, octets, length)
    text.used += length
    return 0


cdef inline int _add_word(Text* text, const char* octets, size_t length) except -1:
    _add(text, octets, length)
    return _add(text, b" ", 1)


cdef inline uint32_t _hashed(const char* run, size_t length) noexcept nogil:
    """FNV-1a with two random numbers of this process, folded to 32 bits."""
    cdef uint64_t value = FIRST_VALUE
    cdef size_t at
    for at in range(length):
        value = (value ^ <uint8_t>run[at]) * MULTIPLIER
    return <uint32_t>(value ^ value >> 32)
