"""Posting: messages to addresses given by users or feeds, with the same care as requests for pages.

Webhooks and hubs are reached through the crawler's own resolver, address guard and fetcher: the address that was
checked is the one that is connected to, redirects are answers and not followed, time and size are bounded, and the
User-Agent identifies the crawler.

Messages are posted in one turn of the notifier and settled in a later one, so that no message blocks others. A host is
one place for all collections of a data folder: one message to it at a time, from any collection, and a delay before the
next. A receiver, which is a webhook's address, is another place. While it fails it is left alone for longer and longer,
for all subscriptions. Both are kept here, once for all collections; state that must outlive the process is in their
files.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

from teia.clock import Clock
from teia.config.sections import Config
from teia.crawler.compiled_settings import user_agent
from teia.fetch.curl import CurlFetcher
from teia.fetch.destination import AddressOverrides, Destinations
from teia.fetch.dns import CaresResolver
from teia.fetch.fetcher import FetchRequest, PostBody
from teia.fetch.guard import AddressGuard
from teia.records import Fetched
from teia.urls import host_of, split

ANSWER_S = 20.0
ANSWER_BYTES = 16_384
AT_ONCE = 8
"""Maximum number of messages under way, for webhooks and for hubs each."""


class Poster:
    """Posts by the settings of one collection; lives on a loop."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._clock = clock
        guard, overrides = AddressGuard(config.fetch.allow_nets), AddressOverrides.parse(config.fetch.resolve)
        self._resolver = CaresResolver(clock, config.fetch.dns or None)
        self._destinations = Destinations(self._resolver, guard, overrides)
        limits = replace(config.limits, fetch_s=ANSWER_S, slow_s=ANSWER_S)
        agent = user_agent(config.courtesy)
        self._fetcher = CurlFetcher(
            guard, limits, clock, agent, keep_alive=0, concurrency=2 * AT_ONCE, bind=config.fetch.bind
        )

    async def post(self, url: str, message: PostBody) -> Fetched:
        """Post to a canonical URL; network errors are in the answer, not raised."""
        parts = split(url)
        destination = await self._destinations.find(parts.host, parts.port)
        if destination.outcome is not None:
            now_s = self._clock.now_s()
            return Fetched(url, str(destination.outcome), 0, now_s, now_s, "", detail=destination.detail)
        answer: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
        request = FetchRequest(
            url, destination.address, destination.port, max_body_bytes=ANSWER_BYTES, accept="*/*", post=message
        )
        # No task waits for the answer to a cancelled message.
        self._fetcher.start(request, lambda fetched: None if answer.done() else answer.set_result(fetched))
        return await answer

    async def close(self) -> None:
        await self._fetcher.close()
        await self._resolver.close()


def is_accepted(fetched: Fetched) -> bool:
    """Tell whether a message was accepted; a truncated answer does not matter."""
    return 200 <= fetched.status < 300


def refusal_text(fetched: Fetched) -> str:
    """Describe in a few words why a message was not accepted; never includes a part of its address."""
    if 300 <= fetched.status < 400:
        return f"{fetched.status}: redirects are not followed"
    return str(fetched.status) if fetched.status else f"{fetched.outcome}: {fetched.detail}".rstrip(": ")


# ---- messages under way ----------------------------------------------------------------------------------------------


MAX_REMEMBERED = 10_000
"""Number of hosts and receivers that are remembered; those without a running delay are forgotten first."""

WEBHOOKS, HUBS = "webhooks", "hubs"
T = TypeVar("T")


class FailingReceiver(NamedTuple):
    """A receiver with its number of consecutive failures, and the time of the next try."""

    failures: int
    retry_at: float


class ReceiverStates:
    """Hosts that are delayed or have a message under way, and receivers that fail; in the clock's ticks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._in_progress: dict[str, str] = {}
        self._delays: dict[str, float] = {}
        self._failing: dict[str, FailingReceiver] = {}

    @property
    def under_way(self) -> int:
        return len(self._in_progress)

    def has_room(self, kind: str) -> bool:
        """Tell whether another message of a kind may be under way; hubs do not take the room of webhooks."""
        return sum(each == kind for each in self._in_progress.values()) < AT_ONCE

    def is_free(self, url: str) -> bool:
        """Tell whether a message may be sent to the host of an address now."""
        host = host_of(url)
        return host not in self._in_progress and self._delays.get(host, 0.0) <= self._clock.ticks_s()

    def note_sent(self, url: str, kind: str, delay_s: float) -> None:
        """Note a message to a host: the next must wait for its answer and for `delay_s`."""
        self._in_progress[host_of(url)] = kind
        self._set_delay(host_of(url), delay_s)

    def note_answered(self, url: str, delay_s: float = 0.0) -> None:
        """Note that a host has answered, or that its answer is not awaited any more."""
        self._in_progress.pop(host_of(url), None)
        self._set_delay(host_of(url), delay_s)

    def _set_delay(self, host: str, delay_s: float) -> None:
        now = self._clock.ticks_s()
        if len(self._delays) >= MAX_REMEMBERED:
            self._delays = {each: until for each, until in self._delays.items() if until > now}
        self._delays[host] = max(self._delays.get(host, 0.0), now + delay_s)

    # -- receivers -----------------------------------------------------------------------------------------

    def is_failing(self, webhook: str) -> bool:
        """Tell whether a receiver is to be left alone for now."""
        known = self._failing.get(webhook)
        return known is not None and known.retry_at > self._clock.ticks_s()

    def failures(self, webhook: str) -> int:
        known = self._failing.get(webhook)
        return 0 if known is None else known.failures

    def note_failure(self, webhook: str, wait_s: float) -> None:
        now = self._clock.ticks_s()
        if len(self._failing) >= MAX_REMEMBERED:
            self._failing = {each: known for each, known in self._failing.items() if known.retry_at > now}
        self._failing[webhook] = FailingReceiver(self.failures(webhook) + 1, now + wait_s)

    def note_success(self, webhook: str) -> None:
        self._failing.pop(webhook, None)


class PostsUnderWay(Generic[T]):
    """Messages of one kind and collection that were posted and not yet settled; `T` is the subject of each."""

    def __init__(self, kind: str, poster: Poster, receivers: ReceiverStates) -> None:
        self._kind, self._poster, self._receivers = kind, poster, receivers
        self._posts: dict[asyncio.Task[Fetched], T] = {}

    def __len__(self) -> int:
        return len(self._posts)

    def subjects(self) -> list[T]:
        """Return the subjects of messages under way or to be settled."""
        return list(self._posts.values())

    def start(self, subject: T, url: str, message: PostBody, *, delay_s: float, after_s: float = 0.0) -> None:
        """Post to a free host; the next message must wait for `delay_s`, and for `after_s` after the answer."""
        self._receivers.note_sent(url, self._kind, delay_s)
        task = asyncio.create_task(self._poster.post(url, message))
        self._posts[task] = subject
        task.add_done_callback(lambda _: self._receivers.note_answered(url, after_s))

    def finished(self) -> list[tuple[T, Fetched]]:
        """Return the answers since the last call."""
        # Collected first, because the dictionary changes below.
        done = [task for task in self._posts if task.done()]
        return [(self._posts.pop(task), task.result()) for task in done]

    async def close(self) -> None:
        """Cancel the messages under way."""
        for task in self._posts:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._posts.clear()
