"""The words of the pages that an indexer has indexed, as numbers: what a semantic model is trained on.

The indexer analyses every page anyway. It keeps the stems and their counts, so that a model can be trained at the end
of a crawl without reading a page again. Pages with the same words share a bag. When a collection takes more memory than
this the bags are dropped, and a training reads the pages from the index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from teia.index.entry import IndexEntry
from teia.index.stems import Words

MEMORY_BYTES = 32 << 20
"""Bytes of bags in memory, at most: those of some 10,000 different pages."""

BAG_BYTES, PAGE_BYTES = 400, 120
"""Memory that a bag takes beside its octets, and a page."""


class Bag(NamedTuple):
    """The stems of a page (32 bits each), how often it has each (8 bits), and the stems of its title."""

    stems: bytes
    counts: bytes
    title: bytes


def bag_of(entry: IndexEntry, words: Words) -> Bag:
    """Return the bag of a page that was not analysed for the index."""
    title = words.counted(entry.title)[2]
    return Bag(*words.counted(entry.text, title)[2:], title)


class Bags:
    """The bags of pages, each once; see the module."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._bytes = 0
        self._numbers: dict[Bag, int] = {}
        self._pages: dict[int, int] = {}
        self.is_full = False
        """True when bags were dropped: there were too many."""

    def add(self, key: int, bag: Bag) -> None:
        """Add a page, or replace it."""
        if self.is_full:
            return
        number = self._numbers.get(bag)
        if number is None:
            number = self._numbers[bag] = len(self._numbers)
            self._bytes += BAG_BYTES + sum(map(len, bag))
        self._pages[key] = number
        if self._bytes + PAGE_BYTES * len(self._pages) > self._memory_bytes:
            self._numbers, self._pages, self.is_full = {}, {}, True

    def remove(self, key: int) -> None:
        self._pages.pop(key, None)

    @property
    def pages(self) -> Mapping[int, int]:
        """The number of each page's bag, by the page's key."""
        return self._pages

    @property
    def bags(self) -> Sequence[Bag]:
        """All bags, by their numbers; a page that changed leaves its former one behind."""
        return list(self._numbers)
