"""Hubs of feeds (WebSub), between the crawl that finds them, the courier that asks them and the server that hears them.

A hub is somebody's server like others: asked through the address guard, with our User-Agent, one question at a time and
with the collection's rest between two, `courtesy.delay_s`. Its answer is only whether it was understood; the rest comes
to our callback (web/pages/hubs.py).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from teia.clock import Clock
from teia.config import Config
from teia.crawl.announced import open_inbox
from teia.crawl.posting import Poster, is_taken, said
from teia.durable import disk_errors
from teia.fetch.fetcher import Post
from teia.frontier.database import open_database, sqlite_errors
from teia.signals import websub
from teia.signals.announce import Announcement, transaction
from teia.signals.websub import MEDIA_TYPE, REFUSED, TRIES, WEBSUB, Hubs, base_of, question
from teia.store.root import CollectionFolder
from teia.urls import split

LOOKED_AT = 50
PAGES_OF_A_PUSH = 100
"""Pages that one push can announce beside its feed."""


def open_hubs(path: Path) -> Hubs:
    """Open a collection's hubs; the file is made if it is missing, for its owner alone."""
    if not path.exists():
        with disk_errors(path, "created"):
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    return Hubs(open_database(path, websub.DDL, websub.VERSION, websub.PRAGMAS))


@contextmanager
def opened(folder: CollectionFolder) -> Iterator[Hubs]:
    """The same for a moment."""
    with closing(open_hubs(folder.hubs)) as hubs, sqlite_errors(folder.hubs):
        yield hubs


def callback_base(config: Config) -> str:
    """Where hubs reach the collection: an address to which a key is added; empty where it wants none."""
    base = base_of(config.signals.websub)
    return f"{base}/websub/{config.collection.name}" if base else ""


def keep_found(path: Path, found: Iterable[tuple[str, str, str]], config: Config, now_s: float) -> None:
    """Write down the hubs that feeds named: (feed, what it calls itself, hub)."""
    base = callback_base(config)
    if base:
        with closing(open_hubs(path)) as hubs, sqlite_errors(path):
            for feed, topic, hub in dict.fromkeys(found):
                hubs.found(feed, topic, hub, base, now_s)


class HubRound:
    """Asks hubs what is due, for one collection; lives with the courier."""

    def __init__(self, path: Path, config: Config, poster: Poster, clock: Clock) -> None:
        self._path, self._config, self._poster, self._clock = path, config, poster, clock
        self._hubs = open_hubs(path)
        self._rests: dict[str, float] = {}
        if not callback_base(config):
            self._hubs.unwant_all(clock.now_s())

    async def turn(self) -> int:
        """Ask one hub of each host that may be asked now; returns how many were."""
        now, asked = self._clock.ticks_s(), 0
        self._rests = {host: until for host, until in self._rests.items() if until > now}
        with sqlite_errors(self._path):
            for topic in self._hubs.due(self._clock.now_s(), LOOKED_AT):
                host = split(topic.hub).host
                if host in self._rests:
                    continue
                if topic.tries >= TRIES and topic.state != REFUSED:
                    self._hubs.refused(topic, topic.outcome, self._clock.now_s())
                    continue
                self._hubs.ask(topic, self._clock.now_s())
                fetched = await self._poster.post(topic.hub, Post(question(topic), MEDIA_TYPE))
                self._rests[host] = self._clock.ticks_s() + max(1.0, self._config.courtesy.delay_s)
                if not is_taken(fetched):
                    self._hubs.refused(topic, said(fetched), self._clock.now_s())
                asked += 1
        return asked

    def close(self) -> None:
        self._hubs.close()


# ---- what a hub says ------------------------------------------------------------------------------------------------


def announce_push(folder: CollectionFolder, feed: str, pages: Iterable[str], clock: Clock) -> int:
    """Let a feed, and pages that its push brought, be visited soon; returns how many there was room for."""
    now_s = clock.now_s()
    urls = [feed, *list(dict.fromkeys(pages))[:PAGES_OF_A_PUSH]]
    with closing(open_inbox(folder.signals)) as inbox, sqlite_errors(folder.signals), transaction(inbox.db):
        inbox.count(WEBSUB, {"received": len(urls)})
        return inbox.put(Announcement(url, WEBSUB, now_s, now_s) for url in urls)


def count_push(folder: CollectionFolder, what: str) -> None:
    """Count a push that is ignored."""
    with closing(open_inbox(folder.signals)) as inbox, sqlite_errors(folder.signals):
        inbox.count(WEBSUB, {what: 1})


def states_in(folder: CollectionFolder) -> Mapping[str, int]:
    """How many feeds have a hub in which state."""
    if not folder.hubs.exists():
        return {}
    with opened(folder) as hubs:
        return Counter(each.state for each in hubs.all())
