"""Time that is passed in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.clock import Clock, FastClock, VirtualClock, WallClock, from_iso, iso_utc


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, timeout=30))


async def note(clock: Clock, seconds: float, name: str, log: list[tuple[float, str]]) -> None:
    await clock.sleep(seconds)
    log.append((clock.ticks_s(), name))


def test_both_clocks_are_clocks() -> None:
    clocks: list[Clock] = [WallClock(), VirtualClock()]
    assert all(clock.ticks_s() >= 0 for clock in clocks)


def test_wall_ticks_never_go_back() -> None:
    clock = WallClock()
    ticks = [clock.ticks_s() for _ in range(10_000)]
    assert ticks == sorted(ticks)


def test_wall_ticks_count_what_a_suspended_machine_sleeps_through() -> None:
    assert abs(WallClock().ticks_s() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 60


def test_wall_clock_sleeps_and_tells_calendar_time() -> None:
    async def main() -> None:
        clock = WallClock()
        before_s = clock.ticks_s()
        await clock.sleep(0.01)
        assert clock.ticks_s() - before_s >= 0.009
        assert clock.now_s() > from_iso("2025-01-01")

    run(main())


def test_virtual_time_stands_still_until_it_is_advanced() -> None:
    async def main() -> None:
        clock = VirtualClock(start_s=1_000.0)
        await asyncio.sleep(0.01)  # the machine's time goes on
        assert (clock.now_s(), clock.ticks_s()) == (1_000.0, 0.0)
        await clock.advance(2.5)
        assert (clock.now_s(), clock.ticks_s()) == (1_002.5, 2.5)
        await clock.advance(0)
        assert clock.ticks_s() == 2.5

    run(main())


@pytest.mark.parametrize("seconds", [-1.0, -1e-9, float("nan")])
def test_virtual_time_never_goes_back(seconds: float) -> None:
    """A negative advance moved the ticks back, which the clock's contract rules out."""

    async def main() -> None:
        clock = VirtualClock()
        await clock.advance(5)
        with pytest.raises(ValueError, match="time does not pass"):
            await clock.advance(seconds)
        assert clock.ticks_s() == 5

    run(main())


def test_sleepers_wake_by_deadline_then_in_the_order_they_fell_asleep() -> None:
    async def main() -> None:
        clock = VirtualClock()
        log: list[tuple[float, str]] = []
        async with asyncio.TaskGroup() as group:
            for seconds, name in [(3, "c"), (1, "a"), (2, "b1"), (2, "b2"), (0, "now"), (-5, "past")]:
                group.create_task(note(clock, seconds, name, log))
            await clock.advance(2)
            assert log == [(0, "now"), (0, "past"), (1, "a"), (2, "b1"), (2, "b2")]
            await clock.advance(1)
        assert log[-1] == (3, "c")

    run(main())


def test_a_sleeper_that_sleeps_again_wakes_on_time_within_one_advance() -> None:
    async def main() -> None:
        clock = VirtualClock()
        log: list[float] = []

        async def tick() -> None:
            while True:
                await clock.sleep(1)
                log.append(clock.ticks_s())

        task = asyncio.create_task(tick())
        await clock.advance(3.5)
        assert log == [1, 2, 3]
        task.cancel()

    run(main())


def test_sleepers_started_by_a_sleeper_keep_their_time() -> None:
    async def main() -> None:
        clock = VirtualClock()
        log: list[tuple[float, str]] = []

        async def parent() -> None:
            await clock.sleep(1)
            async with asyncio.TaskGroup() as group:
                group.create_task(note(clock, 1, "child", log))
                group.create_task(note(clock, 0.5, "younger", log))
            log.append((clock.ticks_s(), "parent"))

        task = asyncio.create_task(parent())
        await clock.advance(10)
        assert log == [(1.5, "younger"), (2, "child"), (2, "parent")]
        await task

    run(main())


def test_a_cancelled_sleeper_wakes_nobody_and_stops_nobody() -> None:
    async def main() -> None:
        clock = VirtualClock()
        log: list[tuple[float, str]] = []
        lost = asyncio.create_task(note(clock, 1, "lost", log))
        kept = asyncio.create_task(note(clock, 2, "kept", log))
        await clock.advance(0.5)
        lost.cancel()
        await clock.advance(5)
        assert log == [(2, "kept")]
        assert lost.cancelled()
        assert clock.ticks_s() == 5.5
        await kept

    run(main())


def test_the_same_run_repeats_exactly() -> None:
    logs: list[list[tuple[float, str]]] = []

    async def main() -> None:
        clock = VirtualClock()
        log: list[tuple[float, str]] = []
        async with asyncio.TaskGroup() as group:
            for number in range(200):
                group.create_task(note(clock, number * 7 % 13, str(number), log))
            await clock.advance(20)
        logs.append(log)

    run(main())
    run(main())
    assert logs[0] == logs[1]
    assert [when for when, _ in logs[0]] == sorted(when for when, _ in logs[0])


@given(st.floats(0, 4e9))
def test_iso_round_trip_keeps_microseconds(unix_s: float) -> None:
    assert from_iso(iso_utc(unix_s)) == pytest.approx(unix_s, abs=2e-6, rel=0)


def test_iso_form_is_fixed() -> None:
    assert iso_utc(0) == "1970-01-01T00:00:00.000000Z"
    assert iso_utc(1_700_000_000.25) == "2023-11-14T22:13:20.250000Z"


@pytest.mark.parametrize(
    ("text", "unix_s"),
    [("1970-01-01", 0), ("1970-01-01T01:00:00", 3600), ("1970-01-01T01:00:00+01:00", 0), ("1970-01-01T00:00:01Z", 1)],
)
def test_a_time_without_a_zone_is_utc(text: str, unix_s: float) -> None:
    assert from_iso(text) == unix_s


@pytest.mark.parametrize("text", ["", "now", "1970-13-01", "12"])
def test_what_is_no_time_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        from_iso(text)


def test_a_fast_clock_lives_through_a_day_in_seconds() -> None:
    async def live() -> tuple[float, float, float]:
        slow = VirtualClock(1_000.0)
        fast = FastClock(slow, 3_600.0)
        sleeper = asyncio.create_task(fast.sleep(86_400.0))
        await slow.advance(23.0)
        assert not sleeper.done()
        await slow.advance(1.0)
        await sleeper
        return slow.now_s(), fast.now_s(), fast.ticks_s()

    assert asyncio.run(live()) == (1_024.0, 87_400.0, 86_400.0)
    with pytest.raises(ValueError, match="0 times"):
        FastClock(VirtualClock(), 0)
