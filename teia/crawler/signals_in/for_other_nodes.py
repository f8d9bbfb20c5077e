"""Announcements of pages that another node crawls: messages to the owners of their cells, in the outbox of this node.

A site pings any node it knows, and a cache announces to the node beside it, but the owner of the page's cell visits the
page. So a due announcement that belongs to another node moves to the outbox, in a message to the owner of its cell
(cluster/crawl/signals.py). Pages are sent with the time of their announcement. A key that was not checked is sent with
the URLs that wait for it and their times, because only the owner may fetch the key file from the site. Proven keys
stay; the next owner has them proved anew.

An announcement is in the outbox before it is deleted, so a crash may send it twice (cluster/crawl/signals.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

import msgspec

from teia.signals.announce import Announcement, AnnouncementInbox
from teia.signals.indexnow import IndexNowKey, IndexNowKeys, IndexNowPing
from teia.sqlite import transaction
from teia.urls import split

MAX_URLS = 200
MAX_BYTES = 256 << 10
"""Maximum number and length of the URLs in one message, with what belongs to each; NATS refuses a megabyte."""


class ForwardedSignals(msgspec.Struct, array_like=True, frozen=True):
    """Message to the owner of a cell: announced pages, and pings whose keys were not checked yet."""

    announced: list[Announcement] = []
    pings: list[IndexNowPing] = []


Item = TypeVar("Item")
Message = tuple[int, ForwardedSignals]
"""The number of the receiving cell, and the message for its owner."""


@dataclass(frozen=True, slots=True)
class HostOwners:
    """Owners of hosts, as this node knows them; one machine owns all.

    `send_by_log` sends messages the way of older nodes, if there are any; else it returns False.
    """

    cell_number: Callable[[str], int]
    is_here: Callable[[str], bool] = lambda _: True
    send_by_log: Callable[[Sequence[Message]], bool] = lambda _: False

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
