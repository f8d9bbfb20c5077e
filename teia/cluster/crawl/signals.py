"""Signals on their way to the owner of their page: a request to `<collection>.signals.<cell>`, and its answer.

A site pings any node it knows, and a cache announces to the node beside it, but the owner of the page's cell visits the
page. So a due signal for a page of another node moves from the inbox to the outbox beside it. From there it goes
straight to the owner of the cell, which subscribes to the subject of each of its cells while it crawls. The owner puts
it into its own inbox, as if it had been received there, and answers. Only then is it removed from the outbox. So a
signal waits at the node that received it while its owner is away, hangs, or cannot write. No stream of NATS holds it. A
signal is sent twice if its answer was lost, or after a crash, because it is in the outbox before it leaves the inbox.
It is one announcement while the first waits in the owner's inbox; later it announces the page once more.

Pages are sent with the time of their announcement. A key that was not checked is sent with the URLs that wait for it
and their times, because only the owner may fetch the key file from the site. Proven keys stay; the next owner has them
proved anew.

A site may have moved, or the cell may have been split or lost a moment ago. Then the receiver is not the owner, and
posts the signal to the next cell when it is due.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import msgspec

from teia.clock import Clock
from teia.cluster.nats.wire import Wire
from teia.crawler.ownership import HostOwners
from teia.crawler.signals_in.announcements import Announcements
from teia.crawler.signals_in.indexnow import receive_uncounted
from teia.errors import StoreError
from teia.lib.undecodable import UNDECODABLE
from teia.signals.announce import Announcement, AnnouncementInbox, open_inbox
from teia.signals.indexnow import IndexNowKey, IndexNowKeys, IndexNowPing
from teia.sqlite import sqlite_errors, transaction
from teia.urls import split

if TYPE_CHECKING:
    from nats.aio.msg import Msg

CHECK_S = 0.1
"""Interval at which the outbox is checked."""

RETRY_S = 2.0
"""Wait before a message is sent again whose owner was away or did not answer."""

MAX_URLS = 200
MAX_BYTES = 256 << 10
"""Maximum number and length of the URLs in one message, with what belongs to each; NATS refuses a megabyte."""


class ForwardedSignals(msgspec.Struct, array_like=True, frozen=True):
    """Message to the owner of a cell: announced pages, and pings whose keys were not checked yet."""

    announced: list[Announcement] = []
    pings: list[IndexNowPing] = []


Message = tuple[int, ForwardedSignals]
"""The number of the receiving cell, and the message for its owner."""

Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")
Result = TypeVar("Result")
_log = logging.getLogger(__name__)
_decode = msgspec.msgpack.Decoder(ForwardedSignals).decode


# ---- into the outbox -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SignalForwarding:
    """Signals for other nodes, posted to the outbox of this one as messages to the owners of their cells.

    `send_by_log` sends messages the way of older nodes, if there are any; else it returns False.
    """

    cell_number: Callable[[str], int]
    is_here: Callable[[str], bool]
    send_by_log: Callable[[Sequence[Message]], bool] = lambda _: False

    @property
    def owners(self) -> HostOwners:
        """The owners of hosts, as the crawler of one machine uses them."""
        return HostOwners(self.cell_number, self.is_here, self.forward, self.forward_keys)

    def forward(
        self, inbox: AnnouncementInbox, kind: str, due: Sequence[Announcement], now_s: float
    ) -> list[Announcement]:
        """Post announcements that belong to other nodes; return them."""
        away = [each for each in due if not self.is_here(split(each.url).host)]
        by_cell: defaultdict[int, list[Announcement]] = defaultdict(list)
        for each in away:
            by_cell[self.cell_number(split(each.url).host)].append(each)
        self._post(inbox, kind, now_s, [
            (cell, ForwardedSignals(announced=part)) for cell, those in by_cell.items() for part in _parts(those)
        ])  # fmt: skip
        return away

    def forward_keys(
        self, inbox: AnnouncementInbox, kind: str, keys: Iterable[IndexNowKey], now_s: float
    ) -> dict[IndexNowKey, list[str]]:
        """Post keys that other nodes must check, with the URLs that wait for them; return the URLs."""
        waiting = {key: IndexNowKeys(inbox.db).waiting_for(key) for key in keys}
        by_cell: defaultdict[int, list[IndexNowPing]] = defaultdict(list)
        for key, waiting_urls in waiting.items():
            by_cell[self.cell_number(key.host)] += _pings(key, waiting_urls)
        self._post(inbox, kind, now_s, [
            (cell, ForwardedSignals(pings=part))
            for cell, pings in by_cell.items() for part in _parts(pings, lambda ping: len(ping.urls))
        ])  # fmt: skip
        return {key: [url for url, _ in waiting_urls] for key, waiting_urls in waiting.items()}

    def _post(self, inbox: AnnouncementInbox, kind: str, now_s: float, messages: Sequence[Message]) -> None:
        if not messages:
            return
        is_sent = self.send_by_log(messages)
        with transaction(inbox.db):
            for cell, message in messages:
                urls = len(message.announced) + sum(len(ping.urls) for ping in message.pings)
                if is_sent:
                    inbox.count(kind, {"passed_on": urls})
                else:
                    inbox.post(kind, cell, msgspec.msgpack.encode(message), urls, now_s)


def _pings(key: IndexNowKey, waiting_urls: Iterable[tuple[str, float]]) -> Iterator[IndexNowPing]:
    """Yield the waiting URLs of a key as pings: the URLs of one time are one ping, if it is not too long."""
    for reported_s, those in groupby(waiting_urls, key=itemgetter(1)):
        for urls in _parts(url for url, _ in those):
            yield IndexNowPing(*key[:3], tuple(urls), 0, reported_s)


def _parts(items: Iterable[Item], count_urls: Callable[[Item], int] = lambda _: 1) -> Iterator[list[Item]]:
    """Yield items in lists that fit into a message; an item that is too long is alone."""
    part: list[Item] = []
    urls = length = 0
    for item in items:
        item_urls, item_bytes = count_urls(item), len(msgspec.msgpack.encode(item))
        if part and (urls + item_urls > MAX_URLS or length + item_bytes > MAX_BYTES):
            yield part
            part, urls, length = [], 0, 0
        part.append(item)
        urls += item_urls
        length += item_bytes
    if part:
        yield part


# ---- from node to node -----------------------------------------------------------------------------------------------


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


class _Outbox:
    """The outbox of a node, used in a thread of its own: the loop renews the session while another process holds it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inbox: AnnouncementInbox | None = None
        self._thread = ThreadPoolExecutor(1, "signals")

    async def use(
        self,
        method: Callable[Concatenate[AnnouncementInbox, Arguments], Result],
        *given: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Result:
        """Call a method of the outbox, which is opened before if it is not open."""

        def call() -> Result:
            if self._inbox is None:
                self._inbox = open_inbox(self._path)
            with sqlite_errors(self._path):
                return method(self._inbox, *given, **named)

        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def close(self) -> None:
        """Close the file after the call that is under way, without a wait for it."""

        def close() -> None:
            if self._inbox is not None:
                self._inbox.close()

        self._thread.submit(close)
        self._thread.shutdown(wait=False)


class SignalExchange:
    """Signals from and to the other nodes of a collection, while its crawl is open. Runs in the cluster's loop."""

    def __init__(self, wire: Wire, clock: Clock, collection: str, announced: Announcements) -> None:
        self._wire, self._clock, self._collection, self._announced = wire, clock, collection, announced

    def _subject(self, cell: int) -> str:
        return f"{self._collection}.signals.{cell}"

    # -- to the owners of other cells ----------------------------------------------------------------------

    async def send(self, is_over: Callable[[], bool]) -> None:
        """Send the messages of the outbox until `is_over`; an owner that is away or hangs does not delay the others."""
        outbox, sending = _Outbox(self._announced.path), dict[int, asyncio.Task[None]]()
        try:
            while not is_over():
                try:
                    # Without a file nothing was received.
                    cells = await outbox.use(AnnouncementInbox.posted_to) if self._announced.path.exists() else ()
                    for cell in cells:
                        if cell not in sending or sending[cell].done():
                            sending[cell] = asyncio.create_task(self._send_to(cell, outbox))
                # tried again: the disk may be full, another process may hold the file
                except Exception as error:  # noqa: BLE001
                    _log.warning("signals not sent: %s", error)
                    await self._clock.sleep(RETRY_S)
                await self._clock.sleep(CHECK_S)
        finally:
            for task in sending.values():
                task.cancel()
            outbox.close()

    async def _send_to(self, cell: int, outbox: _Outbox) -> None:
        """Send all messages for a cell, the oldest first; after a failure wait, and leave them for the next try."""
        from nats import errors

        try:
            while (first := await outbox.use(AnnouncementInbox.first_posted, cell)) is not None:
                number, message = first
                try:
                    # Not by `Wire.request`, which would connect to another server: the owner is away, not NATS.
                    await self._wire.client.request(self._subject(cell), message, timeout=self._wire.answer_s)
                except errors.MaxPayloadError:  # dropped, because it would delay all later messages for good
                    _log.warning("cell=%d signals dropped: %d bytes, more than NATS accepts", cell, len(message))
                    await outbox.use(AnnouncementInbox.drop, number)
                else:
                    await outbox.use(AnnouncementInbox.acknowledge, number)
        except Exception as error:  # noqa: BLE001  # any error of NATS or of the file: tried again
            _log.info("cell=%d signals not sent: %r", cell, error)
            await self._clock.sleep(RETRY_S)

    # -- from other nodes ----------------------------------------------------------------------------------

    async def receive(self, cells: Collection[int], is_over: Callable[[], bool]) -> None:
        """Receive signals for pages of these cells until `is_over`."""
        while not is_over():
            subscriptions = []
            try:
                for cell in cells:
                    subscribe = partial(self._wire.client.subscribe, self._subject(cell), cb=self._on_message)
                    subscriptions.append(await self._wire.retry(subscribe, self._clock))
                while not is_over():  # another thread ends it
                    await self._clock.sleep(CHECK_S)
            except Exception as error:  # noqa: BLE001  # any error of NATS: tried again
                _log.warning("signals of other nodes not received: %r", error)
                await self._clock.sleep(RETRY_S)
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
        except UNDECODABLE as error:  # answered: the next try would end the same
            _log.warning("signals of another node cannot be read: %s", error)
        with contextlib.suppress(Exception):  # without an answer they are sent again
            await message.respond(b"")
