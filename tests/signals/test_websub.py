"""WebSub: only what was asked for is confirmed, only what is signed is heard, and leases are renewed by the clock."""

from __future__ import annotations

import hmac
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from teia.errors import ConfigError
from teia.signals import websub
from teia.signals.websub import (
    ACTIVE,
    ANSWER_S,
    REFUSED,
    SHORTEST_LEASE_S,
    TRIES,
    Hubs,
    HubTopic,
    is_signed,
    parse_base_url,
)

FEED, HUB, BASE = "http://a.test/feed", "http://hub.test/", "https://us.test/websub/main"


@pytest.fixture
def hubs(tmp_path: Path) -> Iterator[Hubs]:
    db = sqlite3.connect(tmp_path / "h.sqlite", isolation_level=None)
    db.executescript(websub.SCHEMA.ddl)
    hubs = Hubs(db)
    hubs.record_hub(FEED, FEED, HUB, BASE, 0.0)
    yield hubs
    hubs.close()


def only(hubs: Hubs) -> HubTopic:
    (topic,) = hubs.all()
    return topic


def activate(hubs: Hubs, now_s: float = 0.0, lease_s: float = 1_000.0) -> HubTopic:
    hubs.record_request(only(hubs), now_s)
    assert hubs.confirm(only(hubs), "subscribe", FEED, lease_s, now_s + 1.0)
    return only(hubs)


def test_a_hub_request_has_a_callback_and_a_secret_of_its_own(hubs: Hubs) -> None:
    hubs.record_hub("http://b.test/feed", "http://b.test/feed", HUB, BASE, 0.0)
    one, other = hubs.all()
    assert len({one.secret, other.secret, one.key, other.key}) == 4
    asked = parse_qs(websub.request_form(one).decode())
    assert asked == {
        "hub.callback": [f"{BASE}/{one.key}"],
        "hub.mode": ["subscribe"],
        "hub.topic": [FEED],
        "hub.lease_seconds": ["864000"],
        "hub.secret": [one.secret],
    }
    assert one.secret not in f"{one}"


def test_only_what_was_requested_is_confirmed_and_not_much_later(hubs: Hubs) -> None:
    assert not hubs.confirm(only(hubs), "subscribe", FEED, 1_000, 0.0), "nobody was asked yet"
    hubs.record_request(only(hubs), 0.0)
    assert not hubs.confirm(only(hubs), "unsubscribe", FEED, 1_000, 1.0)
    assert not hubs.confirm(only(hubs), "subscribe", "http://a.test/other", 1_000, 1.0)
    assert not hubs.confirm(only(hubs), "subscribe", FEED, 1_000, ANSWER_S + 1)
    assert only(hubs).state != ACTIVE
    assert hubs.confirm(only(hubs), "subscribe", FEED, 1_000, 1.0)
    assert not hubs.confirm(only(hubs), "subscribe", FEED, 1_000, 2.0), "once is enough"
    assert hubs.is_push_expected(only(hubs), 900.0)
    assert not hubs.is_push_expected(only(hubs), 1_001.0 + ANSWER_S + 1.0), "its lease is over"


def test_a_lease_is_renewed_before_it_ends(hubs: Hubs) -> None:
    activate(hubs)
    assert hubs.due(799.0, 10) == []
    (topic,) = hubs.due(802.0, 10)
    hubs.record_request(topic, 802.0)
    assert only(hubs).state == ACTIVE, "meanwhile it is heard"
    assert hubs.confirm(only(hubs), "subscribe", FEED, 1.0, 803.0)
    assert only(hubs).until_s == 803.0 + SHORTEST_LEASE_S, "nobody makes us ask every second"


def test_a_hub_that_does_not_answer_is_requested_less_and_less_often_and_then_left_for_a_week(hubs: Hubs) -> None:
    now_s, waits = 0.0, []
    while only(hubs).state != REFUSED:
        hubs.record_request(only(hubs), now_s)
        hubs.record_refusal(only(hubs), "503", now_s)
        waits.append(only(hubs).again_s - now_s)
        now_s = only(hubs).again_s
    assert (len(waits), waits[:2], waits[-1]) == (TRIES, [120.0, 240.0], websub.REFUSED_S)
    assert waits == sorted(waits)
    assert not only(hubs).is_over
    hubs.record_request(only(hubs), now_s)
    assert only(hubs).is_over, "after a week it is asked once more"
    hubs.record_refusal(only(hubs), "503", now_s)
    assert hubs.all() == [], "and then forgotten, until a feed names it again"


def test_a_hub_that_verifies_and_then_answers_badly_is_active(hubs: Hubs) -> None:
    """It is asked again when its lease is over for four fifths, and not every minute for ever."""
    topic = only(hubs)
    hubs.record_request(topic, 0.0)
    assert hubs.confirm(only(hubs), "subscribe", FEED, 1_000, 1.0)
    before = only(hubs)
    hubs.record_refusal(topic, "502", 2.0)
    assert only(hubs) == before
    assert (before.state, before.again_s) == (ACTIVE, 801.0)


def test_a_lease_that_cannot_be_renewed_holds_until_it_ends(hubs: Hubs) -> None:
    now_s = activate(hubs, lease_s=100_000.0).again_s
    while only(hubs).state != REFUSED:
        hubs.record_request(only(hubs), now_s)
        hubs.record_refusal(only(hubs), "503", now_s)
        now_s += 10.0
    assert hubs.is_push_expected(only(hubs), 99_000.0)
    assert not hubs.is_push_expected(only(hubs), 100_001.0 + ANSWER_S + 1.0)


def test_a_hub_with_many_feeds_does_not_delay_requests_to_others(hubs: Hubs) -> None:
    for number in range(30):
        hubs.record_hub(f"http://a.test/{number}", f"http://a.test/{number}", f"{HUB}{number}", BASE, 0.0)
    hubs.record_hub("http://b.test/feed", "http://b.test/feed", "https://other.test/hub", BASE, 1.0)
    assert [topic.hub for topic in hubs.due(2.0, 2)][1:] == ["https://other.test/hub"]


def test_what_a_crawl_finds_after_nobody_wants_it_any_more_is_forgotten_again(hubs: Hubs) -> None:
    hubs.unsubscribe(1.0)
    hubs.record_hub(FEED, FEED, HUB, BASE, 2.0)
    hubs.unsubscribe(3.0)
    assert hubs.all() == []


def test_one_host_does_not_take_all_places(hubs: Hubs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websub, "MOST_OF_A_HOST", 2)
    for feed in ("http://a.test/2", "http://a.test/3", "http://a.test.example/1", "http://a.test:81/1"):
        hubs.record_hub(feed, feed, HUB, BASE, 0.0)
    assert [topic.feed for topic in hubs.all()] == [
        "http://a.test.example/1",
        "http://a.test/2",
        FEED,
        "http://a.test:81/1",
    ]


def test_a_hub_can_say_no(hubs: Hubs) -> None:
    topic = activate(hubs)
    assert not hubs.deny(topic, "http://a.test/other", "x", 2.0)
    assert hubs.deny(topic, FEED, "over", 2.0)
    assert (only(hubs).state, hubs.is_push_expected(only(hubs), 3.0)) == (REFUSED, False)


def test_a_feed_that_is_read_again_changes_nothing_and_one_with_another_hub_begins_anew(hubs: Hubs) -> None:
    before = activate(hubs)
    hubs.record_hub(FEED, FEED, HUB, BASE, 5.0)
    assert only(hubs) == before
    hubs.record_hub(FEED, FEED, "http://other.test/", BASE, 5.0)
    assert (only(hubs).state, only(hubs).secret == before.secret) == ("wanted", False)


def test_an_unwanted_subscription_is_cancelled(hubs: Hubs) -> None:
    activate(hubs)
    hubs.record_hub("http://b.test/feed", "http://b.test/feed", HUB, BASE, 0.0)
    hubs.unsubscribe(10.0)
    topic = only(hubs)
    assert (topic.feed, topic.mode, hubs.due(10.0, 10)) == (FEED, "unsubscribe", [topic])
    assert b"secret" not in websub.request_form(topic)
    hubs.record_request(topic, 10.0)
    assert hubs.confirm(only(hubs), "unsubscribe", FEED, 0, 11.0)
    assert hubs.all() == []


def test_there_is_a_bound(hubs: Hubs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websub, "MOST", 1)
    hubs.record_hub("http://b.test/feed", "http://b.test/feed", HUB, BASE, 0.0)
    assert len(hubs.all()) == 1


@pytest.mark.parametrize("method", ["sha1", "sha256", "sha384", "sha512"])
def test_every_method_of_the_recommendation_is_checked(method: str) -> None:
    right = hmac.new(b"secret", b"body", method).hexdigest()
    assert is_signed("secret", f"{method}={right}", b"body")
    assert not is_signed("secret", f"{method}={right}", b"body ")
    assert not is_signed("other", f"{method}={right}", b"body")


@pytest.mark.parametrize("header", ["", "sha256=", "md5=" + "0" * 32, "sha256=zz", "sha256", "sha1=" + "é" * 40])
def test_what_is_no_signature_is_none(header: str) -> None:
    assert not is_signed("secret", header, b"body")


@pytest.mark.parametrize("text", ["us.test", "ftp://us.test", "https://us.test/?x", "https://a:b@us.test"])
def test_a_callback_that_nobody_reaches_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"signals\.websub"):
        parse_base_url(text)


def test_the_address_is_written_with_or_without_a_slash() -> None:
    assert (parse_base_url(""), parse_base_url("https://us.test/"), parse_base_url("https://us.test/teia")) == (
        "",
        "https://us.test",
        "https://us.test/teia",
    )
