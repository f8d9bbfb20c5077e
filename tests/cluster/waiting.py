"""Waiting for something to come true, with a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(is_so: Callable[[], bool], within_s: float = 20.0) -> None:
    """Return when it is so; fail if it never is."""
    async with asyncio.timeout(within_s):
        while not is_so():  # noqa: ASYNC110  # whatever it is, it need not know of us
            await asyncio.sleep(0.02)
