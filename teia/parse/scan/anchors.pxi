# Passes all anchors of a page to its `LinkCollector` at once, like `add_anchor_element` (links.py) for each.

cdef enum:
    TEXT = 2  # places in a Link
    NOFOLLOW = 3


cdef str _one_line(str text):
    """Do what text.one_line does with the words of an anchor."""
    if len(text) <= MAX_ANCHOR_CHARS and text.isprintable() and "  " not in text:
        return text.strip(" ")
    return one_line(text, MAX_ANCHOR_CHARS)


def take_anchors(Extract extract not None, links, other):
    """Add where the anchors lead; everything else goes to `other`, in its order.

    Done here because a page has a hundred of them, and half of reading it was spent on calls between Python functions.
    What is the same for all of them is asked once.
    """
    cdef dict anchors = links.anchors, known = links.base.known
    cdef dict settled = extract.settled.copy()  # the extract may be used again, at another URL
    cdef str url = links.url, reference, found, text, relations
    cdef Py_ssize_t most_chars = links.max_url_chars, fragment, chars_left = links.chars_left, count = 0
    cdef bint has_base = links.has_base
    cdef Element element
    cdef object link  # a Link, which is more than a tuple
    resolve, look_up, make = links.base.resolve, links.base.look_up, tuple.__new__
    for element in extract.elements:
        if element.tag != "a":
            other(element.tag, element)
            continue
        reference = element.value(HREF)
        if reference is None or len(reference) > MAX_REFERENCE_CHARS:
            continue
        fragment = reference.find("#")
        if fragment == 0 and not has_base:
            continue
        if fragment >= 0:
            reference = reference[:fragment]
        if reference:
            answer = known.get(reference, known)
            found = look_up(reference) if answer is known else answer
        else:
            found = resolve(reference)
        if found is None or found == url or len(found) > most_chars:
            continue
        count += 1 + <Py_ssize_t>settled.pop(element.source.reference(&element.values), 0)
        link = anchors.get(found)
        if link is not None and link[TEXT] and not link[NOFOLLOW]:
            continue
        text = ""
        if chars_left > 0:
            text = element.text
            chars_left -= len(text)
            text = _one_line(text)
        text = text or _one_line(element.value(ALT) or "")
        relations = element.value(REL)
        if link is None and not relations and links.room_for_ways > 0:
            links.room_for_ways -= 1
            anchors[found] = make(Link, (found, OF_ANCHOR, text, False))
        else:
            links.add_anchor(found, link, text, relations or "")
    links.chars_left = chars_left
    links.anchor_count += count
