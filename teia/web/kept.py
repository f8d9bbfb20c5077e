"""Answers that take long to find, kept for a while.

A walk over a million URLs takes seconds, and a page may not. So the walk is made by a thread beside the requests, once
for all who ask, and everybody is shown the last one with its age. It is repeated when somebody asks and it is old, and
never so often that it would take more than a small part of a processor.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooSlow
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeVar

from teia.clock import Clock
from teia.errors import TeiaError

T = TypeVar("T")
KEPT = 64
THREADS = 2
SHARE = 0.05
"""Of a processor, for one answer that is asked for all the time."""

PATIENCE_S = 2.0


class NotReady(TeiaError):
    """An answer that is being found for the first time."""


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """An answer; `time_s` is when it was asked for."""

    value: T
    time_s: float


@dataclass(slots=True)
class _Entry:
    found: Found[Any] | None = None
    running: Future[Any] | None = None
    again_at: float = 0.0


class Kept:
    """The answers of one server, by what was asked."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._threads = ThreadPoolExecutor(THREADS, "kept")

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)

    def get(self, key: Hashable, make: Callable[[], T], fresh_s: float, patience_s: float = PATIENCE_S) -> Found[T]:
        """The last answer, found anew if it is older than `fresh_s`; the first one is waited for, then NotReady."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > KEPT:
                self._entries.popitem(last=False)
            if entry.running is None and self._clock.ticks_s() >= entry.again_at:
                entry.running = self._threads.submit(self._make, entry, make, fresh_s)
            found, running = entry.found, entry.running
        if running is not None and (found is None or fresh_s == 0):
            try:
                return running.result(patience_s)  # type: ignore[no-any-return]
            except TooSlow:
                if found is None:
                    raise NotReady("this is being counted for the first time; it is here in a moment") from None
        assert found is not None
        return found

    def peek(self, key: Hashable, make: Callable[[], T], fresh_s: float, patience_s: float) -> Found[T] | None:
        """The same, without insisting: None while there is no answer."""
        try:
            return self.get(key, make, fresh_s, patience_s)
        except TeiaError:
            return None

    def _make(self, entry: _Entry, make: Callable[[], T], fresh_s: float) -> Found[T]:
        began, now_s = self._clock.ticks_s(), self._clock.now_s()
        try:
            found = Found(make(), now_s)
        except BaseException:
            with self._lock:
                entry.running, entry.again_at = None, 0.0 if entry.found is None else began + fresh_s
            raise
        ended = self._clock.ticks_s()
        with self._lock:
            entry.found, entry.running = found, None
            entry.again_at = ended + max(fresh_s, (ended - began) / SHARE - (ended - began))
        return found
