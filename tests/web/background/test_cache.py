"""Answers that take long are found once for all, shown with their age, and not found too often."""

from __future__ import annotations

import asyncio
import threading

import pytest

from teia.clock import VirtualClock
from teia.errors import StoreError
from teia.web.background.cache import CAPACITY, AnswerCache, NotReady
from tests.waiting import until


def passes(clock: VirtualClock, seconds: float) -> None:
    asyncio.run(clock.advance(seconds))


def settled(kept: AnswerCache) -> None:
    """Wait until nothing is being found."""
    until(lambda: all(entry.running is None for entry in kept._entries.values()))


def test_an_answer_is_kept_until_it_is_old() -> None:
    clock, asked = VirtualClock(1_000.0), 0

    def compute() -> int:
        nonlocal asked
        asked += 1
        return asked

    kept = AnswerCache(clock)
    assert kept.get("a", compute, 10.0).value == 1
    passes(clock, 9.0)
    assert kept.get("a", compute, 10.0).value == 1
    passes(clock, 2.0)
    old = kept.get("a", compute, 10.0)
    assert (old.value, old.time_s) == (1, 1_000.0), "the old one at once, the new one next time"
    settled(kept)
    assert kept.get("a", compute, 10.0).value == 2
    kept.close()


def test_what_takes_long_is_not_waited_for_for_ever() -> None:
    kept, go = AnswerCache(VirtualClock(0.0)), threading.Event()

    def compute() -> str:
        go.wait(10)
        return "there"

    with pytest.raises(NotReady):
        kept.get("a", compute, 1.0, patience_s=0.05)
    assert kept.get_or_none("a", compute, 1.0, 0.01) is None
    go.set()
    assert kept.get("a", compute, 1.0).value == "there"
    kept.close()


def test_what_takes_long_is_repeated_seldom() -> None:
    """At most a thirtieth of a processor."""
    clock, asked = VirtualClock(0.0), 0
    kept = AnswerCache(clock)

    def compute() -> int:
        nonlocal asked
        asked += 1
        passes(clock, 5.0)
        return asked

    for _ in range(60):
        kept.get("a", compute, 1.0)
        settled(kept)
        passes(clock, 1.0)
    assert asked == 1
    passes(clock, 120.0)
    kept.get("a", compute, 1.0)
    settled(kept)
    assert asked == 2
    kept.close()


def test_what_goes_wrong_is_reported_and_tried_again() -> None:
    kept, answers = AnswerCache(VirtualClock(0.0)), iter([StoreError("no"), "yes"])

    def compute() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(StoreError, match="no"):
        kept.get("a", compute, 1.0)
    settled(kept)
    assert kept.get("a", compute, 1.0).value == "yes"
    kept.close()


def test_a_slow_failure_is_reported_again_before_the_next_try() -> None:
    clock, asked = VirtualClock(0.0), 0
    kept = AnswerCache(clock)

    def compute() -> int:
        nonlocal asked
        asked += 1
        passes(clock, 0.5)
        raise StoreError(f"no {asked}")

    for _ in range(10):
        with pytest.raises(StoreError, match="no 1"):
            kept.get("a", compute, 1.0)
        settled(kept)
        passes(clock, 1.0)
    passes(clock, 7.0)
    with pytest.raises(StoreError, match="no 2"):
        kept.get("a", compute, 1.0)
    settled(kept)
    kept.store("a", 7, 0.0)
    assert kept.get("a", compute, 1.0).value == 7, "where there is an answer, it stands"
    assert asked == 2
    kept.close()


def test_only_so_many_answers_are_kept() -> None:
    kept = AnswerCache(VirtualClock(0.0))
    for number in range(3 * CAPACITY):
        assert kept.get(number, lambda number=number: number, 1.0).value == number  # type: ignore[misc]
    assert len(kept._entries) == CAPACITY
    kept.close()


def test_there_is_room_for_one_of_each_of_many_things() -> None:
    """A hundred collections have a table of hosts each; none is counted again because of the others."""
    kept = AnswerCache(VirtualClock(0.0))
    kept.set_extra_capacity(100)
    for number in range(100):
        kept.get(("hosts", number), lambda: "table", 1.0)
    assert all(kept.last(("hosts", number)) for number in range(100))
    kept.close()
