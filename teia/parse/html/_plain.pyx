# cython: language_level=3, boundscheck=False, wraparound=False
"""Joining of plain references to the folders of a document, compiled (base.py uses it).

tests/parse/html/test_base.py compares it with the reference implementation. Indexes are not checked by Cython here: a
reference is read through `_octet`, which is 0 behind its end.
"""

from cpython.unicode cimport PyUnicode_1BYTE_DATA, PyUnicode_GET_LENGTH, PyUnicode_New
from libc.stdint cimport uint8_t
from libc.string cimport memcmp, memcpy

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)

cdef enum:
    SIGN = 1  # of a segment, but for dots
    IN_PATH = 2
    IN_QUERY = 4
    IN_LABEL = 8
    SMALLEST_TLD = 2
    LARGEST_TLD = 63  # octets

cdef uint8_t KINDS[256]


def _fill():
    letters = b"abcdefghijklmnopqrstuvwxyz"
    signs = letters + letters.upper() + b"0123456789_~+,=@!-"
    for code in range(256):
        KINDS[code] = (
            (SIGN if code in signs else 0)
            | (IN_PATH if code in signs + b"." else 0)
            | (IN_QUERY if code in signs + b".&/:" else 0)
            | (IN_LABEL if code in letters + b"0123456789" else 0)
        )


_fill()


cdef struct Reference:
    const uint8_t* octets
    Py_ssize_t length


cdef class Folders:
    """The folders that the references of a document are relative to: the root of its origin, and its own folder.

    `folder` is None if it is not plain; then no relative reference is.
    """

    cdef str origin, folder

    def __cinit__(self, str origin not None, str folder):
        if not PyUnicode_IS_ASCII(origin) or (folder is not None and not PyUnicode_IS_ASCII(folder)):
            raise ValueError("a canonical URL is ASCII")
        self.origin, self.folder = origin, folder

    def join(self, str reference not None):
        """Return the URL of a plain reference; an empty text for any other."""
        cdef Reference text
        cdef Py_ssize_t at = 0, path, up = 0
        if not PyUnicode_IS_ASCII(reference):
            return ""
        text.octets, text.length = PyUnicode_1BYTE_DATA(reference), PyUnicode_GET_LENGTH(reference)
        if _octet(&text, 0) == c"/":
            if not _ends(&text, _path_end(&text, 1)):
                return ""
            return _joined(self.origin, PyUnicode_GET_LENGTH(self.origin), &text, 1)
        at = _origin_end(&text)
        if at:
            return reference if _ends(&text, _path_end(&text, at)) else ""
        if self.folder is None:
            return ""
        if _octet(&text, 0) == c"." and _octet(&text, 1) == c"/":
            at = 2
        while _octet(&text, at) == c"." and _octet(&text, at + 1) == c"." and _octet(&text, at + 2) == c"/":
            up += 1
            at += 3
        path = _path_end(&text, at)
        if (up == 0 and path == at) or not _ends(&text, path):
            return ""
        return _joined(self.folder, self._above(up), &text, at)

    cdef Py_ssize_t _above(self, Py_ssize_t steps) noexcept:
        """Return the length of the folder so many steps up; as in browsers, the root stays at the root."""
        cdef const uint8_t* octets = PyUnicode_1BYTE_DATA(self.folder)
        cdef Py_ssize_t root = PyUnicode_GET_LENGTH(self.origin), end = PyUnicode_GET_LENGTH(self.folder)
        while steps > 0 and end > root:
            end -= 1  # the slash at the end
            while end > root and octets[end - 1] != c"/":
                end -= 1
            steps -= 1
        return end


cdef inline uint8_t _octet(Reference* text, Py_ssize_t at) noexcept:
    return text.octets[at] if at < text.length else 0


cdef inline uint8_t _kind(Reference* text, Py_ssize_t at) noexcept:
    return KINDS[_octet(text, at)]


cdef Py_ssize_t _path_end(Reference* text, Py_ssize_t at) noexcept:
    """Return the end of the plain segments from a place on, which is that place if there is none."""
    cdef Py_ssize_t end = at
    while True:
        if _octet(text, at) == c".":
            at += 1
        if not _kind(text, at) & SIGN:
            return end
        while _kind(text, at) & IN_PATH:
            at += 1
        end = at
        if _octet(text, at) != c"/":
            return end
        at += 1
        end = at


cdef bint _ends(Reference* text, Py_ssize_t at) noexcept:
    """Tell whether a reference ends at a place, or with a plain query."""
    if at == text.length:
        return True
    if text.octets[at] != c"?" or at + 1 == text.length:
        return False
    at += 1
    while _kind(text, at) & IN_QUERY:
        at += 1
    return at == text.length


cdef Py_ssize_t _origin_end(Reference* text) noexcept:
    """Return the place behind the origin of an absolute reference, a host of plain labels; 0 if there is none."""
    cdef Py_ssize_t at = 4, last = 0
    if text.length < at or memcmp(text.octets, b"http", at) != 0:
        return 0
    if _octet(text, at) == c"s":
        at += 1
    if _octet(text, at) != c":" or _octet(text, at + 1) != c"/" or _octet(text, at + 2) != c"/":
        return 0
    at += 3
    while True:  # one label after the other: `a-b`, but neither `-a` nor `a--b`
        if not _kind(text, at) & IN_LABEL:
            return 0
        while _kind(text, at) & IN_LABEL:
            at += 1
        if _octet(text, at) == c"-":
            at += 1
        elif _octet(text, at) == c".":
            at += 1
            last = at
        else:
            break
    # No port, and a last label of letters: numbers there are an address.
    if last == 0 or _octet(text, at) != c"/" or not SMALLEST_TLD <= at - last <= LARGEST_TLD:
        return 0
    for last in range(last, at):
        if not c"a" <= text.octets[last] <= c"z":
            return 0
    return at + 1


cdef str _joined(str folder, Py_ssize_t length, Reference* text, Py_ssize_t at):
    """Return so much of a folder, and a reference from a place on."""
    cdef Py_ssize_t rest = text.length - at
    cdef object made = PyUnicode_New(length + rest, 127)
    cdef uint8_t* octets = <uint8_t*>PyUnicode_1BYTE_DATA(made)
    memcpy(octets, PyUnicode_1BYTE_DATA(folder), length)
    memcpy(octets + length, text.octets + at, rest)
    return made
