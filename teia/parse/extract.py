"""What is looked at in a page, whichever way it was read.

A page becomes an extract in one of two ways: scanned in one pass (scan/), or through the tree that a browser would
build (tree.py). The tree is the truth. What is made of an extract, links.py and html.py say, once for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Element(Protocol):
    """An element as far as it is looked at. A node of the tree is one."""

    @property
    def text(self) -> str:
        """All that is written inside, as it is written."""

    def getattr(self, name: str, default: str = ..., /) -> str:
        """Return the value of an attribute."""

    def hasattr(self, name: str, /) -> bool:
        """Whether there is such an attribute, be it empty."""


class Extract(Protocol):
    """A page as far as it is looked at, in its order."""

    @property
    def elements(self) -> Sequence[Element]:
        """Links with a reference, frames and meta tags; perhaps others among them."""

    @property
    def tags(self) -> Sequence[str]:
        """The names of the elements, in lower case."""

    @property
    def headings(self) -> Sequence[Element]:
        """The headings from h1 to h3."""

    @property
    def title(self) -> str:
        """The first title of the document."""

    @property
    def language(self) -> str:
        """What the root says."""

    @property
    def base(self) -> str | None:
        """The reference of the first `<base>` that has one."""

    @property
    def text(self) -> str:
        """What a reader sees, alternative texts of pictures included, block by block on lines of its own.

        Controls of forms (labels, buttons, choices) are not text. Empty if it was not wanted.
        """

    def pictured(self, link: Element, /) -> str:
        """Return the description of the first picture in a link that has one, if only an empty one."""
