"""The inbox of announcements: bounded, merged, kept across processes, counted."""

from __future__ import annotations

from pathlib import Path

from teia.signals.announce import PROXY, Announcement, AnnouncementInbox, counts_in, open_inbox
from teia.sqlite import create_database


def announcement(url: str, seen_s: float = 1.0, kind: str = PROXY, times: int = 1) -> Announcement:
    return Announcement(url, kind, seen_s, seen_s, times)


def test_an_announcement_waits_until_it_is_settled(tmp_path: Path) -> None:
    inbox = open_inbox(tmp_path / "signals.sqlite")
    assert inbox.put([announcement("http://a/", 5.0), announcement("http://b/", 7.0)]) == 2
    assert inbox.due(PROXY, 4.0, 10) == []
    assert [each.url for each in inbox.due(PROXY, 6.0, 10)] == ["http://a/"]
    inbox.settle(PROXY, ["http://a/"])
    inbox.close()
    again = open_inbox(tmp_path / "signals.sqlite")
    assert [each.url for each in again.due(PROXY, 100.0, 10)] == ["http://b/"]
    again.close()


def test_a_repeated_signal_is_one_announcement_and_keeps_its_place(tmp_path: Path) -> None:
    inbox = open_inbox(tmp_path / "signals.sqlite")
    inbox.put([announcement("http://a/", 1.0), announcement("http://a/", 9.0), announcement("http://a/", 9.0, times=3)])
    (one,) = inbox.due(PROXY, 2.0, 10)
    assert (one.seen_s, one.reported_s, one.times) == (1.0, 9.0, 5)
    assert inbox.counts() == {PROXY: {"repeated": 4}}
    inbox.close()


def test_a_page_is_taken_from_the_cache_that_announced_it_last(tmp_path: Path) -> None:
    inbox = open_inbox(tmp_path / "signals.sqlite")
    inbox.put(
        [
            announcement("http://a/")._replace(cache="rio"),
            announcement("http://b/"),
            announcement("http://a/")._replace(cache="lisboa"),
        ]
    )
    assert [(each.url, each.cache) for each in inbox.due(PROXY, 2.0, 10)] == [
        ("http://a/", "lisboa"),
        ("http://b/", ""),
    ]
    inbox.close()


OLD_DDL = """
CREATE TABLE inbox (
    kind TEXT NOT NULL, url TEXT NOT NULL, said_s REAL NOT NULL, seen_s REAL NOT NULL, times INTEGER NOT NULL,
    PRIMARY KEY (kind, url)
) WITHOUT ROWID;
CREATE INDEX by_age ON inbox (kind, seen_s);
CREATE TABLE counts (kind TEXT NOT NULL, what TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (kind, what))
    WITHOUT ROWID;
INSERT INTO inbox VALUES ('proxy', 'http://a/', 1.0, 2.0, 3);
"""


def test_an_inbox_of_an_older_version_gets_names_of_caches_and_an_outbox(tmp_path: Path) -> None:
    path = tmp_path / "signals.sqlite"
    create_database(path, OLD_DDL, 1)
    for _ in range(2):
        inbox = open_inbox(path)
        assert inbox.due(PROXY, 2.0, 10) == [Announcement("http://a/", PROXY, 1.0, 2.0, 3)]
        assert inbox.posted_to() == []
        inbox.close()
    inbox = open_inbox(path)
    inbox.put([announcement("http://b/")._replace(cache="rio")])
    assert [each.cache for each in inbox.due(PROXY, 2.0, 10)] == ["rio", ""]
    inbox.close()


def test_a_flood_is_dropped_and_counted_by_kind(tmp_path: Path) -> None:
    path = tmp_path / "signals.sqlite"
    inbox = open_inbox(path)
    small = AnnouncementInbox(inbox.db, most=10)
    kept = small.put([announcement(f"http://a/{n}") for n in range(50)] + [announcement("http://a/1", kind="indexnow")])
    assert kept == 11
    assert small.waiting(PROXY) == 10
    assert small.put([announcement("http://a/3")]) == 1, "one that waits already needs no room"
    assert counts_in(path) == {PROXY: {"dropped": 40, "repeated": 1}}
    inbox.close()


def test_two_processes_may_have_it_open(tmp_path: Path) -> None:
    one, other = open_inbox(tmp_path / "signals.sqlite"), open_inbox(tmp_path / "signals.sqlite")
    one.put([announcement("http://a/")])
    other.count(PROXY, {"malformed": 2, "nothing": 0})
    assert [each.url for each in other.due(PROXY, 2.0, 10)] == ["http://a/"]
    assert one.counts() == {PROXY: {"malformed": 2}}
    one.close()
    other.close()


def test_a_collection_without_signals_has_no_counts(tmp_path: Path) -> None:
    assert counts_in(tmp_path / "signals.sqlite") == {}
