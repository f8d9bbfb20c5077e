"""The fast path to read a page: in one pass over its bytes, without a tree, in a fifth of the time.

A page in UTF-8 comes in, an `Extract` goes out, or nothing. The scanner keeps track of the open elements and closes
them as the HTML standard says. It gives up wherever it is not sure to get the result of the tree: misnested links,
text between the cells of a table, templates, a page that ends inside a tag. Such pages take the slow path, through
a tree. tests/parse/test_scan.py compares the two.

All rules of the standard that can change the extract are implemented. The effect of misnested bold on a tree is
not, since it only moves bold elements.

It is compiled (Cython) from _scan.pyx, which splits a page into tags and text, and its includes: stack.pxi, the
open elements; open.pxi, the rules by which tags open and close them; shown.pxi, the text; extract.pxi, the result;
anchors.pxi, the transfer of links; tags.pxi, the table of tags; octets.pxi. Begin with stack.pxi and open.pxi.
"""

from __future__ import annotations

from collections.abc import Callable

from teia.parse.extract import Element, Extract
from teia.parse.html.bounds import SUSPICIOUS_TAGS
from teia.parse.scan import _scan


def scan(markup: bytes, *, want_text: bool) -> Extract | None:
    """Read a page in valid UTF-8 that any parser could take; return None if it must take the slow path."""
    try:
        extract: Extract = _scan.scan(markup, want_text)
    except _scan.GivenUp:
        return None
    return extract


def take_anchors(extract: Extract, links: object, other: Callable[[str, Element], None]) -> bool:
    """Pass the anchors of a scanned page to a `LinkCollector`, other elements to `other`; return False for a tree."""
    if not isinstance(extract, _scan.Extract):
        return False
    _scan.take_anchors(extract, links, other)
    return True


def is_plain(markup: bytes, most_tags: int = SUSPICIOUS_TAGS) -> bool:
    """Tell whether bytes are valid UTF-8 without a byte order mark, with short tags and at most `most_tags` of them."""
    return bool(_scan.is_plain(markup, most_tags))
