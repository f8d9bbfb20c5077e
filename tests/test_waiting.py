"""The helper by which all tests wait."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.waiting import NeverHeld, until, until_async


def test_it_returns_what_the_condition_gave_as_soon_as_that_is_something() -> None:
    given = iter([None, 0, [], "here"])
    assert until(lambda: next(given)) == "here"
    given = iter([None, "there"])
    assert asyncio.run(until_async(lambda: next(given))) == "there"


def test_a_condition_may_be_a_coroutine_and_others_run_meanwhile() -> None:
    async def main() -> int:
        seen: list[int] = []
        asyncio.get_running_loop().call_later(0.01, seen.append, 7)

        async def first() -> int | None:
            return seen[0] if seen else None

        return await until_async(first)

    assert asyncio.run(main()) == 7


def test_a_failure_says_what_was_awaited_what_was_last_and_the_state() -> None:
    with pytest.raises(NeverHeld, match=r"waited 0\.\d s in vain: a page is found; the condition gave 0\nno log"):
        until(lambda: 0, "a page is found", within_s=0.02, state=lambda: "no log")
    with pytest.raises(NeverHeld, match=r"in vain: .*lambda: False"):
        until(lambda: False, within_s=0.0)
    with pytest.raises(NeverHeld, match=r"in vain: never$"):
        asyncio.run(until_async(lambda: False, "never", within_s=0.02))


def test_what_a_condition_raises_ends_the_wait() -> None:
    def ended() -> bool:
        raise RuntimeError("the process has ended")

    with pytest.raises(RuntimeError, match="the process has ended"):
        until(ended)


def test_a_condition_that_becomes_true_during_the_last_pause_holds() -> None:
    ends_s = time.monotonic() + 0.05
    assert until(lambda: time.monotonic() >= ends_s, within_s=0.05)
