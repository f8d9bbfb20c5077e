"""The texts of a page as the index takes them, remembered for pages with the same words (decision 59).

Many sites show one page under several URLs: in the folder of each language into which nobody translated it, or with
another query. Such pages differ in their links alone, and often come soon after each other.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from functools import lru_cache
from sys import getsizeof
from threading import Lock
from typing import NamedTuple

import xxhash

from teia.index.entry import IndexEntry
from teia.index.languages import detect_language_bits
from teia.index.stems import shared_words
from teia.index.training_words import Bag

MEMORY_BYTES = 16 << 20
"""Bytes of texts in memory, at most: those of some 500 pages."""

FEW_BYTES = 500
"""Memory that a page takes beside its texts."""

# Random in each process: a page that knew it could be made to have the number of another one.
_SEED = secrets.randbits(64)


class PageTexts(NamedTuple):
    """The texts of the fields of a page (schema.py), the languages in which it can be read, and its bag of stems.

    `number` is the same for another page with this language, title, headings and text, in one process.
    """

    all: str
    exact: str
    head: str
    title: str
    languages: int
    bag: Bag
    number: int


class RecentTexts:
    """The texts of recent pages; threads may share it."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._texts: OrderedDict[int, PageTexts] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def of(self, entry: IndexEntry) -> PageTexts:
        """Return the texts of a page."""
        number = _number(entry)
        with self._lock:
            known = self._texts.get(number)
            if known is not None:
                self._texts.move_to_end(number)
                return known
        texts = _analyse(entry, number)
        with self._lock:
            if number not in self._texts:
                self._texts[number] = texts
                self._bytes += _size(texts)
            while self._bytes > self._memory_bytes:
                _, oldest = self._texts.popitem(last=False)
                self._bytes -= _size(oldest)
        return texts


def _number(entry: IndexEntry) -> int:
    """Return a number of 128 bits that differs for other texts."""
    # A blank field divides headings and text; a page's own text has no such character.
    fields = "\0".join((entry.language, entry.title, *entry.headings, "", entry.text))
    number: int = xxhash.xxh3_128_intdigest(fields.encode("utf-8", "surrogatepass"), _SEED)
    return number


def _analyse(entry: IndexEntry, number: int) -> PageTexts:
    words = shared_words()
    _, title, title_numbers, _ = words.counted(entry.title)
    head_stems, head = words.of("\n".join((entry.title, *entry.headings)))
    stems, text, numbers, counts = words.counted(entry.text, title_numbers)
    languages = detect_language_bits(entry.text, entry.language)
    bag = Bag(numbers, counts, title_numbers)
    return PageTexts(head_stems + stems, head + text, head_stems, title, languages, bag, number)


def _size(texts: PageTexts) -> int:
    return FEW_BYTES + sum(map(getsizeof, texts)) + sum(map(getsizeof, texts.bag))


@lru_cache(maxsize=1)
def shared_texts() -> RecentTexts:
    """Return the texts that all indexes of this process share."""
    return RecentTexts()
