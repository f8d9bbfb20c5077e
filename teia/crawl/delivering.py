"""Notices on their way to webhooks: sent, taken off when they arrived, tried again when they did not.

One message of a subscription at a time, and one to a host; nobody waits for an answer, so a receiver that is slow holds
up itself and others of its host alone. Where an answer asks for time (`Retry-After`), it gets it. A receiver that fails
is left alone by all its subscriptions; those whose messages it has not refused so often go first.
"""

from __future__ import annotations

from collections.abc import Iterator

from teia.clock import Clock
from teia.crawl.judge import retry_after_s
from teia.crawl.posting import Poster, is_taken, said
from teia.crawl.underway import WEBHOOKS, Places, UnderWay
from teia.fetch.fetcher import Post
from teia.signals.subscriptions import Notice, Subscription, Subscriptions, wait_s
from teia.signals.webhook import GONE, MEDIA_TYPE, headers

REST_S = 1.0
"""Between two messages to a host."""

Try = tuple[Subscription, Notice]


class Delivery:
    """Delivers the notices of one collection, a bit in each turn; the store is used in the turn alone."""

    def __init__(self, store: Subscriptions, poster: Poster, places: Places, clock: Clock) -> None:
        self._store, self._places, self._clock = store, places, clock
        self._under_way: UnderWay[Try] = UnderWay(WEBHOOKS, poster, places)

    def turn(self) -> int:
        """Settle what was answered and send what may be sent; returns how much is to be done now or in a moment."""
        settled = self.settle()
        waiting = 0
        for subscription, notice in self._wanted():
            if self._places.is_free(subscription.webhook) and self._places.has_room(WEBHOOKS):
                signed = headers(subscription.secret, notice.id, int(self._clock.now_s()), notice.message)
                message = Post(notice.message, MEDIA_TYPE, signed)
                self._under_way.start((subscription, notice), subscription.webhook, message, rest_s=REST_S)
            else:
                waiting += 1
        return settled + waiting + len(self._under_way)

    def _wanted(self) -> Iterator[Try]:
        """What is due, of receivers that are not left alone; somebody who tries a webhook by hand need not wait."""
        asked = {notice.number for _, notice in self._under_way.about()}
        due = sorted(self._store.due(self._clock.now_s()), key=lambda each: each[0].failures)
        for subscription, notice in due:
            is_by_hand = subscription.failures > 0 and subscription.again_s == 0
            if notice.number not in asked and (is_by_hand or not self._places.is_failing(subscription.webhook)):
                yield subscription, notice

    def settle(self) -> int:
        """Write down what became of messages; returns of how many.

        Until it is written a receiver counts as failing: where nothing can be written, what arrived is told again, and
        that not every second.
        """
        finished = self._under_way.finished()
        for (subscription, _), fetched in finished:
            least_s = retry_after_s(fetched, self._clock.now_s())
            failures = self._places.failures(subscription.webhook) + 1
            self._places.failed(subscription.webhook, max(wait_s(failures), least_s))
        for (subscription, notice), fetched in finished:
            now_s = self._clock.now_s()
            if is_taken(fetched):
                self._store.arrived(notice)
                self._places.arrived(subscription.webhook)
            else:
                least_s = retry_after_s(fetched, now_s)
                self._store.failed(notice, said(fetched), now_s, least_s=least_s, is_final=fetched.status == GONE)
        return len(finished)

    async def close(self) -> None:
        await self._under_way.close()
