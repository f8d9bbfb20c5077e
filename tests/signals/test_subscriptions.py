"""What subscribers are told: kept until it arrived, bounded, given up where nobody takes it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from teia.errors import UsageError
from teia.signals import subscriptions as tables
from teia.signals.subscriptions import (
    LONGEST_WAIT_S,
    MAX_NOTICES,
    PATIENCE_S,
    TRIES,
    Subscription,
    Subscriptions,
    wait_s,
)
from teia.sqlite import transaction

HOOKED = Subscription("a", "page", "http://a.test/", "http://b.test/hook", "whsec_x", "feed-a", 0.0, "ana", 0.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Subscriptions]:
    db = sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None)
    db.executescript(tables.SCHEMA.ddl)
    store = Subscriptions(db)
    store.add(HOOKED, {})
    yield store
    store.close()


def tell(store: Subscriptions, name: str, time_s: float = 0.0, of: Subscription = HOOKED) -> bool:
    with transaction(store.db):
        return store.queue_notice(of, name, time_s, name.encode())


def due(store: Subscriptions, now_s: float) -> list[str]:
    return [notice.id for _, notice in store.due_notices(now_s)]


def test_messages_of_a_subscription_go_one_after_the_other(store: Subscriptions) -> None:
    other = replace(HOOKED, id="b", feed="feed-b")
    store.add(other, {})
    for name in ("1", "2"):
        assert tell(store, name)
    tell(store, "3", of=other)
    assert due(store, 0.0) == ["1", "3"]
    store.record_delivery(store.due_notices(0.0)[0][1])
    assert due(store, 0.0) == ["2", "3"]


def test_a_notice_is_sent_once(store: Subscriptions) -> None:
    assert tell(store, "1")
    assert not tell(store, "1")
    assert store.count_waiting("a") == 1


def test_a_receiver_that_fails_is_tried_less_and_less_often_and_then_a_message_is_given_up(
    store: Subscriptions,
) -> None:
    tell(store, "1")
    tell(store, "2")
    now_s, times = 0.0, []
    while store.notices("a")[-1].is_waiting:
        (_, notice) = store.due_notices(now_s)[0]
        assert notice.id == "1"
        store.record_failure(notice, "503", now_s, is_final=False)
        times.append(now_s)
        of = store.get("a")
        assert of is not None
        assert due(store, of.again_s - 0.001) == [], "it is left alone"
        now_s = of.again_s
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert waits == [wait_s(each) for each in range(1, TRIES)]
    assert waits[:3] == [30.0, 60.0, 120.0]
    first, second = reversed(store.notices("a"))
    assert (first.state, first.tries, second.is_waiting) == ("given up", TRIES, True)
    known = store.get("a")
    assert known is not None
    assert (known.given_up, known.outcome, known.failures) == (1, "503", TRIES)
    store.record_delivery(second)
    known = store.get("a")
    assert known is not None
    assert (known.failures, known.outcome, known.delivered) == (0, "", 1), "one that arrives makes up for all"


def test_a_receiver_is_tried_at_least_every_six_hours_and_for_at_most_three_days(
    store: Subscriptions,
) -> None:
    assert wait_s(1_000) == LONGEST_WAIT_S
    tell(store, "1")
    store.record_failure(store.due_notices(0.0)[0][1], "timeout", PATIENCE_S + 1, is_final=False)
    assert [notice.state for notice in store.notices("a")] == ["given up"]


def test_all_that_has_waited_too_long_for_a_receiver_is_given_up_and_counted(store: Subscriptions) -> None:
    other = replace(HOOKED, id="b", feed="feed-b")
    store.add(other, {})
    for number in range(5):
        tell(store, str(number), time_s=float(number))
    tell(store, "young", time_s=PATIENCE_S)
    tell(store, "never tried", of=other)
    store.record_failure(store.due_notices(0.0)[0][1], "timeout", PATIENCE_S + 10.0, is_final=False)
    assert (store.count_waiting("a"), store.count_waiting("b")) == (1, 0)
    known = [store.get(each) for each in ("a", "b")]
    assert [each.given_up for each in known if each is not None] == [5, 1]


def test_a_receiver_that_sends_retry_after_gets_it_and_one_that_answers_410_gets_no_more_notices(
    store: Subscriptions,
) -> None:
    tell(store, "1")
    tell(store, "2")
    store.record_failure(store.due_notices(0.0)[0][1], "429", 0.0, least_s=7_200.0, is_final=False)
    assert (due(store, 7_199.0), due(store, 7_200.0)) == ([], ["1"])
    store.record_failure(store.due_notices(7_200.0)[0][1], "410", 7_200.0, is_final=True)
    assert [notice.state for notice in store.notices("a")] == ["", "given up"]


def test_the_oldest_make_room_and_are_counted(store: Subscriptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_WAITING", 5)
    monkeypatch.setattr(tables, "MAX_NOTICES", 8)
    for number in range(20):
        tell(store, str(number))
    known = store.get("a")
    assert known is not None
    assert (store.count_waiting("a"), known.dropped) == (5, 15)
    assert [notice.id for notice in store.notices("a")] == [str(each) for each in range(19, 11, -1)]


def test_without_a_webhook_the_feed_alone_is_kept_and_bounded(store: Subscriptions) -> None:
    quiet = replace(HOOKED, id="b", feed="feed-b", webhook="")
    store.add(quiet, {})
    for number in range(MAX_NOTICES + 10):
        tell(store, str(number), of=quiet)
    assert (len(store.notices("b", 1_000)), store.count_waiting("b"), due(store, 0.0)) == (MAX_NOTICES, 0, [])
    assert store.with_feed("feed-b") == quiet
    assert store.with_feed("") is None


def test_a_subscription_that_is_removed_leaves_nothing(store: Subscriptions) -> None:
    tell(store, "1")
    with transaction(store.db):
        store.set_positions("a", {0: 7})
        store.record_notified("a", {1: 2.0})
    assert store.remove("a")
    assert not store.remove("a")
    for table in ("subscriptions", "positions", "notified", "notices"):
        assert store.db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_there_is_a_bound_for_searches(store: Subscriptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_SEARCHES", 1)
    store.add(replace(HOOKED, id="b", feed="b", kind="search"), {})
    with pytest.raises(UsageError, match="remove some first"):
        store.add(replace(HOOKED, id="c", feed="c", kind="search"), {})


def test_no_secret_is_in_what_a_log_would_say() -> None:
    assert "whsec" not in f"{HOOKED}{HOOKED!r}{[HOOKED]}"
