"""One page, rendered in a browser context of its own.

Every request of the page is paused by the browser (DevTools `Fetch`) and answered here: the page itself from the answer
that the crawler has, all others by the function `fetch` of the caller. What is not fetched fails in the page. Requests
that cannot bring text are not fetched at all: images and style sheets get an empty answer, fonts and media fail, and so
does everything that is no GET.

Time in the page is virtual: a timer of ten seconds fires at once, and the page's clock stands still while a request
waits for its answer, however long the server's delay is. So a page has a budget of virtual time for its scripts, and a
limit of real time that runs only while no request is pending.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from teia.clock import Clock
from teia.render.browser import Browser
from teia.render.devtools import BrowserGone, CommandFailed
from teia.render.page_code import BEFORE_SCRIPTS, PREPARE

LOAD_MS, STEP_MS, ROUNDS = 5_000, 1_000, 3
"""Virtual time for loading a page, and after each scroll and click."""

STARVATION = 10_000
"""Number of tasks of one virtual instant, after which time moves on all the same."""

OPEN_S, CLOSE_S, READ_S, CHECK_S = 30.0, 5.0, 5.0, 0.2

_GIF = base64.b64encode(
    bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b")
).decode()
_HOP_HEADERS = frozenset({
    "content-encoding", "transfer-encoding", "content-length", "connection", "keep-alive", "set-cookie", "alt-svc",
    "strict-transport-security", "x-frame-options", "report-to", "nel", "link", "clear-site-data", "refresh",
})  # fmt: skip
"""Headers that do not belong to a body that was decoded, or that would make the browser do something else."""

_CRASHES = frozenset({"Inspector.targetCrashed", "Target.targetCrashed", "Inspector.detached"})
_EMPTY = {"Image": ("image/gif", _GIF), "Stylesheet": ("text/css", "")}
_DATA = frozenset({"XHR", "Fetch"})
_FETCHED = frozenset({"Script", "Other", "TextTrack", "Manifest"}) | _DATA


@dataclass(frozen=True, slots=True)
class BrowserAnswer:
    """An answer for the browser: status, headers, and the body without its codings."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes


FetchForPage = Callable[[str, bool], Awaitable[BrowserAnswer | None]]
"""Function that fetches a URL for a page; None if it may not be fetched, or could not be.

The second argument tells that a script fetches data, which differs from visit to visit, unlike the scripts themselves.
"""


@dataclass(frozen=True, slots=True)
class PageLimits:
    """Limits of one page."""

    busy_s: float = 15.0
    """Time without a pending request."""
    longest_s: float = 300.0
    requests: int = 50
    paused_requests: int = 1_000
    body_bytes: int = 32 * 2**20
    document_bytes: int = 10 * 2**20
    scrolls: int = 10
    clicks: int = 20


@dataclass(slots=True)
class RenderedPage:
    """The document that the scripts made, the URLs the page requested, and those it would have led to.

    `error` is empty, or the reason why there is no document; `is_blameless`: it says nothing about the page. `cut`
    names a limit that ended the page's work.
    """

    document: bytes = b""
    requests: list[str] = field(default_factory=list)
    refused: int = 0
    leads_to: list[str] = field(default_factory=list)
    error: str = ""
    is_blameless: bool = False
    cut: str = ""
    seconds: float = 0.0


async def render_page(
    browser: Browser, url: str, answer: BrowserAnswer, fetch: FetchForPage, limits: PageLimits, clock: Clock, agent: str
) -> RenderedPage:
    """Render a page; whatever happens to it, the result says so. BrowserGone if the whole browser has ended."""
    page = _Page(browser, url, answer, fetch, limits, clock, agent)
    browser.pages += 1
    started = clock.ticks_s()
    try:
        await page.run()
    finally:
        browser.pages -= 1
    page.result.seconds = clock.ticks_s() - started
    return page.result


class _OutOfTime(Exception):
    """The page has used up its time."""


class _Page:
    def __init__(
        self,
        browser: Browser,
        url: str,
        answer: BrowserAnswer,
        fetch: FetchForPage,
        limits: PageLimits,
        clock: Clock,
        agent: str,
    ) -> None:
        self._browser, self._devtools = browser, browser.devtools
        self._url, self._answer, self._fetch = url, answer, fetch
        self._limits, self._clock, self._agent = limits, clock, agent
        self.result = RenderedPage()
        self._session = self._context = self._frame = ""
        self._is_loaded = False
        self._crashed = asyncio.get_running_loop().create_future()
        self._expired: asyncio.Event = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pending = self._paused = self._fetched = self._received = 0
        self._busy_s, self._since, self._started = 0.0, clock.ticks_s(), clock.ticks_s()
        self._world = 0

    # -- its life ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        try:
            try:
                await self._open_in_time()
                await self._work()
            except _OutOfTime:
                await self._stop_scripts()
            await self._read()
        except (CommandFailed, TimeoutError) as error:
            self.result.error = self.result.error or str(error) or "it did not answer"
        except BrowserGone:
            if not self._browser.is_alive:
                raise
            self.result.error = self.result.error or "its process has ended"
        finally:
            for task in self._tasks:
                task.cancel()
            await self._close()

    async def _open_in_time(self) -> None:
        try:
            async with asyncio.timeout(OPEN_S):
                await self._open()
        except TimeoutError:
            # It answers nothing, so it is of no use for other pages either.
            self._devtools.close()
            raise BrowserGone("the browser does not answer") from None

    async def _open(self) -> None:
        send = self._devtools.send
        context = await send("Target.createBrowserContext", disposeOnDetach=True)
        self._context = context["browserContextId"]
        await send("Browser.setDownloadBehavior", behavior="deny", browserContextId=self._context)
        target = await send("Target.createTarget", url="about:blank", browserContextId=self._context)
        self._frame = target["targetId"]  # which is the identifier of its main frame too
        attached = await send("Target.attachToTarget", targetId=self._frame, flatten=True)
        self._session = attached["sessionId"]
        self._devtools.listen(self._session, self._on_event)
        self._prepare_session(self._session)
        page: dict[str, dict[str, Any]] = {
            "Page.enable": {},
            "Inspector.enable": {},
            "Page.addScriptToEvaluateOnNewDocument": {"source": BEFORE_SCRIPTS},
            "Emulation.setUserAgentOverride": {"userAgent": self._agent},
            "Network.setBypassServiceWorker": {"bypass": True},
            "Emulation.setVirtualTimePolicy": {"policy": "pause"},
        }
        commands = [self._devtools.post(name, self._session, **parameters) for name, parameters in page.items()]
        await self._wait(asyncio.gather(*commands))

    def _prepare_session(self, session: str) -> None:
        """Pause every request of a page, of a frame or of a worker before it runs."""
        self._devtools.post("Fetch.enable", session, patterns=[{"urlPattern": "*"}])
        self._devtools.post("Target.setAutoAttach", session, autoAttach=True, waitForDebuggerOnStart=True, flatten=True)
        self._devtools.post("Runtime.runIfWaitingForDebugger", session)

    async def _work(self) -> None:
        """Load the page; then scroll and click as long as that brings more."""
        navigated = await self._wait(self._devtools.post("Page.navigate", self._session, url=self._url))
        if navigated.get("errorText"):
            raise CommandFailed(navigated["errorText"])
        await self._settle(LOAD_MS)
        self._is_loaded = True
        await self._make_world()
        await self._step()
        size = await self._call("size()")
        for _ in range(self._limits.scrolls):
            await self._call("scroll()")
            # Twice: an observer must see the end of the page leave before it can see it come again.
            await self._step()
            await self._step()
            size, before = await self._call("size()"), size
            if not isinstance(size, int) or size <= before:
                break
        for _ in range(self._limits.clicks):
            if await self._call("click()") is not True:
                break
            await self._react(STEP_MS)
            if await self._call("has_changed()") is True:
                await self._step()

    async def _step(self) -> None:
        """Let the page react several times: what it shows may make its scripts show more."""
        for _ in range(ROUNDS):
            await self._react(STEP_MS // ROUNDS)

    async def _react(self, virtual_ms: int) -> None:
        """Let the page react: it is drawn, and its scripts run."""
        await self._show()
        await self._settle(virtual_ms)

    async def _show(self) -> None:
        """Have the browser draw the page: observers of what is visible are called then, not by virtual time."""
        await self._wait(
            self._devtools.post(
                "Runtime.evaluate", self._session, expression="teia.drawn()", contextId=self._world, awaitPromise=True
            )
        )

    async def _make_world(self) -> None:
        tree = await self._wait(self._devtools.post("Page.getFrameTree", self._session))
        frame = tree["frameTree"]["frame"]["id"]
        made = await self._wait(
            self._devtools.post("Page.createIsolatedWorld", self._session, frameId=frame, worldName="teia")
        )
        self._world = made["executionContextId"]
        await self._wait(self._evaluate(PREPARE))

    def _evaluate(self, code: str) -> asyncio.Future[dict[str, Any]]:
        return self._devtools.post(
            "Runtime.evaluate", self._session, expression=code, contextId=self._world, returnByValue=True
        )

    async def _call(self, code: str) -> Any:
        result = await self._wait(self._evaluate(f"teia.{code}"))
        return result.get("result", {}).get("value")

    async def _settle(self, virtual_ms: int) -> None:
        """Let the page's scripts run for some virtual time, and all requests they make be answered."""
        self._expired.clear()
        await self._wait(
            self._devtools.post(
                "Emulation.setVirtualTimePolicy", self._session, policy="pauseIfNetworkFetchesPending",
                budget=virtual_ms, maxVirtualTimeTaskStarvationCount=STARVATION,
            )
        )  # fmt: skip
        await self._wait(self._expired.wait())

    async def _stop_scripts(self) -> None:
        """End the scripts of a page whose time is over; what they have made can still be read, usually."""
        self._pending = 0
        self._devtools.post("Emulation.setScriptExecutionDisabled", self._session, value=True)
        self._devtools.post("Runtime.terminateExecution", self._session)
        self._devtools.post("Emulation.setVirtualTimePolicy", self._session, policy="advance")

    async def _read(self) -> None:
        """Take the document, within a time limit of its own."""
        async with asyncio.timeout(READ_S):
            if not self._world or self.result.cut:
                await self._make_world_now()
            reading = self._evaluate(f"teia.read({_quoted(self._url)}, {self._limits.document_bytes})")
            done = await self._until_crash(reading)
        value = done.get("result", {}).get("value")
        if isinstance(value, str) and value:
            self.result.document = value.encode("utf-8", "replace")
        else:
            self.result.error = self.result.error or "it has no document"

    async def _make_world_now(self) -> None:
        send = self._devtools.post
        tree = await self._until_crash(send("Page.getFrameTree", self._session))
        frame = tree["frameTree"]["frame"]["id"]
        made = await self._until_crash(
            send("Page.createIsolatedWorld", self._session, frameId=frame, worldName="teia, at the end")
        )
        self._world = made["executionContextId"]
        await self._until_crash(self._evaluate(PREPARE))

    async def _close(self) -> None:
        if self._session:
            # Ends a process that is busy too: it is answered by another thread than the page's.
            self._devtools.post("Page.crash", self._session)
            self._devtools.end_session(self._session)
        if self._context:
            with suppress(CommandFailed, BrowserGone, TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self._devtools.send("Target.disposeBrowserContext", browserContextId=self._context)
                return
            # A browser that cannot close a page is of no use for the next one.
            self._devtools.close()

    # -- time ----------------------------------------------------------------------------------------------

    async def _wait(self, awaited: Awaitable[Any]) -> Any:
        """Await something that the page does, within its limits."""
        waiting = asyncio.ensure_future(awaited)
        try:
            while True:
                await asyncio.wait((waiting, self._crashed), timeout=CHECK_S, return_when=asyncio.FIRST_COMPLETED)
                if waiting.done():
                    return waiting.result()
                if self._crashed.done() or self._devtools.closed.done():
                    raise BrowserGone("the page's process has ended")
                self._check_time()
        finally:
            waiting.cancel()

    async def _until_crash(self, awaited: Awaitable[Any]) -> Any:
        waiting = asyncio.ensure_future(awaited)
        try:
            await asyncio.wait((waiting, self._crashed), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise BrowserGone("the page's process has ended")
            return waiting.result()
        finally:
            waiting.cancel()

    def _check_time(self) -> None:
        now = self._clock.ticks_s()
        if not self._pending:
            self._busy_s += now - self._since
        self._since = now
        if self._paused > self._limits.paused_requests:
            self.result.cut = "requests"
        elif self._busy_s > self._limits.busy_s or now - self._started > self._limits.longest_s:
            self.result.cut = "time"
        if self.result.cut:
            raise _OutOfTime

    def _note_pending(self, change: int) -> None:
        now = self._clock.ticks_s()
        if not self._pending:
            self._busy_s += now - self._since
        self._since = now
        self._pending += change

    # -- events --------------------------------------------------------------------------------------------

    def _on_event(self, name: str, parameters: dict[str, Any]) -> None:
        if name == "Fetch.requestPaused":
            self._on_request(self._session, parameters)
        elif name == "Emulation.virtualTimeBudgetExpired":
            self._expired.set()
        elif name == "Page.javascriptDialogOpening":
            self._devtools.post("Page.handleJavaScriptDialog", self._session, accept=False)
        elif name == "Target.attachedToTarget":
            session = parameters["sessionId"]
            self._devtools.listen(session, lambda name, found: self._on_child_event(session, name, found))
            self._prepare_session(session)
        elif name in _CRASHES and not self._crashed.done():
            self._crashed.set_result(None)

    def _on_child_event(self, session: str, name: str, parameters: dict[str, Any]) -> None:
        if name == "Fetch.requestPaused":
            self._on_request(session, parameters)

    def _on_request(self, session: str, parameters: dict[str, Any]) -> None:
        """Answer a request that the browser has paused, now or when the crawler has fetched it."""
        request, number = parameters["request"], parameters["requestId"]
        url, kind = str(request["url"]).partition("#")[0], parameters.get("resourceType", "Other")
        self._paused += 1
        is_page, is_get = kind == "Document" and parameters.get("frameId") == self._frame, request["method"] == "GET"
        if is_page and is_get and url == self._url and not self._is_loaded:
            self._fulfil(session, number, self._answer)
        elif kind == "Document":
            # A page that leads elsewhere is left where it is; frames are pages of their own.
            if is_page and is_get and len(self.result.leads_to) < 100:
                self.result.leads_to.append(url)
            # A failure would replace the page by the browser's own error page.
            self._devtools.post("Fetch.fulfillRequest", session, requestId=number, responseCode=204)
        elif not is_get or self.result.cut or self._paused > self._limits.paused_requests:
            self._refuse(session, number)
        elif kind in _EMPTY:
            media_type, body = _EMPTY[kind]
            headers = [
                {"name": "Content-Type", "value": media_type},
                {"name": "Access-Control-Allow-Origin", "value": "*"},
            ]
            self._devtools.post(
                "Fetch.fulfillRequest", session, requestId=number, responseCode=200, responseHeaders=headers, body=body
            )
        elif kind not in _FETCHED or not url.startswith(("http:", "https:")):
            self._refuse(session, number)
        else:
            origin = str(request.get("headers", {}).get("Origin", ""))
            answering = self._answer_from_crawler(session, number, url, origin, is_data=kind in _DATA)
            task = asyncio.get_running_loop().create_task(answering)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer_from_crawler(self, session: str, number: str, url: str, origin: str, *, is_data: bool) -> None:
        limits = self._limits
        if self._fetched >= limits.requests or self._received >= limits.body_bytes:
            self._refuse(session, number)
            return
        self._fetched += 1
        self._note_pending(1)
        try:
            answer = await self._fetch(url, is_data)
        finally:
            self._note_pending(-1)
        if answer is None:
            self._refuse(session, number)
            return
        self.result.requests.append(url)
        self._received += len(answer.body)
        self._fulfil(session, number, answer, origin)

    def _refuse(self, session: str, number: str) -> None:
        self.result.refused += 1
        self._devtools.post("Fetch.failRequest", session, requestId=number, errorReason="BlockedByClient")

    def _fulfil(self, session: str, number: str, answer: BrowserAnswer, origin: str = "") -> None:
        headers = [{"name": name, "value": value} for name, value in answer.headers if name.lower() not in _HOP_HEADERS]
        if origin:
            # The request was sent without an Origin, so its answer cannot name it; there are no secrets to protect.
            headers = [each for each in headers if not each["name"].lower().startswith("access-control-allow-")]
            headers.append({"name": "Access-Control-Allow-Origin", "value": origin})
            headers.append({"name": "Access-Control-Allow-Credentials", "value": "true"})
        body = base64.b64encode(answer.body).decode()
        self._devtools.post(
            "Fetch.fulfillRequest", session, requestId=number, responseCode=answer.status, responseHeaders=headers,
            body=body,
        )  # fmt: skip


def _quoted(text: str) -> str:
    """Return a text as a JavaScript string."""
    return json.dumps(text)
