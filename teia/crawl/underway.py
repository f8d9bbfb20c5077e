"""Messages under way: posted in one turn of the courier, and settled in a later one, so that nobody waits for anybody.

A host is one place for all collections of a root: one message to it at a time, whoever sends it, and a rest before the
next. A receiver, which is a webhook's address, is another: while it fails it is left alone for longer and longer,
whichever subscription has something for it. Both are kept here, once for all collections; what must outlive the process
is in their files.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

from teia.clock import Clock
from teia.crawl.posting import AT_ONCE, Poster
from teia.fetch.fetcher import Post
from teia.records import Fetched
from teia.urls import host_of

MANY = 10_000
"""Places that are remembered; those that may be asked again are forgotten first."""

WEBHOOKS, HUBS = "webhooks", "hubs"
T = TypeVar("T")


class Failing(NamedTuple):
    """A receiver that failed so often in a row, and when it may be asked again."""

    failures: int
    again: float


class Places:
    """Which hosts rest or are being asked, and which receivers fail; by the clock's ticks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked: dict[str, str] = {}
        self._rests: dict[str, float] = {}
        self._failing: dict[str, Failing] = {}

    @property
    def under_way(self) -> int:
        return len(self._asked)

    def has_room(self, kind: str) -> bool:
        """Whether another message of a kind may be under way; hubs do not take the room of webhooks."""
        return sum(each == kind for each in self._asked.values()) < AT_ONCE

    def is_free(self, url: str) -> bool:
        """Whether the host of an address may be asked now."""
        host = host_of(url)
        return host not in self._asked and self._rests.get(host, 0.0) <= self._clock.ticks_s()

    def begin(self, url: str, kind: str, rest_s: float) -> None:
        """A host is being asked, and not again before its answer nor before `rest_s` have passed."""
        self._asked[host_of(url)] = kind
        self._rest(host_of(url), rest_s)

    def end(self, url: str, rest_s: float = 0.0) -> None:
        """A host has answered, or is not waited for any more."""
        self._asked.pop(host_of(url), None)
        self._rest(host_of(url), rest_s)

    def _rest(self, host: str, rest_s: float) -> None:
        now = self._clock.ticks_s()
        if len(self._rests) >= MANY:
            self._rests = {each: until for each, until in self._rests.items() if until > now}
        self._rests[host] = max(self._rests.get(host, 0.0), now + rest_s)

    # -- receivers -----------------------------------------------------------------------------------------

    def is_failing(self, webhook: str) -> bool:
        """Whether a receiver is to be left alone for now."""
        known = self._failing.get(webhook)
        return known is not None and known.again > self._clock.ticks_s()

    def failures(self, webhook: str) -> int:
        known = self._failing.get(webhook)
        return 0 if known is None else known.failures

    def failed(self, webhook: str, wait_s: float) -> None:
        now = self._clock.ticks_s()
        if len(self._failing) >= MANY:
            self._failing = {each: known for each, known in self._failing.items() if known.again > now}
        self._failing[webhook] = Failing(self.failures(webhook) + 1, now + wait_s)

    def arrived(self, webhook: str) -> None:
        self._failing.pop(webhook, None)


class UnderWay(Generic[T]):
    """Messages of one kind and collection that were posted and not yet settled; `T` is what each is about."""

    def __init__(self, kind: str, poster: Poster, places: Places) -> None:
        self._kind, self._poster, self._places = kind, poster, places
        self._posts: dict[asyncio.Task[Fetched], T] = {}

    def __len__(self) -> int:
        return len(self._posts)

    def about(self) -> list[T]:
        """What is under way or to be settled."""
        return list(self._posts.values())

    def start(self, about: T, url: str, message: Post, *, rest_s: float, after_s: float = 0.0) -> None:
        """Post something to a host that is free; it is left alone for `rest_s`, and for `after_s` after its answer."""
        self._places.begin(url, self._kind, rest_s)
        task = asyncio.create_task(self._poster.post(url, message))
        self._posts[task] = about
        task.add_done_callback(lambda _: self._places.end(url, after_s))

    def finished(self) -> list[tuple[T, Fetched]]:
        """What was answered since the last time."""
        done = [task for task in self._posts if task.done()]
        return [(self._posts.pop(task), task.result()) for task in done]

    async def close(self) -> None:
        """Give up what is under way."""
        for task in self._posts:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._posts.clear()
