"""Requests of pages that are being rendered: each goes through the crawler's loop, like any other request.

A request is queued at its host as a prerequisite, ahead of the host's pages. There the loop checks its scope (that of a
page requisite), budgets, robots.txt and the address, waits for the politeness delay, fetches it, and has its records
stored and its row written to the fetch log (kind `render`). Its answer stays in memory for a while, so that the scripts
that the pages of a site share are fetched once.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import OrderedDict
from collections.abc import Callable

from msgspec.structs import replace

from teia.clock import Clock
from teia.crawler.verdicts import needs_resend
from teia.crawler.visit import RENDER, ActiveVisit
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.cell.schema import BY_REQUISITE
from teia.parse.headers import parse_head
from teia.render.page import BrowserAnswer
from teia.urls import host_of, key_of, resolve

MAX_BYTES = 64 * 2**20
MAX_AGE_S, SHORT_AGE_S = 3_600.0, 60.0
"""Memory for answers of a collection, and the times for which they are used: scripts; and data, failures and errors."""

ENTRY_BYTES = 500
MAX_URL_CHARS = 4_096


@dataclasses.dataclass(slots=True, eq=False)
class _AwaitedAnswer:
    """An answer that is awaited, and the number of pages that wait for it."""

    answer: asyncio.Future[BrowserAnswer | None]
    pages: int = 0


class PageRequests:
    """Requests of one collection's pages. `admit` tells whether a URL may be requested, `queue` queues a request."""

    def __init__(self, clock: Clock, admit: Callable[[str], bool], queue: Callable[[QueuedUrl], None]) -> None:
        self._clock, self._admit, self._queue = clock, admit, queue
        self._known: OrderedDict[str, tuple[float, BrowserAnswer | None]] = OrderedDict()
        self._bytes = 0
        self._awaited: dict[str, _AwaitedAnswer] = {}

    async def fetch(self, url: str, is_data: bool = False) -> BrowserAnswer | None:
        """Fetch a URL for a page; None if it may not be fetched, or could not be. `is_data`: it is no script."""
        canonical = resolve(url, url, ()) if len(url) <= MAX_URL_CHARS else None
        if canonical is None or not self._admit(canonical):
            return None
        known = self._known.get(canonical)
        is_lasting = known is not None and known[1] is not None and not is_data and not _is_error(known[1].status)
        age_s = MAX_AGE_S if is_lasting else SHORT_AGE_S
        if known is not None and self._clock.ticks_s() - known[0] < age_s:
            self._known.move_to_end(canonical)
            return known[1]
        awaited = self._awaited.get(canonical)
        if awaited is None:
            awaited = self._awaited[canonical] = _AwaitedAnswer(asyncio.get_running_loop().create_future())
            # Not the key of the URL: this answer is no visit of a page.
            key = key_of(f"{canonical} {RENDER}")
            self._queue(QueuedUrl(canonical, key, -1, 0, 0, self._clock.now_s(), found_by=BY_REQUISITE, purpose=RENDER))
        awaited.pages += 1
        try:
            return await asyncio.shield(awaited.answer)
        finally:
            awaited.pages -= 1
            # The page was ended. If nobody else waits, the loop drops the request, unless it was sent.
            if not awaited.pages and self._awaited.get(canonical) is awaited:
                del self._awaited[canonical]

    def is_awaited(self, url: str) -> bool:
        """Tell whether a page waits for the answer to a request."""
        return url in self._awaited

    def refuse_host(self, host: str) -> None:
        """Fail the requests to a host that gets none any more."""
        for url in [each for each in self._awaited if host_of(each) == host]:
            self._answer(url, None)

    def note_end(self, visit: ActiveVisit) -> None:
        """Take the answer of a request; the commit needs its body no more. A lost one is sent again, once."""
        url, result, fetched = visit.item.url, visit.result, visit.fetched
        if needs_resend(visit):
            self._queue(dataclasses.replace(visit.item, failures=1))
            return
        answer = None
        if result is not None and fetched is not None and fetched.status and visit.outcome.isdigit():
            headers = parse_head(fetched.head).headers
            answer = BrowserAnswer(fetched.status, headers.fields, result.payload)
        if result is not None:
            visit.result = replace(result, payload=b"")
        self._answer(url, answer)
        if answer is None or not _is_private(answer):
            self._remember(url, answer)

    def _answer(self, url: str, answer: BrowserAnswer | None) -> None:
        awaited = self._awaited.pop(url, None)
        if awaited is not None and not awaited.answer.done():
            awaited.answer.set_result(answer)

    def _remember(self, url: str, answer: BrowserAnswer | None) -> None:
        _, before = self._known.pop(url, (0.0, None))
        self._bytes += _size(answer) - (_size(before) if before is not None else 0)
        self._known[url] = (self._clock.ticks_s(), answer)
        while self._bytes > MAX_BYTES and self._known:
            _, (_, oldest) = self._known.popitem(last=False)
            self._bytes -= _size(oldest)

    def give_up(self) -> None:
        """Fail all requests that were not answered, because the crawl ends."""
        for url in list(self._awaited):
            self._answer(url, None)


def _is_error(status: int) -> bool:
    """Tell whether a status is that of a server which may answer soon."""
    return status >= 500 or status in {408, 429}


def _is_private(answer: BrowserAnswer) -> bool:
    """Tell whether an answer may be used by nobody but the one who asked."""
    return any(name.lower() == "cache-control" and "no-store" in value.lower() for name, value in answer.headers)


def _size(answer: BrowserAnswer | None) -> int:
    return ENTRY_BYTES + (0 if answer is None else len(answer.body))
