"""The short way to read a page: in one pass over its octets, without a tree, in a fifth of the time.

A page in UTF-8 comes in, an `Extract` goes out, or nothing. The scanner keeps track of the elements that are open and
closes them as the HTML standard says. It gives up wherever it is not sure to find what the tree would show: misnested
links, text between the cells of a table, templates, a page that ends inside a tag. Such pages go the long way, through
a tree. tests/parse/test_scan.py holds the two ways against each other.

The standard's rules are all here as far as they can change what is looked at. What misnested bold does to a tree is
not, since only bold is moved by it.

It is compiled (Cython) from _scan.pyx, which takes a page apart into tags and text, and what that includes: stack.pxi,
the elements that are open; open.pxi, how tags open and close them; shown.pxi, the text; extract.pxi, what was found;
anchors.pxi, how links are brought on; tags.pxi, the table of tags; octets.pxi. Begin with stack.pxi and open.pxi. Where
there was no compiler, every page goes the long way.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from types import ModuleType

from teia.parse.bounds import SUSPICIOUS_TAGS, is_modest
from teia.parse.extract import Element, Extract

_compiled: ModuleType | None
try:
    from teia.parse.scan import _scan as _compiled
except ImportError:
    _compiled = None


def is_compiled() -> bool:
    """Whether there is a scanner."""
    return _compiled is not None


def scan(markup: bytes, *, want_text: bool) -> Extract | None:
    """Read a page in valid UTF-8 that any parser could take; None if it must go the long way."""
    if _compiled is None:
        return None
    try:
        extract: Extract = _compiled.scan(markup, want_text)
    except _compiled.GivenUp:
        return None
    return extract


def take_anchors(extract: Extract, links: object, other: Callable[[str, Element], None]) -> bool:
    """Bring the anchors of a scanned page to a `LinkCollector`, and what else it has to `other`; False of a tree."""
    if _compiled is None or not isinstance(extract, _compiled.Extract):
        return False
    _compiled.take_anchors(extract, links, other)
    return True


def is_plain(markup: bytes, most_tags: int = SUSPICIOUS_TAGS) -> bool:
    """Whether bytes are valid UTF-8 without a mark in front, with short tags and no more than so many."""
    if _compiled is not None:
        return bool(_compiled.is_plain(markup, most_tags))
    return is_modest(markup, most_tags) and _is_utf8(markup) and not markup.startswith(codecs.BOM_UTF8)


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
