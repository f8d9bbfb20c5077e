"""Hubs of feeds (WebSub): found by the crawl, subscribed to by the courier, received from by the server.

A hub is a server like others: requested through the address guard, with the crawler's User-Agent, one request at a
time, and with a delay of `courtesy.delay_s` between two, for all collections (outgoing.py). Its answer only
acknowledges the request; the result comes to the callback (web/pages/inbound/websub.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from teia.clock import Clock
from teia.config.sections import Config
from teia.crawler.signals_in.inbox import open_inbox
from teia.crawler.signals_in.outgoing import HUBS, Poster, PostsUnderWay, ReceiverStates, is_taken, said
from teia.errors import TeiaError
from teia.fetch.fetcher import PostBody
from teia.frontier.cell.database import PRIVATE, open_database, sqlite_errors, unless_busy
from teia.signals import websub
from teia.signals.announce import Announcement, transaction
from teia.signals.websub import MEDIA_TYPE, WEBSUB, Hubs, HubTopic, base_of, question
from teia.store.root import CollectionFolder

LOOKED_AT = 500
"""Number of hosts of hubs, one request each, that are checked in a turn."""

PAGES_OF_A_PUSH = 100
"""Number of pages that one push can announce beside its feed."""


def open_hubs(path: Path) -> Hubs:
    """Open a collection's hubs; the file is made if it is missing, readable for its owner alone."""
    return Hubs(open_database(path, websub.DDL, websub.VERSION, websub.PRAGMAS, mode=PRIVATE))


@contextmanager
def opened(folder: CollectionFolder) -> Iterator[Hubs]:
    """Open a collection's hubs for the block."""
    with closing(open_hubs(folder.hubs)) as hubs, sqlite_errors(folder.hubs):
        yield hubs


def callback_base(config: Config) -> str:
    """Return the base of the collection's callback addresses, to which a key is added; empty without WebSub."""
    base = base_of(config.signals.websub)
    return f"{base}/websub/{config.collection.name}" if base else ""


def keep_found(path: Path, found: Iterable[tuple[str, str, str]], config: Config, now_s: float) -> bool:
    """Store the hubs that feeds named, as (feed, topic, hub); return False while another process writes."""
    base = callback_base(config)
    is_kept = not base
    if base:
        with closing(open_hubs(path)) as hubs, sqlite_errors(path), unless_busy():
            with transaction(hubs.db):
                for feed, topic, hub in dict.fromkeys(found):
                    hubs.found(feed, topic, hub, base, now_s)
            is_kept = True
    return is_kept


class HubRound:
    """Sends due requests to hubs, for one collection; lives with the courier."""

    def __init__(self, path: Path, config: Config, poster: Poster, places: ReceiverStates, clock: Clock) -> None:
        self._path, self._places, self._clock = path, places, clock
        self._is_wanted, self._rest_s = bool(callback_base(config)), max(1.0, config.courtesy.delay_s)
        self._under_way: PostsUnderWay[HubTopic] = PostsUnderWay(HUBS, poster, places)
        self._hubs = open_hubs(path)

    def turn(self) -> int:
        """Settle answers and send a request to one hub of each free host; return the number of messages in progress.

        A crawl that began before the setting was emptied may still find hubs, so the setting is checked each time.
        """
        with sqlite_errors(self._path):
            settled = self._settle()
            if not self._is_wanted:
                self._hubs.unwant_all(self._clock.now_s())
            for topic in self._hubs.due(self._clock.now_s(), LOOKED_AT):
                # Tried too often: the topic is given up with its last outcome.
                if topic.is_over:
                    self._hubs.refused(topic, topic.outcome, self._clock.now_s())
                elif self._places.is_free(topic.hub) and self._places.has_room(HUBS):
                    # Stored before it is sent, because a hub may call back before it answers.
                    self._hubs.ask(topic, self._clock.now_s())
                    asked = PostBody(question(topic), MEDIA_TYPE)
                    self._under_way.start(topic, topic.hub, asked, rest_s=self._rest_s, after_s=self._rest_s)
        return settled + len(self._under_way)

    def _settle(self) -> int:
        finished = self._under_way.finished()
        for topic, fetched in finished:
            if not is_taken(fetched):
                self._hubs.refused(topic, said(fetched), self._clock.now_s())
        return len(finished)

    async def close(self) -> None:
        """Store the received answers and close."""
        with suppress(TeiaError), sqlite_errors(self._path):
            self._settle()
        await self._under_way.close()
        self._hubs.close()


# ---- pushes of a hub ------------------------------------------------------------------------------------------------


def announce_push(folder: CollectionFolder, feed: str, pages: Iterable[str], clock: Clock) -> int:
    """Queue a feed, and the pages of its push, for an early visit; return the number that had room."""
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
    """Return the number of feeds by the state of their hub."""
    if not folder.hubs.exists():
        return {}
    with opened(folder) as hubs:
        return Counter(each.state for each in hubs.all())
