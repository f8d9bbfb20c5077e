"""The cluster's own event loop, in a thread beside the crawler's.

Renewing a session must not wait for a busy crawl, and the crawler's threads must be able to wait for NATS: the commit
thread for every commit, the main one while cells are opened and closed.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

Result = TypeVar("Result")


class LoopThread:
    """A thread that runs an event loop as long as the block lasts."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = loop or asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="cluster", daemon=True)
        self.packing_s = 0.0
        """Processor seconds that other threads spent on preparing messages for this one."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # Tasks end while the loop still runs.
        self.wait_for(self._end_tasks())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def cpu_s(self) -> float:
        """Return the processor seconds of this thread and of preparing its messages; only while it runs."""
        assert self._thread.ident is not None
        return time.clock_gettime(time.pthread_getcpuclockid(self._thread.ident)) + self.packing_s

    def wait_for(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine in this loop and wait for its result; from any other thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Like `wait_for`, for a coroutine of another loop, which continues meanwhile."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    @staticmethod
    async def _end_tasks() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=2.0)
