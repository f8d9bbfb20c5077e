"""Delivery of notices to webhooks: sent, removed when they arrived, tried again when they did not.

One message of a subscription is under way at a time, and one to a host. Delivery never blocks on an answer, so a slow
receiver delays only itself and others on its host. Where an answer demands a wait (`Retry-After`), delivery respects
it. A failing receiver is left alone by all its subscriptions. Subscriptions with fewer failures go first.
"""

from __future__ import annotations

from collections.abc import Iterator

from teia.clock import Clock
from teia.crawler.signals_in.outgoing import WEBHOOKS, Poster, PostsUnderWay, ReceiverStates, is_accepted, refusal_text
from teia.crawler.verdicts import retry_after_s
from teia.fetch.fetcher import PostBody
from teia.signals.subscriptions import Notice, Subscription, Subscriptions, wait_s
from teia.signals.webhook import GONE, MEDIA_TYPE, headers

DELAY_S = 1.0
"""Delay between two messages to a host."""

Try = tuple[Subscription, Notice]


class Delivery:
    """Delivery of the notices of one collection, some in each step; the store is used only within a step."""

    def __init__(self, store: Subscriptions, poster: Poster, receivers: ReceiverStates, clock: Clock) -> None:
        self._store, self._receivers, self._clock = store, receivers, clock
        self._under_way: PostsUnderWay[Try] = PostsUnderWay(WEBHOOKS, poster, receivers)

    def step(self) -> int:
        """Record answers and send what may be sent; return how much is to be done now or soon."""
        settled = self.settle()
        waiting = 0
        for subscription, notice in self._due_notices():
            if self._receivers.is_free(subscription.webhook) and self._receivers.has_room(WEBHOOKS):
                # Signed at each try: the signature covers the time, and receivers refuse old messages as replays.
                signed = headers(subscription.secret, notice.id, int(self._clock.now_s()), notice.message)
                message = PostBody(notice.message, MEDIA_TYPE, signed)
                self._under_way.start((subscription, notice), subscription.webhook, message, delay_s=DELAY_S)
            else:
                waiting += 1
        return settled + waiting + len(self._under_way)

    def _due_notices(self) -> Iterator[Try]:
        """Yield due notices of receivers that are not left alone; a webhook that a user tests by hand need not wait."""
        in_flight = {notice.number for _, notice in self._under_way.subjects()}
        due = sorted(self._store.due_notices(self._clock.now_s()), key=lambda each: each[0].failures)
        for subscription, notice in due:
            # After a failure only `send_test_message` sets `again_s` to 0.
            is_by_hand = subscription.failures > 0 and subscription.again_s == 0
            if notice.number not in in_flight and (is_by_hand or not self._receivers.is_failing(subscription.webhook)):
                yield subscription, notice

    def settle(self) -> int:
        """Record the answers to messages; return their number.

        Until the answer is recorded a receiver counts as failing. If nothing can be written, a message that arrived is
        sent again, and this keeps it from being sent every second.
        """
        finished = self._under_way.finished()
        # 1. In memory, all count as failing; an error of the store below must not lead to a try every second.
        for (subscription, _), fetched in finished:
            least_s = retry_after_s(fetched, self._clock.now_s())
            failures = self._receivers.failures(subscription.webhook) + 1
            self._receivers.note_failure(subscription.webhook, max(wait_s(failures), least_s))
        # 2. In the store; an accepted message ends the failure of step 1.
        for (subscription, notice), fetched in finished:
            now_s = self._clock.now_s()
            if is_accepted(fetched):
                self._store.record_delivery(notice)
                self._receivers.note_success(subscription.webhook)
            else:
                least_s = retry_after_s(fetched, now_s)
                self._store.record_failure(
                    notice, refusal_text(fetched), now_s, least_s=least_s, is_final=fetched.status == GONE
                )
        return len(finished)

    async def close(self) -> None:
        await self._under_way.close()
