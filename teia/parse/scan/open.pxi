# How tags open and close elements (HTML standard, 13.2.6).


cdef class OpenElements(Stack):
    """The rules of the standard, as far as they can change what is looked at."""

    cdef int enter_body(self) except -1:
        self.phase = INSIDE_BODY
        return self.push(BODY_TAG, 0, 0)

    # ---- start tags

    cdef int open(self, Page page, int tag, Py_ssize_t name, Py_ssize_t name_end) except -1:
        cdef int kind = KIND[tag]
        if kind == REFUSED:
            raise GivenUp(TAG_NAMES[tag])
        if self.phase != INSIDE_BODY and self._open_in_head(tag):
            return 0
        if self.in_select:
            return self._open_in_select(tag)
        if CAPTION <= kind <= CELL:
            return self._open_table_part(tag)
        if self.stack[self.depth - 1].traits & STRUCTURE:
            return self._open_in_table(page, tag)
        self.stack[self.depth - 1].has_children = True
        if kind <= DRAWN:
            return self.push(tag, name, name_end)
        if kind == ANCHOR:
            return self._open_anchor()
        if kind <= TABLE:
            return self._open_block(tag, kind)
        if kind <= SELECT:
            return self._open_inline(tag, kind)
        if kind <= RAW:
            return self.open_empty(page, tag)
        if kind == HTML:
            raise GivenUp("a second root")
        return 0  # a drawing is for the caller; a head or body that is one already

    cdef int _open_block(self, int tag, int kind) except -1:
        cdef Element heading
        if kind == FORM:
            if self.has_form:
                return 0
            self.has_form = True
        elif kind == ITEM or kind == TERM:
            self._end_item_before(kind)
        if kind == TABLE and self.quirks != NO_QUIRKS:
            if self.quirks == UNKNOWN_QUIRKS and self.find(P, SCOPE | BUTTONS) >= 0:
                raise GivenUp("a table in a paragraph")
        else:
            self._close_paragraph()
        if kind == HEADING:
            self._end_heading_before()
        self.push(tag, 0, 0)
        if H1 <= tag <= H3:
            heading = Element(TAG_NAMES[tag], self.source)
            self.headings.append(heading)
            self.open_headings.append(heading)
            self.inner_open += 1
        return 0

    cdef int _end_heading_before(self) except -1:
        """Close a heading if another follows directly inside of it."""
        cdef int at = self.depth - 1
        while not self.stack[at].traits & SPECIAL:
            at -= 1
        if self.stack[at].kind == HEADING:
            if self.is_loose:
                raise GivenUp("a heading in a heading")
            if at == self.depth - 1:
                self.pop()
        return 0

    cdef int _end_item_before(self, int kind) except -1:
        cdef int at
        for at in range(self.depth - 1, -1, -1):
            if self.stack[at].kind == kind:
                return self.pop_to(at)
            if self.stack[at].traits & SPECIAL and not self.stack[at].traits & PASSED:
                return 0
        return 0

    cdef int _open_inline(self, int tag, int kind) except -1:
        cdef Frame* top = &self.stack[self.depth - 1]
        if self.is_loose and kind in (OPTION, GROUP, RUBY):
            raise GivenUp("what follows another directly, or not")
        if kind == BUTTON:
            if self.find(tag, SCOPE) >= 0:
                self.pop_to(self.find(tag, SCOPE))
        elif kind == OPTION or kind == GROUP:
            if top.kind == OPTION:
                self.pop()
        elif kind == RUBY:
            if top.kind == RUBY and self.stack[self.depth - 2].tag == RUBY_TAG:
                self.pop()
            elif top.tag != RUBY_TAG:
                raise GivenUp("ruby out of place")
        elif kind == SELECT:
            self.in_select = True
        return self.push(tag, 0, 0)

    cdef bint _open_in_head(self, int tag) except -1:
        """Take a start tag before the body; say no if with it the body begins."""
        cdef int kind = KIND[tag], traits = TRAITS[tag]
        if kind == HTML:
            if self.root is not None or self.phase != START:
                raise GivenUp("a second root")
            self.root = self.element(tag)
            return True
        if kind == HEAD:
            self.phase = max(self.phase, INSIDE_HEAD)
            return True
        if self.in_noscript:
            if kind == NOSCRIPT:
                return True
            self.in_noscript = (traits & IN_NOSCRIPT) != 0
        if not traits & IN_HEAD or (kind == NOSCRIPT and self.phase == AFTER_HEAD):
            self.enter_body()
            return kind == BODY
        self.phase = max(self.phase, INSIDE_HEAD)
        if kind == NOSCRIPT:
            self.in_noscript = True
        else:
            self.look_at(tag)
        return True

    cdef int _open_in_select(self, int tag) except -1:
        cdef int kind = KIND[tag]
        if kind != OPTION and kind != GROUP:
            raise GivenUp("more than options in a choice")
        if self.stack[self.depth - 1].kind == OPTION:
            self.pop()
        if kind == GROUP and self.stack[self.depth - 1].kind == GROUP:
            self.pop()
        return self.push(tag, 0, 0)

    cdef int open_in_drawing(self, int tag, bint is_self_closing) except -1:
        """Take a start tag in a drawing, or its own."""
        if tag == TITLE_TAG:
            tag = SVG_TITLE
        if (KIND[tag] != DRAWN and KIND[tag] != DRAWING) or self.stack[self.depth - 1].tag == SVG_TITLE:
            raise GivenUp("more than lines in a drawing")
        if self.drawing_at < 0:
            self.drawing_at = self.depth
        self.push(tag, 0, 0)
        if is_self_closing:
            self.pop()
        return 0

    cdef int _open_table_part(self, int tag) except -1:
        """Close what must be closed before a part of a table, and open what was left out."""
        cdef int kind = KIND[tag], at = self.depth - 1
        while at >= 0 and self.stack[at].kind not in (TABLE, CAPTION, CELL):
            at -= 1
        if at < 0:
            return 0
        if self.stack[at].kind != TABLE:
            self.pop_to(at)
        if self.stack[self.depth - 1].kind == COLUMNS and kind != COLUMN:
            self.pop()
        if self.stack[self.depth - 1].kind == ROW and kind != CELL:
            self.pop()
        if self.stack[self.depth - 1].kind == ROWS and kind < ROW:
            self.pop()
        if kind == COLUMN:
            if self.stack[self.depth - 1].kind == TABLE:
                self.push(COLGROUP, 0, 0)
            return 0
        if kind >= ROW and self.stack[self.depth - 1].kind == TABLE:
            self.push(TBODY, 0, 0)
        if kind == CELL and self.stack[self.depth - 1].kind == ROWS:
            self.push(TR, 0, 0)
        return self.push(tag, 0, 0)

    cdef int _open_in_table(self, Page page, int tag) except -1:
        """Take a start tag that stands in a table but in no cell of it."""
        if self.stack[self.depth - 1].kind == COLUMNS:
            self.pop()
        if KIND[tag] == TABLE:
            self.pop_to(self.find(TABLE_TAG, 0))
            return self.open(page, tag, 0, 0)
        if KIND[tag] == FORM:
            self.has_form = True
        elif tag != SCRIPT and tag != STYLE:
            raise GivenUp("elements between cells")
        return 0

    cdef int _open_anchor(self) except -1:
        cdef int settled
        if self.anchors:
            self._close_anchor()
        elif self.has_stray_anchor:
            self.give_up_if_exact()
        if self.values.first[HREF] >= 0:
            settled = self.settled_as()
            if settled == IS_NEW:
                self.values.first[ALT] = -1  # the place of a picture's
                self.anchor = self.remember(A)
                self.anchor_at = self.depth
                self.inner_open += 1
            elif settled == IS_REPEATED:
                self.repeated_at = self.depth
        return self.push(A, 0, 0)

    cdef int open_empty(self, Page page, int tag) except -1:
        """Take an element without content, or without any that is markup."""
        cdef bint has_alt = (tag == IMG or tag == AREA or tag == INPUT) and self.values.first[ALT] >= 0
        cdef bint is_described = has_alt and self.values.first[ALT] < self.values.last[ALT]
        if tag == TITLE_TAG:
            raise GivenUp("a title in the body")
        if KIND[tag] == RULE:
            self._close_paragraph()
        if self.shown is not None and KIND[tag] != RAW and (tag != INPUT or is_described):
            self.shown.separated(self.depth, LINE if TRAITS[tag] & BREAK else SPACE if is_described else NOTHING)
            if is_described and tag != INPUT:
                self.shown.text(page, self.values.first[ALT], self.values.last[ALT], self.depth, True)
                self.shown.separated(self.depth, SPACE)
        if tag == IMG:
            if has_alt and self.anchor_at >= 0 and self.anchor.values.first[ALT] < 0:
                self.anchor.values.first[ALT] = self.values.first[ALT]
                self.anchor.values.last[ALT] = self.values.last[ALT]
        else:
            self.look_at(tag)
        return 0

    # ---- end tags

    cdef int close(self, Page page, int tag, Py_ssize_t name, Py_ssize_t name_end) except -1:
        cdef int kind = KIND[tag]
        cdef Frame* top
        if self.phase != INSIDE_BODY and self._close_in_head(tag):
            return 0
        top = &self.stack[self.depth - 1]
        if self.drawing_at >= 0:
            if not tag or top.tag != (SVG_TITLE if tag == TITLE_TAG else tag):
                raise GivenUp("a misnested drawing")
            return self.pop()
        if tag and top.tag == tag and kind != ANCHOR and kind != FORM and kind != BODY:
            return self.pop()
        return self._close_misnested(page, tag, name, name_end)

    cdef bint _close_in_head(self, int tag) except -1:
        """Take an end tag before the body; say no if with it the body begins."""
        cdef int kind = KIND[tag]
        if kind == HEAD:
            self.phase = AFTER_HEAD
            self.in_noscript = False
        elif kind == NOSCRIPT:
            self.in_noscript = False
        elif kind == HTML or kind == BODY or tag == BR:
            self.enter_body()
            return False
        return True

    cdef int _close_misnested(
        self, Page page, int tag, Py_ssize_t name, Py_ssize_t name_end
    ) except -1:
        """Take an end tag that is more than the end of the innermost element."""
        cdef int kind = KIND[tag], at = -1
        if self.in_select and kind != SELECT and kind != OPTION:
            raise GivenUp("more than options in a choice")
        if tag == P or tag == BR:
            return self._close_unopened(page, tag)
        if kind == ANCHOR:
            return self._close_anchor()
        if kind == FORMATTING:
            return self._close_formatting(tag)
        if kind == FORM:
            return self._close_form()
        if kind == TABLE or CAPTION <= kind <= CELL:
            return self._close_table_part(tag)
        if kind == ITEM:
            at = self.find(tag, SCOPE | LISTS)
        elif kind == HEADING:
            at = self.find_kind(HEADING, SCOPE)
        elif kind in (BLOCK, TERM, BUTTON, BOUNDED, SELECT):
            at = self.find(tag, SCOPE)
        elif kind < VOID:
            at = self._find_ordinary(page, tag, name, name_end)
        return self.pop_to(at) if at >= 0 else 0

    cdef int _find_ordinary(
        self, Page page, int tag, Py_ssize_t name, Py_ssize_t name_end
    ) except -2:
        """Return where the element is that an end tag without rules of its own ends, or -1."""
        cdef Frame* frame
        cdef Py_ssize_t letter
        cdef int at
        for at in range(self.depth - 1, -1, -1):
            frame = &self.stack[at]
            if frame.tag == tag and tag:
                return at
            if frame.tag == tag and frame.name_end - frame.name == name_end - name:
                for letter in range(name_end - name):
                    if LOWER[octet(page, frame.name + letter)] != LOWER[octet(page, name + letter)]:
                        break
                else:
                    return at
            if frame.traits & SPECIAL:
                return -1
        return -1

    cdef int _close_unopened(self, Page page, int tag) except -1:
        """Take the end of a paragraph, or of a line break; either makes one where there is none."""
        if tag == P and self.find(P, SCOPE | BUTTONS) >= 0:
            return self._close_paragraph()
        if self.stack[self.depth - 1].traits & STRUCTURE:
            raise GivenUp("elements between cells")
        self.stack[self.depth - 1].has_children = True
        if tag == BR:
            return self.open_empty(page, tag)
        self.push(P, 0, 0)
        return self.pop()

    cdef int _close_paragraph(self) except -1:
        cdef int at = self.find(P, SCOPE | BUTTONS) if self.paragraphs else -1
        return self.pop_to(at) if at >= 0 else 0

    cdef int _close_table_part(self, int tag) except -1:
        cdef int at
        for at in range(self.depth - 1, -1, -1):
            if self.stack[at].tag == tag:
                return self.pop_to(at)
            if self.stack[at].kind == TABLE:
                return 0
        return 0

    cdef int _close_form(self) except -1:
        cdef int at = self.find_kind(FORM, SCOPE)
        if self.has_form and at >= 0:
            while self.stack[self.depth - 1].traits & IMPLIED:
                self.pop()
            if self.depth - 1 != at or self.is_loose:
                raise GivenUp("a misnested form")
            self.pop()
        self.has_form = False
        return 0

    cdef int _close_formatting(self, int tag) except -1:
        """Forget a misnested element; what lies inside of it stays open, as the tree opens it again."""
        cdef int at, above
        self.give_up_if_exact()
        self.is_loose = True
        if self.anchor_at >= 0 or self.repeated_at >= 0:
            raise GivenUp("misnested in a link")
        for at in range(self.depth - 1, -1, -1):
            if self.stack[at].traits & SPECIAL:
                return 0
            if self.stack[at].tag == tag:
                for above in range(at + 1, self.depth):
                    self.stack[above - 1] = self.stack[above]
                self.depth -= 1
                return 0
        return 0

    cdef int _close_anchor(self) except -1:
        """Close the innermost link, because it ends or another begins."""
        cdef int at = self.depth - 1
        cdef bint is_special_inside = False
        while at >= 0 and self.stack[at].tag != A:
            is_special_inside |= self.stack[at].traits & SPECIAL
            at -= 1
        if at >= 0 and not is_special_inside:
            return self._end_anchor(at)
        self.give_up_if_exact()
        self.is_loose = True
        if at >= 0 and (at == self.anchor_at or at == self.repeated_at):
            raise GivenUp("a misnested link")
        return 0

    cdef int _end_anchor(self, int at) except -1:
        """Close a link and the ordinary elements inside of it; the formatting ones the tree opens again."""
        cdef int above, kept = at
        for above in range(at + 1, self.depth):
            self.give_up_if_exact()
            if self.stack[above].traits & ~IMPLIED:
                raise GivenUp("a misnested link")
            if self.stack[above].kind == FORMATTING:
                self.is_loose = True
                self.stack[kept] = self.stack[above]
                kept += 1
        self.depth = kept
        self.anchors -= 1
        if self.shown is not None:
            self.shown.closed(at, 0, True)
        if at == self.repeated_at:
            self.repeated_at = -1
        if at == self.anchor_at:
            self.anchor_at = -1
            self.anchor.text_to = self.source.inner.used
            self.inner_open -= 1
            self.settle(self.anchor)
        return 0
