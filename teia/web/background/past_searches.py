"""Searches of collections as they were, kept open for a moment: for the next page of results.

Opening one reads captures from the archive again (indexer/past_search.py), so there is one at a time, whoever requests
it. One that is older than a minute is opened anew: the index may have got later versions of pages meanwhile.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from teia.clock import Clock
from teia.errors import IndexFailure
from teia.indexer.past_search import PastSearch
from teia.lib.message import Message
from teia.search.serve.searcher import SearchOptions
from teia.search.show.results import Results
from teia.store.root import Root

OPEN = 3
OPEN_S = 60.0
WAIT_S = 20.0


class PastSearches:
    """The open searches of the past, by collection and moment; threads may share them."""

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root, self._clock = root, clock
        self._lock = Lock()
        self._opened: OrderedDict[tuple[str, float], tuple[float, PastSearch]] = OrderedDict()

    def search(
        self, name: str, moment_s: float, text: str, n: int, offset: int, options: SearchOptions | None = None
    ) -> Results:
        """Answer a query as of a moment; raise IndexFailure if others take too long."""
        if not self._lock.acquire(timeout=WAIT_S):
            raise IndexFailure(Message("another search of the past is running; try again in a minute"))
        try:
            return self._open(name, moment_s).search(text, n, offset, options)
        finally:
            self._lock.release()

    def _open(self, name: str, moment_s: float) -> PastSearch:
        until_s, opened = self._opened.pop((name, moment_s), (0.0, None))
        if opened is not None and self._clock.ticks_s() > until_s:
            opened.close()
            opened = None
        while len(self._opened) >= OPEN:
            self._opened.popitem(last=False)[1][1].close()
        if opened is None:
            until_s = self._clock.ticks_s() + OPEN_S
            opened = PastSearch(self._root, name, moment_s, self._clock)
        self._opened[name, moment_s] = until_s, opened
        return opened

    def forget(self, name: str) -> None:
        """Close the searches of a removed collection."""
        with self._lock:
            for key in [key for key in self._opened if key[0] == name]:
                self._opened.pop(key)[1].close()

    def close(self) -> None:
        with self._lock:
            while self._opened:
                self._opened.popitem()[1][1].close()
