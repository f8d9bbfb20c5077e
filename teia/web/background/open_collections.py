"""Pool of collections kept open for reading between requests: opening one costs more than most queries.

A borrowed collection belongs to one request; a returned one is reused for a while. A collection that was deleted and
made again under the same name is recognised by its inode.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock

from teia.clock import Clock
from teia.crawler.lookup import Lookup
from teia.store.root import Root

MAX_AGE_S = 60.0
MAX_IDLE = 4
"""Open handles of one collection, for simultaneous requests."""


@dataclass(slots=True)
class OpenCollections:
    """Open collections of a root; safe to share between threads."""

    root: Root
    clock: Clock
    _lock: Lock = field(default_factory=Lock)
    _free: dict[str, list[tuple[float, int, Lookup]]] = field(default_factory=dict)

    @contextmanager
    def borrow(self, name: str) -> Iterator[Lookup]:
        """Lend a collection to one request; after an exception it is closed instead of reused."""
        inode = self._inode(name)
        until, opened = self._take_or_open(name, inode)
        try:
            yield opened
        except BaseException:
            opened.close()
            raise
        with self._lock:
            free = self._free.setdefault(name, [])
            # The lifetime counts from the opening, so a busy collection is reopened every minute, too.
            is_reused = len(free) < MAX_IDLE and self.clock.ticks_s() < until
            if is_reused:
                free.append((until, inode, opened))
        if not is_reused:
            opened.close()

    def forget(self, name: str) -> None:
        """Close the idle handles of a collection."""
        with self._lock:
            free = self._free.pop(name, [])
        for _, _, opened in free:
            opened.close()

    def close(self) -> None:
        for name in list(self._free):
            self.forget(name)

    def _take_or_open(self, name: str, inode: int) -> tuple[float, Lookup]:
        now = self.clock.ticks_s()
        old = []
        try:
            with self._lock:
                free = self._free.get(name, [])
                while free:
                    until, made, opened = free.pop()
                    if made == inode and now < until:
                        return until, opened
                    old.append(opened)
        finally:
            for each in old:
                each.close()
        return now + MAX_AGE_S, Lookup(self.root, name)

    def _inode(self, name: str) -> int:
        """Return the inode of a collection, which tells it from another of the same name."""
        with suppress(OSError):
            return self.root.collection(name).path.stat().st_ino
        return 0
