"""IndexNow: what makes sense, whose pages a key speaks for, and what waits for it."""

from __future__ import annotations

import sqlite3
from hashlib import sha256

import pytest

from teia.errors import UsageError
from teia.signals.indexnow import (
    KEYS_PER_HOST,
    PATIENCE_S,
    PENDING,
    REFUSED,
    REFUSED_S,
    VERIFIED,
    VERIFIED_S,
    WAITING_PER_HOST,
    IndexNowKeys,
    IndexNowPing,
    is_proof,
    read_ping,
)

KEY = "0123456789abcdef"
HERE = "https://www.a.test"
NOW_S = 1_700_000_000.0


@pytest.fixture
def keys() -> IndexNowKeys:
    made = IndexNowKeys(sqlite3.connect(":memory:", isolation_level=None))
    made.prepare()
    return made


def ping(*paths: str) -> IndexNowPing:
    return read_ping(KEY, [HERE + path for path in paths or ("/a",)])


def test_the_key_lies_at_the_root_unless_a_location_is_given() -> None:
    assert ping("/a", "/b") == IndexNowPing("www.a.test", KEY, f"{HERE}/{KEY}.txt", (f"{HERE}/a", f"{HERE}/b"), 0)


def test_a_key_in_a_folder_speaks_for_the_folder_alone() -> None:
    told = read_ping(KEY, [f"{HERE}/news/a", f"{HERE}/b", "https://b.test/news/c"], f"{HERE}/news/{KEY}.txt")
    assert told.urls == (f"{HERE}/news/a",)
    assert told.refused == 2


@pytest.mark.parametrize(
    ("key", "urls", "location", "host"),
    [
        ("short", [f"{HERE}/a"], "", ""),
        ("../../etc/passwd", [f"{HERE}/a"], "", ""),
        ("x" * 129, [f"{HERE}/a"], "", ""),
        (KEY, [], "", ""),
        (KEY, [f"{HERE}/{n}" for n in range(10_001)], "", ""),
        (KEY, ["nonsense"], "", ""),
        (KEY, ["file:///etc/passwd"], "", ""),
        (KEY, [f"{HERE}/a"], "https://evil.test/key.txt", ""),
        (KEY, [f"{HERE}/a"], f"{HERE}/echo?say={KEY}", ""),
        (KEY, [f"{HERE}/a"], "http://169.254.169.254/key.txt", ""),
        (KEY, [f"{HERE}/a"], "", "exa mple"),
    ],
)
def test_a_message_that_makes_no_sense_is_refused_in_one_line(
    key: str, urls: list[str], location: str, host: str
) -> None:
    with pytest.raises(UsageError) as refused:
        read_ping(key, urls, location, host)
    assert "\n" not in str(refused.value)


def test_nobody_speaks_for_another_host() -> None:
    told = read_ping(KEY, ["https://b.test/a"], "", "www.a.test")
    assert told.urls == ()
    assert told.refused == 1


def test_only_the_key_itself_proves_it() -> None:
    for text in (KEY, f"{KEY}\n", f"{KEY}\r\n"):
        assert is_proof(KEY, sha256(text.encode()).digest())
    for text in ("", f" {KEY}", f"<p>{KEY}</p>", KEY.upper()):
        assert not is_proof(KEY, sha256(text.encode()).digest())


def test_pings_wait_until_their_key_was_checked(keys: IndexNowKeys) -> None:
    told = ping("/a", "/b")
    assert keys.state(told, NOW_S) == ""
    assert keys.queue(told, NOW_S) == 2
    assert keys.state(told, NOW_S) == PENDING
    (asked,) = keys.pending_keys(10)
    assert [url for url, _ in keys.settle(asked, is_proved=True, now_s=NOW_S)] == list(told.urls)
    assert keys.state(told, NOW_S) == VERIFIED
    assert keys.state(told, NOW_S + VERIFIED_S + 1) == ""
    assert not keys.pending_keys(10)


def test_a_forged_key_is_not_looked_for_again_for_a_while(keys: IndexNowKeys) -> None:
    told = ping()
    keys.queue(told, NOW_S)
    keys.settle(keys.pending_keys(10)[0], is_proved=False, now_s=NOW_S)
    assert keys.state(told, NOW_S + 60) == REFUSED
    assert keys.state(told, NOW_S + REFUSED_S + 1) == ""


def forged(number: int) -> IndexNowPing:
    return read_ping(f"forged-{number:04}", [f"{HERE}/a"])


def test_forged_keys_of_a_host_are_bounded_and_nothing_waits_for_others(keys: IndexNowKeys) -> None:
    kept = [keys.queue(forged(number), NOW_S) for number in range(KEYS_PER_HOST + 4)]
    assert kept == [1] * KEYS_PER_HOST + [0] * 4
    assert keys.state(forged(KEYS_PER_HOST), NOW_S) == ""
    other = read_ping(KEY, ["https://www.b.test/a"])
    assert keys.queue(other, NOW_S) == 1, "another host has room of its own"


def test_keys_that_were_refused_make_room_a_day_later(keys: IndexNowKeys) -> None:
    for number in range(KEYS_PER_HOST):
        keys.queue(forged(number), NOW_S)
    for asked in keys.pending_keys(100):
        keys.settle(asked, is_proved=False, now_s=NOW_S)
    assert keys.queue(ping(), NOW_S + 60) == 0
    assert keys.queue(ping(), NOW_S + REFUSED_S + 1) == 1


def test_a_key_that_was_proved_is_looked_for_again_whatever_was_forged(keys: IndexNowKeys) -> None:
    keys.queue(ping(), NOW_S)
    keys.settle(keys.pending_keys(1)[0], is_proved=True, now_s=NOW_S)
    later_s = NOW_S + VERIFIED_S + 60
    for number in range(KEYS_PER_HOST + 4):
        keys.queue(forged(number), later_s)
    assert keys.queue(ping(), later_s) == 1
    assert keys.state(ping(), later_s) == PENDING


def test_a_forged_ping_does_not_hide_the_honest_one_of_the_same_page(keys: IndexNowKeys) -> None:
    keys.queue(forged(1), NOW_S)
    keys.queue(ping("/a"), NOW_S)
    (honest,) = [asked for asked in keys.pending_keys(10) if asked.key == KEY]
    assert [url for url, _ in keys.settle(honest, is_proved=True, now_s=NOW_S)] == [f"{HERE}/a"]


def test_what_nobody_looked_at_in_time_is_forgotten(keys: IndexNowKeys) -> None:
    keys.queue(ping(*(f"/{n}" for n in range(WAITING_PER_HOST))), NOW_S)
    assert keys.queue(forged(1), NOW_S) == 0
    assert keys.queue(forged(2), NOW_S + PATIENCE_S + 1) == 1


def test_a_flood_of_one_host_is_bounded(keys: IndexNowKeys) -> None:
    kept = sum(keys.queue(ping(*(f"/{batch}/{n}" for n in range(500))), NOW_S) for batch in range(5))
    assert kept == WAITING_PER_HOST
