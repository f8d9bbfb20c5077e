"""Notices on their way to webhooks: sent, taken off when they arrived, tried again when they did not.

One message of a subscription at a time, and one to a host in a turn; so a receiver that is slow holds up itself and
others of its host alone. Where an answer asks for time (`Retry-After`), it gets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from teia.clock import Clock
from teia.crawl.judge import retry_after_s
from teia.crawl.posting import AT_ONCE, Poster, is_taken, said
from teia.fetch.fetcher import Post
from teia.signals.subscriptions import Notice, Subscription, Subscriptions
from teia.signals.webhook import GONE, MEDIA_TYPE, headers
from teia.urls import split


async def deliver(store: Subscriptions, poster: Poster, clock: Clock) -> int:
    """Try what may be tried now, some of it; returns how many messages arrived."""
    due = _one_a_host(store.due(clock.now_s()))[:AT_ONCE]
    tries = [_try(store, poster, clock, subscription, notice) for subscription, notice in due]
    return sum(await asyncio.gather(*tries))


def _one_a_host(due: Sequence[tuple[Subscription, Notice]]) -> list[tuple[Subscription, Notice]]:
    first: dict[str, tuple[Subscription, Notice]] = {}
    for each in due:
        first.setdefault(split(each[0].webhook).host, each)
    return list(first.values())


async def _try(store: Subscriptions, poster: Poster, clock: Clock, subscription: Subscription, notice: Notice) -> bool:
    signed = headers(subscription.secret, notice.id, int(clock.now_s()), notice.message)
    fetched = await poster.post(subscription.webhook, Post(notice.message, MEDIA_TYPE, signed))
    if is_taken(fetched):
        store.arrived(notice)
        return True
    now_s = clock.now_s()
    least_s = retry_after_s(fetched, now_s)
    store.failed(notice, said(fetched), now_s, least_s=least_s, is_final=fetched.status == GONE)
    return False
