"""One installation (a root and its services), as every route sees it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from threading import BoundedSemaphore, Lock
from typing import cast

from fastapi import Request

from teia.clock import Clock
from teia.cluster.search.open import OpenedSearch, open_search
from teia.cluster.search.processes import read_librarian_settings
from teia.cluster.views.node_file import cluster_source
from teia.cluster.views.view import ClusterSource
from teia.collections.control_file import ControlFile
from teia.collections.settings import saved
from teia.config.sections import Config, PublicSettings
from teia.crawler.compiled_settings import CompiledSettings, compile_settings
from teia.crawler.keep_fresh.host_plan import Weigh
from teia.crawler.keep_fresh.weights import weigh_keys, weigher
from teia.crawler.lookup import Lookup
from teia.errors import IndexFailure, StoreError, TeiaError, UsageError
from teia.indexer.help_queries import HelpQueries, help_queries
from teia.indexer.open_search import example_queries
from teia.indexer.past_search import parse_moment
from teia.lib.message import Message
from teia.store.root import Root
from teia.views.capture_reader import CaptureReader
from teia.web import limits
from teia.web.access.accounts import Accounts
from teia.web.background.audits import Auditor
from teia.web.background.cache import AnswerCache
from teia.web.background.crawler import Supervisor
from teia.web.background.lab.workbench import Workbench
from teia.web.background.offline_bulk import OfflineBulk
from teia.web.background.open_collections import OpenCollections
from teia.web.background.past_searches import PastSearches

WEIGHER_S = 600.0
"""Time for which a file of weights is cached."""

EXAMPLES_S = 600.0
"""Time for which the examples of the front page are cached."""

CLUSTER = "\0cluster"
"""Marks the key of a collection that is searched on all nodes of its cluster."""

MANY_URLS, PATIENCE_S, LITTLE_PATIENCE_S = 100_000, 2.0, 0.1
"""Time that a page waits for a count; with many URLs it is shorter, and the page shows a note instead."""


class Installation:
    """A root, its accounts, and the resources kept open between requests.

    An open search follows its index by itself; it is reopened when collections are added or removed.
    """

    def __init__(self, root: Root, clock: Clock, accounts: Accounts, supervisor: Supervisor | None = None) -> None:
        self.root, self.clock, self.accounts, self.supervisor = root, clock, accounts, supervisor
        self.hidden = self.closed = frozenset[str]()
        self._lock, self._compile_lock = Lock(), Lock()
        self._searches: dict[tuple[str, ...], OpenedSearch] = {}
        self._searched_folders: dict[tuple[str, ...], tuple[int, ...]] = {}
        self._examples: dict[OpenedSearch, tuple[float, list[str]]] = {}
        self._help_queries: dict[tuple[OpenedSearch, str], tuple[float, HelpQueries]] = {}
        self._configs: dict[str, tuple[object, Config]] = {}
        self._compiled: dict[str, CompiledSettings] = {}
        self._open_collections = OpenCollections(root, clock)
        self.past_searches = PastSearches(root, clock)
        self.capture_reader = CaptureReader(clock)
        self.cache = AnswerCache(clock)
        self.cluster: ClusterSource = cluster_source(root, clock)
        self.offline_bulk = OfflineBulk(root, clock)
        self.lab = Workbench(root, clock)
        self.auditor = Auditor(root, clock)
        self.sql_slots = BoundedSemaphore(limits.SQL_AT_ONCE)
        self.capture_slots = RequestSlots(limits.CAPTURES_AT_ONCE, limits.CAPTURES_WAITING, limits.CAPTURE_WAIT_S)
        self.past_slots = RequestSlots(1, limits.PAST_WAITING, limits.PAST_WAIT_S)
        self.capture_streams = BoundedSemaphore(limits.CAPTURE_STREAMS)
        self.export_slots = BoundedSemaphore(limits.EXPORTS_AT_ONCE)
        self._held_control: ControlFile | None = None
        with suppress(TeiaError):  # the folder is read-only
            # Held open with its log: on a full disk the first reader could not create the log.
            self._held_control = ControlFile(root.control)

    def names(self) -> list[str]:
        """Return the visible collections, in order."""
        return sorted(name for name in self.root.collections() if name not in self.hidden)

    def public_view(self) -> Installation:
        """Return the installation without the collections and captures that are not public."""
        public = {name: self._public(name) for name in self.root.collections()}
        hidden = frozenset(name for name, each in public.items() if not each.search)
        closed = frozenset(name for name, each in public.items() if not each.copies)
        if not hidden and not closed:
            return self
        # A shallow copy: caches and open files are shared, only the two sets differ.
        seen = copy(self)
        seen.hidden, seen.closed = hidden, closed
        return seen

    def _public(self, name: str) -> PublicSettings:
        """Return the public settings of a collection; nothing is public if its settings are invalid."""
        try:
            return self._config(name).public
        except (OSError, TeiaError):
            return PublicSettings(search=False, copies=False)

    def _config(self, name: str) -> Config:
        """Return a collection's settings, and reload them if the file was replaced; it is never edited in place."""
        path = self.root.path / name / "teia.toml"
        found = path.stat()
        stamp = (found.st_mtime_ns, found.st_ino)
        known = self._configs.get(name)
        if known is None or known[0] != stamp:
            known = self._configs[name] = (stamp, saved(self.root, name).config)
        return known[1]

    def check_captures(self, name: str) -> None:
        """Refuse captures that the client may not read."""
        if name in self.closed:
            raise ClosedCopies(Message("sign in to read captures of {name}", name=self.check(name)))

    def config(self, name: str) -> Config:
        """Return a collection's settings; raise StoreError if there are none."""
        self.check(name)
        try:
            return self._config(name)
        except FileNotFoundError:
            return saved(self.root, name).config  # raises an error with the reason

    def compiled_settings(self, name: str) -> CompiledSettings:
        """Return a collection's compiled settings, recompiled with its lists of rules if they changed."""
        config = self.config(name)
        with self._compile_lock:
            known = self._compiled.get(name)
            # `_config` returns the same object until the file is replaced.
            if known is None or known.config is not config:
                known = self._compiled[name] = compile_settings(config, self.root.collection(name).lists)
        return known

    def weigher(self, name: str, patience_s: float | None = None) -> Weigh | None:
        """Return the function that gives pages their weights; None while it is loading, or if it cannot be loaded."""
        settings, ranks = self.config(name).refresh, self.root.collection(name).ranks

        def make() -> Weigh:
            return weigher(settings, ranks)

        wait_s = self.patience_s(name) if patience_s is None else patience_s
        found = self.cache.get_or_none(("weigher", name), make, WEIGHER_S, wait_s, settings)
        return None if found is None else found.value

    def weights(self, name: str, found: Sequence[tuple[int, int]]) -> Sequence[float | None]:
        """Return the weights of URLs by (key, links to it); None if they are not known yet."""
        weigh = self.weigher(name)
        return [None] * len(found) if weigh is None else weigh_keys(weigh, found)

    def check(self, name: str) -> str:
        """Check that a collection named in a request exists, and return its name."""
        if name not in self.names():
            raise UnknownCollection(Message("there is no collection {name!r}", name=name))
        return name

    def named_or_only(self, name: str) -> str:
        """Return the collection that a request names, or the only one."""
        names = self.names()
        if not name and len(names) != 1:
            raise StoreError(f"missing collection: c={'|'.join(names) or '(there is none yet)'}")
        return name or names[0]

    @contextmanager
    def lookup(self, name: str) -> Iterator[Lookup]:
        """Lend a collection's frontier and archive to one request."""
        with self._open_collections.borrow(self.check(name)) as lookup:
            yield lookup

    def patience_s(self, name: str) -> float:
        """Return how long a page may wait for a walk over all URLs of a collection."""
        try:
            with self.lookup(name) as lookup:
                return PATIENCE_S if sum(cell.known for cell in lookup.cells) < MANY_URLS else LITTLE_PATIENCE_S
        except StoreError:  # the collection was never crawled
            return PATIENCE_S

    def warm(self) -> None:
        """Open what the first request would wait for; runs in the background."""
        with suppress(TeiaError):
            self.examples(self.search(None))

    def search(self, name: str | None) -> OpenedSearch:
        """Return an open search of one collection, or of all that have an index."""
        names = (self.check(name),) if name else tuple(self.searchable())
        if not names:
            raise IndexFailure(Message("nothing to search yet: no collection has an index"))
        # A collection that joins a cluster gets another key, so its search is opened anew.
        key = (
            (*names, CLUSTER) if len(names) == 1 and read_librarian_settings(self.root, names[0]) is not None else names
        )
        # A collection that was removed and made anew by a command has the name of the old one, and another folder.
        folders = tuple(self.root.collection(each).path.stat().st_ino for each in names)
        with self._lock:
            if self._searched_folders.get(key, folders) != folders:
                self._examples.pop(self._searches.pop(key), None)
            opened = self._searches.get(key)
            if opened is None:
                self._searched_folders[key] = folders
                opened = self._searches[key] = open_search(self.root, names, self.clock)
        return opened

    def past(self, name: str, as_of: str) -> tuple[str, float]:
        """Return the collection and the moment of a search of the past; raise an error if there can be none."""
        names = [self.check(name)] if name else self.searchable()
        if len(names) != 1:
            raise UsageError(Message("choose a collection to search as of a date"))
        if read_librarian_settings(self.root, names[0]) is not None:
            raise UsageError(Message("a cluster cannot be searched as of a date"))
        # Snippets of the past are parts of captures.
        self.check_captures(names[0])
        return names[0], parse_moment(as_of)

    def examples(self, opened: OpenedSearch) -> list[str]:
        """Return example queries that find something; they are renewed now and then."""
        until, known = self._examples.get(opened, (0.0, []))
        if not known or self.clock.ticks_s() > until:
            known = example_queries(opened)
            self._examples[opened] = (self.clock.ticks_s() + EXAMPLES_S, known)
        return known

    def help_queries(self, language: str) -> HelpQueries:
        """Return examples for the help that find something; they are renewed now and then."""
        opened = self.search(None)
        until, known = self._help_queries.get((opened, language), (0.0, None))
        if known is None or self.clock.ticks_s() > until:
            known = help_queries(opened, language, self.clock.now_s())
            self._help_queries[opened, language] = (self.clock.ticks_s() + EXAMPLES_S, known)
        return known

    def searchable(self) -> list[str]:
        """Return the collections that have an index."""
        return [name for name in self.names() if has_index(self.root, name)]

    def forget(self, name: str) -> None:
        """Release everything cached for a removed collection."""
        self._open_collections.forget(name)
        self._configs.pop(name, None)
        self._compiled.pop(name, None)
        self.past_searches.forget(name)
        with self._lock:
            self._help_queries.clear()
            for names in [names for names in self._searches if name in names]:
                self._examples.pop(self._searches.pop(names), None)
                del self._searched_folders[names]

    def close(self) -> None:
        # Child processes end first; the accounts, which every request needs, are closed last.
        if self.supervisor is not None:
            self.supervisor.stop()
        self.lab.close()
        self.auditor.close()
        if self._held_control is not None:
            self._held_control.close()
        with self._lock:
            for opened in self._searches.values():
                opened.close()
            self._searches.clear()
        self.past_searches.close()
        self.cache.close()
        self.offline_bulk.close()
        self._open_collections.close()
        self.capture_reader.close()
        self.accounts.close()


class UnknownCollection(UsageError):
    """Raised if an address names a collection that does not exist."""


class ClosedCopies(UsageError):
    """Raised for captures that are not public."""


class UnknownPage(StoreError):
    """Raised if a collection does not know a page; `to` is the address that offers to add it."""

    def __init__(self, message: str, to: str) -> None:
        super().__init__(message)
        self.to = to


class Busy(TeiaError):
    """Raised if too many requests are being served; `retry_after_s` is the Retry-After."""

    retry_after_s = 5


class RequestSlots:
    """Semaphore with a limited queue; safe to share between threads."""

    def __init__(self, at_once: int, waiting: int, patience_s: float) -> None:
        self._running, self._admitted = BoundedSemaphore(at_once), BoundedSemaphore(at_once + waiting)
        self._patience_s = patience_s

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Wait for a slot and hold it; raise Busy if too many wait, or for too long."""
        # `_admitted` bounds the running and the waiting together, `_running` the running.
        if not self._admitted.acquire(blocking=False):
            raise Busy(Message("too many captures are being read"))
        try:
            if not self._running.acquire(timeout=self._patience_s):
                raise Busy(Message("too many captures are being read"))
            try:
                yield
            finally:
                self._running.release()
        finally:
            self._admitted.release()


def installation_of(request: Request) -> Installation:
    """Return the installation that a request is for, as a route dependency."""
    return cast("Installation", request.app.state.installation)


def has_index(root: Root, name: str) -> bool:
    from teia.index.position import has_index as is_there

    return any(is_there(cell.index) for cell in root.collection(name).cells())
