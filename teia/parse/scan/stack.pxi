# The elements that are open.

cdef enum:
    MAX_DEPTH = 512

cdef enum:  # where we are
    START, INSIDE_HEAD, AFTER_HEAD, INSIDE_BODY

cdef enum:  # whether the faults of old browsers are repeated: in a paragraph, a table then does not end it
    NO_QUIRKS, QUIRKS, UNKNOWN_QUIRKS

cdef struct Frame:  # an open element
    int tag
    int kind
    int traits
    bint has_children
    Py_ssize_t name  # where it is written, for tags that have no number
    Py_ssize_t name_end


cdef inline bint _is_delicate(int kind, int traits) noexcept:
    """Whether it matters where an element ends, though it is not special."""
    return not traits & SPECIAL and (kind == BLOCK or traits & (HIDDEN | GLUE))


cdef class Stack(Extract):
    """A page while it is read: what is open, from the body inwards.

    Special elements, and all that is opened inside of a link, are open here exactly while they are open in the tree.
    Of others there may be some that the tree has closed already, or none where it has opened bold again: it does not
    matter where bold ends. Where it would (a link that is closed by another end tag than its own, the depth of nodes in
    a list, a heading in a heading), the page is given up. `is_loose`: there may be such a difference.
    """

    cdef Frame stack[MAX_DEPTH]
    cdef int depth, phase, quirks
    # Where the open link with a new reference, one that repeats another's, and the drawing are, or -1.
    cdef int anchor_at, repeated_at, drawing_at
    cdef int anchors, paragraphs, delicate, inner_open
    cdef Element anchor
    cdef list open_headings
    cdef bint in_noscript, in_select, has_form, has_stray_anchor, is_loose

    def __cinit__(self, bytes markup, bint want_text):
        self.open_headings = []
        self.anchor_at = self.repeated_at = self.drawing_at = -1
        self.quirks = QUIRKS

    cdef int push(self, int tag, Py_ssize_t name, Py_ssize_t name_end) except -1:
        cdef Frame* frame
        if self.depth >= MAX_DEPTH:
            raise GivenUp("too deep")
        frame = &self.stack[self.depth]
        frame.tag = tag
        frame.kind = KIND[tag]
        frame.traits = TRAITS[tag]
        frame.has_children = False
        frame.name = name
        frame.name_end = name_end
        if self.shown is not None:
            self.shown.opened(self.depth, frame.traits)
        self.depth += 1
        self.paragraphs += tag == P
        self.anchors += tag == A
        self.delicate += _is_delicate(frame.kind, frame.traits)
        return 0

    cdef int pop(self) except -1:
        cdef Frame* frame
        if self.depth < 2:
            raise GivenUp("the end of the body")
        self.depth -= 1
        frame = &self.stack[self.depth]
        self.paragraphs -= frame.tag == P
        self.delicate -= _is_delicate(frame.kind, frame.traits)
        if frame.tag == A:
            # The tree opens it again in what follows, and counts it once more.
            if self.depth == self.anchor_at or self.depth == self.repeated_at:
                raise GivenUp("a link without end")
            self.has_stray_anchor = True
            self.anchors -= 1
        elif H1 <= frame.tag <= H3:
            (<Element>self.open_headings.pop()).text_to = self.source.inner.used
            self.inner_open -= 1
        elif frame.kind == SELECT:
            self.in_select = False
        elif self.depth == self.drawing_at:
            self.drawing_at = -1
        if self.shown is not None:
            self.shown.closed(self.depth, frame.traits, frame.has_children)
        return 0

    cdef int pop_to(self, int depth) except -1:
        """Close an element and all that is open in it."""
        while self.depth > depth:
            self.is_loose |= self.stack[self.depth - 1].kind in (FORMATTING, ANCHOR)
            self.pop()
        return 0

    cdef int find(self, int tag, int barriers) noexcept:
        """Return where the innermost element with a tag is, or -1 if there is none or a barrier before it."""
        cdef int at
        for at in range(self.depth - 1, -1, -1):
            if self.stack[at].tag == tag:
                return at
            if self.stack[at].traits & barriers:
                return -1
        return -1

    cdef int find_kind(self, int kind, int barriers) noexcept:
        cdef int at
        for at in range(self.depth - 1, -1, -1):
            if self.stack[at].kind == kind:
                return at
            if self.stack[at].traits & barriers:
                return -1
        return -1

    cdef int give_up_if_exact(self) except -1:
        """Give up where it matters how deep nodes lie, as it does for the text of a list, or where they end."""
        if self.delicate > 0 or (self.shown is not None and self.shown.lists > 0):
            raise GivenUp("misnested")
        return 0
