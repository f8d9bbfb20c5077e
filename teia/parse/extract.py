"""Extracts: the parts of a page that are used, independent of the way it was read.

A page becomes an extract in one of two ways: scanned in one pass (scan/), or through the tree that a browser would
build (tree.py). The tree is the reference. links.py and processor.py use an extract, once for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Element(Protocol):
    """An element, with the methods that are used. A node of the tree is one."""

    @property
    def text(self) -> str:
        """All text inside, as it is written."""

    def getattr(self, name: str, default: str = ..., /) -> str:
        """Return the value of an attribute."""

    def hasattr(self, name: str, /) -> bool:
        """Tell whether there is such an attribute, even an empty one."""


class Extract(Protocol):
    """The parts of a page that are used, in its order."""

    @property
    def elements(self) -> Sequence[Element]:
        """Links with a reference, frames and meta tags; perhaps others among them."""

    @property
    def tags(self) -> Sequence[str]:
        """Names of the elements, in lower case."""

    @property
    def headings(self) -> Sequence[Element]:
        """Headings from h1 to h3."""

    @property
    def has_scripts(self) -> bool:
        """True if there is a `<script>`."""

    @property
    def title(self) -> str:
        """First title of the document."""

    @property
    def language(self) -> str:
        """Language that the root element declares."""

    @property
    def base(self) -> str | None:
        """Reference of the first `<base>` that has one."""

    @property
    def text(self) -> str:
        """Visible text, alternative texts of pictures included, each block on lines of its own.

        Controls of forms (labels, buttons, choices) are not text. Empty if it was not wanted.
        """

    def pictured(self, link: Element, /) -> str:
        """Return the description of the first picture in a link that has one, even an empty one."""
