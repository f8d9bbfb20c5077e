"""The slow path to read a page: the tree that a browser would build (lexbor), without running scripts.

Unclosed tags, missing quotes and misplaced tables need no care here. One search through the tree for all wanted
elements costs a third of one search for each.
"""

from __future__ import annotations

from functools import cached_property

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import DOMNode, HTMLTree

_LINK_TAGS = "[href],frame,iframe,meta"
"""More than is needed, because each attribute that a selector names costs as much as another search."""

_HEADINGS = frozenset({"h1", "h2", "h3"})
_NEEDS_BLANKS = frozenset({
    "td", "th", "caption", "summary", "legend", "noscript", "object", "video", "audio", "canvas", "text", "title",
})  # fmt: skip
_PICTURES = frozenset({"img", "area", "input"})
_READ_TAGS = ",".join((_LINK_TAGS, *sorted(_HEADINGS)))
_READ_TAGS_WITH_TEXT = ",".join((_READ_TAGS, *sorted(_NEEDS_BLANKS), "[alt]"))


class TreeExtract:
    """An `Extract` of a tree. The text must be read last: it changes the tree."""

    def __init__(self, tree: HTMLTree, *, want_text: bool) -> None:
        self._tree = tree
        self._want_text = want_text
        found = tree.document.query_selector_all(_READ_TAGS_WITH_TEXT if want_text else _READ_TAGS)
        # Once each: an element that several selectors name is there several times.
        self.elements: list[DOMNode] = list(dict.fromkeys(found))
        self.tags: list[str] = [element.tag for element in self.elements]

    @property
    def headings(self) -> list[DOMNode]:
        return [self.elements[at] for at, tag in enumerate(self.tags) if tag in _HEADINGS]

    @property
    def has_scripts(self) -> bool:
        return self._tree.document.query_selector("script") is not None

    @property
    def title(self) -> str:
        return self._tree.title or ""

    @property
    def language(self) -> str:
        root = self._tree.document.query_selector("html")
        return root.getattr("lang", "") or root.getattr("xml:lang", "") if root is not None else ""

    @property
    def base(self) -> str | None:
        if "base" not in self.tags:
            return None
        base = self._tree.document.query_selector("base[href]")
        return base.getattr("href", "") if base is not None else None

    def pictured(self, link: DOMNode, /) -> str:
        image = link.query_selector("img[alt]")
        return image.getattr("alt", "") if image is not None else ""

    @cached_property
    def text(self) -> str:
        """Visible text, with blanks where the extractor would glue neighbours together (`<td>one</td><td>two</td>`)."""
        if not self._want_text or self._tree.body is None:
            return ""
        for element, tag in zip(self.elements, self.tags, strict=True):
            # Inserting nodes changes the tree, so everything else must have been read before (see the class).
            if tag in _NEEDS_BLANKS or (tag in _PICTURES and element.getattr("alt")):
                self._put_blanks_around(element)
        text: str = extract_plain_text(
            self._tree,
            preserve_formatting=True,
            main_content=False,
            list_bullets=False,
            alt_texts=True,
            links=False,
            form_fields=False,
            noscript=True,
        )
        return text.strip()

    def _put_blanks_around(self, element: DOMNode) -> None:
        parent, following = element.parent, element.next
        parent.insert_before(self._tree.create_text_node(" "), element)
        if following is not None:
            parent.insert_before(self._tree.create_text_node(" "), following)
        else:
            parent.append_child(self._tree.create_text_node(" "))
