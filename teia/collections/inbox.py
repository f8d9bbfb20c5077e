"""Requests to the crawler: one table of `control.sqlite`, with an acknowledgement of each request.

A command line or the web interface sends a request (`Inbox.send`): a struct of one of the `KINDS`. The crawler reads
the pending requests every 200 ms and passes each to the handler of its kind (poll_requests.py). The time in `done_s` is
the acknowledgement, which every requester can wait for (`Inbox.wait`); some kinds also have an answer or a progress.

A settings change is in the collection's teia.toml before it is requested. So a change is never only here: a change that
a death leaves unanswered is in the file. Commands and changes are for the crawl that is running; visits, bulk actions
and robots.txt requests wait for a crawl if none runs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from teia.clock import Clock
from teia.collections.control_file import CrawlReports
from teia.errors import StoreError, TeiaError, UsageError
from teia.frontier.cell.bulk import BulkSelection
from teia.lib.message import Message, message_code
from teia.records import Command, Edit
from teia.signals.websub import HubCall, HubVerdict

DAY_S = 86_400.0
WAIT_POLL_S = 0.02
_COLUMNS = "id, collection, kind, body, who, requested_s, progress, answer, done_s"

# ---- kinds of requests -----------------------------------------------------------------------------------------------


class RequestBody(msgspec.Struct, frozen=True):
    """Content of a request. Each subclass is a kind; its values are those of the column `kind`."""

    KIND: ClassVar[str]
    WAITS_S: ClassVar[float] = 0.0
    """Time for which a request waits for a crawl; 0: it is for the crawl that is running."""

    KEPT_S: ClassVar[float] = DAY_S
    """Retention of a completed request, in seconds."""

    IS_UNIQUE: ClassVar[bool] = False
    """Whether a second equal request is the pending one."""

    MOST_PENDING: ClassVar[int] = 1_000_000
    TOO_MANY: ClassVar[str] = ""


class GiveCommand(RequestBody, frozen=True):
    """Pause, resume, stop or run a crawl."""

    KIND = "command"
    command: Command


class ChangeSettings(RequestBody, frozen=True):
    """Apply edits to the settings of a running crawl; without edits, look for new collections."""

    KIND = "change"
    edits: tuple[Edit, ...]


class VisitPage(RequestBody, frozen=True):
    """Visit a known page after its host's politeness delay."""

    KIND, WAITS_S, IS_UNIQUE, MOST_PENDING = "visit", inf, True, 1_000
    TOO_MANY = message_code("{most:,} pages of {collection} are already waiting to be checked")
    url: str


class RunBulkAction(RequestBody, frozen=True):
    """Run an action on many URLs; cells store its progress under its unique `mark` (frontier/cell/bulk.py)."""

    KIND, WAITS_S, KEPT_S, MOST_PENDING = "bulk", inf, 30 * DAY_S, 20
    TOO_MANY = message_code("{most} actions on {collection} are already pending; wait until they are done")
    mark: str
    selection: BulkSelection


class FetchRobots(RequestBody, frozen=True):
    """Fetch a robots.txt again; waits for a crawl for a day at most."""

    KIND, WAITS_S, IS_UNIQUE = "robots", DAY_S, True
    origin: str


class JudgeHubCall(RequestBody, frozen=True):
    """Judge a hub's call at a callback (WebSub) whose subscription another node has; `mark` is unique."""

    KIND, WAITS_S, KEPT_S, MOST_PENDING = "hub", 10.0, 60.0, 100
    TOO_MANY = message_code("{most} calls of hubs on {collection} are already pending")
    mark: str
    call: HubCall


KINDS: dict[str, type[RequestBody]] = {
    kind.KIND: kind for kind in (GiveCommand, ChangeSettings, VisitPage, RunBulkAction, FetchRobots, JudgeHubCall)
}

# ---- the table -------------------------------------------------------------------------------------------------------


class RequestAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The crawler's answer: settings that it applies already, why it rejected a change, URLs of a bulk action."""

    now: tuple[str, ...] = ()
    error: str = ""
    urls: int = 0
    hub: HubVerdict | None = None


Body = TypeVar("Body", bound=RequestBody)


@dataclass(frozen=True, slots=True)
class Request(Generic[Body]):
    """A request. `progress` counts the URLs of a bulk action so far; `done_s` is None until the request is done.

    `unreadable` says why this version cannot read the content; `body` is then a bare `RequestBody`.
    """

    id: int
    collection: str
    body: Body
    who: str
    requested_s: float
    progress: int
    answer: RequestAnswer | None
    done_s: float | None
    unreadable: str = ""


class Inbox(CrawlReports):
    """The table `requests`; it reads reports too, because a requester waits only while a crawl is running."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.failed: set[int] = set()
        """Requests whose failure the crawler has logged."""

    # -- requesters ----------------------------------------------------------------------------------------

    def send(self, collection: str, body: RequestBody, now_s: float, who: str = "") -> int:
        """Write a request; return its number, for `get` and `wait`."""
        limits = (now_s - body.KEPT_S, now_s - max(body.KEPT_S, body.WAITS_S))
        self._write("DELETE FROM requests WHERE kind = ? AND (done_s < ? OR requested_s < ?)", (body.KIND, *limits))
        pending = self.pending(collection, type(body))
        if len(pending) >= body.MOST_PENDING:
            raise UsageError(Message(body.TOO_MANY, most=body.MOST_PENDING, collection=collection))
        if body.IS_UNIQUE and (same := [each.id for each in pending if each.body == body]):
            return same[0]
        row = (collection, body.KIND, msgspec.json.encode(body).decode(), who, now_s)
        sql = "INSERT INTO requests (collection, kind, body, who, requested_s) VALUES (?, ?, ?, ?, ?)"
        return int(self._write(sql, row).lastrowid or 0)

    def get(self, number: int) -> Request[Any] | None:
        return next(iter(self._select("id = ?", number)), None)

    def wait(self, number: int, clock: Clock, timeout_s: float, message: str) -> Request[Any] | None:
        """Wait until a request is done; return None if no crawl runs that could do it.

        After the timeout a StoreError has the message.
        """
        until = clock.ticks_s() + timeout_s
        while (request := self.get(number)) is not None and request.done_s is None:
            if self.running_crawl(request.collection) is None:
                return None
            if clock.ticks_s() > until:
                raise StoreError(message)
            time.sleep(WAIT_POLL_S)
        return request

    def recent(self, collection: str, kind: type[Body], limit: int) -> list[Request[Body]]:
        """Return the last requests of a kind, newest first."""
        found = self._select("collection = ? AND kind = ? ORDER BY id DESC LIMIT ?", collection, kind.KIND, limit)
        return [each for each in found if not each.unreadable]

    def last_done_s(self, collection: str, kind: type[RequestBody]) -> float | None:
        """Return the time at which the last request of a kind was completed; None if there was none."""
        sql = "SELECT max(done_s) FROM requests WHERE collection = ? AND kind = ?"
        found: float | None = self._read(sql, (collection, kind.KIND))[0][0]
        return found

    # -- the crawler ---------------------------------------------------------------------------------------

    def drop_stale(self, now_s: float) -> None:
        """Mark the commands and changes so far as done: they were for an earlier crawl.

        A crawler calls it before it reads its settings, which then have those changes; it applies later ones.
        """
        for request in self.all_pending():
            if not request.body.WAITS_S and not request.unreadable:
                self.finish(request.id, now_s)

    def all_pending(self) -> list[Request[Any]]:
        """Return the requests of all collections that are not done, oldest first; unreadable ones too."""
        return self._select("done_s IS NULL ORDER BY id")

    def pending(self, collection: str, kind: type[Body]) -> list[Request[Body]]:
        """Return the requests of one kind that are not done, oldest first."""
        found = self._select("done_s IS NULL AND collection = ? AND kind = ? ORDER BY id", collection, kind.KIND)
        return [each for each in found if not each.unreadable]

    def note_progress(self, number: int, progress: int) -> None:
        self._write("UPDATE requests SET progress = ? WHERE id = ?", (progress, number))

    def finish(self, number: int, now_s: float, answer: RequestAnswer | None = None) -> None:
        """Acknowledge a request that is not done; None is the answer to one that was dropped."""
        text, urls = (None, 0) if answer is None else (msgspec.json.encode(answer).decode(), answer.urls)
        sql = "UPDATE requests SET done_s = ?, answer = ?, progress = ? WHERE id = ? AND done_s IS NULL"
        self._write(sql, (now_s, text, urls, number))

    def _select(self, where: str, *values: object) -> list[Request[Any]]:
        rows = self._read(f"SELECT {_COLUMNS} FROM requests WHERE {where}", values)  # noqa: S608  # our own clauses
        # A later version may know more kinds.
        return [_request(*row) for row in rows if row[2] in KINDS]


def _request(
    number: int, collection: str, kind: str, body: str, who: str, requested_s: float, progress: int,
    answer: str | None, done_s: float | None,
) -> Request[Any]:  # fmt: skip
    content, found, why = RequestBody(), None, ""
    try:
        found = None if answer is None else msgspec.json.decode(answer, type=RequestAnswer)
        content = msgspec.json.decode(body, type=KINDS[kind])
    except (msgspec.MsgspecError, TeiaError) as error:  # of another version; the other requests are read
        why = f"this version of teia cannot read the request: {error}"
    return Request(number, collection, content, who, requested_s, progress, found, done_s, why)
