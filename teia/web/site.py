"""One installation as every route sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import cast

from fastapi import Request

from teia.clock import Clock
from teia.config import Config
from teia.crawl.collections import saved
from teia.crawl.copyreader import CopyReader
from teia.crawl.lookup import Lookup
from teia.crawl.searching import CollectionSearch
from teia.errors import IndexFailure, UsageError
from teia.store.root import Root
from teia.web.accounts import Accounts
from teia.web.kept import Kept


@dataclass(slots=True)
class Site:
    """A root, its accounts, and what is kept open between requests.

    An opened search follows its index by itself; it is opened again when collections come or go.
    """

    root: Root
    clock: Clock
    accounts: Accounts
    _lock: Lock = field(default_factory=Lock)
    _searches: dict[tuple[str, ...], CollectionSearch] = field(default_factory=dict)
    copies: CopyReader = field(init=False)
    kept: Kept = field(init=False)

    def __post_init__(self) -> None:
        self.copies = CopyReader(self.clock)
        self.kept = Kept(self.clock)

    def names(self) -> list[str]:
        """The collections there are, in order."""
        return sorted(self.root.collections())

    def config(self, name: str) -> Config:
        """A collection's settings; StoreError if there is none."""
        self.check(name)
        return saved(self.root, name).config

    def check(self, name: str) -> str:
        """A name that came in a request, if there is such a collection."""
        if name not in self.names():
            raise UnknownCollection(f"there is no collection {name!r}")
        return name

    @contextmanager
    def lookup(self, name: str) -> Iterator[Lookup]:
        """A collection's frontier and archive, opened for one request."""
        with Lookup(self.root, self.check(name)) as lookup:
            yield lookup

    def search(self, name: str | None) -> CollectionSearch:
        """A collection opened to be searched, or all that have an index."""
        names = (self.check(name),) if name else tuple(self.searchable())
        if not names:
            raise IndexFailure("nothing can be searched yet: no collection has an index")
        with self._lock:
            opened = self._searches.get(names)
            if opened is None:
                opened = self._searches[names] = CollectionSearch(self.root, names, self.clock)
        return opened

    def searchable(self) -> list[str]:
        """The collections that have something to search."""
        return [name for name in self.names() if has_index(self.root, name)]

    def close(self) -> None:
        with self._lock:
            for opened in self._searches.values():
                opened.close()
            self._searches.clear()
        self.kept.close()
        self.copies.close()
        self.accounts.close()


class UnknownCollection(UsageError):
    """An address names a collection that is not there."""


def site_of(request: Request) -> Site:
    """The site a request is for: a dependency of routes."""
    return cast("Site", request.app.state.site)


def has_index(root: Root, name: str) -> bool:
    from teia.index.reader import has_index as is_there

    return any(is_there(cell.index) for cell in root.collection(name).cells())
