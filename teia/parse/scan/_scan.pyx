# cython: language_level=3, boundscheck=True, wraparound=False, initializedcheck=False
"""One pass over the octets of a page. The package's docstring says what it is for.

Pages are hostile. Their octets are read by `octet`, which checks every index; reading past the end is an IndexError,
and one more way to give up. What is open has a fixed place, which `Stack.push` guards.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint64_t
from libc.string cimport memchr, memcpy

import re
from codecs import BOM_UTF8
from html.entities import html5

from teia.parse.html.bounds import LONG_TAG_CHARS
from teia.parse.text.normal import MAX_ANCHOR_CHARS, one_line
from teia.records import Link, LinkKind
from teia.urls import MAX_REFERENCE_CHARS

OF_ANCHOR = LinkKind.ANCHOR


class GivenUp(Exception):
    """The page is not one of those that can be read without a tree; says why."""


include "octets.pxi"
include "tags.pxi"
include "shown.pxi"
include "extract.pxi"
include "stack.pxi"
include "open.pxi"
include "anchors.pxi"

cdef enum:
    MOST_OCTETS = 0x7FFFFFFF

_NO_QUIRKS = re.compile(
    rb"""html\s*+(?:
        |system\s++"about:legacy-compat"
        |public\s++"-//w3c//dtd\ (?:xhtml\ 1\.0\ (?:strict|transitional)|xhtml\ 1\.1|html\ 4\.01)//en"
            \s*+(?:"http://www\.w3\.org/[^">]*+")?
        |public\s++"-//w3c//dtd\ html\ 4\.01\ transitional//en"\s*+"http://www\.w3\.org/[^">]*+"
    )\s*+""",
    re.IGNORECASE | re.VERBOSE,
)
"""Document types for which browsers, old and new, agree how to read tables in paragraphs."""


@cython.final
cdef class Scanner(OpenElements):
    """Takes a page apart into tags and text."""

    cdef bint is_initial, is_self_closing

    def __cinit__(self, bytes markup, bint want_text):
        self.is_initial = True

    cdef int read(self, Page page) except -1:
        cdef Py_ssize_t at = 0, end = page.size, tag
        cdef const unsigned char* found
        while at < end:
            found = <const unsigned char*>memchr(page.octets + at, 60, end - at)
            tag = found - page.octets if found is not NULL else end
            if tag > at:
                self._text(page, at, tag)
            at = tag + 1
            if at >= end:
                self._text(page, tag, end)
            elif _is_letter(octet(page, at)):
                at = self._start_tag(page, at)
            elif octet(page, at) == 47:
                at = self._end_tag(page, at + 1)
            elif octet(page, at) == 33:
                at = self._declaration(page, at + 1)
            elif octet(page, at) == 63:
                at = _place_of(62, page, at) + 1
            else:
                self._text(page, tag, at)
        if self.anchor_at >= 0:
            self.anchor.text_to = self.source.inner.used
        for heading in self.open_headings:
            (<Element>heading).text_to = self.source.inner.used
        return 0

    cdef Py_ssize_t _start_tag(self, Page page, Py_ssize_t at) except -1:
        cdef Py_ssize_t name = at, name_end
        cdef int tag
        while not _ends_name(octet(page, at)):
            at += 1
        name_end = at
        tag = TAGS.find(page, name, name_end)
        if tag == SCRIPT:
            self.has_scripts = True
        at = self._attributes(page, at, TRAITS[tag] & REMEMBERED)
        self.is_initial = False
        if self.drawing_at >= 0:
            self.open_in_drawing(tag, self.is_self_closing)
            return at
        self.open(page, tag, name, name_end)
        if KIND[tag] == RAW:
            return self._raw(page, at, tag)
        if KIND[tag] == DRAWING:
            self.open_in_drawing(tag, self.is_self_closing)
        elif TRAITS[tag] & VERBATIM and at < page.size and (octet(page, at) == 10 or octet(page, at) == 13):
            at += 2 if octet(page, at) == 13 and at + 1 < page.size and octet(page, at + 1) == 10 else 1
        return at

    cdef Py_ssize_t _end_tag(self, Page page, Py_ssize_t at) except -1:
        cdef Py_ssize_t name = at, name_end
        if not _is_letter(octet(page, at)):  # a comment, or nothing at all
            if self.depth and octet(page, at) != 62:
                self.stack[self.depth - 1].has_children = True
            return _place_of(62, page, at) + 1
        while not _ends_name(octet(page, at)):
            at += 1
        name_end = at
        at = self._attributes(page, at, False)
        self.is_initial = False
        self.close(page, TAGS.find(page, name, name_end), name, name_end)
        return at

    cdef Py_ssize_t _attributes(self, Page page, Py_ssize_t at, bint is_looked_at) except -1:
        """Pass over attributes, or read those that somebody asks for; return what follows the tag."""
        cdef Py_ssize_t name, name_end, value, value_end
        cdef int number
        if is_looked_at:
            for number in range(ATTRIBUTES):
                self.values.first[number] = -1
        while True:
            self.is_self_closing = False
            while _is_blank(octet(page, at)) or octet(page, at) == 47:
                self.is_self_closing = octet(page, at) == 47
                at += 1
            if octet(page, at) == 62:
                return at + 1
            if octet(page, at) == 61:
                raise GivenUp("an attribute without a name")
            name = at
            while octet(page, at) != 61 and not _ends_name(octet(page, at)):
                at += 1
            name_end = value = value_end = at
            while _is_blank(octet(page, at)):
                at += 1
            if octet(page, at) == 61:
                at += 1
                while _is_blank(octet(page, at)):
                    at += 1
                value = at
                if octet(page, at) == 34 or octet(page, at) == 39:
                    value = at + 1
                    value_end = _place_of(octet(page, at), page, value)
                    at = value_end + 1
                else:
                    while octet(page, at) != 62 and not _is_blank(octet(page, at)):
                        at += 1
                    value_end = at
            if is_looked_at:
                number = KNOWN_ATTRIBUTES.find(page, name, name_end) - 1
                if number >= 0 and self.values.first[number] < 0:
                    self.values.first[number] = <int>value
                    self.values.last[number] = <int>value_end

    cdef Py_ssize_t _raw(self, Page page, Py_ssize_t at, int tag) except -1:
        """Pass over content that is no markup; return what follows its end tag."""
        cdef Py_ssize_t start = at, name_end
        cdef bint may_nest = False, has_comment = False, has_other_ends = False
        while True:
            at = _place_of(60, page, at) + 1
            if octet(page, at) == 47:
                name_end = at + 1
                while _is_letter(octet(page, name_end)):
                    name_end += 1
                if _ends_name(octet(page, name_end)) and TAGS.find(page, at + 1, name_end) == tag:
                    break
            has_other_ends |= octet(page, at) == 47
            has_comment |= octet(page, at) == 33
            may_nest |= LOWER[octet(page, at)] == 115
        if tag == SCRIPT and has_comment and may_nest:
            raise GivenUp("a script in a script")
        if tag == TITLE_TAG and self.first_title is None:
            self.first_title = Element("title", self.source)
            self._copy(page, start, at - 1)
            self.first_title.text_to = self.source.inner.used
        elif self.inner_open:
            if tag == TEXTAREA or (tag == SCRIPT and has_other_ends):  # of which the tree loses a letter or two
                raise GivenUp("a form or script in a link or heading")
            self.source.inner.add(page, start, at - 1)
        return self._attributes(page, name_end, False)

    cdef Py_ssize_t _declaration(self, Page page, Py_ssize_t at) except -1:
        """Pass over a comment or a document type; return what follows."""
        cdef Py_ssize_t end
        if self.depth:
            self.stack[self.depth - 1].has_children = True
        if octet(page, at) == 45 and octet(page, at + 1) == 45:
            return self._after_comment(page, at + 2)
        if octet(page, at) == 91 and self.drawing_at >= 0:
            raise GivenUp("data in a drawing")
        end = _place_of(62, page, at)
        if self.is_initial and self.source.markup[at:min(at + 7, end)].lower() == b"doctype":
            self.is_initial = False
            said = self.source.markup[at + 7:end].strip()
            self.quirks = NO_QUIRKS if _NO_QUIRKS.fullmatch(said) else UNKNOWN_QUIRKS
        return end + 1

    cdef Py_ssize_t _after_comment(self, Page page, Py_ssize_t at) except -1:
        if octet(page, at) == 62 or (octet(page, at) == 45 and octet(page, at + 1) == 62):
            raise GivenUp("a comment that ends as it begins")
        while True:
            at = _place_of(45, page, at) + 1
            if octet(page, at) == 45:
                if octet(page, at + 1) == 62:
                    return at + 2
                if octet(page, at + 1) == 33 and octet(page, at + 2) == 62:
                    raise GivenUp("a comment with an odd end")

    cdef int _text(self, Page page, Py_ssize_t at, Py_ssize_t end) except -1:
        """Take characters without a tag among them."""
        cdef Frame* top
        if at >= end:
            return 0
        if self.phase != INSIDE_BODY:
            at = _after_blanks(page, at, end)
            if at == end:
                return 0
            if octet(page, at) == 38:
                raise GivenUp("a reference before the body, perhaps to a blank")
            self.is_initial = False
            self.enter_body()
        top = &self.stack[self.depth - 1]
        top.has_children = True
        if top.traits & STRUCTURE and _after_blanks(page, at, end) < end:
            raise GivenUp("text between cells")
        if self.inner_open:
            self._copy(page, at, end)
        if self.shown is not None:
            self.shown.text(page, at, end, self.depth, False)
        return 0

    cdef int _copy(self, Page page, Py_ssize_t at, Py_ssize_t end) except -1:
        """Add characters to what is inside of links and headings."""
        cdef Py_ssize_t start = at, after = 0
        cdef bytes meant
        while at < end:
            if octet(page, at) == 38:
                meant = _reference(page, at, end, False, &after)
                if meant is not None:
                    self.source.inner.add(page, start, at)
                    self.source.inner.add_bytes(meant)
                    at = start = after
                    continue
            at += 1
        return self.source.inner.add(page, start, end)


def is_plain(bytes markup not None, Py_ssize_t most_tags):
    """Whether octets are valid UTF-8 without a mark in front, with short tags and no more than so many."""
    cdef Page page = _page_of(markup)
    return _is_modest(page, most_tags) and _is_utf8(page) and not markup.startswith(BOM_UTF8)


def scan(bytes markup not None, bint want_text=True):
    """Read a page in valid UTF-8 that is not too large for a parser, or raise GivenUp."""
    cdef Scanner found = Scanner(markup, want_text)
    if len(markup) >= MOST_OCTETS or b"\0" in markup:
        raise GivenUp("too large" if len(markup) >= MOST_OCTETS else "a NUL")
    try:
        found.read(_page_of(markup))
    except IndexError:
        raise GivenUp("ends too early") from None
    return found
