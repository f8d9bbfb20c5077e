# cython: language_level=3
"""Merging and choosing the links of a page, compiled (links.py has the rule).

tests/crawler/test_chosen_links.py compares it with the same in Python. A page has a hundred links, and half of the time
was spent on calls and on numbers that were unpacked only to be packed again.
"""

from cpython.array cimport array, clone

cdef array _KEYS = array("q")


cdef class LinkRule:
    """The rule by which the links of a page are merged and chosen; links.py fills it in.

    `by_kind` are the bits of each kind of link by its value, with `links` for kinds that count in the link graph;
    `requisite` is the bit of those that are not followed like links. A decision of the class `taken` is a URL that may
    be followed; `unindexable` and `out_of_scope` are refusals, and so is any text, the name of a trap.
    """

    cdef object anchor, by_anchor, taken, unindexable, out_of_scope
    cdef dict by_kind
    cdef long long links, requisite

    def __cinit__(self, anchor, dict by_kind not None, long long links, long long requisite, taken, unindexable,
                  out_of_scope):
        self.anchor, self.by_kind, self.by_anchor = anchor, by_kind, by_kind[anchor.value]
        self.links, self.requisite = links, requisite
        self.taken, self.unindexable, self.out_of_scope = taken, unindexable, out_of_scope

    def evaluate(self, links, check_link, check_requisite, *, bint obeys, bint too_deep):
        """Return each URL that a page names once, with its decision: (times, text, bits, decision, is a link)."""
        cdef long long bits
        found = []
        for url, (times, text, by) in self._merged(links, obeys).items():
            bits = by
            decision = self._decide(url, bits, check_link, check_requisite, too_deep)
            found.append((times, text, bits & ~self.links, decision, bits >= self.links))
        return found

    def choose(self, links, check_link, check_requisite, *, bint obeys, bint too_deep, long long also):
        """Return the links that may be followed, and counts of the others: unindexable, out of scope, and by trap.

        A link is (host, key, rest of the URL, number of links, text, bits), with the bits `also` added.
        """
        cdef long long bits
        cdef Py_ssize_t unindexable = 0, out_of_scope = 0
        cdef dict traps = {}
        found = []
        for url, (times, text, by) in self._merged(links, obeys).items():
            bits = by
            decided = self._decide(url, bits, check_link, check_requisite, too_deep)
            if type(decided) is self.taken:
                # Only links count in the link graph; a URL that is listed or embedded has the count 0.
                times, bits = times if bits >= self.links else 0, bits & ~self.links | also
                found.append((_at(decided, 0), _at(decided, 1), _at(decided, 2), times, text, bits))
            elif decided is self.unindexable:
                unindexable += times
            else:
                out_of_scope += times
                if isinstance(decided, str):
                    rule = str(decided)  # plain text: msgspec does not encode messages
                    traps[rule] = traps.get(rule, 0) + times
        return found, unindexable, out_of_scope, traps

    cdef object _decide(self, url, long long bits, check_link, check_requisite, bint too_deep):
        if bits & self.requisite:
            return check_requisite(url)
        decision = check_link(url)
        return self.out_of_scope if too_deep and type(decision) is self.taken else decision

    cdef dict _merged(self, links, bint obeys):
        """Merge links by URL; drop a URL that occurs only with `nofollow` where that is obeyed."""
        cdef dict merged = {}, unendorsed = {}, names
        cdef tuple known
        for link in links:
            url, kind, text, nofollow = _at(link, 0), _at(link, 1), _at(link, 2), _at(link, 3)
            names = unendorsed if obeys and nofollow else merged
            # `_value_` is a plain attribute, faster than `value`.
            by = self.by_anchor if kind is self.anchor else self.by_kind[kind._value_]
            known = names.get(url)
            if known is None:
                names[url] = (1, text, by)
            else:
                names[url] = (known[0] + 1, known[1] or text, known[2] | by)
        # A URL that is named both ways is followed, with the evidence of both.
        for url in unendorsed.keys() & merged.keys():
            (times, text, by), (_, also, also_by) = merged[url], unendorsed[url]
            merged[url] = (times, text or also, by | also_by & ~self.links)
        return merged


cdef inline object _at(object named, Py_ssize_t place):
    """Return a field of a named tuple."""
    if not isinstance(named, tuple):
        raise TypeError("a named tuple is needed")
    return (<tuple>named)[place]


def columns(links, make):
    """Return (host, key, rest of the URL, number of links, text, bits) in columns, by runs of one host.

    `make` takes the columns of a run: host, keys, rests, bits, and whether each counts as a link.
    """
    cdef Py_ssize_t at = 0, first, size = len(links)
    cdef array keys
    cdef bytearray by, linked
    cdef list tails
    cdef tuple link
    found = []
    while at < size:
        host, first = links[at][0], at
        while at < size and (links[at][0] is host or links[at][0] == host):
            at += 1
        keys, tails, by, linked = clone(_KEYS, at - first, False), [], bytearray(), bytearray()
        for place in range(at - first):
            link = links[first + place]
            keys.data.as_longlongs[place] = link[1]
            tails.append(link[2])
            by.append(link[5])
            linked.append(link[3] != 0)
        found.append(make(host, keys.tobytes(), tails, bytes(by), bytes(linked)))
    return found
