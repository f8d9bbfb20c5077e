"""An index opened to be searched: never written, and following what another process commits.

A searcher is a view of one commit. It stays as it is while it is used, however long that takes; the next one sees what
was committed since. Whether there is something new is told by the file that tantivy replaces with every commit.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TypeAlias

import tantivy
from tantivy import FieldType, Occur, Query

from teia.errors import IndexFailure
from teia.index.cell import read_position
from teia.index.entry import Entry, inflated, unpacked
from teia.index.schema import analysers, make_schema

META_FILE = "meta.json"
AT_ONCE = 2_000
"""Pages that are looked up together, which bounds what is held in memory."""

FEW = 50

Places: TypeAlias = Mapping[int, tantivy.DocAddress]
"""By key: where a page is in one view of an index."""

_KEY_BITS = 64
_RANGES = 1 << 10


class IndexReader(ABC):
    """Something that can be searched; threads may share it."""

    def __init__(self) -> None:
        self.schema = make_schema()
        self._lock = Lock()
        self._seen: Hashable = None
        self._index: tantivy.Index | None = None
        self._view: tantivy.Searcher | None = None

    def searcher(self) -> tantivy.Searcher:
        """A view of what was committed; IndexFailure where there is no index, or one of another version.

        One view is one object: what was found in it can be found there again.
        """
        with self._lock:
            state = self._state()
            if self._view is None or state != self._seen:
                self._index = self._renewed(self._index)
                self._view = self._index.searcher()
                self._seen = state
            return self._view

    def last_searcher(self) -> tantivy.Searcher:
        """The view that was asked for last, without looking whether there is a newer one."""
        return self._view or IndexReader.searcher(self)

    @abstractmethod
    def _state(self) -> Hashable:
        """Something that is another after a commit."""

    @abstractmethod
    def _renewed(self, index: tantivy.Index | None) -> tantivy.Index:
        """The index with what was committed since it was opened."""

    def entries(
        self, searcher: tantivy.Searcher, keys: Sequence[int], places: Places | None = None
    ) -> dict[int, Entry]:
        """Pages by their keys; those that are not there are left out."""
        return {entry.key: entry for entry in map(unpacked, self.packed(searcher, keys, places))}

    def octets(self, searcher: tantivy.Searcher, keys: Sequence[int], places: Places | None = None) -> Iterator[bytes]:
        """The same pages, encoded, for whoever need not know all of each (entry.py); in no order."""
        return map(inflated, self.packed(searcher, keys, places))

    def packed(self, searcher: tantivy.Searcher, keys: Sequence[int], places: Places | None = None) -> Iterator[bytes]:
        """The same pages, as they lie in the index, for whoever passes them on; in no order.

        `places` are the addresses of some of them in this view; they need not be looked for.
        """
        places = places or {}
        known = [places[key] for key in keys if key in places]
        if len(known) > FEW:
            known.sort(key=_place)  # neighbours are unpacked together
        for address in known:
            yield packed_at(searcher, address)
        unknown = [key for key in keys if key not in places] if len(known) < len(keys) else ()
        schema = self.schema
        for start in range(0, len(unknown), AT_ONCE):
            some = unknown[start : start + AT_ONCE]
            wanted = Query.boolean_query([(Occur.Should, Query.term_query(schema, "key", key)) for key in some])
            for _, address in searcher.search(wanted, limit=len(some), count=False).hits:
                yield packed_at(searcher, address)

    def some_entries(self, n: int) -> list[Entry]:
        """So many pages that were committed, any; fewer if there are."""
        searcher = self.searcher()
        found = searcher.search(Query.all_query(), limit=max(1, n), count=False).hits
        return [entry_at(searcher, address) for _, address in found]

    def all_entries(self) -> Iterator[Entry]:
        """Every page that was committed, in the order of ranges of keys; few are held at a time."""
        searcher = self.searcher()
        step = 1 << (_KEY_BITS - _RANGES.bit_length() + 1)
        limit = max(1, searcher.num_docs)
        for low in range(-(1 << (_KEY_BITS - 1)), 1 << (_KEY_BITS - 1), step):
            wanted = Query.range_query(self.schema, "key", FieldType.Integer, low, low + step - 1)
            for _, address in searcher.search(wanted, limit=limit, count=False).hits:
                yield entry_at(searcher, address)


class CellReader(IndexReader):
    """The index of one cell."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self._meta = str(folder / META_FILE)

    def _state(self) -> Hashable:
        return identity_of(self._meta)

    def _renewed(self, index: tantivy.Index | None) -> tantivy.Index:
        if not has_index(self.folder):
            raise IndexFailure(f"{self.folder}: there is no index of this version yet; `teia rebuild index` makes one")
        try:
            index = index or opened(self.folder)
            index.reload()
        except (ValueError, OSError) as error:
            raise IndexFailure(f"{self.folder}: the index cannot be read ({error}); `teia rebuild index`") from error
        return index


def opened(folder: Path) -> tantivy.Index:
    """An index that is looked at again only when told to."""
    index = tantivy.Index.open(str(folder))
    for name, each in analysers().items():
        index.register_tokenizer(name, each)
    index.config_reader("manual")
    return index


def entry_at(searcher: tantivy.Searcher, address: tantivy.DocAddress) -> Entry:
    return unpacked(packed_at(searcher, address))


def packed_at(searcher: tantivy.Searcher, address: tantivy.DocAddress) -> bytes:
    octets: bytes = searcher.doc(address)["entry"][0]
    return octets


def _place(address: tantivy.DocAddress) -> tuple[int, int]:
    return address.segment_ord, address.doc


def identity_of(meta: str) -> tuple[int, int, int] | None:
    """Tells one commit from another, by the file that it replaces; None where there is no index."""
    try:
        status = os.stat(meta)  # noqa: PTH116  # asked for every query, and a Path takes longer to say the same
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def has_index(folder: Path) -> bool:
    """Whether there is an index here that can be searched, were it an empty one."""
    return read_position(folder) is not None and (folder / META_FILE).exists()
