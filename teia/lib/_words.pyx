# cython: language_level=3, boundscheck=False, wraparound=False
"""Two loops over the characters of a text, compiled: `simhash` and `parse.text.normal`.

tests/lib/simhash_arrays.py and `normalised_plainly` say the same in Python; tests compare with them. Indexes are not
checked by Cython here; each loop says why they are good.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef enum:
    PLANE = 0x10000
    MOST_EXPANDED = 2048
    LONGEST = 9

cdef enum:
    REPLACED, DROPPED, MARK, UNKNOWN
    EXPANDED = 255


# ---- one form for all ways to write a text --------------------------------------------------------------------------


cdef class Folder:
    """Removes accents and case and collapses blanks, by tables of the first 65,536 characters.

    `folded` is what each becomes and `kinds` says how: it is replaced (0), dropped (1), or is not for a table (more).
    `expanded` holds, in UTF-8, what becomes of characters that turn into several.
    """

    cdef uint16_t folded[PLANE]
    cdef uint8_t kinds[PLANE]
    cdef uint8_t expansions[MOST_EXPANDED][LONGEST]
    cdef uint8_t lengths[MOST_EXPANDED]

    def __init__(self, const uint16_t[::1] folded not None, const uint8_t[::1] kinds not None, dict expanded not None):
        cdef int code, number, at
        if folded.shape[0] != PLANE or kinds.shape[0] != PLANE or len(expanded) > MOST_EXPANDED:
            raise ValueError("tables of 65,536 characters are needed")
        for code in range(PLANE):
            self.folded[code] = folded[code]
            self.kinds[code] = kinds[code]
            if code < 0x80 and self.folded[code] >= 0x80:
                raise ValueError("ASCII must stay ASCII")
        for number, (code, octets) in enumerate(expanded.items()):
            if not 0x80 <= code < PLANE or len(octets) > min(LONGEST, 3 * len(chr(code).encode())):
                raise ValueError("too long an expansion")
            self.kinds[code] = EXPANDED
            self.folded[code] = number
            self.lengths[number] = len(octets)
            for at in range(len(octets)):
                self.expansions[number][at] = octets[at]

    def fold(self, str text not None):
        """Return the text in UTF-8; None if there is something in it that is not for a table."""
        cdef Py_ssize_t size = 0
        cdef const uint8_t* octets
        cdef uint8_t* out
        try:
            octets = <const uint8_t*>PyUnicode_AsUTF8AndSize(text, &size)
        except UnicodeEncodeError:
            return None
        out = <uint8_t*>PyMem_Malloc(3 * size + 1)
        if out is NULL:
            raise MemoryError
        try:
            size = self._fold(octets, size, out)
            return PyBytes_FromStringAndSize(<char*>out, size) if size >= 0 else None
        finally:
            PyMem_Free(out)

    cdef Py_ssize_t _fold(self, const uint8_t* octets, Py_ssize_t size, uint8_t* out) noexcept nogil:
        """Fold valid UTF-8 into a place three times as large; return the length, or -1.

        The octets of a character are all there, for it is valid. What one becomes is at most three times as long: ASCII
        stays ASCII, no character of this plane needs more than three octets, expansions were measured, a syllable
        becomes nine. A blank is written with the character behind it, in the room that the blank itself had.
        """
        cdef Py_ssize_t at = 0, used = 0
        cdef bint is_pending = False
        cdef uint32_t code, kind
        while at < size:
            code = octets[at]
            if 0 < code < 0x80:
                at += 1
                code = self.folded[code]
                if code == 32:
                    is_pending = used > 0
                    continue
                if is_pending:
                    out[used] = 32
                    used += 1
                    is_pending = False
                out[used] = code
                used += 1
                continue
            if code == 0:
                return -1
            if code < 0xE0:
                code = (code & 0x1F) << 6 | (octets[at + 1] & 0x3F)
                at += 2
            elif code < 0xF0:
                code = (code & 0x0F) << 12 | (octets[at + 1] & 0x3F) << 6 | (octets[at + 2] & 0x3F)
                at += 3
            else:
                code = (code & 0x07) << 18 | (octets[at + 1] & 0x3F) << 12 | (octets[at + 2] & 0x3F) << 6 | (
                    octets[at + 3] & 0x3F)
                at += 4
            kind = self.kinds[code] if code < PLANE else REPLACED if _stays(code) else UNKNOWN
            if kind == REPLACED and code < PLANE:
                code = self.folded[code]
                if code == 32:
                    is_pending = used > 0
                    continue
            elif kind == DROPPED:
                continue
            elif kind == MARK or (kind == UNKNOWN and not 0xAC00 <= code <= 0xD7A3):
                return -1
            if is_pending:
                out[used] = 32
                used += 1
                is_pending = False
            if kind == EXPANDED:
                memcpy(out + used, self.expansions[self.folded[code]], self.lengths[self.folded[code]])
                used += self.lengths[self.folded[code]]
            elif kind == UNKNOWN:
                used += _put_syllable(out + used, code - 0xAC00)
            else:
                used += _put(out + used, code)
        return used


cdef inline bint _stays(uint32_t code) noexcept nogil:
    """Whether a character above the tables has neither case nor parts: Chinese ones and most small pictures."""
    return 0x20000 <= code <= 0x2A6DF or 0x1F300 <= code <= 0x1F64F or 0x1F680 <= code <= 0x1F6FF or (
        0x1F900 <= code <= 0x1FAFF)


cdef inline int _put(uint8_t* out, uint32_t code) noexcept nogil:
    """Write a character; return how many octets it has."""
    if code < 0x80:
        out[0] = code
        return 1
    if code < 0x800:
        out[0] = 0xC0 | code >> 6
        out[1] = 0x80 | (code & 0x3F)
        return 2
    if code < 0x10000:
        out[0] = 0xE0 | code >> 12
        out[1] = 0x80 | (code >> 6 & 0x3F)
        out[2] = 0x80 | (code & 0x3F)
        return 3
    out[0] = 0xF0 | code >> 18
    out[1] = 0x80 | (code >> 12 & 0x3F)
    out[2] = 0x80 | (code >> 6 & 0x3F)
    out[3] = 0x80 | (code & 0x3F)
    return 4


cdef inline int _put_syllable(uint8_t* out, uint32_t syllable) noexcept nogil:
    """Write the two or three letters of a Korean syllable (Unicode standard, 3.12)."""
    cdef int used = _put(out, 0x1100 + syllable // 588)
    used += _put(out + used, 0x1161 + syllable % 588 // 28)
    if syllable % 28:
        used += _put(out + used, 0x11A7 + syllable % 28)
    return used


# ---- simhash --------------------------------------------------------------------------------------------------------

cdef enum:
    SEPARATOR, LETTER, IDEOGRAPH

cdef enum:
    POWERS = 64
    WORDS = 3
    PLANES = 32


cdef inline uint64_t _mixed(uint64_t value) noexcept nogil:
    value ^= value >> 30
    value *= <uint64_t>0xBF58476D1CE4E5B9
    value ^= value >> 27
    value *= <uint64_t>0x94D049BB133111EB
    return value ^ value >> 31


cdef class Simhash:
    """64 bits of a text over its shingles of three words. `kinds` has the kind of each octet (simhash.py)."""

    cdef uint8_t kinds[256]
    cdef uint64_t powers[POWERS]
    cdef uint64_t weights[WORDS]
    cdef uint64_t base

    def __init__(self, bytes kinds not None, uint64_t base, weights):
        if len(kinds) != 256:
            raise ValueError("256 kinds are needed")
        for octet in range(256):
            self.kinds[octet] = kinds[octet]
        self.base = base
        self.powers[0] = 1
        for power in range(1, POWERS):
            self.powers[power] = self.powers[power - 1] * base
        self.weights[0], self.weights[1], self.weights[2] = weights

    def of(self, bytes text not None):
        """Return the fingerprint of a text in UTF-8, 0 for one without words."""
        return self._of(<const uint8_t*>PyBytes_AS_STRING(text), len(text))

    cdef uint64_t _of(self, const uint8_t* octets, Py_ssize_t size) noexcept nogil:
        """Count for each bit how many shingles have it, and take those that more than half have.

        `planes[p]` holds the p-th binary digit of all 64 counts; there are too few octets for the last to overflow.
        """
        cdef uint64_t planes[PLANES]
        cdef uint64_t word, before = 0, before_that = 0, shingle
        cdef Py_ssize_t at = 0, words = 0, shingles = 0
        cdef int plane
        for plane in range(PLANES):
            planes[plane] = 0
        while at < size:
            if self.kinds[octets[at]] == SEPARATOR:
                at += 1
                continue
            word = self._word(octets, size, &at)
            words += 1
            if words >= WORDS:
                shingle = before_that * self.weights[0] + before * self.weights[1] + word * self.weights[2]
                _count(planes, _mixed(shingle))
                shingles += 1
            before_that, before = before, word
        if words == 0:
            return 0
        if words < WORDS:
            if words == 2:
                _count(planes, _mixed(before_that * self.weights[0]))
            _count(planes, _mixed(before * self.weights[0]))
            shingles = words
        return _majority(planes, shingles)

    cdef inline uint64_t _word(self, const uint8_t* octets, Py_ssize_t size, Py_ssize_t* at) noexcept nogil:
        """Return the hash of the word at a place and move behind it; an ideograph begins a word of its own."""
        cdef Py_ssize_t here = at[0], letter = 0
        cdef uint64_t total = 0, power = 1
        while True:
            if letter < POWERS:
                power = self.powers[letter]
            else:
                power *= self.base
            total += octets[here] * power
            letter += 1
            here += 1
            if here >= size or self.kinds[octets[here]] != LETTER:
                break
        at[0] = here
        return _mixed(total)


cdef inline void _count(uint64_t* planes, uint64_t bits) noexcept nogil:
    cdef uint64_t carry
    cdef int plane = 0
    while bits and plane < PLANES:
        carry = planes[plane] & bits
        planes[plane] ^= bits
        bits = carry
        plane += 1


cdef uint64_t _majority(const uint64_t* planes, Py_ssize_t total) noexcept nogil:
    cdef uint64_t result = 0
    cdef Py_ssize_t count
    cdef int bit, plane
    for bit in range(64):
        count = 0
        for plane in range(PLANES):
            count += <Py_ssize_t>(planes[plane] >> bit & 1) << plane
        if 2 * count > total:
            result |= <uint64_t>1 << bit
    return result
