"""The one way in which tests wait: for a condition, up to a limit, with a failure that says what was awaited.

A test waits for something to happen with `until` (or `until_async` on an event loop), never by sleeping for as long as
it usually takes: a fixed sleep is too long on a quiet machine and too short on a busy one. A sleep that is itself the
subject (a slow server, "nothing happens for a second") has a comment that says so; `tests/conventions/test_waiting.py`
holds both.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from time import monotonic, sleep  # as they are, also in a test that puts others in their place
from typing import Any, TypeVar

T = TypeVar("T")

WITHIN_S = 60.0
"""Long enough for a busy machine; a condition that holds ends the wait at once, so it costs nothing."""
FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.1


class NeverHeld(AssertionError):
    """Failure of a wait: the condition did not hold in time."""


def until(
    condition: Callable[[], T], why: str = "", *, within_s: float = WITHIN_S, state: Callable[[], object] | None = None
) -> T:
    """Wait until a condition holds (gives something true), and return what it gave.

    `why` says what is awaited. The failure quotes it, with what the condition gave last and, if given, with `state()`:
    what a reader needs to know of the moment, such as the log of a process. An exception of the condition ends the
    wait: a test that waits for a process to do something asserts there that it still runs.
    """
    began_s = monotonic()
    while not (value := condition()):
        waited_s = monotonic() - began_s
        if waited_s >= within_s:
            raise _never(condition, why, waited_s, value, state)
        sleep(_pause_s(waited_s))
    return value


async def until_async(
    condition: Callable[[], T | Awaitable[T]],
    why: str = "",
    *,
    within_s: float = WITHIN_S,
    state: Callable[[], object] | None = None,
) -> T:
    """Wait as `until` does, while others on this event loop go on; the condition may be a coroutine function."""
    began_s = monotonic()
    while not (value := await _value(condition)):
        waited_s = monotonic() - began_s
        if waited_s >= within_s:
            raise _never(condition, why, waited_s, value, state)
        await asyncio.sleep(_pause_s(waited_s))
    return value


async def _value(condition: Callable[[], T | Awaitable[T]]) -> T:
    value: Any = condition()
    return await value if inspect.isawaitable(value) else value


def _pause_s(waited_s: float) -> float:
    """Look often at first, and later so that a look is late by a twentieth of the wait at most."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S + waited_s / 20)


def _never(
    condition: Callable[[], object], why: str, waited_s: float, value: object, state: Callable[[], object] | None
) -> NeverHeld:
    awaited = why or _source(condition)
    last = f"; the condition gave {value!r}" if value is not False else ""
    told = f"\n{state()}" if state is not None else ""
    return NeverHeld(f"waited {waited_s:.1f} s in vain: {awaited}{last}{told}")


def _source(condition: Callable[[], object]) -> str:
    """Quote the lines of a condition without words of its own; a lambda comes with the call around it."""
    try:
        return " ".join(inspect.getsource(condition).split())
    except (OSError, TypeError):
        return repr(condition)
