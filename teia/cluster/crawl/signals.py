"""Signals on their way to the owner of their page: a request to `<collection>.signals.<cell>`, and its answer.

The node that receives a signal for a page of another node posts it in the outbox beside its inbox
(crawler/signals_in/for_other_nodes.py). From there it goes straight to the owner of the page's cell, which subscribes
to the subject of each of its cells while it crawls. The owner puts it into its own inbox, as if it had been received
there, and answers. Only then is it removed from the outbox. So a signal waits at the node that received it while its
owner is away, hangs, or cannot write. No stream of NATS holds it. A signal that is sent twice, because its answer was
lost, is one announcement.

A site may have moved, or the cell may have been split or lost a moment ago. Then the receiver is not the owner, and
posts the signal to the next cell when it is due.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import msgspec

from teia.clock import Clock
from teia.cluster.nats.wire import Wire
from teia.crawler.signals_in.announcements import Announcements
from teia.crawler.signals_in.for_other_nodes import ForwardedSignals
from teia.crawler.signals_in.indexnow import receive_uncounted
from teia.errors import ClusterError, StoreError
from teia.signals.announce import AnnouncementInbox, open_inbox
from teia.signals.indexnow import IndexNowKeys
from teia.sqlite import sqlite_errors, transaction

if TYPE_CHECKING:
    from nats.aio.msg import Msg

CHECK_S = 0.1
"""Interval at which the outbox is checked."""

RETRY_S = 2.0
"""Wait before a message is sent again whose owner was away or did not answer."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_log = logging.getLogger(__name__)
_decode = msgspec.msgpack.Decoder(ForwardedSignals).decode


def store_forwarded(announced: Announcements, forwarded: ForwardedSignals, now_s: float) -> None:
    """Put a message of another node into the inbox, as if it had been received here."""
    with closing(open_inbox(announced.path)) as inbox, sqlite_errors(announced.path):
        if forwarded.pings:
            IndexNowKeys(inbox.db).prepare()  # before the transaction, which it would end
        with transaction(inbox.db):
            inbox.put(forwarded.announced)
            for ping in forwarded.pings:
                receive_uncounted(inbox, ping, now_s)
    announced.has_forwarded = True


class SignalExchange:
    """Signals from and to the other nodes of a collection, while its crawl is open. Runs in the cluster's loop."""

    def __init__(self, wire: Wire, clock: Clock, collection: str, announced: Announcements) -> None:
        self._wire, self._clock, self._collection, self._announced = wire, clock, collection, announced
        self._lock = asyncio.Lock()

    def _subject(self, cell: int) -> str:
        return f"{self._collection}.signals.{cell}"

    # -- to the owners of other cells ----------------------------------------------------------------------

    async def send(self, is_over: Callable[[], bool]) -> None:
        """Send the messages of the outbox until `is_over`; an owner that is away does not delay those of others."""
        while not is_over():
            if self._announced.path.exists():  # otherwise nothing was received
                try:
                    await self._send_until(is_over)
                except StoreError as error:  # tried again: the disk may be full, another process may hold the file
                    _log.warning("signals not sent: %s", error)
                    await self._clock.sleep(RETRY_S)
            await self._clock.sleep(CHECK_S)

    async def _send_until(self, is_over: Callable[[], bool]) -> None:
        with closing(await asyncio.to_thread(open_inbox, self._announced.path)) as outbox:
            retry_at: dict[int, float] = {}
            while not is_over():
                now = self._clock.ticks_s()
                due = [cell for cell in await self._use(outbox.posted_to) if retry_at.get(cell, now) <= now]
                sent = await asyncio.gather(*(self._send_to(cell, outbox) for cell in due))
                retry_at |= {cell: now + RETRY_S for cell, is_sent in zip(due, sent, strict=True) if not is_sent}
                await self._clock.sleep(CHECK_S)

    async def _send_to(self, cell: int, outbox: AnnouncementInbox) -> bool:
        """Send all messages for a cell, the oldest first; return False if one is not answered."""
        from nats import errors

        try:
            while (first := await self._use(outbox.first_posted, cell)) is not None:
                # Not by `Wire.request`, which would connect to another server: the owner is away, not NATS.
                await self._wire.client.request(self._subject(cell), first[1], timeout=self._wire.answer_s)
                await self._use(outbox.acknowledge, first[0])
        except (errors.Error, TimeoutError, OSError, StoreError) as error:
            _log.info("cell=%d signals not sent: %r", cell, error)
            return False
        return True

    async def _use(
        self, method: Callable[Arguments, Result], *given: Arguments.args, **named: Arguments.kwargs
    ) -> Result:
        """Call a method of the outbox in a thread, one at a time: the loop renews the session meanwhile."""

        def call() -> Result:
            with sqlite_errors(self._announced.path):
                return method(*given, **named)

        async with self._lock:
            return await asyncio.to_thread(call)

    # -- from other nodes ----------------------------------------------------------------------------------

    async def receive(self, cells: Collection[int], is_over: Callable[[], bool]) -> None:
        """Receive signals for pages of these cells until `is_over`."""
        subscriptions = []
        try:
            for cell in cells:
                subscribe = partial(self._wire.client.subscribe, self._subject(cell), cb=self._on_message)
                subscriptions.append(await self._wire.retry(subscribe, self._clock))
            while not is_over():  # another thread ends it
                await self._clock.sleep(CHECK_S)
        except ClusterError as error:
            _log.warning("signals of other nodes not received: %s", error)
        finally:
            for each in subscriptions:
                with contextlib.suppress(Exception):
                    await each.unsubscribe()

    async def _on_message(self, message: Msg) -> None:
        try:
            await asyncio.to_thread(store_forwarded, self._announced, _decode(message.data), self._clock.now_s())
        except StoreError as error:
            _log.warning("signals of another node not stored: %s", error)
            return  # not answered: they are sent again
        except msgspec.MsgspecError as error:  # answered: the next try would end the same
            _log.warning("signals of another node cannot be read: %s", error)
        with contextlib.suppress(Exception):  # without an answer they are sent again
            await message.respond(b"")
