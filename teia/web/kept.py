"""Answers that take long to find, kept for a while.

A walk over a million URLs takes seconds, and a page may not. So the walk is made by a thread beside the requests, once
for all who ask, and everybody is shown the last one with its age. It is repeated when somebody asks and it is old, and
never so often that it would take more than a small part of a processor. What failed is told to all who ask, and tried
again when that part allows, or half a minute later.
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

T = TypeVar("T")
KEPT = 64
THREADS = 2
SHARE = 0.03
"""Of a processor, for one answer that is asked for all the time."""

FAILED_S = 30.0
PATIENCE_S = 2.0
CLOSE_S = 5.0


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
    fault: BaseException | None = None
    running: Future[Any] | None = None
    again_at: float = 0.0
    stamp: object = None


class Kept:
    """The answers of one server, by what was asked."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._turns = Semaphore(THREADS)
        self._threads: set[Thread] = set()
        self._is_closed = False
        self._most = KEPT

    def make_room(self, more: int) -> None:
        """Keep so many answers more than usual, where there is one of a kind for each of many things."""
        self._most = KEPT + more

    def close(self) -> None:
        """Find nothing more. What is being found is waited for a moment, and ends with the process at the latest."""
        with self._lock:
            self._is_closed = True
            threads = list(self._threads)
        for thread in threads:
            thread.join(CLOSE_S)

    def get(
        self,
        key: Hashable,
        make: Callable[[], T],
        fresh_s: float,
        patience_s: float = PATIENCE_S,
        stamp: object = None,
    ) -> Found[T]:
        """The last answer, found anew if it is older than `fresh_s`; the first one is waited for, then NotReady.

        So is one of another `stamp` than the last, which says that what it was found from is not the same any more;
        but if it does not come in time, the last one stands.
        """
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
            is_other = stamp != entry.stamp
            if entry.running is None and (is_other or self._clock.ticks_s() >= entry.again_at):
                entry.stamp = stamp
                entry.running = self._begin(entry, make, fresh_s)
            found, running, fault = entry.found, entry.running, entry.fault
        if running is not None and (found is None or fresh_s == 0 or is_other):
            try:
                return running.result(patience_s)  # type: ignore[no-any-return]
            except TooSlow:
                if found is None:
                    raise NotReady("this is being counted for the first time; it is here in a moment") from None
        if found is None:
            assert fault is not None
            raise fault.with_traceback(None)
        return found

    def peek(
        self, key: Hashable, make: Callable[[], T], fresh_s: float, patience_s: float, stamp: object = None
    ) -> Found[T] | None:
        """The same, without insisting: None while there is no answer."""
        try:
            return self.get(key, make, fresh_s, patience_s, stamp)
        except TeiaError:
            return None

    def remember(self, key: Hashable, value: object, time_s: float) -> None:
        """Take an answer that was found before this server was; it stands until another is found."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            if entry.found is None:
                entry.found = Found(value, time_s)

    def forget(self, key: Hashable) -> None:
        """Find an answer anew when it is next asked for; the last one stands until then."""
        with self._lock:
            if key in self._entries:
                self._entries[key].again_at, self._entries[key].stamp = 0.0, object()

    def last(self, key: Hashable) -> Found[Any] | None:
        """What was found last, if anything; nothing is begun for it."""
        with self._lock:
            entry = self._entries.get(key)
            return None if entry is None else entry.found

    def _begin(self, entry: _Entry, make: Callable[[], T], fresh_s: float) -> Future[Found[T]]:
        if self._is_closed:
            raise NotReady("the server is about to end")
        promised: Future[Found[T]] = Future()

        def run() -> None:
            try:
                with self._turns:
                    promised.set_result(self._make(entry, make, fresh_s))
            except BaseException as error:  # noqa: BLE001  # whoever waits is told
                promised.set_exception(error)
            finally:
                with self._lock:
                    self._threads.discard(thread)

        thread = Thread(target=run, name="kept", daemon=True)
        self._threads.add(thread)
        thread.start()
        return promised

    def _make(self, entry: _Entry, make: Callable[[], T], fresh_s: float) -> Found[T]:
        began, now_s = self._clock.ticks_s(), self._clock.now_s()
        try:
            found = Found(make(), now_s)
        except BaseException as fault:
            rest_s = min(self._rest_s(began), FAILED_S)
            with self._lock:
                entry.fault, entry.running = fault, None
                entry.again_at = self._clock.ticks_s() + (rest_s if entry.found is None else max(fresh_s, rest_s))
            raise
        rest_s = self._rest_s(began)
        with self._lock:
            entry.found, entry.fault, entry.running = found, None, None
            entry.again_at = self._clock.ticks_s() + max(fresh_s, rest_s)
        return found

    def _rest_s(self, began: float) -> float:
        """How long nothing is found anew after what began then has ended."""
        return (self._clock.ticks_s() - began) * (1 / SHARE - 1)
