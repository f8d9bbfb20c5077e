"""Announcements of pages that another node crawls: posted whole, once, and not forgotten before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from teia.clock import VirtualClock
from teia.cluster.crawl.signals import MAX_URLS, ForwardedSignals, Message, SignalForwarding
from teia.crawler.ownership import HostOwners
from teia.crawler.signals_in.indexnow import INDEXNOW, KEY_FILE, prove_keys, receive, take_key_files
from teia.errors import ClusterError
from teia.frontier.cell.cell import FrontierCell
from teia.signals.announce import EXPIRY_S, PROXY, Announcement, AnnouncementInbox, counts_in, open_inbox
from teia.signals.indexnow import IndexNowKeys, read_ping
from tests.crawler.offline import offline_crawl

KEY = "0123456789abcdef"
HERE, THERE = "http://a.test/", "http://b.test/"


class Others:
    """Another node, which owns all hosts but a.test; `meanwhile` happens while something is posted to it."""

    def __init__(self) -> None:
        self.times = 0
        self.meanwhile: Callable[[], object] = lambda: None

    @property
    def elsewhere(self) -> HostOwners:
        forwarding = SignalForwarding(
            lambda host: 7 if host == "b.test" else 0, lambda host: host == "a.test", self._by_log
        )
        return forwarding.owners

    def _by_log(self, messages: Sequence[Message]) -> bool:
        assert messages
        self.times += 1
        self.meanwhile()
        return False


def fail() -> None:
    raise ClusterError("killed")


def posted(inbox: AnnouncementInbox) -> list[Message]:
    """The messages that wait for other nodes, the oldest first."""
    rows = inbox.db.execute("SELECT cell, message, urls FROM outgoing ORDER BY number").fetchall()
    messages = [(cell, msgspec.msgpack.decode(message, type=ForwardedSignals)) for cell, message, _ in rows]
    counted = [len(each.announced) + sum(len(ping.urls) for ping in each.pings) for _, each in messages]
    assert counted == [urls for _, _, urls in rows]
    return messages


def waiting(inbox: AnnouncementInbox, kind: str) -> list[Announcement]:
    return inbox.due(kind, 1e12, 10_000)


def test_what_is_for_others_is_posted_and_then_forgotten_and_what_is_ours_is_taken(tmp_path: Path) -> None:
    others = Others()
    with offline_crawl({HERE: "<p>one"}, tmp_path, HERE, signals__indexnow=True) as crawl:
        announced = crawl.crawl.committer.announced
        assert announced is not None
        announced.owners = others.elsewhere
        inbox = announced._inbox
        assert inbox is not None
        given = [Announcement(url, kind, 5.0, 6.0, 2) for url in (HERE, THERE) for kind in (PROXY, INDEXNOW)]
        inbox.put(given)
        others.meanwhile = fail
        with pytest.raises(ClusterError, match="killed"):
            announced._take_due(inbox, PROXY, 10.0, 64)
        assert len(waiting(inbox, PROXY)) == 2
        others.meanwhile = lambda: None
        for kind in (PROXY, INDEXNOW):
            assert [each.url for each in announced._take_due(inbox, kind, 10.0, 64)] == [HERE]
            assert not waiting(inbox, kind)
        assert posted(inbox) == [(7, ForwardedSignals([each])) for each in given if each.url == THERE]


def test_an_outbox_is_read_by_cell_and_what_arrived_is_removed(tmp_path: Path) -> None:
    with closing(open_inbox(tmp_path / "signals.sqlite")) as inbox:
        assert inbox.posted_to() == []
        for number, cell in enumerate([7, 0, 7, 3]):
            inbox.post(PROXY, cell, b"%d" % number, 1, 0.0)
        assert inbox.posted_to() == [0, 3, 7]
        got = []
        while (first := inbox.first_posted(7)) is not None:
            got.append(first[1])
            inbox.acknowledge(first[0])
        assert got == [b"0", b"2"]
        assert inbox.posted_to() == [0, 3]


def test_an_outbox_for_a_node_that_stays_away_is_bounded_and_drops_are_counted(tmp_path: Path) -> None:
    with closing(open_inbox(tmp_path / "signals.sqlite")) as inbox:
        small = AnnouncementInbox(inbox.db, most=10)
        for _ in range(3):
            small.post(PROXY, 7, b"message", 2, 0.0)
        assert len(inbox.db.execute("SELECT * FROM outgoing").fetchall()) == 2
    assert counts_in(tmp_path / "signals.sqlite") == {PROXY: {"passed_on": 4, "dropped": 2}}


def test_a_cell_without_an_owner_leaves_room_for_the_others(tmp_path: Path) -> None:
    """It filled the outbox, and the signals for all other nodes were dropped."""
    with closing(open_inbox(tmp_path / "signals.sqlite")) as inbox:
        small = AnnouncementInbox(inbox.db, most=100)
        for cell in (1, 2, 3):
            for _ in range(100):
                small.post(PROXY, cell, b"message", 1, 0.0)
        sql = "SELECT cell, sum(urls) FROM outgoing GROUP BY cell"
        assert inbox.db.execute(sql).fetchall() == [(1, 50), (2, 25), (3, 12)]


def test_a_message_expires_and_is_counted_as_dropped(tmp_path: Path) -> None:
    with closing(open_inbox(tmp_path / "signals.sqlite")) as inbox:
        inbox.post(PROXY, 7, b"old", 3, 0.0)
        inbox.post(INDEXNOW, 7, b"less old", 1, 1.0)
        inbox.post(INDEXNOW, 3, b"new", 2, EXPIRY_S + 0.5)
        assert inbox.posted_to() == [3, 7]
        assert inbox.first_posted(7) == (2, b"less old")
        assert inbox.counts() == {PROXY: {"passed_on": 0, "dropped": 3}, INDEXNOW: {"passed_on": 3}}


def test_an_outbox_without_times_gets_them_and_its_messages_stay(tmp_path: Path) -> None:
    path = tmp_path / "signals.sqlite"
    with closing(open_inbox(path)) as inbox:
        inbox.db.executescript("""
            DROP TABLE outgoing;
            CREATE TABLE outgoing (
                number INTEGER PRIMARY KEY, cell INTEGER NOT NULL, urls INTEGER NOT NULL, message BLOB NOT NULL
            );
            CREATE INDEX outgoing_by_cell ON outgoing (cell, number, urls);
            INSERT INTO outgoing VALUES (1, 7, 1, x'00');
        """)
    with closing(open_inbox(path)) as inbox:
        inbox.post(PROXY, 7, b"next", 1, 1e12)
        assert inbox.first_posted(7) == (1, b"\0")


def test_long_urls_are_posted_in_messages_that_nats_accepts(tmp_path: Path) -> None:
    """One ping of many long URLs was one message, which NATS refuses."""
    path, clock, others = tmp_path / "signals.sqlite", VirtualClock(), Others()
    urls = [f"{THERE}{number}{'x' * 20_000}" for number in range(100)]
    place = f"{THERE}{'k' * 20_000}/"
    for number in range(3):
        location = f"{place}{KEY}.txt" if number else ""
        receive(
            path, read_ping(f"{KEY}{number}", [f"{place if number else ''}{url}" for url in urls][:20], location), clock
        )
    with closing(open_inbox(path)) as inbox:
        others.elsewhere.forward(inbox, PROXY, [Announcement(url, PROXY, 5.0, 6.0) for url in urls], 0.0)
        prove_keys(inbox, IndexNowKeys(inbox.db), nobody, clock.now_s(), others.elsewhere)
        assert not IndexNowKeys(inbox.db).pending_keys(10)
        messages = posted(inbox)
        sent = [each.url for _, message in messages for each in message.announced]
        assert sent == urls
        lengths = [len(message) for (message,) in inbox.db.execute("SELECT message FROM outgoing")]
        assert max(lengths) < 512 << 10
        assert len(lengths) < 20


def nobody(host: str) -> FrontierCell:
    raise AssertionError(f"{host} is not crawled here")


def test_a_key_that_others_have_to_look_at_goes_with_all_that_waits_for_it(tmp_path: Path) -> None:
    others, path, clock = Others(), tmp_path / "signals.sqlite", VirtualClock()
    urls = [f"{THERE}p{number}" for number in range(2 * MAX_URLS + 1)]
    assert receive(path, read_ping(KEY, urls), clock) == "asked"
    inbox = open_inbox(path)
    keys = IndexNowKeys(inbox.db)
    others.meanwhile = fail
    with pytest.raises(ClusterError, match="killed"):
        prove_keys(inbox, keys, nobody, clock.now_s(), others.elsewhere)
    assert len(keys.pending_keys(10)) == 1
    others.meanwhile = lambda: None
    prove_keys(inbox, keys, nobody, clock.now_s(), others.elsewhere)
    assert not keys.pending_keys(10)
    assert inbox.counts()[INDEXNOW]["passed_on"] == len(urls)
    assert [cell for cell, _ in posted(inbox)] == [7, 7, 7]
    assert [len(passed.pings[0].urls) for _, passed in posted(inbox)] == [MAX_URLS, MAX_URLS, 1]
    inbox.close()


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
    assert [passed.pings[0].urls for _, passed in posted(inbox)] == [(f"{THERE}one",), (f"{THERE}two",)]
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
        receive(announced.path, read_ping(KEY, [f"{THERE}page"]), clock)
        receive(announced.path, read_ping("other-key-1", [f"{THERE}x"], f"{THERE}{KEY}.txt"), clock)  # the same file
        others.meanwhile = fail
        with pytest.raises(ClusterError, match="killed"):
            take_key_files(inbox, 1e12, 64, others.elsewhere)
        assert [each.url for each in waiting(inbox, KEY_FILE)] == [f"{THERE}{KEY}.txt"]
        others.meanwhile = lambda: None
        assert not take_key_files(inbox, 1e12, 64, others.elsewhere)
        assert not waiting(inbox, KEY_FILE)
        assert not IndexNowKeys(inbox.db).pending_keys(10)
        assert {ping.key for _, passed in posted(inbox) for ping in passed.pings} == {KEY, "other-key-1"}


def test_a_key_file_that_no_key_needs_any_more_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "signals.sqlite"
    receive(path, read_ping(KEY, [f"{THERE}page"]), VirtualClock())
    inbox = open_inbox(path)
    (key,) = IndexNowKeys(inbox.db).pending_keys(10)
    IndexNowKeys(inbox.db).remove(key, [f"{THERE}page"])
    others = Others()
    assert not take_key_files(inbox, 1e12, 64, others.elsewhere)
    assert not waiting(inbox, KEY_FILE)
    assert not posted(inbox)
    inbox.close()


def test_all_keys_of_one_look_are_sent_at_once_and_those_of_a_cell_together(tmp_path: Path) -> None:
    """Whoever forges pings can have one record a look written, and not one for each."""
    others, path, clock = Others(), tmp_path / "signals.sqlite", VirtualClock()
    hosts = ["b.test", *(f"h{number}.test" for number in range(9))]
    for host in hosts:
        for number in range(3):
            receive(path, read_ping(f"forged-{number}", [f"http://{host}/x"]), clock)
    inbox = open_inbox(path)
    assert not take_key_files(inbox, 1e12, 64, others.elsewhere)
    assert others.times == 1
    assert sorted((cell, len(passed.pings)) for cell, passed in posted(inbox)) == [(0, 27), (7, 3)]
    assert not IndexNowKeys(inbox.db).pending_keys(100)
    assert not waiting(inbox, KEY_FILE)
    prove_keys(inbox, IndexNowKeys(inbox.db), nobody, clock.now_s(), others.elsewhere)
    assert others.times == 1
    inbox.close()
