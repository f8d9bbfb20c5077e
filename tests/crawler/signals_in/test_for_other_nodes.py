"""Announcements of pages that another node crawls: sent there whole, once, and not forgotten before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest

from teia.clock import VirtualClock
from teia.crawler.signals_in.for_other_nodes import MAX_URLS, ForwardedSignals, HostOwners, Message, store_forwarded
from teia.crawler.signals_in.indexnow import (
    INDEXNOW,
    KEY_FILE,
    forward_key_files,
    prove_keys,
    receive,
    receive_forwarded,
)
from teia.errors import ClusterError
from teia.frontier.cell.cell import FrontierCell
from teia.signals.announce import PROXY, Announcement, AnnouncementInbox, open_inbox
from teia.signals.indexnow import IndexNowKeys, read_ping
from tests.crawler.offline import offline_crawl

KEY = "0123456789abcdef"
HERE, THERE = "http://a.test/", "http://b.test/"


class Others:
    """Another node, which keeps all hosts but a.test, and may be away."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.times = 0
        self.is_away = False
        self.meanwhile: Callable[[], object] = lambda: None

    @property
    def elsewhere(self) -> HostOwners:
        return HostOwners(lambda host: 7 if host == "b.test" else 0, lambda host: host == "a.test", self._send)

    def _send(self, messages: Sequence[Message]) -> None:
        if self.is_away:
            raise ClusterError("away")
        self.times += 1
        for cell, passed in messages:
            bulk = msgspec.msgpack.encode(passed)
            self.sent.append((cell, msgspec.msgpack.decode(bulk, type=ForwardedSignals)))
        self.meanwhile()


def waiting(inbox: AnnouncementInbox, kind: str) -> list[Announcement]:
    return inbox.due(kind, 1e12, 10_000)


def test_what_is_for_others_is_sent_and_then_forgotten_and_what_is_ours_is_taken(tmp_path: Path) -> None:
    others = Others()
    with offline_crawl({HERE: "<p>one"}, tmp_path, HERE, signals__indexnow=True) as crawl:
        announced = crawl.crawl.committer.announced
        assert announced is not None
        announced.owners = others.elsewhere
        inbox = announced._inbox
        assert inbox is not None
        given = [Announcement(url, kind, 5.0, 6.0, 2) for url in (HERE, THERE) for kind in (PROXY, INDEXNOW)]
        inbox.put(given)
        others.is_away = True
        with pytest.raises(ClusterError, match="away"):
            announced._take_due(inbox, PROXY, 10.0, 64)
        assert len(waiting(inbox, PROXY)) == 2
        others.is_away = False
        for kind in (PROXY, INDEXNOW):
            assert [each.url for each in announced._take_due(inbox, kind, 10.0, 64)] == [HERE]
            assert not waiting(inbox, kind)
        assert others.sent == [(7, ForwardedSignals([each])) for each in given if each.url == THERE]


def nobody(host: str) -> FrontierCell:
    raise AssertionError(f"{host} is not crawled here")


def test_a_key_that_others_have_to_look_at_goes_with_all_that_waits_for_it(tmp_path: Path) -> None:
    others, path, clock = Others(), tmp_path / "signals.sqlite", VirtualClock()
    urls = [f"{THERE}p{number}" for number in range(2 * MAX_URLS + 1)]
    assert receive(path, read_ping(KEY, urls), clock) == "asked"
    inbox = open_inbox(path)
    keys = IndexNowKeys(inbox.db)
    others.is_away = True
    with pytest.raises(ClusterError, match="away"):
        prove_keys(inbox, keys, nobody, clock.now_s(), others.elsewhere)
    assert len(keys.pending_keys(10)) == 1
    others.is_away = False
    prove_keys(inbox, keys, nobody, clock.now_s(), others.elsewhere)
    assert not keys.pending_keys(10)
    assert inbox.counts()[INDEXNOW]["passed_on"] == len(urls)
    inbox.close()
    assert [len(passed.pings[0].urls) for _, passed in others.sent] == [MAX_URLS, MAX_URLS, 1]

    far = open_inbox(tmp_path / "far.sqlite")  # whoever keeps b.test, and has heard of no key yet
    for _ in range(2):  # what comes twice is one announcement
        for cell, passed in others.sent:
            assert cell == 7
            store_forwarded(far, passed, partial(receive_forwarded, now_s=clock.now_s()))
    (key,) = IndexNowKeys(far.db).pending_keys(10)
    assert sorted(url for url, _ in IndexNowKeys(far.db).waiting_for(key)) == sorted(urls)
    assert [each.url for each in waiting(far, KEY_FILE)] == [f"{THERE}{KEY}.txt"]
    far.close()


def test_pings_of_a_key_that_is_being_forwarded_are_forwarded_with_the_next_check(tmp_path: Path) -> None:
    """`teia serve` writes to the same inbox at any time, and has answered that it was taken."""
    others, path, clock = Others(), tmp_path / "signals.sqlite", VirtualClock()
    assert receive(path, read_ping(KEY, [f"{THERE}one"]), clock) == "asked"
    others.meanwhile = lambda: receive(path, read_ping(KEY, [f"{THERE}two"]), clock)
    inbox = open_inbox(path)
    keys = IndexNowKeys(inbox.db)
    prove_keys(inbox, keys, nobody, clock.now_s(), others.elsewhere)
    assert len(keys.pending_keys(10)) == 1
    others.meanwhile = lambda: None
    prove_keys(inbox, keys, nobody, clock.now_s(), others.elsewhere)
    assert [passed.pings[0].urls for _, passed in others.sent] == [(f"{THERE}one",), (f"{THERE}two",)]
    assert not keys.pending_keys(10)
    assert inbox.counts()[INDEXNOW]["passed_on"] == 2
    inbox.close()


def test_a_key_whose_host_becomes_ours_before_it_was_sent_is_looked_for_here(tmp_path: Path) -> None:
    """Else its file is visited by nobody, and after a week the site's own pages count as forged."""
    others = Others()
    with offline_crawl({HERE: "<p>one"}, tmp_path, HERE, signals__indexnow=True) as crawl:
        announced, clock = crawl.crawl.committer.announced, VirtualClock()
        assert announced is not None
        announced.owners = others.elsewhere
        inbox = announced._inbox
        assert inbox is not None
        receive(announced._path, read_ping(KEY, [f"{THERE}page"]), clock)
        receive(announced._path, read_ping("other-key-1", [f"{THERE}x"], f"{THERE}{KEY}.txt"), clock)  # the same file
        others.is_away = True
        with pytest.raises(ClusterError, match="away"):
            announced._take_due(inbox, KEY_FILE, 1e12, 64)
        assert [each.url for each in waiting(inbox, KEY_FILE)] == [f"{THERE}{KEY}.txt"]
        others.is_away = False
        assert not announced._take_due(inbox, KEY_FILE, 1e12, 64)
        assert not waiting(inbox, KEY_FILE)
        assert not IndexNowKeys(inbox.db).pending_keys(10)
        assert {ping.key for _, passed in others.sent for ping in passed.pings} == {KEY, "other-key-1"}


def test_a_key_file_that_no_key_needs_any_more_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "signals.sqlite"
    receive(path, read_ping(KEY, [f"{THERE}page"]), VirtualClock())
    inbox = open_inbox(path)
    (key,) = IndexNowKeys(inbox.db).pending_keys(10)
    IndexNowKeys(inbox.db).remove(key, [f"{THERE}page"])
    others = Others()
    assert not forward_key_files(inbox, waiting(inbox, KEY_FILE), others.elsewhere)
    assert not waiting(inbox, KEY_FILE)
    assert not others.sent
    inbox.close()


def test_all_keys_of_one_look_are_sent_at_once_and_those_of_a_cell_together(tmp_path: Path) -> None:
    """Whoever forges pings can have one record a look written, and not one for each."""
    others, path, clock = Others(), tmp_path / "signals.sqlite", VirtualClock()
    hosts = ["b.test", *(f"h{number}.test" for number in range(9))]
    for host in hosts:
        for number in range(3):
            receive(path, read_ping(f"forged-{number}", [f"http://{host}/x"]), clock)
    inbox = open_inbox(path)
    assert not forward_key_files(inbox, waiting(inbox, KEY_FILE), others.elsewhere)
    assert others.times == 1
    assert sorted((cell, len(passed.pings)) for cell, passed in others.sent) == [(0, 27), (7, 3)]
    assert not IndexNowKeys(inbox.db).pending_keys(100)
    assert not waiting(inbox, KEY_FILE)
    prove_keys(inbox, IndexNowKeys(inbox.db), nobody, clock.now_s(), others.elsewhere)
    assert others.times == 1
    inbox.close()


def test_pages_wait_for_their_key_from_their_report_on_and_are_received_once(tmp_path: Path) -> None:
    """However often the host's keeper changes: else a week may begin anew each time."""
    others, path, clock = Others(), tmp_path / "signals.sqlite", VirtualClock()
    told = []
    for number in range(3):
        asyncio.run(clock.advance(60.0))
        told.append((f"{THERE}p{number}", clock.now_s()))
        receive(path, read_ping(KEY, [f"{THERE}p{number}"]), clock)
    inbox = open_inbox(path)
    prove_keys(inbox, IndexNowKeys(inbox.db), nobody, clock.now_s(), others.elsewhere)
    assert inbox.counts()[INDEXNOW] == {"received": 3, "passed_on": 3}
    inbox.close()
    asyncio.run(clock.advance(3600.0))
    far = open_inbox(tmp_path / "far.sqlite")
    for _, passed in others.sent:
        store_forwarded(far, passed, partial(receive_forwarded, now_s=clock.now_s()))
    keys = IndexNowKeys(far.db)
    (key,) = keys.pending_keys(10)
    assert key.since_s == clock.now_s()
    assert keys.waiting_for(key) == told
    assert not far.counts().get(INDEXNOW)
    keys.settle(key, is_proved=True, now_s=clock.now_s())
    for _, passed in others.sent:
        store_forwarded(far, passed, partial(receive_forwarded, now_s=clock.now_s()))
    assert sorted((each.url, each.reported_s) for each in waiting(far, INDEXNOW)) == told
    far.close()
