"""Posting: messages to addresses given by users or feeds, with the same care as requests for pages.

Webhooks and hubs are reached through the crawler's own resolver, address guard and fetcher: the address that was
checked is the one that is connected to, redirects are answers and not followed, time and size are bounded, and the
User-Agent identifies the crawler.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from teia.clock import Clock
from teia.config.sections import Config
from teia.crawler.compiled_settings import user_agent
from teia.fetch.curl import CurlFetcher
from teia.fetch.destination import Destinations
from teia.fetch.dns import CaresResolver
from teia.fetch.fetcher import FetchRequest, Post
from teia.fetch.guard import AddressGuard
from teia.fetch.overrides import Overrides
from teia.records import Fetched
from teia.urls import split

ANSWER_S = 20.0
ANSWER_BYTES = 16_384
AT_ONCE = 8
"""Maximum number of messages under way, for webhooks and for hubs each."""


class Poster:
    """Posts by the settings of one collection; lives on a loop."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._clock = clock
        guard, overrides = AddressGuard(config.fetch.allow_nets), Overrides.parse(config.fetch.resolve)
        self._resolver = CaresResolver(clock, config.fetch.dns or None)
        self._destinations = Destinations(self._resolver, guard, overrides)
        limits = replace(config.limits, fetch_s=ANSWER_S, slow_s=ANSWER_S)
        agent = user_agent(config.courtesy)
        self._fetcher = CurlFetcher(
            guard, limits, clock, agent, keep_alive=0, concurrency=2 * AT_ONCE, bind=config.fetch.bind
        )

    async def post(self, url: str, message: Post) -> Fetched:
        """Post to a canonical URL; network errors are in the answer, not raised."""
        parts = split(url)
        place = await self._destinations.find(parts.host, parts.port)
        if place.outcome is not None:
            now_s = self._clock.now_s()
            return Fetched(url, str(place.outcome), 0, now_s, now_s, "", detail=place.detail)
        answer: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
        request = FetchRequest(url, place.address, place.port, max_body_bytes=ANSWER_BYTES, accept="*/*", post=message)
        self._fetcher.start(request, lambda fetched: None if answer.done() else answer.set_result(fetched))
        return await answer

    async def close(self) -> None:
        await self._fetcher.close()
        await self._resolver.close()


def is_taken(fetched: Fetched) -> bool:
    """Tell whether a message was accepted; a truncated answer does not matter."""
    return 200 <= fetched.status < 300


def said(fetched: Fetched) -> str:
    """Describe in a few words why a message was not accepted; never includes a part of its address."""
    if 300 <= fetched.status < 400:
        return f"{fetched.status}: redirects are not followed"
    return str(fetched.status) if fetched.status else f"{fetched.outcome}: {fetched.detail}".rstrip(": ")
