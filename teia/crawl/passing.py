"""Announcements of pages that another node crawls: taken out of the inbox where they came in, and put into its own.

A site pings whichever node it knows, and a cache announces to the node beside it; who visits the page is the keeper of
its cell. So whatever is due here and belongs elsewhere is sent there as it is: pages with when they were announced, and
a key that was not looked at with what waits for it, and since when, because only the keeper may ask the site for its
file. Keys that were proved stay; the next keeper has them proved anew.

An announcement is sent before it is forgotten. One that comes twice is one announcement (announce.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import msgspec

from teia.signals.announce import Announcement, Inbox, transaction
from teia.signals.indexnow import Key, Keys, Ping
from teia.urls import split

URLS_MOST = 200
"""Of one message; each is bounded by what a URL may be."""

MESSAGES_MOST = 16
"""That are sent at once; far less than NATS takes."""


class Passed(msgspec.Struct, array_like=True, frozen=True):
    """What one node tells the keeper of a cell: pages that were announced, and pings whose keys nobody has seen."""

    announced: list[Announcement] = []
    pings: list[Ping] = []


Message = tuple[int, Passed]
"""The cell whose keeper it is for."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where hosts are crawled, as a node knows it. `send` raises where nothing can be sent now; then nothing was."""

    is_here: Callable[[str], bool]
    number_of: Callable[[str], int]
    send: Callable[[Sequence[Message]], None]

    def pass_on(self, due: Sequence[Announcement]) -> list[Announcement]:
        """Send announcements that are for others; returns them."""
        away = [each for each in due if not self.is_here(split(each.url).host)]
        by_cell: defaultdict[int, list[Announcement]] = defaultdict(list)
        for each in away:
            by_cell[self.number_of(split(each.url).host)].append(each)
        self._send_all([
            (cell, Passed(announced=those[at : at + URLS_MOST]))
            for cell, those in by_cell.items() for at in range(0, len(those), URLS_MOST)
        ])  # fmt: skip
        return away

    def pass_keys_on(self, keys: Keys, those: Iterable[Key]) -> dict[Key, list[str]]:
        """Send keys that other nodes have to look at, with what waits for them; returns the URLs that were sent."""
        waiting = {key: keys.waiting_for(key) for key in those}
        by_cell: dict[int, list[list[Ping]]] = {}
        for key, told in waiting.items():
            bulks = by_cell.setdefault(self.number_of(key.host), [[]])
            for ping in _pings(key, told):
                if sum(len(each.urls) for each in bulks[-1]) + len(ping.urls) > URLS_MOST:
                    bulks.append([])
                bulks[-1].append(ping)
        self._send_all([(cell, Passed(pings=pings)) for cell, bulks in by_cell.items() for pings in bulks if pings])
        return {key: [url for url, _ in told] for key, told in waiting.items()}

    def _send_all(self, messages: Sequence[Message]) -> None:
        for at in range(0, len(messages), MESSAGES_MOST):
            self.send(messages[at : at + MESSAGES_MOST])


def _pings(key: Key, told: Iterable[tuple[str, float]]) -> Iterator[Ping]:
    """What waits for a key, as it came: what was said at one time is one message, if it is not too long."""
    for said_s, those in groupby(told, key=itemgetter(1)):
        urls = [url for url, _ in those]
        for at in range(0, len(urls), URLS_MOST):
            yield Ping(*key[:3], tuple(urls[at : at + URLS_MOST]), 0, said_s)


def take_passed(inbox: Inbox, passed: Passed, receive: Callable[[Inbox, Ping], object]) -> None:
    """Put what another node sent into our inbox, as if it had come in here."""
    keys = Keys(inbox.db)
    if passed.pings and not keys.are_there:
        keys.prepare()  # before the transaction, which it would end
    with transaction(inbox.db):
        inbox.put(passed.announced)
        for ping in passed.pings:
            receive(inbox, ping)
