"""Pages with the same text: one of them holds it in the index, the others refer to that page.

Many sites show one page under several URLs (page_texts.py). Each is a document of its own, with its own words, links
and dates, so that nothing changes for a search. But the stored text would be there once for each URL, and takes as much
room as all places of words. So the document of a page whose text another page of the cell holds has the key of that
page, in the field `text_of`, and an entry without text. Readers join the two (`whole_entry`). Before a page changes or
goes that holds the text of others, one of these is stored with the text (cell.py).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import msgspec
import tantivy

from teia.index.entry import IndexEntry, PackedEntry, pack_entry, unpack_entry
from teia.index.schema import make_schema

MAX_TEXTS = 20_000
"""Recent texts whose holders are in memory: some 5 MB."""

MAX_REFERRING = 64
"""Pages that refer to one page, at most: all of them are read when it changes."""

FEW_CHARS = 200
"""A shorter text is stored with its page: a reference is as large."""


class _Holder(NamedTuple):
    key: int
    referring: int


class TextHolders:
    """The pages that hold recent texts, by the numbers of the texts (`PageTexts.number`)."""

    def __init__(self, most: int = MAX_TEXTS) -> None:
        self._most = most
        self._holders: dict[int, _Holder] = {}
        self._numbers: dict[int, int] = {}
        """Numbers of the texts of these pages, by their keys."""

    def choose(self, key: int, number: int) -> int | None:
        """Return the page to which a page with this text refers; None if it is to hold the text itself."""
        holder = self._holders.get(number)
        if holder is not None and holder.key != key and holder.referring < MAX_REFERRING:
            self._holders[number] = _Holder(holder.key, holder.referring + 1)
            return holder.key
        if holder is None or holder.key != key:
            self.forget(key)
            if holder is not None:
                del self._numbers[holder.key]
            self._holders[number], self._numbers[key] = _Holder(key, 0), number
            if len(self._holders) > self._most:
                self.forget(next(iter(self._numbers)))
        return None

    def holds(self, key: int, number: int) -> bool:
        """Tell whether a page is known to hold this text."""
        return self._numbers.get(key) == number

    def forget(self, key: int) -> None:
        """Forget a page, which may still hold a text: no other page will refer to it."""
        number = self._numbers.pop(key, None)
        if number is not None:
            del self._holders[number]


def pack_without_text(entry: IndexEntry) -> bytes:
    """Return what the index stores of a page that refers to another one."""
    return pack_entry(msgspec.structs.replace(entry, headings=(), text=""))


def whole_entry(searcher: tantivy.Searcher, address: tantivy.DocAddress) -> PackedEntry:
    """Return the entry of a page, with its text, wherever that is stored."""
    document = searcher.doc(address)
    stored, holder = PackedEntry(packed=document["entry"][0]), document["text_of"]
    return stored if not holder else _with_text(searcher, stored, holder[0])


def _with_text(searcher: tantivy.Searcher, stored: PackedEntry, holder: int) -> PackedEntry:
    entry = stored.entry
    # Two pages have this key while one moves to another cell; the digest tells whose text it is.
    query = tantivy.Query.term_query(_schema(), "key", holder)
    for _, address in searcher.search(query, limit=2, count=False).hits:
        found = unpack_entry(searcher.doc(address)["entry"][0])
        if found.text_digest == entry.text_digest:
            return PackedEntry(msgspec.structs.replace(entry, headings=found.headings, text=found.text))
    return stored


@lru_cache(maxsize=1)
def _schema() -> tantivy.Schema:
    return make_schema()
