"""An index opened for searching: never written, and following another process's commits.

A searcher is a view of one commit. It stays as it is while it is used, however long that takes; the next one sees what
was committed since. A new commit is noticed by the file that tantivy replaces with every commit.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import TypeAlias

import tantivy
from tantivy import FieldType, Occur, Query

from teia.errors import IndexFailure
from teia.index.entry import IndexEntry, PackedEntry
from teia.index.position import META_FILE, has_index
from teia.index.schema import analysers, make_schema
from teia.index.text_holders import whole_entry

AT_ONCE = 2_000
"""Number of pages looked up together, which bounds memory."""

FEW = 50


class DamagedIndex(IndexFailure):
    """A file of the index is damaged."""


Addresses: TypeAlias = Mapping[int, tantivy.DocAddress]
"""By key: where a page is in one view of an index."""

_KEY_BITS = 64
_RANGES = 1 << 10


class IndexReader(ABC):
    """Interface of a searchable index; threads may share it."""

    def __init__(self) -> None:
        self.schema = make_schema()
        self._lock = Lock()
        self._loaded_state: Hashable = None
        self._index: tantivy.Index | None = None
        self._view: tantivy.Searcher | None = None

    def searcher(self) -> tantivy.Searcher:
        """Return a view of the last commit; IndexFailure where there is no index, or one of another version.

        One view is one object: a hit found in it can be read from it again.
        """
        with self._lock:
            state = self.state()
            if self._view is None or state != self._loaded_state:
                self._index = self._reload(self._index)
                self._view = self._index.searcher()
                self._loaded_state = state
            return self._view

    def last_searcher(self) -> tantivy.Searcher:
        """Return the last returned view, without checking for a newer one."""
        return self._view or IndexReader.searcher(self)

    def leave_damaged_out(self) -> bool:
        """Search without damaged files, from the next view on; return False if that is not possible."""
        return False

    @abstractmethod
    def state(self) -> Hashable:
        """Return a value that changes with every commit."""

    @abstractmethod
    def _reload(self, index: tantivy.Index | None) -> tantivy.Index:
        """Return the index, reloaded to include later commits."""

    def entries(
        self, searcher: tantivy.Searcher, keys: Sequence[int], addresses: Addresses | None = None
    ) -> dict[int, IndexEntry]:
        """Return pages by their keys; missing ones are left out."""
        return {each.entry.key: each.entry for each in self.packed_entries(searcher, keys, addresses)}

    def encoded_entries(
        self, searcher: tantivy.Searcher, keys: Sequence[int], addresses: Addresses | None = None
    ) -> Iterator[bytes]:
        """Yield the same pages, encoded, for callers that need only parts of each (entry.py); in no order."""
        return (each.encoded for each in self.packed_entries(searcher, keys, addresses))

    def packed_entries(
        self, searcher: tantivy.Searcher, keys: Sequence[int], addresses: Addresses | None = None
    ) -> Iterator[PackedEntry]:
        """Yield the same pages in the form in which the index has each, for callers that forward them; in no order.

        `addresses` are the addresses of some of them in this view; these need no look-up.
        """
        addresses = addresses or {}
        known = [addresses[key] for key in keys if key in addresses]
        if len(known) > FEW:
            known.sort(key=lambda address: (address.segment_ord, address.doc))  # neighbours are unpacked together
        for address in known:
            yield whole_entry(searcher, address)
        # One query for many keys: a search for each would cost more than reading the pages.
        unknown = [key for key in keys if key not in addresses] if len(known) < len(keys) else ()
        schema = self.schema
        for start in range(0, len(unknown), AT_ONCE):
            some = unknown[start : start + AT_ONCE]
            wanted = Query.boolean_query([(Occur.Should, Query.term_query(schema, "key", key)) for key in some])
            for _, address in searcher.search(wanted, limit=len(some), count=False).hits:
                yield whole_entry(searcher, address)

    def some_entries(self, n: int) -> list[IndexEntry]:
        """Return at most `n` arbitrary pages."""
        searcher = self.searcher()
        found = searcher.search(Query.all_query(), limit=max(1, n), count=False).hits
        return [entry_at(searcher, address) for _, address in found]

    def all_entries(self) -> Iterator[IndexEntry]:
        """Yield every committed page, in the order of keys, whatever cells they lie in; few are in memory at a time."""
        searcher = self.searcher()
        # 1,024 ranges of 2**54 keys each; keys are hashes, so the ranges hold about equally many pages.
        step = 1 << (_KEY_BITS - _RANGES.bit_length() + 1)
        limit = max(1, searcher.num_docs)
        for low in range(-(1 << (_KEY_BITS - 1)), 1 << (_KEY_BITS - 1), step):
            wanted = Query.range_query(self.schema, "key", FieldType.Integer, low, low + step - 1)
            with name_panics():
                addresses = [address for _, address in searcher.search(wanted, limit=limit, count=False).hits]
                for _, address in sorted(zip(keys_at(searcher, addresses), addresses, strict=True), key=itemgetter(0)):
                    yield entry_at(searcher, address)


class CellReader(IndexReader):
    """The index of one cell."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self._meta = str(folder / META_FILE)

    def state(self) -> Hashable:
        return identity_of(self._meta)

    def _reload(self, index: tantivy.Index | None) -> tantivy.Index:
        if not has_index(self.folder):
            raise IndexFailure(
                f"{self.folder}: there is no index of this version yet; build one with `teia rebuild index`"
            )
        try:
            index = index or open_index(self.folder)
            index.reload()
        except (ValueError, OSError) as error:
            raise IndexFailure(
                f"{self.folder}: the index cannot be read ({error}); rebuild it with `teia rebuild index`"
            ) from error
        return index


@contextmanager
def name_panics() -> Iterator[None]:
    """Translate a panic of tantivy into DamagedIndex; for Python it is no Exception, and would end a server's request.

    tantivy trusts its files: it panics where a damaged one leads it beyond an end.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise DamagedIndex(
            "the index is damaged; `teia audit index` names the files, and `teia rebuild index` builds it again"
        ) from error


def damage_text(files: Sequence[str]) -> str:
    """Describe damaged files of an index, and the remedy."""
    others = f" and {len(files) - 1} other files" if len(files) > 1 else ""
    return f"{files[0]}{others} of its index do not match their checksums; rebuild it with `teia rebuild index`"


def open_index(folder: Path) -> tantivy.Index:
    """Open an index that is reloaded only on request."""
    index = tantivy.Index.open(str(folder))
    for name, each in analysers().items():
        index.register_tokenizer(name, each)
    # tantivy's own watcher would reload at any moment, in a thread for each index.
    index.config_reader("manual")
    return index


def keys_at(searcher: tantivy.Searcher, addresses: Sequence[tantivy.DocAddress]) -> list[int]:
    """Return the keys of the pages at these addresses, in the same order."""
    keys: Iterable[int] = searcher.fast_field_values("key", list(addresses))  # type: ignore[assignment]
    return list(keys)


def entry_at(searcher: tantivy.Searcher, address: tantivy.DocAddress) -> IndexEntry:
    return whole_entry(searcher, address).entry


def identity_of(meta: str) -> tuple[int, int, int] | None:
    """Return an identity of the current commit, from the file that it replaces; None where there is no index."""
    try:
        status = os.stat(meta)  # noqa: PTH116  # called for every query, and Path.stat is slower
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
