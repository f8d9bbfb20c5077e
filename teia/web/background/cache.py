"""Cache of answers that take long to compute.

A walk over a million URLs takes seconds, too long for a page. So a background thread computes the answer once for all
requests, and every request gets the last answer with its age. An answer is recomputed when a request finds it too old,
but never so often that it would use more than `SHARE` of a processor. A failure is reported to all requests. It is
retried when that share allows, after half a minute at the latest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooSlow
from dataclasses import dataclass
from threading import Lock, Semaphore, Thread
from typing import Any, Generic, TypeVar

from teia.clock import Clock
from teia.errors import TeiaError
from teia.lib import free_memory

T = TypeVar("T")
CAPACITY = 64
THREADS = 2
SHARE = 0.03
"""Largest share of a processor for one answer that is requested continuously."""

FAILED_S = 30.0
PATIENCE_S = 2.0
CLOSE_S = 5.0


class NotReady(TeiaError):
    """Raised while an answer is computed for the first time."""


@dataclass(frozen=True, slots=True)
class CachedAnswer(Generic[T]):
    """Cached answer; `time_s` is when its computation started."""

    value: T
    time_s: float


@dataclass(slots=True)
class _Entry:
    found: CachedAnswer[Any] | None = None
    fault: BaseException | None = None
    running: Future[Any] | None = None
    refresh_at: float = 0.0
    stamp: object = None


class AnswerCache:
    """Cached answers of one server, by key."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._slots = Semaphore(THREADS)
        self._threads: set[Thread] = set()
        self._is_closed = False
        self._capacity = CAPACITY

    def set_extra_capacity(self, more: int) -> None:
        """Raise the capacity by `more` entries, for answers that exist once per collection or host."""
        self._capacity = CAPACITY + more

    def close(self) -> None:
        """Start no more computations; wait a moment for those under way, which end with the process at the latest."""
        with self._lock:
            self._is_closed = True
            threads = list(self._threads)
        for thread in threads:
            thread.join(CLOSE_S)

    def get(
        self,
        key: Hashable,
        compute: Callable[[], T],
        fresh_s: float,
        patience_s: float = PATIENCE_S,
        stamp: object = None,
    ) -> CachedAnswer[T]:
        """Return the last answer, and recompute it in the background if it is older than `fresh_s`.

        The first answer is waited for; after `patience_s` the call raises NotReady. An answer is also recomputed and
        waited for if `stamp` differs from the last call's, because its input has changed. If the new one is late, the
        last answer is returned.
        """
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            # The answers that were not requested for longest make room.
            while len(self._entries) > self._capacity:
                self._entries.popitem(last=False)
            is_other = stamp != entry.stamp
            if entry.running is None and (is_other or self._clock.ticks_s() >= entry.refresh_at):
                entry.stamp = stamp
                entry.running = self._start(entry, compute, fresh_s)
            found, running, fault = entry.found, entry.running, entry.fault
        # In all other cases the last answer is served while the new one is computed.
        if running is not None and (found is None or fresh_s == 0 or is_other):
            try:
                return running.result(patience_s)  # type: ignore[no-any-return]
            except TooSlow:
                if found is None:
                    raise NotReady("the first count is in progress; try again in a moment") from None
        if found is None:
            assert fault is not None
            # One exception object serves many requests; each would append its frames to the traceback.
            raise fault.with_traceback(None)
        return found

    def get_or_none(
        self, key: Hashable, compute: Callable[[], T], fresh_s: float, patience_s: float, stamp: object = None
    ) -> CachedAnswer[T] | None:
        """Like `get`, but return None if there is no answer."""
        try:
            return self.get(key, compute, fresh_s, patience_s, stamp)
        except TeiaError:
            return None

    def store(self, key: Hashable, value: object, time_s: float) -> None:
        """Store an answer that an earlier server computed; it is served until a new one is ready."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            if entry.found is None:
                entry.found = CachedAnswer(value, time_s)

    def invalidate(self, key: Hashable) -> None:
        """Recompute an answer at its next request; the last one is served until it is ready."""
        with self._lock:
            if key in self._entries:
                # A new object equals no stamp, so the next call recomputes even if its input did not change.
                self._entries[key].refresh_at, self._entries[key].stamp = 0.0, object()

    def last(self, key: Hashable) -> CachedAnswer[Any] | None:
        """Return the last answer, or None; start no computation."""
        with self._lock:
            entry = self._entries.get(key)
            return None if entry is None else entry.found

    def _start(self, entry: _Entry, compute: Callable[[], T], fresh_s: float) -> Future[CachedAnswer[T]]:
        if self._is_closed:
            raise NotReady("the server is shutting down")
        future: Future[CachedAnswer[T]] = Future()

        def run() -> None:
            try:
                # Further computations wait here, each in its own thread.
                with self._slots:
                    future.set_result(self._compute(entry, compute, fresh_s))
            except BaseException as error:  # noqa: BLE001  # passed on to the waiting requests
                future.set_exception(error)
            finally:
                with self._lock:
                    self._threads.discard(thread)
                free_memory.trim()  # an answer may take a hundred times the memory of its result

        thread = Thread(target=run, name="cache", daemon=True)
        self._threads.add(thread)
        thread.start()
        return future

    def _compute(self, entry: _Entry, compute: Callable[[], T], fresh_s: float) -> CachedAnswer[T]:
        began, now_s = self._clock.ticks_s(), self._clock.now_s()
        try:
            found = CachedAnswer(compute(), now_s)
        except BaseException as fault:
            # With an older answer to serve, the retry also waits for `fresh_s`.
            pause_s = min(self._pause_s(began), FAILED_S)
            with self._lock:
                entry.fault, entry.running = fault, None
                entry.refresh_at = self._clock.ticks_s() + (pause_s if entry.found is None else max(fresh_s, pause_s))
            raise
        pause_s = self._pause_s(began)
        with self._lock:
            entry.found, entry.fault, entry.running = found, None, None
            entry.refresh_at = self._clock.ticks_s() + max(fresh_s, pause_s)
        return found

    def _pause_s(self, began: float) -> float:
        """Return the pause after a computation begun at `began` that keeps its use of a processor at `SHARE`."""
        return (self._clock.ticks_s() - began) * (1 / SHARE - 1)
