# cython: language_level=3, boundscheck=False, wraparound=False
"""The words of a text, stemmed and folded, by a table of those that were met before, compiled (stems.py uses it).

tests/index/test_stems.py compares it with tantivy's analysers. Indexes are not checked by Cython here: a place in the
table is taken modulo its size, and what is written is measured first.

Words are short, so they are hashed, compared and copied in whole pieces of 8 or 16 octets, without calls: half of the
time went to those. `PADDING` octets behind a word may be read, and behind the end of a `Text` be written.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    str PyUnicode_DecodeUTF8(const char* text, Py_ssize_t size, const char* errors)

cdef extern from *:
    """
    /* Both halves of a product of 128 bits: every bit of the factors changes all places of the table. */
    static inline uint64_t teia_mixed(uint64_t value, uint64_t factor) {
        unsigned __int128 product = (unsigned __int128)value * factor;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    """
    uint64_t teia_mixed(uint64_t value, uint64_t factor) noexcept nogil

cdef enum:
    FIRST_SLOTS = 1 << 12
    FIRST_ROOM = 1 << 16
    MAX_OCTETS = 1 << 30  # places are numbers of 32 bits
    LONGEST = 64  # octets of a run that is remembered
    PIECE = 8
    PADDING = 16
    MOST_COUNTED = 255

# Random in each process: a page that knew them could be made of words which all belong in one slot.
cdef uint64_t FIRST_VALUE = int.from_bytes(os.urandom(8), "little")
cdef uint64_t MULTIPLIER = int.from_bytes(os.urandom(8), "little") | 1

cdef struct Slot:
    uint32_t hashed
    uint32_t at  # of the run in the table's octets; stems, folded words and the numbers of the stems follow it
    uint32_t length  # of the run; 0: the slot is free
    uint32_t stems
    uint32_t folded
    uint32_t numbers  # octets

cdef struct Text:
    char* octets
    size_t used
    size_t room


cdef class WordTable:
    """Stems and folded words of runs of letters. `analyse` makes those of a new run; a full table is emptied.

    Stems have numbers, in the order in which they come; those that come after `most_stems` have none.
    """

    cdef Slot* slots
    cdef size_t size
    cdef Text known
    cdef readonly size_t runs
    cdef readonly size_t passed  # slots of other runs, by all look-ups
    cdef size_t most
    cdef object analyse
    cdef bytes gap
    cdef dict numbers
    cdef size_t most_stems
    cdef Text tally  # by the number of a stem: how often a text has it; all 0 between texts
    cdef uint8_t letters[256]

    def __cinit__(self, analyse, bytes letters not None, size_t most, size_t most_stems, bytes gap not None):
        if len(letters) != 256:
            raise ValueError("256 kinds of octets are needed")
        self.analyse, self.most, self.most_stems, self.gap, self.numbers = analyse, most, most_stems, gap, {}
        for code in range(256):
            self.letters[code] = letters[code]
        self.size = FIRST_SLOTS
        self.slots = <Slot*>PyMem_Malloc(self.size * sizeof(Slot))
        if self.slots is NULL:
            raise MemoryError
        _begin(&self.known, FIRST_ROOM)
        _begin(&self.tally, FIRST_SLOTS)
        memset(self.tally.octets, 0, self.tally.room)
        self._clear()

    def __dealloc__(self):
        PyMem_Free(self.slots)
        PyMem_Free(self.known.octets)
        PyMem_Free(self.tally.octets)

    cdef void _clear(self) noexcept:
        memset(self.slots, 0, self.size * sizeof(Slot))
        self.runs = self.known.used = 0

    def words(self, str text not None):
        """Return the stems of a text and its folded words, each divided by blanks."""
        return self._words(text, None)

    def counted(self, str text not None, bytes more not None=b""):
        """Return the same, the numbers of the stems (32 bits each), and how often the text has each (255 at most).

        `more` are numbers of stems that are counted with those of the text.
        """
        cdef size_t at
        cdef const uint32_t* numbers = <const uint32_t*>PyBytes_AS_STRING(more)
        if len(more) % sizeof(uint32_t):
            raise ValueError("a part of a number")
        for at in range(len(more) // sizeof(uint32_t)):
            if numbers[at] >= <size_t>len(self.numbers):
                raise ValueError("a number that no stem has")
        return self._words(text, more)

    def stems(self):
        """Return all stems that have a number, in the order of these."""
        return [stem.decode() for stem in self.numbers]

    cdef tuple _words(self, str text, bytes counted):
        """Return the words of a text; with `counted`, the stems and their counts too, these numbers among them."""
        cdef Py_ssize_t size = 0
        cdef const char* octets
        cdef Text stems, folded, numbers
        try:
            octets = PyUnicode_AsUTF8AndSize(text, &size)
        except UnicodeEncodeError:  # a lone surrogate, which is no letter
            return self._words(text.encode("utf-8", "replace").decode(), counted)
        stems.octets = folded.octets = numbers.octets = NULL
        try:
            _begin(&stems, size + 64)
            _begin(&folded, size + 64)
            if counted is not None:
                _begin(&numbers, size + 64)
                _add(&numbers, counted)
            self._divide(octets, size, &stems, &folded, &numbers if counted is not None else NULL)
            found = (
                PyUnicode_DecodeUTF8(stems.octets, stems.used, NULL),
                PyUnicode_DecodeUTF8(folded.octets, folded.used, NULL),
            )
            return found if counted is None else found + self._count(&numbers)
        finally:
            PyMem_Free(stems.octets)
            PyMem_Free(folded.octets)
            PyMem_Free(numbers.octets)

    cdef int _divide(self, const char* octets, size_t size, Text* stems, Text* folded, Text* numbers) except -1:
        cdef size_t at = 0, start, length
        cdef const char* run
        cdef const char* found
        cdef char last[LONGEST + PADDING]
        cdef Slot* slot
        cdef bytes new_stems, new_folded, new_numbers
        while True:
            while at < size and not self.letters[<uint8_t>octets[at]]:
                at += 1
            if at >= size:
                return 0
            start = at
            while at < size and self.letters[<uint8_t>octets[at]]:
                at += 1
            run, length, slot = octets + start, at - start, NULL
            if length <= LONGEST:
                if size - at < PADDING:  # nothing may be read behind the end of the text
                    memset(last, 0, sizeof(last))
                    memcpy(last, run, length)
                    run = last
                slot = self._slot(run, length)
                if slot.length:
                    found = self.known.octets + slot.at + slot.length
                    _append(stems, found, slot.stems)
                    _append(folded, found + slot.stems, slot.folded)
                    stems.octets[stems.used] = folded.octets[folded.used] = c" "
                    stems.used += 1
                    folded.used += 1
                    if numbers is not NULL:
                        _append(numbers, found + slot.stems + slot.folded, slot.numbers)
                    continue
            new_stems, new_folded = self.analyse(run[:length])
            new_numbers = self._numbers(new_stems)
            _add(stems, new_stems + b" ")
            _add(folded, new_folded + b" ")
            if numbers is not NULL:
                _add(numbers, new_numbers)
            if slot is not NULL:
                self._keep(run, length, new_stems, new_folded, new_numbers)

    cdef bytes _numbers(self, bytes stems):
        """Return the numbers of stems that are divided by blanks, as octets."""
        cdef uint32_t number
        cdef list found = []
        for stem in stems.split(b" "):
            if stem and stem != self.gap and (stem in self.numbers or len(self.numbers) < self.most_stems):
                number = self.numbers.setdefault(stem, len(self.numbers))
                found.append((<char*>&number)[:sizeof(number)])
        return b"".join(found)

    cdef tuple _count(self, Text* numbers):
        """Return each of some numbers once, and how often each is there. Nothing here lets another thread run."""
        cdef size_t at, distinct = 0, size = numbers.used // sizeof(uint32_t)
        cdef uint32_t* each = <uint32_t*>numbers.octets
        cdef uint32_t number
        cdef uint8_t* tally
        cdef size_t needed = len(self.numbers)  # no number of a stem is larger
        cdef char* larger
        if needed > self.tally.room:
            larger = <char*>PyMem_Realloc(self.tally.octets, 2 * needed)
            if larger is NULL:
                raise MemoryError
            memset(larger + self.tally.room, 0, 2 * needed - self.tally.room)
            self.tally.octets, self.tally.room = larger, 2 * needed
        tally = <uint8_t*>self.tally.octets
        for at in range(size):
            number = each[at]
            if tally[number] == 0:
                each[distinct] = number
                distinct += 1
            if tally[number] < MOST_COUNTED:
                tally[number] += 1
        cdef bytes counts = PyBytes_FromStringAndSize(NULL, distinct)
        cdef char* count = PyBytes_AS_STRING(counts)
        for at in range(distinct):
            count[at] = tally[each[at]]
            tally[each[at]] = 0
        return (<char*>each)[:distinct * sizeof(uint32_t)], counts

    cdef Slot* _slot(self, const char* run, size_t length) noexcept:
        """Return the slot of a run, or the free one where it belongs; at least half of the slots are free."""
        cdef uint32_t hashed = _hashed(run, length)
        cdef size_t place = hashed & (self.size - 1)
        cdef Slot* slot = &self.slots[place]
        while slot.length and not (
            slot.hashed == hashed and slot.length == length and _is_same(self.known.octets + slot.at, run, length)
        ):
            place = (place + 1) & (self.size - 1)
            slot = &self.slots[place]
            self.passed += 1
        return slot

    cdef int _keep(self, const char* run, size_t length, bytes stems, bytes folded, bytes numbers) except -1:
        cdef bytes kept = run[:length] + stems + folded + numbers
        if self.runs >= self.most or self.known.used + len(kept) > MAX_OCTETS:
            self._clear()
        if 2 * self.runs >= self.size:
            self._double()
        # Looked up again: another thread may have come between.
        cdef Slot* slot = self._slot(run, length)
        if slot.length:
            return 0
        cdef size_t at = self.known.used
        _add(&self.known, kept)
        slot.hashed, slot.at, slot.length = _hashed(run, length), at, length
        slot.stems, slot.folded = PyBytes_GET_SIZE(stems), PyBytes_GET_SIZE(folded)
        slot.numbers = PyBytes_GET_SIZE(numbers)
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
    text.octets, text.used, text.room = <char*>PyMem_Malloc(room + PADDING), 0, room
    if text.octets is NULL:
        raise MemoryError
    return 0


cdef int _grow(Text* text, size_t length) except -1:
    """Make room for so many octets, and twice as much."""
    cdef size_t room = 2 * (text.used + length)
    cdef char* larger = <char*>PyMem_Realloc(text.octets, room + PADDING)
    if larger is NULL:
        raise MemoryError
    text.octets, text.room = larger, room
    return 0


cdef int _add(Text* text, bytes octets) except -1:
    cdef size_t length = PyBytes_GET_SIZE(octets)
    if text.used + length > text.room:
        _grow(text, length)
    memcpy(text.octets + text.used, PyBytes_AS_STRING(octets), length)
    text.used += length
    return 0


cdef inline int _append(Text* text, const char* octets, size_t length) except -1:
    """Add a few octets that have `PADDING` behind them, and leave room for one more."""
    if text.used + length >= text.room:
        _grow(text, length + 1)
    if length <= PADDING:
        memcpy(text.octets + text.used, octets, PADDING)
    else:
        memcpy(text.octets + text.used, octets, length)
    text.used += length
    return 0


cdef inline uint64_t _piece(const char* run, size_t length) noexcept nogil:
    """Return the next octets of a run, up to eight of them, as a number."""
    cdef uint64_t piece
    memcpy(&piece, run, PIECE)
    return piece if length >= PIECE else piece & ((<uint64_t>1 << 8 * length) - 1)


cdef inline bint _is_same(const char* known, const char* run, size_t length) noexcept nogil:
    cdef size_t at = 0
    while at < length:
        if _piece(known + at, length - at) != _piece(run + at, length - at):
            return False
        at += PIECE
    return True


cdef inline uint32_t _hashed(const char* run, size_t length) noexcept nogil:
    """Return a hash by two random numbers of this process."""
    cdef uint64_t value = FIRST_VALUE
    cdef size_t at = 0
    while at < length:
        value = teia_mixed(value ^ _piece(run + at, length - at), MULTIPLIER)
        at += PIECE
    return <uint32_t>value
