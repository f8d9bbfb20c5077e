"""Announcements of pages that another node crawls: messages to the owners of their cells, in the outbox of this node.

A site pings any node it knows, and a cache announces to the node beside it, but the owner of the page's cell visits the
page. So a due announcement that belongs to another node moves to the outbox, in a message to the owner of its cell
(cluster/crawl/signals.py). Pages are sent with the time of their announcement. A key that was not checked is sent with
the URLs that wait for it and their times, because only the owner may fetch the key file from the site. Proven keys
stay; the next owner has them proved anew.

An announcement is in the outbox before it is deleted. One that arrives twice is one announcement (announce.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import msgspec

from teia.signals.announce import Announcement, AnnouncementInbox
from teia.signals.indexnow import IndexNowKey, IndexNowKeys, IndexNowPing
from teia.sqlite import transaction
from teia.urls import split

MAX_URLS = 200
"""Maximum number of URLs in one message; the length of a URL is bounded."""


class ForwardedSignals(msgspec.Struct, array_like=True, frozen=True):
    """Message to the owner of a cell: announced pages, and pings whose keys were not checked yet."""

    announced: list[Announcement] = []
    pings: list[IndexNowPing] = []


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

    def forward(self, inbox: AnnouncementInbox, kind: str, due: Sequence[Announcement]) -> list[Announcement]:
        """Post announcements that belong to other nodes; return them."""
        away = [each for each in due if not self.is_here(split(each.url).host)]
        by_cell: defaultdict[int, list[Announcement]] = defaultdict(list)
        for each in away:
            by_cell[self.cell_number(split(each.url).host)].append(each)
        self._post(inbox, kind, [
            (cell, ForwardedSignals(announced=those[at : at + MAX_URLS]))
            for cell, those in by_cell.items() for at in range(0, len(those), MAX_URLS)
        ])  # fmt: skip
        return away

    def forward_keys(
        self, inbox: AnnouncementInbox, kind: str, keys: Iterable[IndexNowKey]
    ) -> dict[IndexNowKey, list[str]]:
        """Post keys that other nodes must check, with the URLs that wait for them; return the URLs."""
        waiting = {key: IndexNowKeys(inbox.db).waiting_for(key) for key in keys}
        by_cell: dict[int, list[list[IndexNowPing]]] = {}
        for key, waiting_urls in waiting.items():
            # The last list is the message being filled.
            bulks = by_cell.setdefault(self.cell_number(key.host), [[]])
            for ping in _pings(key, waiting_urls):
                if sum(len(each.urls) for each in bulks[-1]) + len(ping.urls) > MAX_URLS:
                    bulks.append([])
                bulks[-1].append(ping)
        self._post(inbox, kind, [
            (cell, ForwardedSignals(pings=pings)) for cell, bulks in by_cell.items() for pings in bulks if pings
        ])  # fmt: skip
        return {key: [url for url, _ in waiting_urls] for key, waiting_urls in waiting.items()}

    def _post(self, inbox: AnnouncementInbox, kind: str, messages: Sequence[Message]) -> None:
        if messages and not self.send_by_log(messages):
            with transaction(inbox.db):
                for cell, message in messages:
                    urls = len(message.announced) + sum(len(ping.urls) for ping in message.pings)
                    inbox.post(kind, cell, msgspec.msgpack.encode(message), urls)


def _pings(key: IndexNowKey, waiting_urls: Iterable[tuple[str, float]]) -> Iterator[IndexNowPing]:
    """Yield the waiting URLs of a key as pings: the URLs of one time are one message, if it is not too long."""
    for reported_s, those in groupby(waiting_urls, key=itemgetter(1)):
        urls = [url for url, _ in those]
        for at in range(0, len(urls), MAX_URLS):
            yield IndexNowPing(*key[:3], tuple(urls[at : at + MAX_URLS]), 0, reported_s)
