"""One installation as every route sees it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from threading import BoundedSemaphore, Lock
from typing import cast

from fastapi import Request

from teia.clock import Clock
from teia.cluster.library import post_of
from teia.cluster.searching import OpenedSearch, open_search
from teia.cluster.telling import cluster_of
from teia.cluster.view import ClusterSource
from teia.config import Config, PublicSettings
from teia.crawl.collections import saved
from teia.crawl.control import hold
from teia.crawl.copyreader import CopyReader
from teia.crawl.examples import examples_of
from teia.crawl.hostplan import Weigh
from teia.crawl.lookup import Lookup
from teia.crawl.meaning import Meaning, meaning_of
from teia.crawl.weights import weigh_keys, weigher
from teia.errors import IndexFailure, StoreError, TeiaError, UsageError
from teia.store.root import Root
from teia.web import limits
from teia.web.accounts import Accounts
from teia.web.auditing import Auditor
from teia.web.hands import Hands
from teia.web.kept import Kept
from teia.web.laboratory.benchwork import Workbench
from teia.web.shelf import Shelf
from teia.web.supervisor import Supervisor

WEIGHER_S = 600.0
"""How long a file of weights is not looked at again."""

EXAMPLES_S = 600.0
"""How long the examples of the front page stay the same."""

CLUSTER = "\0cluster"
"""Stands beside the name of a collection that is searched on all nodes of its cluster."""

MANY_URLS, PATIENCE_S, LITTLE_PATIENCE_S = 100_000, 2.0, 0.1
"""A page waits for what has to be counted first; with so many URLs it says instead that it is being counted."""


@dataclass(slots=True)
class Site:
    """A root, its accounts, and what is kept open between requests.

    An opened search follows its index by itself; it is opened again when collections come or go.
    """

    root: Root
    clock: Clock
    accounts: Accounts
    supervisor: Supervisor | None = None
    hidden: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()
    _lock: Lock = field(default_factory=Lock)
    _searches: dict[tuple[str, ...], OpenedSearch] = field(default_factory=dict)
    _examples: dict[OpenedSearch, tuple[float, list[str]]] = field(default_factory=dict)
    _configs: dict[str, tuple[object, Config]] = field(default_factory=dict)
    _meanings: dict[str, Meaning] = field(default_factory=dict)
    _meaning_lock: Lock = field(default_factory=Lock)
    _shelf: Shelf = field(init=False)
    copies: CopyReader = field(init=False)
    kept: Kept = field(init=False)
    cluster: ClusterSource = field(init=False)
    hands: Hands = field(init=False)
    lab: Workbench = field(init=False)
    auditor: Auditor = field(init=False)
    _held: sqlite3.Connection | None = None
    sql_turns: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(limits.SQL_AT_ONCE))
    exports: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(limits.EXPORTS_AT_ONCE))

    def __post_init__(self) -> None:
        self._shelf = Shelf(self.root, self.clock)
        self.copies = CopyReader(self.clock)
        self.kept = Kept(self.clock)
        self.cluster = cluster_of(self.root, self.clock)
        self.hands = Hands(self.root, self.clock)
        self.lab = Workbench(self.root, self.clock)
        self.auditor = Auditor(self.root, self.clock)
        with suppress(TeiaError):  # a folder that can only be read
            self._held = hold(self.root.path / "control.sqlite")

    def names(self) -> list[str]:
        """The collections there are, in order."""
        return sorted(name for name in self.root.collections() if name not in self.hidden)

    def for_the_public(self) -> Site:
        """The same as people see it who are not signed in: without the collections and copies that are not for them."""
        public = {name: self._public(name) for name in self.root.collections()}
        hidden = frozenset(name for name, each in public.items() if not each.search)
        closed = frozenset(name for name, each in public.items() if not each.copies)
        if not hidden and not closed:
            return self
        seen = copy(self)
        seen.hidden, seen.closed = hidden, closed
        return seen

    def _public(self, name: str) -> PublicSettings:
        """What everybody may see of a collection; nothing of one whose settings make no sense."""
        try:
            return self._config(name).public
        except (OSError, TeiaError):
            return PublicSettings(search=False, copies=False)

    def _config(self, name: str) -> Config:
        """A collection's settings, read again when its file is another; it is only ever replaced as a whole."""
        path = self.root.path / name / "teia.toml"
        found = path.stat()
        stamp = (found.st_mtime_ns, found.st_ino)
        known = self._configs.get(name)
        if known is None or known[0] != stamp:
            known = self._configs[name] = (stamp, saved(self.root, name).config)
        return known[1]

    def check_copies(self, name: str) -> None:
        """Refuse copies that are not for whoever asks."""
        if name in self.closed:
            raise ClosedCopies(f"copies of {self.check(name)} are for people who signed in")

    def config(self, name: str) -> Config:
        """A collection's settings; StoreError if there is none."""
        self.check(name)
        try:
            return self._config(name)
        except FileNotFoundError:
            return saved(self.root, name).config  # says what is wrong

    def meaning(self, name: str) -> Meaning:
        """What a collection's settings mean; worked out when they are others, and its lists of rules with them."""
        config = self.config(name)
        with self._meaning_lock:
            known = self._meanings.get(name)
            if known is None or known.config is not config:
                known = self._meanings[name] = meaning_of(config, self.root.collection(name).lists)
        return known

    def weigher(self, name: str, patience_s: float | None = None) -> Weigh | None:
        """What gives a collection's pages their weights; None while that is being read, or where it cannot be."""
        settings, ranks = self.config(name).refresh, self.root.collection(name).ranks

        def make() -> Weigh:
            return weigher(settings, ranks)

        wait_s = self.patience_s(name) if patience_s is None else patience_s
        found = self.kept.peek(("weigher", name), make, WEIGHER_S, wait_s, settings)
        return None if found is None else found.value

    def weights(self, name: str, found: Sequence[tuple[int, int]]) -> Sequence[float | None]:
        """The weights of URLs by (key, links to it); None where they are not known yet."""
        weigh = self.weigher(name)
        return [None] * len(found) if weigh is None else weigh_keys(weigh, found)

    def check(self, name: str) -> str:
        """A name that came in a request, if there is such a collection."""
        if name not in self.names():
            raise UnknownCollection(f"there is no collection {name!r}")
        return name

    @contextmanager
    def lookup(self, name: str) -> Iterator[Lookup]:
        """A collection's frontier and archive, for one request."""
        with self._shelf.borrowed(self.check(name)) as lookup:
            yield lookup

    def patience_s(self, name: str) -> float:
        """How long a page may wait for a walk over all URLs of a collection."""
        try:
            with self.lookup(name) as lookup:
                return PATIENCE_S if sum(cell.known for cell in lookup.cells) < MANY_URLS else LITTLE_PATIENCE_S
        except StoreError:  # it was never crawled
            return PATIENCE_S

    def warm(self) -> None:
        """Open what the first visitor would wait for; beside the requests."""
        with suppress(TeiaError):
            self.examples(self.search(None))

    def search(self, name: str | None) -> OpenedSearch:
        """A collection opened to be searched, or all that have an index."""
        names = (self.check(name),) if name else tuple(self.searchable())
        if not names:
            raise IndexFailure("nothing can be searched yet: no collection has an index")
        key = (*names, CLUSTER) if len(names) == 1 and post_of(self.root, names[0]) is not None else names
        with self._lock:
            opened = self._searches.get(key)
            if opened is None:
                opened = self._searches[key] = open_search(self.root, names, self.clock)
        return opened

    def examples(self, opened: OpenedSearch) -> list[str]:
        """Queries that find something, made from what is there; made anew now and then."""
        until, known = self._examples.get(opened, (0.0, []))
        if not known or self.clock.ticks_s() > until:
            known = examples_of(opened)
            self._examples[opened] = (self.clock.ticks_s() + EXAMPLES_S, known)
        return known

    def searchable(self) -> list[str]:
        """The collections that have something to search."""
        return [name for name in self.names() if has_index(self.root, name)]

    def forget(self, name: str) -> None:
        """Let go of what is kept open of a collection that is gone."""
        self._shelf.forget(name)
        self._configs.pop(name, None)
        self._meanings.pop(name, None)
        with self._lock:
            for names in [names for names in self._searches if name in names]:
                self._examples.pop(self._searches.pop(names), None)

    def close(self) -> None:
        if self.supervisor is not None:
            self.supervisor.stop()
        self.lab.close()
        self.auditor.close()
        if self._held is not None:
            self._held.close()
        with self._lock:
            for opened in self._searches.values():
                opened.close()
            self._searches.clear()
        self.kept.close()
        self.hands.close()
        self._shelf.close()
        self.copies.close()
        self.accounts.close()


class UnknownCollection(UsageError):
    """An address names a collection that is not there."""


class ClosedCopies(UsageError):
    """Copies that not everybody may read."""


class UnknownPage(StoreError):
    """An address names a page that its collection has never seen; `to` is the page that says what could be done."""

    def __init__(self, message: str, to: str) -> None:
        super().__init__(message)
        self.to = to


def site_of(request: Request) -> Site:
    """The site a request is for: a dependency of routes."""
    return cast("Site", request.app.state.site)


def has_index(root: Root, name: str) -> bool:
    from teia.index.reader import has_index as is_there

    return any(is_there(cell.index) for cell in root.collection(name).cells())
