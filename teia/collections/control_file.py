"""The file `control.sqlite` of a data folder: its tables, the crawler's reports, and requests to the crawler.

    requests           requests to the crawler, with their acknowledgements (`Inbox`)
    runs               last report of each running crawl
    series             numbers of crawls over time (account.py)
    dismissed          alerts that users dismissed (views/alerts.py)
    standing_commands  a user's commands that hold until another replaces them (commands.py)
    scheduled_runs     runs of scheduled collections (scheduled_runs.py)
    crawl_runs         all other crawls, as runs (`CrawlReports.begin_run`)

Any number of processes may have the file open. On a full disk the crawler still reads requests and writes reports:
SQLite checkpoints the log into the file and reuses the log's space. Both files are made large enough when a crawl
begins, so that neither needs to grow.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from teia.clock import Clock
from teia.durable import lock_holder
from teia.errors import StoreError, TeiaError, UsageError
from teia.frontier.cell.bulk import BulkSelection
from teia.lib.closing import Closing
from teia.lib.message import Message, decoded, encoded, message_code
from teia.lib.undecodable import UNDECODABLE
from teia.records import Command, Edit, RemovedPages
from teia.signals.websub import HubCall, HubVerdict
from teia.sqlite import LIMIT_LOG, PUBLIC, back_up, copy_before, create_database, sqlite_errors

SPARE_BYTES = 256 * 1024
"""Spare room in bytes: several times the size of an account with its list of the last requests."""

_TABLES = """
CREATE TABLE IF NOT EXISTS requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT, collection TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
    who TEXT NOT NULL DEFAULT '', requested_s REAL NOT NULL, progress INTEGER NOT NULL DEFAULT 0, answer TEXT,
    done_s REAL
);
CREATE INDEX IF NOT EXISTS requests_pending ON requests (id) WHERE done_s IS NULL;
CREATE TABLE IF NOT EXISTS dismissed (
    collection TEXT NOT NULL, kind TEXT NOT NULL, about TEXT NOT NULL, badness REAL NOT NULL, who TEXT NOT NULL,
    time_s REAL NOT NULL, PRIMARY KEY (collection, kind, about)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS runs (
    collection TEXT PRIMARY KEY, pid INTEGER NOT NULL, started_s REAL NOT NULL, updated_s REAL NOT NULL,
    account TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS series (
    collection TEXT NOT NULL, step_s REAL NOT NULL, time_s REAL NOT NULL, point TEXT NOT NULL,
    PRIMARY KEY (collection, step_s, time_s)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS standing_commands (
    collection TEXT PRIMARY KEY, wanted_s REAL, paused_s REAL, stopped_s REAL, removal TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS scheduled_runs (
    collection TEXT NOT NULL, number INTEGER NOT NULL, due_s REAL NOT NULL, began_s REAL NOT NULL, seen_s REAL NOT NULL,
    deadline_s REAL, ended_s REAL, why TEXT NOT NULL DEFAULT '',
    known INTEGER NOT NULL DEFAULT 0, visited INTEGER NOT NULL DEFAULT 0, new INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (collection, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS crawl_runs (
    collection TEXT NOT NULL, number INTEGER NOT NULL, began_s REAL NOT NULL, seen_s REAL NOT NULL, ended_s REAL,
    why TEXT NOT NULL DEFAULT '', PRIMARY KEY (collection, number)
) WITHOUT ROWID;
"""
_OLD_TABLES = ("commands", "changes", "wishes", "deeds", "rereads", "orders")
# A file may lack some of the old tables: those are created empty, so that one script fits all. A second process that
# comes to the same script later copies nothing.
_MIGRATION = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS commands (id, collection, command, asked_s, done_s);
CREATE TABLE IF NOT EXISTS changes (id, collection, edits, asked_s, answer);
CREATE TABLE IF NOT EXISTS wishes (id, collection, url, asked_s);
CREATE TABLE IF NOT EXISTS deeds (id, collection, mark, chosen, who, asked_s, number, done_s);
CREATE TABLE IF NOT EXISTS rereads (collection, origin, asked_s);
CREATE TABLE IF NOT EXISTS orders (collection, wanted_s, paused_s, stopped_s, removal);
INSERT INTO requests (collection, kind, body, requested_s)
    SELECT collection, 'command', json_object('command', command), asked_s FROM commands WHERE done_s IS NULL
    ORDER BY id;
INSERT INTO requests (collection, kind, body, requested_s)
    SELECT collection, 'change', json_object('edits', json(edits)), asked_s FROM changes WHERE answer IS NULL
    ORDER BY id;
INSERT INTO requests (collection, kind, body, requested_s)
    SELECT collection, 'visit', json_object('url', url), asked_s FROM wishes ORDER BY id;
INSERT INTO requests (collection, kind, body, who, requested_s, progress, done_s)
    SELECT collection, 'bulk', json_object('mark', mark, 'selection',
        json_set(json_remove(chosen, '$.deed'), '$.action', json_extract(chosen, '$.deed'))),
        who, asked_s, number, done_s
    FROM deeds ORDER BY id;
INSERT INTO requests (collection, kind, body, requested_s)
    SELECT collection, 'robots', json_object('origin', origin), asked_s FROM rereads;
INSERT OR REPLACE INTO standing_commands SELECT collection, wanted_s, paused_s, stopped_s, removal FROM orders;
DROP TABLE commands; DROP TABLE changes; DROP TABLE wishes; DROP TABLE deeds; DROP TABLE rereads; DROP TABLE orders;
COMMIT;
"""


class ControlFile(Closing):
    """An open `control.sqlite`, for one thread at a time; the subclasses own its tables."""

    SYNCHRONOUS: ClassVar = "NORMAL"
    """`FULL` in subclasses whose rows must survive a crash of the machine."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with sqlite_errors(path):
            if not path.exists():
                create_database(path, _TABLES)
            self._db = sqlite3.connect(path, isolation_level=None, timeout=5.0, check_same_thread=False)
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute(LIMIT_LOG)
                self._db.execute(f"PRAGMA synchronous = {self.SYNCHRONOUS}")
                self._db.executescript(_TABLES)
                # A crawler of an older version may be using the old tables: then the next opening migrates them.
                is_old = bool(self._tables().intersection(_OLD_TABLES))
                if is_old and lock_holder(path.with_name("lock")) in {None, os.getpid()}:
                    back_up(self._db, copy_before(path, 0), PUBLIC)
                    self._db.executescript(_MIGRATION)
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        self._db.close()

    def forget_collection(self, collection: str) -> None:
        """Delete all rows of a collection, so that a new one of the same name does not inherit them."""
        for table in self._tables():
            if any(row[1] == "collection" for row in self._db.execute(f"PRAGMA table_info({table})")):
                self._write(f"DELETE FROM {table} WHERE collection = ?", (collection,))  # noqa: S608  # our own names

    def next_run_number(self, collection: str) -> int:
        """Return the number of a collection's next run; runs by schedule and other crawls are counted together."""
        sql = """SELECT coalesce(max(number), 0) FROM (
            SELECT number FROM scheduled_runs WHERE collection = :name
            UNION ALL SELECT number FROM crawl_runs WHERE collection = :name)"""
        return int(self._read(sql, {"name": collection})[0][0]) + 1

    def _tables(self) -> set[str]:
        return {row[0] for row in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def _reserve_room(self) -> None:
        """Grow the file and its log while the disk has room; later writes reuse the free pages."""
        with suppress(sqlite3.OperationalError):  # the disk has none, or another process holds the database
            self._db.execute("CREATE TABLE IF NOT EXISTS spare (room BLOB)")
            self._db.execute("INSERT INTO spare VALUES (zeroblob(?))", (SPARE_BYTES,))
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
            self._db.execute("DROP TABLE spare")

    def _write(self, sql: str, values: Sequence[object] | Mapping[str, object]) -> sqlite3.Cursor:
        """Run one statement; on a full disk, once more in the space of the log."""
        with sqlite_errors(self.path):
            try:
                return self._db.execute(sql, values)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                    raise
                # The log moves into the file, and its space is used for one more try.
                self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
                return self._db.execute(sql, values)

    def _read(self, sql: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
        with sqlite_errors(self.path):
            return self._db.execute(sql, values).fetchall()


# ---- reports ---------------------------------------------------------------------------------------------------------
# Once a second the crawler writes each collection's account into `runs`, so that a reader needs neither a socket nor
# the crawler's attention. A run whose process is gone is over, regardless of its row.

ACCOUNT_S = 1.0


@dataclass(frozen=True, slots=True)
class CrawlReport:
    """Last report of a crawler about one collection."""

    collection: str
    pid: int
    started_s: float
    updated_s: float
    account: Mapping[str, Any]

    @property
    def is_alive(self) -> bool:
        # Signal 0 only tests whether the process exists, also one of another user.
        with suppress(PermissionError):
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                return False
        return True


RUNS_KEPT = 1_000
"""Number of runs of a collection that are kept."""

INTERRUPTED = "interrupted"
"""Reason why a run ended whose process died."""


class CrawlReports(ControlFile):
    """The tables `runs`, `series`, `dismissed` and `crawl_runs`."""

    def running_crawl(self, collection: str) -> CrawlReport | None:
        """Return the running crawl of a collection; None if there is none."""
        sql = "SELECT collection, pid, started_s, updated_s, account FROM runs WHERE collection = ?"
        for name, pid, started_s, updated_s, account in self._read(sql, (collection,)):
            values = json.loads(account)
            if "paused_why" in values:
                values["paused_why"] = decoded(values["paused_why"])
            run = CrawlReport(name, pid, started_s, updated_s, values)
            return run if run.is_alive else None
        return None

    def begin(self, collection: str, now_s: float) -> None:
        """Announce a crawl of this process."""
        row = (collection, os.getpid(), now_s, now_s, "{}")
        self._write("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", row)
        # While the disk has room: later reports need none.
        self._reserve_room()

    def write_account(self, collection: str, account: Mapping[str, Any], now_s: float) -> None:
        sql = "UPDATE runs SET updated_s = ?, account = ? WHERE collection = ?"
        written = {key: encoded(each) if isinstance(each, Message) else each for key, each in account.items()}
        self._write(sql, (now_s, json.dumps(written), collection))

    def end(self, collection: str) -> None:
        self._write("DELETE FROM runs WHERE collection = ?", (collection,))

    def begin_run(self, collection: str, began_s: float) -> int:
        """Record that a crawl begins that no schedule started; return its number. An open one was interrupted."""
        sql = "UPDATE crawl_runs SET ended_s = seen_s, why = ? WHERE collection = ? AND ended_s IS NULL"
        self._write(sql, (INTERRUPTED, collection))
        number = self.next_run_number(collection)
        row = (collection, number, began_s, began_s)
        self._write("INSERT INTO crawl_runs (collection, number, began_s, seen_s) VALUES (?, ?, ?, ?)", row)
        self._write("DELETE FROM crawl_runs WHERE collection = ? AND number <= ?", (collection, number - RUNS_KEPT))
        return number

    def note_run(self, collection: str, number: int, now_s: float, end: str = "") -> None:
        """Record that a run is under way, or why it has ended."""
        sql = "UPDATE crawl_runs SET seen_s = ?, ended_s = ?, why = ? WHERE collection = ? AND number = ?"
        self._write(sql, (now_s, now_s if end else None, end, collection, number))

    def recorded_runs(self, collection: str, limit: int) -> list[tuple[Any, ...]]:
        """Return (number, due_s, began_s, seen_s, ended_s, why) of the last runs of both kinds, newest first."""
        sql = """SELECT number, due_s, began_s, seen_s, ended_s, why FROM scheduled_runs WHERE collection = :name
            UNION ALL SELECT number, NULL, began_s, seen_s, ended_s, why FROM crawl_runs WHERE collection = :name
            ORDER BY number DESC LIMIT :limit"""
        return self._read(sql, {"name": collection, "limit": limit})

    def points(self, collection: str, step_s: float, since_s: float) -> list[tuple[float, list[float | None]]]:
        """Return the points of a series after a time, oldest first, each with its time."""
        sql = "SELECT time_s, point FROM series WHERE collection = ? AND step_s = ? AND time_s > ? ORDER BY time_s"
        return [(time_s, json.loads(point)) for time_s, point in self._read(sql, (collection, step_s, since_s))]

    def note_point(
        self, collection: str, step_s: float, now_s: float, point: Sequence[float | None], kept_s: float = inf
    ) -> None:
        """Write a point of a series, and delete those older than `kept_s`."""
        row = (collection, step_s, now_s, json.dumps(point))
        self._write("INSERT OR REPLACE INTO series VALUES (?, ?, ?, ?)", row)
        sql = "DELETE FROM series WHERE collection = ? AND step_s = ? AND time_s < ?"
        self._write(sql, (collection, step_s, now_s - kept_s))

    def dismiss(self, collection: str, kind: str, about: str, badness: float, who: str, now_s: float) -> None:
        """Dismiss an alert (views/alerts.py)."""
        row = (collection, kind, about, badness, who, now_s)
        self._write("INSERT OR REPLACE INTO dismissed VALUES (?, ?, ?, ?, ?, ?)", row)

    def restore(self, collection: str, kind: str, about: str) -> bool:
        """Show an alert again; return True if it was dismissed."""
        sql = "DELETE FROM dismissed WHERE collection = ? AND kind = ? AND about = ?"
        return self._write(sql, (collection, kind, about)).rowcount > 0

    def dismissed_alerts(self, collection: str) -> list[tuple[Any, ...]]:
        """Return (kind, about, badness, who, time) of the dismissed alerts."""
        sql = "SELECT kind, about, badness, who, time_s FROM dismissed WHERE collection = ? ORDER BY time_s DESC"
        return self._read(sql, (collection,))


# ---- requests to the crawler -----------------------------------------------------------------------------------------


DAY_S = 86_400.0
WAIT_POLL_S = 0.02
_COLUMNS = "id, collection, kind, body, who, requested_s, progress, answer, done_s"


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


class RemovePages(RequestBody, frozen=True):
    """Remove all pages that these rules exclude from tables and archive (transfer/removal.py).

    In a cluster the removal gets this `mark`; with `may_join`, an earlier one of these rules that is not complete is
    continued instead.
    """

    KIND = "remove"
    rules: tuple[str, ...]
    mark: str = ""
    may_join: bool = False


KINDS: dict[str, type[RequestBody]] = {
    kind.KIND: kind
    for kind in (GiveCommand, ChangeSettings, VisitPage, RunBulkAction, FetchRobots, JudgeHubCall, RemovePages)
}

# ---- the table -------------------------------------------------------------------------------------------------------


class RequestAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The crawler's answer: settings that it applies already, why it rejected a change, URLs of a bulk action."""

    now: tuple[str, ...] = ()
    error: str = ""
    urls: int = 0
    hub: HubVerdict | None = None
    removed: RemovedPages | None = None


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
    """The table `requests`; it reads reports too, because a requester waits only while a crawl is running.

    A command line or the web interface sends a request (`send`): a struct of one of the `KINDS`. The crawler reads the
    pending requests every 200 ms and passes each to the handler of its kind (poll_requests.py). The time in `done_s` is
    the acknowledgement, which every requester can wait for (`wait`); some kinds also have an answer or a progress.

    A settings change is in the collection's teia.toml before it is requested. So a change is never only here: a change
    that a death leaves unanswered is in the file. Commands and changes are for the crawl that is running; visits, bulk
    actions and robots.txt requests wait for a crawl if none runs.
    """

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
    except (*UNDECODABLE, TeiaError) as error:  # of another version; the other requests are read
        why = f"this version of teia cannot read the request: {error}"
    return Request(number, collection, content, who, requested_s, progress, found, done_s, why)
