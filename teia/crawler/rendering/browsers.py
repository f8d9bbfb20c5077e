"""The browser that all collections of a crawler share, and the pages that are rendered in it.

It is started with the first page and ended when no page has come for a while, or after some hundred pages. A browser
that ends by itself costs one page at most: those that were open are rendered once more, each alone in a browser of its
own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import cast

from teia.clock import Clock
from teia.lib.child_process import BackOff
from teia.render.browser import Browser, BrowserLimits, NoBrowser
from teia.render.devtools import BrowserGone
from teia.render.page import BrowserAnswer, FetchForPage, PageLimits, RenderedPage, render_page

IDLE_S = 30.0
PAGES_PER_BROWSER = 500
"""Number of pages after which a browser is replaced, because long-lived browsers grow."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class RenderJob:
    """A page to be rendered. `decode` returns the answer that the crawler has of it; `done` gets the result.

    A page that is not wanted any more when its turn comes gets no result.
    """

    url: str
    decode: Callable[[], BrowserAnswer]
    fetch: FetchForPage
    limits: PageLimits
    agent: str
    done: Callable[[RenderedPage], None]
    is_wanted: Callable[[], bool] = lambda: True


class Browsers:
    """Workers that render one page each at a time, in one browser."""

    def __init__(self, program: str, parallel: int, memory_bytes: int, clock: Clock) -> None:
        self._program, self._limits, self._clock = program, BrowserLimits(memory_bytes), clock
        self._parallel = parallel
        self._jobs: asyncio.Queue[RenderJob] = asyncio.Queue()
        self._workers: set[asyncio.Task[None]] = set()
        self._browser: Browser | None = None
        self._lock, self._retry_lock = asyncio.Lock(), asyncio.Lock()
        self._stack: AsyncExitStack | None = None
        self._rendered_here = self._busy = 0
        self._back_off = BackOff(clock.ticks_s, 1.0, 300.0, 60.0)
        self.trouble = ""
        """Reason why no page can be rendered now; empty while a browser can be started."""

    @property
    def waiting(self) -> int:
        """Number of pages that wait or are being rendered."""
        return self._jobs.qsize() + self._busy

    @property
    def is_down(self) -> bool:
        """True while no browser can be started."""
        return bool(self.trouble) and self._back_off.left_s > 0

    def submit(self, job: RenderJob) -> None:
        self._jobs.put_nowait(job)
        if len(self._workers) < min(self._parallel, self.waiting):
            worker = asyncio.get_running_loop().create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        """Render pages until none comes for a while; the last worker ends the browser."""
        while True:
            try:
                async with asyncio.timeout(IDLE_S):
                    job = await self._jobs.get()
            except TimeoutError:
                if await self._has_ended():
                    return
                continue
            self._busy += 1
            try:
                await self._render(job)
            except Exception:  # noqa: BLE001  # it must not end the worker
                _log.exception("the result of a rendered page could not be used: %s", job.url)
            finally:
                self._busy -= 1

    async def _has_ended(self) -> bool:
        """End an idle worker, and the browser with the last one; False if a page came meanwhile."""
        if not self._busy and self._jobs.empty():
            try:
                await self._end_browser()
            except Exception:  # noqa: BLE001  # pages may come all the same
                _log.exception("the browser could not be ended")
        if not self._jobs.empty():
            return False
        # Here, not after the task: a page that comes between would find a worker that takes none.
        self._workers.discard(cast("asyncio.Task[None]", asyncio.current_task()))
        return True

    async def _render(self, job: RenderJob) -> None:
        if not job.is_wanted():
            return
        try:
            answer = await asyncio.to_thread(job.decode)
            result = await self._rendered(job, answer)
        except NoBrowser as error:
            result = RenderedPage(error=str(error), is_blameless=True)
        except Exception as error:  # noqa: BLE001  # a hostile page costs itself, nothing else
            _log.exception("a page could not be rendered: %s", job.url)
            result = RenderedPage(error=type(error).__name__)
        job.done(result)

    async def _rendered(self, job: RenderJob, answer: BrowserAnswer) -> RenderedPage:
        """Render a page; if the browser ends meanwhile, once more and alone: another page may have ended it."""
        browser = await self._running_browser()
        self._rendered_here += 1
        with suppress(BrowserGone):
            return await render_page(browser, job.url, answer, job.fetch, job.limits, self._clock, job.agent)
        async with self._retry_lock, Browser(self._program, self._limits) as own:
            with suppress(BrowserGone):
                return await render_page(own, job.url, answer, job.fetch, job.limits, self._clock, job.agent)
        return RenderedPage(error="the browser ended while it rendered the page")

    async def _running_browser(self) -> Browser:
        async with self._lock:
            if self._browser is not None and (
                not self._browser.is_alive or (self._rendered_here >= PAGES_PER_BROWSER and not self._browser.pages)
            ):
                await self._close_browser()
            if self._browser is None:
                await self._start_browser()
            assert self._browser is not None
            return self._browser

    async def _start_browser(self) -> None:
        if self._back_off.left_s:
            raise NoBrowser(self.trouble or "the browser does not start")
        self._stack, self._rendered_here = AsyncExitStack(), 0
        self._back_off.begin()
        try:
            self._browser = await self._stack.enter_async_context(Browser(self._program, self._limits))
        except NoBrowser as error:
            self._back_off.fail()
            self.trouble = str(error)
            _log.warning("pages are not rendered for now: %s", error)
            raise
        self.trouble = ""

    async def _end_browser(self) -> None:
        async with self._lock:
            if self._browser is not None and not self._browser.pages:
                await self._close_browser()

    async def _close_browser(self) -> None:
        stack, self._stack, self._browser = self._stack, None, None
        if stack is not None:
            await stack.aclose()

    async def close(self) -> None:
        """End all pages and the browser; nothing more is reported."""
        workers = list(self._workers)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        await self._close_browser()
