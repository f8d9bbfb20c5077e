# The text of a page, as its readers see it.

cdef enum:  # what goes before the next word
    NOTHING, SPACE, LINE


cdef class Shown:
    """The text, a block to a line, its words apart where the extractor of the tree way keeps them apart.

    That one walks through the nodes and begins a piece at every block, and at every node that lies less deep than the
    one at which the last piece began. Pieces in a list are indented, so words at their borders are apart. `lists`
    counts as it does: an item outside of lists never ends, nor does a list without content.
    """

    cdef Buffer out
    cdef int hidden, verbatim, pending, lists, node_depth
    cdef bint is_fresh

    def __cinit__(self):
        self.out = Buffer()

    cdef inline int separated(self, int depth, int by) except -1:
        """Take note of a node at this depth, and what it puts between two words."""
        if self.hidden:
            return 0
        if by == LINE:
            self.node_depth = depth
            self.is_fresh = False
        elif depth < self.node_depth:
            self.node_depth = depth
            self.is_fresh = True
        if by > self.pending:
            self.pending = by
        return 0

    cdef inline int opened(self, int depth, int traits) except -1:
        if self.hidden or traits & HIDDEN:
            self.hidden += (traits & HIDDEN) != 0
            return 0
        self.separated(depth, LINE if traits & BREAK else SPACE if traits & GLUE else NOTHING)
        if traits & LISTS or (traits & LISTED and self.lists == 0):
            self.lists += 1
        if traits & VERBATIM:
            self.verbatim += 1
        return 0

    cdef inline int closed(self, int depth, int traits, bint has_children) except -1:
        if self.hidden:
            self.hidden -= (traits & HIDDEN) != 0
            return 0
        self.separated(depth, LINE if traits & BREAK else SPACE if traits & GLUE else NOTHING)
        if traits & LISTS and has_children:
            self.lists -= 1
        if traits & VERBATIM:
            self.verbatim -= 1
        return 0

    cdef int text(
        self, Page page, Py_ssize_t at, Py_ssize_t end, int depth, bint in_attribute
    ) except -1:
        """Add characters, references among them. No index reaches `end`."""
        cdef const unsigned char* octets = page.octets
        cdef Py_ssize_t start, after = 0
        cdef bytes meant
        if end > page.size:
            raise IndexError
        if self.hidden or at >= end:
            return 0
        self.separated(depth, NOTHING)
        if self.is_fresh:
            self.is_fresh = False
            if self.lists and self.pending == NOTHING:
                self.pending = SPACE
        while at < end:
            if CLASS[octets[at]] == BLANK:
                if octets[at] == 10 and self.verbatim:
                    self.pending = LINE
                elif self.pending == NOTHING:
                    self.pending = SPACE
                at += 1
                continue
            if octets[at] == 38:
                meant = _reference(page, at, end, in_attribute, &after)
                if meant is not None:
                    self._add_meant(meant)
                    at = after
                    continue
            start = at
            at += 1
            while at < end:
                if CLASS[octets[at]] == PLAIN:
                    at += 1
                elif octets[at] == 32 and at + 1 < end and CLASS[octets[at + 1]] == PLAIN:
                    at += 2
                else:
                    break
            self._separate()
            self.out.add(page, start, at)
        return 0

    cdef int _add_meant(self, bytes meant) except -1:
        cdef unsigned char first = meant[0]
        if CLASS[first] == BLANK:
            self.pending = max(self.pending, LINE if first == 10 and self.verbatim else SPACE)
            return 0
        self._separate()
        return self.out.add_bytes(meant)

    cdef inline int _separate(self) except -1:
        if self.pending:
            if self.out.used:
                self.out.add_octet(10 if self.pending == LINE else 32)
            self.pending = NOTHING
        return 0
