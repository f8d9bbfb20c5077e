"""Archived pages made safe to view: everything they would fetch, run, send or link to is removed or rewritten.

The page becomes a tree, and the safe parts of the tree are written out: markup in which every permitted reference
is a hole, `HOLE` with the number of a `Reference`. The code that has the archive fills the holes with addresses of
ours, or with nothing (`fill_references`). The output is parsed once more and checked independently
(`find_unsafe_parts`): a page whose markup parses differently the second time, as in attacks, is not shown.

The policy and the sandbox that the page is served with would block nearly all of it alone. They do not block DNS
lookups (`<link rel=dns-prefetch>`), requests to our own addresses, and clicks that lead away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape

from resiliparse.parse.html import DOMNode, HTMLTree, NodeType

from teia.parse.document import Document
from teia.parse.html.base import Base
from teia.parse.html.references import chosen_at_density_1, parse_srcset
from teia.parse.html.replay_style import clean_style, is_foreign
from teia.parse.html.tree import TreeExtract

MAX_REFERENCES = 5_000
SHOWN_PX = 1_000
"""Assumed width of a picture that comes in several sizes."""

HOLE = "teia-hole:"
_FILLED = re.compile(re.escape(HOLE) + r"(\d+);")

_GONE = frozenset({
    "script", "template", "iframe", "frame", "object", "embed", "applet", "portal", "fencedframe", "base", "meta",
    "noembed", "noframes", "plaintext", "xmp", "audio", "video", "source", "track", "animate", "animatemotion",
    "animatetransform", "set", "foreignobject", "math", "param", "bgsound", "slot",
})  # fmt: skip
"""Elements that run, load, hide markup from a parser, or change references later."""

_LEADING = frozenset({"a", "area"})
_PICTURES = frozenset({"img", "image", "input"})
_EMPTY = frozenset({"area", "br", "col", "hr", "img", "input", "link", "wbr"})
"""Elements without an end tag."""

_DROPPED_ATTRIBUTES = frozenset({
    "href", "src", "srcset", "imagesrcset", "data", "action", "formaction", "background", "poster", "cite", "longdesc",
    "ping", "manifest", "profile", "codebase", "classid", "archive", "usemap", "dynsrc", "lowsrc", "base", "srcdoc",
    "target", "formtarget", "form", "formmethod", "method", "http-equiv", "download", "nonce", "attributionsrc", "is",
    "autofocus", "accesskey", "contenteditable", "popovertarget", "commandfor", "integrity", "crossorigin",
})  # fmt: skip
"""Attributes that reference or do something; those of links and pictures are written anew (`_reference`)."""

_TEXTS = frozenset({"abbr", "alt", "class", "content", "id", "label", "placeholder", "summary", "title", "value"})
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")


class ReferenceUse(StrEnum):
    """Use of a reference in a page."""

    LINK = "link"
    PICTURE = "picture"
    STYLE = "style"


@dataclass(frozen=True, slots=True)
class Reference:
    """A canonical URL that a page references, and its use."""

    url: str
    use: ReferenceUse


@dataclass(frozen=True, slots=True)
class Replay:
    """A page with holes, and the references for them. `is_safe`: the second check found no offence."""

    markup: str = ""
    references: tuple[Reference, ...] = ()
    is_safe: bool = True


@dataclass(slots=True)
class Holes:
    """Numbering of references in their order; the same reference has one number."""

    base: Base
    _numbers: dict[Reference, int] = field(default_factory=dict)

    def hole(self, reference: str, use: ReferenceUse) -> str:
        """Return the hole for a reference; empty for a URL teia does not crawl, and beyond the limit."""
        url = self.base.resolve(reference.strip())
        if url is None or len(self._numbers) >= MAX_REFERENCES:
            return ""
        return f"{HOLE}{self._numbers.setdefault(Reference(url, use), len(self._numbers))};"

    @property
    def references(self) -> tuple[Reference, ...]:
        return tuple(self._numbers)


def replay(document: Document) -> Replay:
    """Clean a page."""
    tree = document.tree
    written = TreeExtract(tree, want_text=False).base
    base = Base(document.url)
    holes = Holes(Base(base.resolve(written) or document.url) if written else base)
    markup = "".join(_written(tree.document, holes))
    # The second parse is of our own output: what a browser will see, not what the page meant.
    is_safe = next(find_unsafe_parts(HTMLTree.parse(markup)), None) is None
    return Replay(markup if is_safe else "", holes.references, is_safe)


def restyle(css: str, url: str) -> Replay:
    """Clean a style sheet."""
    holes = Holes(Base(url))
    return Replay(clean_style(css, _for_style(holes)), holes.references)


def fill_references(markup: str, address_of: Callable[[int], str]) -> str:
    """Fill the holes of a page; `address_of` gets the number of a reference."""
    return _FILLED.sub(lambda hole: address_of(int(hole[1])), markup)


def _for_style(holes: Holes) -> Callable[[str, bool], str]:
    return lambda reference, is_sheet: holes.hole(reference, ReferenceUse.STYLE if is_sheet else ReferenceUse.PICTURE)


def _written(document: DOMNode, holes: Holes) -> Iterator[str]:
    """Yield the markup of the safe parts, piece by piece, without comments and with the content of `<noscript>`.

    The tree is only read: it cannot be changed safely (elements that the parser repeats share their attributes).
    """
    drawings = 0
    waiting: list[DOMNode | str] = list(reversed(document.child_nodes))
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            drawings -= node == "</svg>"
            yield node
        elif node.type == NodeType.TEXT:
            yield escape(node.value or "", quote=False)
        elif node.type == NodeType.DOCUMENT_TYPE:
            yield "<!DOCTYPE html>"
        elif node.type == NodeType.ELEMENT:
            tag = node.tag.lower()
            if tag in _GONE or (tag == "link" and not _is_style_sheet(node)):
                continue
            if tag == "style":
                media = f' media="{escape(node.getattr("media"))}"' if node.hasattr("media") else ""
                yield f"<style{media}>{_style(node, holes, is_in_drawing=drawings > 0)}</style>"
                continue
            if tag != "noscript" and _NAME.fullmatch(tag):
                yield f"<{tag}{''.join(_attributes(node, tag, holes))}>"
                # Links open in the whole window, not in the frame of the replay.
                yield '<base target="_top">' if tag == "head" else ""
                if tag in _EMPTY:
                    continue
                drawings += tag == "svg"
                waiting.append(f"</{tag}>")
            waiting += reversed(node.child_nodes)


def _style(element: DOMNode, holes: Holes, *, is_in_drawing: bool) -> str:
    """Return the content of a style element; in a drawing it is markup like any other, elsewhere it is not."""
    cleaned = clean_style(element.text, _for_style(holes)).replace("<", "\\3C ")
    return escape(cleaned, quote=False) if is_in_drawing else cleaned


def _attributes(element: DOMNode, tag: str, holes: Holes) -> Iterator[str]:
    wanted = _reference(element, tag, holes)
    for name in element.attrs:
        lower, value = name.lower(), element.getattr(name) or ""
        if lower in _DROPPED_ATTRIBUTES or lower.startswith("on") or not _NAME.fullmatch(name) or name in wanted:
            continue
        # A page that contains our placeholder could have it filled with an address of ours.
        if HOLE in value:
            continue
        if not _is_text(lower) and ("(" in value or "\\" in value):  # as in `style`, and in `fill` of a drawing
            value = clean_style(value, _for_style(holes))
        yield f' {name}="{escape(value)}"'
    for name, value in wanted.items():
        yield f' {name}="{escape(value)}"'


def _is_text(name: str) -> bool:
    """Tell whether only people read an attribute."""
    return name in _TEXTS or name.startswith(("aria-", "data-"))


def _is_style_sheet(element: DOMNode) -> bool:
    relations = element.getattr("rel", "").lower().split()
    return "stylesheet" in relations and "alternate" not in relations


def _reference(element: DOMNode, tag: str, holes: Holes) -> dict[str, str]:
    """Return the attributes with an element's target or picture, rewritten to holes."""
    href = element.getattr("href", "")
    if href.strip().startswith("#") and tag != "link":
        return {"href": href.strip(), "target": "_self"} if tag in _LEADING else {"href": href.strip()}
    if tag in _LEADING and href:
        hole = holes.hole(href, ReferenceUse.LINK)
        return {"href": hole} if hole else {}
    if tag == "link":
        hole = holes.hole(href, ReferenceUse.STYLE)
        # Without an address the element must not stay a style sheet.
        return {"href": hole} if hole else {"rel": "nothing"}
    if tag in _PICTURES:
        source = _picture(element, tag)
        hole = holes.hole(source, ReferenceUse.PICTURE) if source else ""
        return {"href" if tag == "image" else "src": hole} if hole else {}
    background = element.getattr("background", "")
    hole = holes.hole(background, ReferenceUse.PICTURE) if background else ""
    return {"background": hole} if hole else {}


def _picture(element: DOMNode, tag: str) -> str:
    """Return the source of a picture; lazy ones name it in another attribute."""
    source: str = element.getattr("href" if tag == "image" else "src", "")
    if tag == "image":
        return source
    if not source or source.startswith("data:"):
        candidates = parse_srcset(element.getattr("srcset", "") or element.getattr("data-srcset", ""))
        source = element.getattr("data-src", "") or chosen_at_density_1(candidates, SHOWN_PX) or source
    return source


def find_unsafe_parts(tree: HTMLTree) -> Iterator[str]:
    """Yield the forbidden parts of a cleaned page, as a browser would parse it."""
    for element in tree.document.query_selector_all("*"):
        tag = element.tag.lower()
        if tag == "style" and is_foreign(element.text):
            yield tag
        # Our own `<base target>` is the one exception.
        if tag == "noscript" or (tag in _GONE and not (tag == "base" and element.attrs == ["target"])):
            yield tag
        for name in element.attrs:
            if _is_unsafe(name.lower(), element.getattr(name).strip()):
                yield f"{tag} {name}"


def _is_unsafe(name: str, value: str) -> bool:
    if name.startswith("on") or name in {"ping", "action", "formaction", "srcset", "http-equiv"}:
        return True
    if not _is_text(name) and is_foreign(value):
        return True
    return name in {"href", "src", "background"} and bool(value) and not value.startswith(("#", HOLE))
