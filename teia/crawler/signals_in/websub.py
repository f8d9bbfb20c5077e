"""Hubs of feeds (WebSub): found by the crawl, subscribed to by the notifier, received from by the server.

A hub is a server like others: requested through the address guard, with the crawler's User-Agent, one request at a
time, and with a delay of `courtesy.delay_s` between two, for all collections (outgoing.py). Its answer only
acknowledges the request; the result comes to the callback (web/pages/inbound/websub.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from teia.clock import Clock
from teia.config.sections import Config
from teia.crawler.signals_in.outgoing import HUBS, Poster, PostsUnderWay, ReceiverStates, is_accepted, refusal_text
from teia.errors import TeiaError
from teia.fetch.fetcher import PostBody
from teia.signals import websub
from teia.signals.announce import Announcement, open_inbox
from teia.signals.websub import (
    ACCEPTED,
    CONFIRMED,
    DENIED,
    MAX_PUSH_BYTES,
    MEDIA_TYPE,
    REFUSAL_NOTED,
    WEBSUB,
    HubCall,
    Hubs,
    HubTopic,
    HubVerdict,
    is_signed,
    parse_base_url,
    request_form,
)
from teia.sqlite import open_database, sqlite_errors, transaction, unless_busy
from teia.store.root import CollectionFolder
from teia.urls import host_of

CHECKED_AT_ONCE = 500
"""Number of hosts of hubs, one request each, that are checked in a turn."""

PAGES_OF_A_PUSH = 100
"""Number of pages that one push can announce beside its feed."""


def open_hubs(path: Path) -> Hubs:
    """Open a collection's hubs; the file is made if it is missing, readable for its owner alone."""
    return Hubs(open_database(path, websub.SCHEMA))


@contextmanager
def open_collection_hubs(folder: CollectionFolder) -> Iterator[Hubs]:
    """Open a collection's hubs for the block."""
    with closing(open_hubs(folder.hubs)) as hubs, sqlite_errors(folder.hubs):
        yield hubs


def callback_base(config: Config) -> str:
    """Return the base of the collection's callback addresses, to which a key is added; empty without WebSub."""
    base = parse_base_url(config.signals.websub)
    return f"{base}/websub/{config.collection.name}" if base else ""


def store_hubs(path: Path, found: Iterable[tuple[str, str, str]], config: Config, now_s: float) -> bool:
    """Store the hubs that feeds named, as (feed, topic, hub); return False while another process writes."""
    base = callback_base(config)
    is_stored = not base
    if base:
        with closing(open_hubs(path)) as hubs, sqlite_errors(path), unless_busy():
            with transaction(hubs.db):
                for feed, topic, hub in dict.fromkeys(found):
                    hubs.record_hub(feed, topic, hub, base, now_s)
            is_stored = True
    return is_stored


class HubRound:
    """Sends due requests to hubs, for one collection; lives with the notifier."""

    def __init__(self, path: Path, config: Config, poster: Poster, receivers: ReceiverStates, clock: Clock) -> None:
        self._path, self._receivers, self._clock = path, receivers, clock
        self._is_wanted, self._delay_s = bool(callback_base(config)), max(1.0, config.courtesy.delay_s)
        self._under_way: PostsUnderWay[HubTopic] = PostsUnderWay(HUBS, poster, receivers)
        self._hubs = open_hubs(path)

    def step(self) -> int:
        """Settle answers and send a request to one hub of each free host; return the number of messages in progress.

        A crawl that began before the setting was emptied may still find hubs, so the setting is checked each time.
        """
        with sqlite_errors(self._path):
            settled = self._settle()
            if not self._is_wanted:
                self._hubs.unsubscribe(self._clock.now_s())
            for topic in self._hubs.due(self._clock.now_s(), CHECKED_AT_ONCE):
                # Tried too often: the topic is given up with its last outcome.
                if topic.is_over:
                    self._hubs.record_refusal(topic, topic.outcome, self._clock.now_s())
                elif self._receivers.is_free(topic.hub) and self._receivers.has_room(HUBS):
                    # Stored before it is sent, because a hub may call back before it answers.
                    self._hubs.record_request(topic, self._clock.now_s())
                    message = PostBody(request_form(topic), MEDIA_TYPE)
                    self._under_way.start(topic, topic.hub, message, delay_s=self._delay_s, after_s=self._delay_s)
        return settled + len(self._under_way)

    def _settle(self) -> int:
        finished = self._under_way.finished()
        for topic, fetched in finished:
            if not is_accepted(fetched):
                self._hubs.record_refusal(topic, refusal_text(fetched), self._clock.now_s())
        return len(finished)

    async def close(self) -> None:
        """Store the received answers and close."""
        with suppress(TeiaError), sqlite_errors(self._path):
            self._settle()
        await self._under_way.close()
        self._hubs.close()


# ---- calls of a hub -------------------------------------------------------------------------------------------------


def judge_call(folder: CollectionFolder, call: HubCall, now_s: float) -> HubVerdict | None:
    """Judge a hub's call, and note what it changes; None if no subscription in this folder has its key."""
    if not folder.hubs.exists():
        return None
    with open_collection_hubs(folder) as hubs:
        known = hubs.with_key(call.key)
        if known is None:
            return None
        verdict = ""
        if call.mode == DENIED:
            verdict = REFUSAL_NOTED if hubs.deny(known, call.topic, call.reason, now_s) else ""
        elif call.mode:
            verdict = CONFIRMED if hubs.confirm(known, call.mode, call.topic, call.lease_s, now_s) else ""
        elif len(call.body) > MAX_PUSH_BYTES:
            verdict = "oversized"
        elif not is_signed(known.secret, call.signature, call.body):
            verdict = "forged" if call.signature else "unsigned"
        else:
            verdict = ACCEPTED if hubs.is_push_expected(known, now_s) else "unasked"
    return HubVerdict(verdict, known.feed)


def end_subscriptions(folder: CollectionFolder, is_over: Callable[[str], bool], now_s: float) -> None:
    """End the subscriptions to feeds of hosts that another node crawls by now."""
    if folder.hubs.exists():
        with open_collection_hubs(folder) as hubs, unless_busy():
            hubs.unsubscribe(now_s, lambda feed: is_over(host_of(feed)))


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
    with open_collection_hubs(folder) as hubs:
        return Counter(each.state for each in hubs.all())
