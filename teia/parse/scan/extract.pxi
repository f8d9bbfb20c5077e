# What is found in a page.

cdef enum:
    MOST_READ = 1600  # of the words of one link (links.py, one_line)
    MOST_INNER = 500_000  # of the words of all, well before links.py stops to read them
    IS_NEW = 0
    IS_FRAGMENT = 1
    IS_REPEATED = 2


cdef struct Values:  # where attributes begin, or -1, and end; a page has less than 2^31 octets
    int first[ATTRIBUTES]
    int last[ATTRIBUTES]


@cython.no_gc
cdef class Source:
    """Where elements have their words from."""

    cdef bytes markup
    cdef Buffer inner  # what is written inside of links and headings

    def __cinit__(self, bytes markup):
        self.markup = markup
        self.inner = Buffer()

    cdef bint starts(self, Py_ssize_t at, unsigned char letter) except -1:
        return octet(_page_of(self.markup), at) == letter

    cdef bytes reference(self, Values* values):
        """Return a link's reference as it is written, without its fragment if that is easily told."""
        cdef const unsigned char* octets = self.markup
        cdef Py_ssize_t at = values.first[HREF], length = values.last[HREF] - at
        cdef const unsigned char* fragment = NULL
        if not 0 <= at <= at + length <= len(self.markup):
            raise IndexError
        if memchr(octets + at, 38, length) is NULL:  # which could begin a number sign of another meaning, `&#38;`
            fragment = <const unsigned char*>memchr(octets + at, 35, length)
        if fragment is not NULL:
            length = fragment - octets - at
        return PyBytes_FromStringAndSize(<const char*>octets + at, length)


@cython.no_gc
@cython.freelist(256)
cdef class Element:
    """An element that somebody looks at, with the methods of a node of the tree that are used on it."""

    cdef readonly str tag
    cdef Source source
    cdef Values values
    cdef Py_ssize_t text_from, text_to

    def __cinit__(self, str tag, Source source):
        self.tag = tag
        self.source = source
        self.text_from = self.text_to = source.inner.used

    cdef str value(self, int number):
        """Return an attribute; None if it is not there."""
        cdef const unsigned char* octets = self.source.markup
        cdef Py_ssize_t at = self.values.first[number], end = self.values.last[number]
        if at < 0:
            return None
        if not at <= end <= len(self.source.markup):
            raise IndexError
        if memchr(octets + at, 38, end - at) is NULL and memchr(octets + at, 13, end - at) is NULL:
            return PyUnicode_DecodeUTF8(<const char*>octets + at, end - at, NULL)
        return _unescaped(self.source.markup[at:end])

    def getattr(self, str name, str default=None):
        found = self.value(ATTRIBUTE_NUMBERS[name])
        return default if found is None else found

    def hasattr(self, str name):
        return self.values.first[<int>ATTRIBUTE_NUMBERS[name]] >= 0

    @property
    def text(self):
        """What is written inside, blanks and line ends included."""
        text = self.source.inner.text(self.text_from, self.text_to)
        return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


cdef class Extract:
    """The elements that are looked at, in their order, and the text if it is wanted.

    `elements` are the links, frames and meta tags, `tags` the names of them.
    """

    cdef readonly list elements, tags, headings
    cdef Element root, first_base, first_title
    cdef Source source
    cdef Shown shown
    cdef Values values  # of the tag that is being read, if it is one that is looked at
    cdef dict settled  # references of links that bring nothing new, and how often each was met again
    cdef bint has_passed_fragments
    cdef readonly bint has_scripts

    def __cinit__(self, bytes markup, bint want_text):
        self.elements, self.tags, self.headings = [], [], []
        self.settled = {}
        self.source = Source(markup)
        self.shown = Shown() if want_text else None

    @property
    def text(self):
        """What a reader sees."""
        return self.shown.out.text(0, self.shown.out.used).strip() if self.shown is not None else ""

    @property
    def title(self):
        return self.first_title.text if self.first_title is not None else ""

    @property
    def language(self):
        """What the root says."""
        return (self.root.value(LANG) or self.root.value(XML_LANG) or "") if self.root is not None else ""

    @property
    def base(self):
        """The reference of the first `<base>` that has one."""
        return self.first_base.value(HREF) if self.first_base is not None else None

    def pictured(self, Element link not None, /):
        """Return the description of the first picture in a link that has one, if only an empty one."""
        return link.value(ALT) or ""

    cdef int settled_as(self) except -1:
        """Return IS_FRAGMENT for a link into the page itself, IS_REPEATED where another with words leads, or IS_NEW."""
        cdef int at = self.values.first[HREF]
        if self.first_base is None and at < self.values.last[HREF] and self.source.starts(at, 35):
            self.has_passed_fragments = True
            return IS_FRAGMENT
        cdef bytes reference = self.source.reference(&self.values)
        cdef object repeated = self.settled.get(reference)
        if repeated is None:
            return IS_NEW
        self.settled[reference] = repeated + 1
        return IS_REPEATED

    cdef int settle(self, Element link) except -1:
        """Note that links with this reference bring nothing new (LinkCollector.add_anchor_element)."""
        cdef Buffer inner = self.source.inner
        cdef Py_ssize_t at
        if link.values.first[REL] >= 0 or inner.used > MOST_INNER:
            return 0
        for at in range(link.text_from, min(link.text_to, link.text_from + MOST_READ)):
            if 33 <= inner.octets[at] <= 126:
                self.settled.setdefault(self.source.reference(&link.values), 0)
                break
        return 0

    cdef Element element(self, int tag):
        """Return the element that the tag opens."""
        cdef Element element = Element(TAG_NAMES[tag], self.source)
        element.values = self.values
        return element

    cdef Element remember(self, int tag):
        """Return it, and add it to those that are looked at."""
        cdef Element element = self.element(tag)
        self.elements.append(element)
        self.tags.append(element.tag)
        return element

    cdef int look_at(self, int tag) except -1:
        """Remember what the tag opens if there is something to it."""
        if tag == BASE:
            if self.first_base is None and self.values.first[HREF] >= 0:
                if self.has_passed_fragments:
                    raise GivenUp("a base behind links")
                self.first_base = self.element(tag)
        elif tag == META or tag == IFRAME or ((tag == LINK or tag == AREA) and self.values.first[HREF] >= 0):
            self.remember(tag)
        return 0
