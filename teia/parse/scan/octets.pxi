# Octets, names and references: what every part of the scanner needs.

cdef enum:  # what an octet is among text
    PLAIN, BLANK, AMPERSAND

cdef unsigned char LOWER[256]
cdef unsigned char CLASS[256]


def _fill_octets():
    cdef int octet
    for octet in range(256):
        LOWER[octet] = octet + 32 if 65 <= octet <= 90 else octet
        CLASS[octet] = BLANK if octet == 32 or 9 <= octet <= 13 else AMPERSAND if octet == 38 else PLAIN


_fill_octets()


cdef inline bint _is_letter(unsigned char octet) noexcept:
    return 97 <= LOWER[octet] <= 122


cdef inline bint _is_letter_or_digit(unsigned char octet) noexcept:
    return 97 <= LOWER[octet] <= 122 or 48 <= octet <= 57


cdef inline bint _is_blank(unsigned char octet) noexcept:
    """Whether an octet is white space in markup. Among text a vertical tab is, too (BLANK)."""
    return octet == 32 or octet == 10 or octet == 9 or octet == 13 or octet == 12


cdef inline bint _ends_name(unsigned char octet) noexcept:
    return octet == 62 or octet == 47 or _is_blank(octet)


cdef struct Page:  # all that is read goes through `octet`
    const unsigned char* octets
    Py_ssize_t size


cdef inline Page _page_of(bytes markup) noexcept:
    """Return a view of octets; good as long as they are."""
    cdef Page page
    page.octets = markup
    page.size = len(markup)
    return page


cdef inline unsigned char octet(Page page, Py_ssize_t at) except? 0:
    if <size_t>at >= <size_t>page.size:
        raise IndexError
    return page.octets[at]


cdef Py_ssize_t _after_blanks(Page page, Py_ssize_t at, Py_ssize_t end) except -1:
    while at < end and _is_blank(octet(page, at)):
        at += 1
    return at


cdef Py_ssize_t _place_of(unsigned char octet, Page page, Py_ssize_t at) except -1:
    """Return where an octet stands next; give up if nowhere."""
    cdef const unsigned char* found = NULL
    if at < page.size:
        found = <const unsigned char*>memchr(page.octets + at, octet, page.size - at)
    if found is NULL:
        raise GivenUp("ends too early")
    return found - page.octets


# ---- names ----------------------------------------------------------------------------------------------------------

cdef enum:
    LONGEST_KNOWN = 16
    SLOTS = 512

cdef struct Name:  # up to 16 letters, as two numbers
    uint64_t front
    uint64_t back
    int number


cdef class Names:
    """A few names, found without regard to case; each has a number above 0, in their order."""

    cdef Name table[SLOTS]

    def __cinit__(self, names):
        cdef bytes octets
        cdef Name key
        cdef unsigned int slot
        for number, name in enumerate(names, 1):
            octets = name.encode()
            key = self._key(_page_of(octets), 0, len(octets))
            slot = self._slot(key)
            while self.table[slot].number:
                slot = (slot + 1) % SLOTS
            key.number = number
            self.table[slot] = key

    cdef inline Name _key(self, Page page, Py_ssize_t at, Py_ssize_t end) except *:
        cdef Name key
        cdef int letter
        key.front = key.back = key.number = 0
        for letter in range(end - at):
            if letter < 8:
                key.front |= <uint64_t>LOWER[octet(page, at + letter)] << (8 * letter)
            else:
                key.back |= <uint64_t>LOWER[octet(page, at + letter)] << (8 * (letter - 8))
        return key

    cdef inline unsigned int _slot(self, Name key) noexcept:
        return <unsigned int>(((key.front ^ key.back * 31) * <uint64_t>0x9E3779B97F4A7C15) >> 55) % SLOTS

    cdef int find(self, Page page, Py_ssize_t at, Py_ssize_t end) except -1:
        """Return the number of what stands between two places, or 0."""
        cdef Name key
        cdef unsigned int slot
        if end - at > LONGEST_KNOWN:
            return 0
        key = self._key(page, at, end)
        slot = self._slot(key)
        while self.table[slot].number:
            if self.table[slot].front == key.front and self.table[slot].back == key.back:
                return self.table[slot].number
            slot = (slot + 1) % SLOTS
        return 0


# ---- growing buffers ------------------------------------------------------------------------------------------------


cdef class Buffer:
    """Octets, to be added to."""

    cdef unsigned char* octets
    cdef Py_ssize_t size, used

    def __dealloc__(self):
        PyMem_Free(self.octets)

    cdef int _make_room(self, Py_ssize_t needed) except -1:
        cdef Py_ssize_t size = max(2 * self.size, self.used + needed, 4096)
        cdef unsigned char* octets = <unsigned char*>PyMem_Realloc(self.octets, size)
        if octets is NULL:
            raise MemoryError
        self.octets = octets
        self.size = size
        return 0

    cdef int add(self, Page page, Py_ssize_t at, Py_ssize_t end) except -1:
        if not 0 <= at <= end <= page.size:
            raise IndexError
        if end > at:
            if self.size - self.used < end - at:
                self._make_room(end - at)
            memcpy(self.octets + self.used, page.octets + at, end - at)
            self.used += end - at
        return 0

    cdef int add_bytes(self, bytes more) except -1:
        if self.size - self.used < len(more):
            self._make_room(len(more))
        memcpy(self.octets + self.used, <const unsigned char*>more, len(more))
        self.used += len(more)
        return 0

    cdef int add_octet(self, unsigned char octet) except -1:
        if self.size == self.used:
            self._make_room(1)
        self.octets[self.used] = octet
        self.used += 1
        return 0

    cdef str text(self, Py_ssize_t at, Py_ssize_t end):
        if not 0 <= at <= end <= self.used:
            raise IndexError
        return PyUnicode_DecodeUTF8(<const char*>self.octets + at, end - at, NULL) if end > at else ""


# ---- references: &amp; &#38; ----------------------------------------------------------------------------------------

cdef dict NAMED = {name.encode(): text.encode() for name, text in html5.items()}
cdef Py_ssize_t LONGEST_NAME = max(map(len, NAMED))
cdef Py_ssize_t LONGEST_BARE = max(len(name) for name in NAMED if not name.endswith(b";"))
cdef set BEGINNINGS = {name[:length] for name in NAMED for length in range(1, len(name))}
cdef dict WINDOWS = {
    code: ord(char) for code in range(0x80, 0xA0) if (char := bytes([code]).decode("cp1252", "replace")) != "\ufffd"
}


cdef bytes _reference(Page page, Py_ssize_t at, Py_ssize_t limit, bint in_attribute, Py_ssize_t* after):
    """Return what the reference at an ampersand stands for, and where it ends; None if it is none.

    In attributes, where `&copy=1` is more likely a query, a name without semicolon may not be followed by a letter, a
    digit or an equals sign. The tree looks for those behind all that could still become a name, as the
    `s` of `&copys.` could.
    """
    cdef Py_ssize_t end = at + 1, length
    cdef bytes name, meant
    if end < limit and octet(page, end) == 35:
        return _numbered(page, at + 2, limit, in_attribute, after)
    while end < limit and end - at <= LONGEST_NAME and _is_letter_or_digit(octet(page, end)):
        end += 1
    if end == at + 1:
        return None
    if end < limit and octet(page, end) == 59:
        name = PyBytes_FromStringAndSize(<const char*>page.octets + at + 1, end - at)
        meant = NAMED.get(name)
        if meant is not None:
            after[0] = end + 1
            return meant
    for length in range(min(end - at - 1, LONGEST_BARE), 1, -1):
        name = PyBytes_FromStringAndSize(<const char*>page.octets + at + 1, length)
        meant = NAMED.get(name)
        if meant is not None:
            after[0] = at + 1 + length
            return None if in_attribute and _goes_on(page, at + 1, length, end, limit) else meant
    return None


cdef bint _goes_on(Page page, Py_ssize_t name, Py_ssize_t length, Py_ssize_t end, Py_ssize_t limit) except -1:
    """Whether a letter, a digit or an equals sign follows a name and all that could still become one."""
    cdef Py_ssize_t at
    while name + length < end and (
        PyBytes_FromStringAndSize(<const char*>page.octets + name, length + 1) in BEGINNINGS
    ):
        length += 1
    at = name + length
    return at < limit and (octet(page, at) == 61 or _is_letter_or_digit(octet(page, at)))


cdef bytes _numbered(Page page, Py_ssize_t at, Py_ssize_t limit, bint in_attribute, Py_ssize_t* after):
    cdef unsigned int code = 0, digit, radix = 10
    cdef unsigned char letter
    cdef Py_ssize_t start
    if at < limit and LOWER[octet(page, at)] == 120:
        radix = 16
        at += 1
    start = at
    while at < limit:
        letter = LOWER[octet(page, at)]
        digit = letter - 48 if 48 <= letter <= 57 else letter - 87 if 97 <= letter <= 102 else 99
        if digit >= radix:
            break
        code = min(code * radix + digit, 0x110000)
        at += 1
    if at == start:
        return None
    after[0] = at + 1 if at < limit and octet(page, at) == 59 else at
    code = WINDOWS.get(code, code)
    if code == 13 and not in_attribute:
        raise GivenUp("a line end as a number")
    return chr(0xFFFD if code == 0 or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF else code).encode()


cdef str _unescaped(bytes value):
    """Return the value of an attribute from how it is written."""
    cdef Buffer out = Buffer()
    cdef Page page = _page_of(value)
    cdef Py_ssize_t at = 0, after = 0
    cdef bytes meant
    while at < page.size:
        if octet(page, at) == 38:
            meant = _reference(page, at, page.size, True, &after)
            if meant is not None:
                out.add_bytes(meant)
                at = after
                continue
        if octet(page, at) == 13:
            out.add_octet(10)
            at += 2 if at + 1 < page.size and octet(page, at + 1) == 10 else 1
            continue
        out.add_octet(octet(page, at))
        at += 1
    return out.text(0, out.used)


# ---- whole pages ----------------------------------------------------------------------------------------------------

cdef Py_ssize_t HALF_A_LONG_TAG = LONG_TAG_CHARS // 2


cdef bint _is_utf8(Page page) noexcept:
    """Whether octets are valid UTF-8. No index reaches `size`: those that follow a first one are counted before."""
    cdef const unsigned char* octets = page.octets
    cdef Py_ssize_t at = 0, size = page.size, follow, each
    cdef unsigned char first, least, most
    cdef uint64_t eight
    while at < size:
        if size - at >= 8:
            memcpy(&eight, octets + at, 8)
            if not eight & <uint64_t>0x8080808080808080:
                at += 8
                continue
        first = octets[at]
        if first < 0x80:
            at += 1
            continue
        follow = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        if not 0xC2 <= first <= 0xF4 or size - at <= follow:
            return False
        least = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
        most = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
        if not least <= octets[at + 1] <= most:
            return False
        for each in range(2, follow + 1):
            if octets[at + each] & 0xC0 != 0x80:
                return False
        at += follow + 1
    return True


cdef bint _is_modest(Page page, Py_ssize_t most_tags) noexcept:
    """Whether `bounds.is_within_bounds` would say so, or at least `limit_markup` would cut no tag that is too long.

    A tag that is too long leaves at least one piece of half its length without a `>`.
    """
    cdef const unsigned char* octets = page.octets
    cdef Py_ssize_t at, start, size = page.size, tags = 0
    cdef unsigned char some
    for start in range(0, size, 255):  # sixteen at a time, since no more than 255 are counted in one octet
        some = 0
        for at in range(start, min(start + 255, size)):
            some += octets[at] == 60
        tags += some
    if tags > most_tags:
        return False
    for at in range(0, size - HALF_A_LONG_TAG + 1, HALF_A_LONG_TAG):
        if memchr(octets + at, 62, HALF_A_LONG_TAG) is NULL:
            return False
    return True
