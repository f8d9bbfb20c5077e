"""Commands to a running crawler, and its reports: the tables of `control.sqlite`.

Another terminal (`teia pause`) or the web interface writes a row into `commands`; the crawler reads the table every 200
ms and marks what it did. Once a second it writes each collection's account into `runs`, so that a reader needs neither
a socket nor the crawler's attention. A run whose process is gone is over, regardless of its row.

A change of settings (edits.py) is a row of `changes`. The requester writes the collection's teia.toml first. The
crawler applies the rows that came after it read its own settings, and answers each. So a change is never only here: a
change that a death leaves unanswered is in the file.

`series` is the history of the account's numbers: a point every few seconds for the last minutes, one every ten minutes
for the last month (series.py).

On a full disk the crawler still reads commands and writes reports: SQLite checkpoints the log into the file and reuses
the log's space. Both files are made large enough when a crawl begins, so that neither needs to grow.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teia.errors import DiskFull, UsageError
from teia.records import Command
from teia.sqlite import LIMIT_LOG, create_database, sqlite_errors

POLL_S = 0.2
ACCOUNT_S = 1.0
RETENTION_S = 86_400.0
"""Retention of an answered change, in seconds."""

SPARE_BYTES = 256 * 1024
"""Spare room in bytes: several times the size of an account with its list of the last requests."""

MAX_VISIT_REQUESTS = 1_000
"""Most waiting visit requests of a collection."""

ACTIONS_RETENTION_S = 30 * 86_400.0
"""Retention of a completed bulk action, in seconds."""

_ACTIONS_SQL = "SELECT id, mark, chosen, who, asked_s, number, done_s FROM deeds"
_DDL = """
CREATE TABLE IF NOT EXISTS commands (
    id INTEGER PRIMARY KEY AUTOINCREMENT, collection TEXT NOT NULL, command TEXT NOT NULL,
    asked_s REAL NOT NULL, done_s REAL
);
CREATE TABLE IF NOT EXISTS changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, collection TEXT NOT NULL, edits TEXT NOT NULL, asked_s REAL NOT NULL,
    answer TEXT
);
CREATE TABLE IF NOT EXISTS wishes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, collection TEXT NOT NULL, url TEXT NOT NULL, asked_s REAL NOT NULL,
    UNIQUE (collection, url)
);
CREATE TABLE IF NOT EXISTS deeds (
    id INTEGER PRIMARY KEY AUTOINCREMENT, collection TEXT NOT NULL, mark TEXT NOT NULL, chosen TEXT NOT NULL,
    who TEXT NOT NULL, asked_s REAL NOT NULL, number INTEGER NOT NULL DEFAULT 0, done_s REAL
);
CREATE TABLE IF NOT EXISTS rereads (
    collection TEXT NOT NULL, origin TEXT NOT NULL, asked_s REAL NOT NULL, PRIMARY KEY (collection, origin)
) WITHOUT ROWID;
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
"""


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
        try:
            # Signal 0 only tests whether the process exists.
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


def keep_log_open(path: Path) -> sqlite3.Connection:
    """Keep the file's log alive until the returned connection is closed, by any thread.

    Without it the first reader recreates the log, which fails on a full disk.
    """
    ControlFile(path).close()
    with sqlite_errors(path):
        connection = sqlite3.connect(path, check_same_thread=False)
        # Only a read opens the log.
        connection.execute("SELECT count(*) FROM runs").fetchone()
    return connection


class ControlFile:
    """The file `control.sqlite` of a root; any number of processes may have it open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with sqlite_errors(path):
            if not path.exists():
                create_database(path, _DDL)
            self._db = sqlite3.connect(path, isolation_level=None, timeout=5.0)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute(LIMIT_LOG)
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.executescript(_DDL)

    def close(self) -> None:
        self._db.close()

    # -- requesters ----------------------------------------------------------------------------------------

    def send_command(self, collection: str, command: Command, now_s: float) -> int:
        """Write a command; return its number, for `is_done`."""
        sql = "INSERT INTO commands (collection, command, asked_s) VALUES (?, ?, ?)"
        return self._write(sql, (collection, str(command), now_s))

    def is_done(self, number: int) -> bool:
        row = self._db.execute("SELECT done_s FROM commands WHERE id = ?", (number,)).fetchone()
        return row is not None and row[0] is not None

    def running_crawl(self, collection: str) -> CrawlReport | None:
        """Return the running crawl of a collection; None if there is none."""
        sql = "SELECT collection, pid, started_s, updated_s, account FROM runs WHERE collection = ?"
        row = self._db.execute(sql, (collection,)).fetchone()
        if row is None:
            return None
        name, pid, started_s, updated_s, account = row
        run = CrawlReport(name, pid, started_s, updated_s, json.loads(account))
        return run if run.is_alive else None

    def request_change(self, collection: str, edits: str, now_s: float) -> int:
        """Write a change that is already in the collection's file; return its number, for `answer`."""
        self._write("DELETE FROM changes WHERE asked_s < ?", (now_s - RETENTION_S,))
        sql = "INSERT INTO changes (collection, edits, asked_s) VALUES (?, ?, ?)"
        return self._write(sql, (collection, edits, now_s))

    def answer(self, number: int) -> str | None:
        """Return the crawler's answer to a change; None until it has answered."""
        row = self._db.execute("SELECT answer FROM changes WHERE id = ?", (number,)).fetchone()
        return None if row is None else row[0]

    def points(self, collection: str, step_s: float, since_s: float) -> list[tuple[float, list[float | None]]]:
        """Return the points of a series after a time, oldest first, each with its time."""
        sql = "SELECT time_s, point FROM series WHERE collection = ? AND step_s = ? AND time_s > ? ORDER BY time_s"
        rows = self._db.execute(sql, (collection, step_s, since_s))
        return [(time_s, json.loads(point)) for time_s, point in rows]

    def request_visit(self, collection: str, url: str, now_s: float) -> None:
        """Request a visit of a known page, after the politeness delay; the request waits for a crawl if none runs."""
        if len(self.visit_requests(collection)) >= MAX_VISIT_REQUESTS:
            raise UsageError(f"{MAX_VISIT_REQUESTS:,} pages of {collection} are already waiting to be checked")
        sql = "INSERT OR IGNORE INTO wishes (collection, url, asked_s) VALUES (?, ?, ?)"
        self._write(sql, (collection, url, now_s))

    def request_robots(self, collection: str, origin: str, now_s: float) -> None:
        """Request a new fetch of a robots.txt; the request waits for a crawl if none runs, for a day at most."""
        self._write("DELETE FROM rereads WHERE asked_s < ?", (now_s - RETENTION_S,))
        self._write("INSERT OR REPLACE INTO rereads VALUES (?, ?, ?)", (collection, origin, now_s))

    def robots_requests(self, collection: str) -> list[tuple[str, float]]:
        """Return (origin, time of request) of the robots.txt files that users want fetched again."""
        sql = "SELECT origin, asked_s FROM rereads WHERE collection = ? LIMIT ?"
        return self._db.execute(sql, (collection, MAX_VISIT_REQUESTS)).fetchall()

    def remove_robots_request(self, collection: str, origin: str) -> None:
        self._write("DELETE FROM rereads WHERE collection = ? AND origin = ?", (collection, origin))

    def dismiss(self, collection: str, kind: str, about: str, badness: float, who: str, now_s: float) -> None:
        """Dismiss an alert (views/alerts.py)."""
        row = (collection, kind, about, badness, who, now_s)
        self._write("INSERT OR REPLACE INTO dismissed VALUES (?, ?, ?, ?, ?, ?)", row)

    def restore(self, collection: str, kind: str, about: str) -> bool:
        """Show an alert again; return True if it was dismissed."""
        sql = "DELETE FROM dismissed WHERE collection = ? AND kind = ? AND about = ?"
        with sqlite_errors(self.path):
            return self._db.execute(sql, (collection, kind, about)).rowcount > 0

    def dismissed_alerts(self, collection: str) -> list[tuple[Any, ...]]:
        """Return (kind, about, badness, who, time) of the dismissed alerts."""
        sql = "SELECT kind, about, badness, who, time_s FROM dismissed WHERE collection = ? ORDER BY time_s DESC"
        return self._db.execute(sql, (collection,)).fetchall()

    def request_action(self, collection: str, mark: str, chosen: str, who: str, now_s: float) -> int:
        """Record a bulk action (bulk.py); return its number."""
        self._write("DELETE FROM deeds WHERE done_s < ?", (now_s - ACTIONS_RETENTION_S,))
        sql = "INSERT INTO deeds (collection, mark, chosen, who, asked_s) VALUES (?, ?, ?, ?, ?)"
        return self._write(sql, (collection, mark, chosen, who, now_s))

    def recent_actions(self, collection: str, limit: int) -> list[tuple[Any, ...]]:
        """Return (number, mark, what, who, requested, URLs, done) of the last bulk actions, newest first."""
        sql = f"{_ACTIONS_SQL} WHERE collection = ? ORDER BY id DESC LIMIT ?"
        return self._db.execute(sql, (collection, limit)).fetchall()

    # -- the crawler ---------------------------------------------------------------------------------------

    def last_change(self) -> int:
        """Return the number of the newest change. Call it before reading the settings, which may lack later ones."""
        # AUTOINCREMENT: the number stays when old rows are deleted.
        row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").fetchone()
        return 0 if row is None else int(row[0])

    def changes(self, collection: str, since: int) -> list[tuple[int, str]]:
        """Return (number, edits) of the changes after `since` that have no answer."""
        sql = "SELECT id, edits FROM changes WHERE collection = ? AND id > ? AND answer IS NULL ORDER BY id"
        return self._db.execute(sql, (collection, since)).fetchall()

    def answer_change(self, number: int, answer: str) -> None:
        self._write("UPDATE changes SET answer = ? WHERE id = ?", (answer, number))

    def visit_requests(self, collection: str) -> list[tuple[int, str]]:
        """Return (number, URL) of the pages that users want visited."""
        sql = "SELECT id, url FROM wishes WHERE collection = ? ORDER BY id LIMIT ?"
        return self._db.execute(sql, (collection, MAX_VISIT_REQUESTS)).fetchall()

    def remove_visit_request(self, number: int) -> None:
        """Forget a visit request: it is in the frontier."""
        self._write("DELETE FROM wishes WHERE id = ?", (number,))

    def pending_actions(self, collection: str) -> list[tuple[Any, ...]]:
        """Like `recent_actions`, of the actions that are not done, oldest first."""
        sql = f"{_ACTIONS_SQL} WHERE collection = ? AND done_s IS NULL ORDER BY id"
        return self._db.execute(sql, (collection,)).fetchall()

    def last_action_done_s(self, collection: str) -> float | None:
        """Return the time at which the last bulk action was completed; None if there was none."""
        sql = "SELECT max(done_s) FROM deeds WHERE collection = ?"
        found: float | None = self._db.execute(sql, (collection,)).fetchone()[0]
        return found

    def note_action_progress(self, number: int, urls: int) -> None:
        """Record how many URLs an action has covered so far."""
        self._write("UPDATE deeds SET number = ? WHERE id = ?", (urls, number))

    def complete_action(self, number: int, urls: int, now_s: float) -> None:
        self._write("UPDATE deeds SET number = ?, done_s = ? WHERE id = ?", (urls, now_s, number))

    def begin(self, collection: str, now_s: float) -> None:
        """Announce a crawl; commands that an earlier one never read are dropped."""
        self._write("UPDATE commands SET done_s = ? WHERE collection = ? AND done_s IS NULL", (now_s, collection))
        row = (collection, os.getpid(), now_s, now_s, "{}")
        self._write("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", row)
        # While the disk has room: later reports need none.
        self._reserve_room()

    def _reserve_room(self) -> None:
        """Grow the file and its log while the disk has room; later writes reuse the free pages."""
        with suppress(sqlite3.OperationalError):  # the disk has none, or another process holds the database
            self._db.execute("CREATE TABLE IF NOT EXISTS spare (room BLOB)")
            self._db.execute("INSERT INTO spare VALUES (zeroblob(?))", (SPARE_BYTES,))
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
            self._db.execute("DROP TABLE spare")

    def write_account(self, collection: str, account: Mapping[str, Any], now_s: float) -> None:
        sql = "UPDATE runs SET updated_s = ?, account = ? WHERE collection = ?"
        self._write(sql, (now_s, json.dumps(account), collection))

    def note_point(self, collection: str, step_s: float, now_s: float, point: Sequence[float | None]) -> None:
        """Write a point of a series."""
        row = (collection, step_s, now_s, json.dumps(point))
        self._write("INSERT OR REPLACE INTO series VALUES (?, ?, ?, ?)", row)

    def drop_points(self, collection: str, step_s: float, before_s: float) -> None:
        sql = "DELETE FROM series WHERE collection = ? AND step_s = ? AND time_s < ?"
        self._write(sql, (collection, step_s, before_s))

    def take_commands(self, collection: str, now_s: float) -> list[Command]:
        """Return the pending commands, marked as done: executing them cannot fail.

        On a full disk even the mark may fail; then they are returned again, which does no harm.
        """
        sql = "SELECT id, command FROM commands WHERE collection = ? AND done_s IS NULL ORDER BY id"
        rows = self._db.execute(sql, (collection,)).fetchall()
        for number, _ in rows:
            with suppress(DiskFull):
                self._write("UPDATE commands SET done_s = ? WHERE id = ?", (now_s, number))
        return [Command(command) for _, command in rows]

    def end(self, collection: str) -> None:
        self._write("DELETE FROM runs WHERE collection = ?", (collection,))

    def _write(self, sql: str, values: Sequence[object]) -> int:
        """Run one statement; return the number of the row it inserted."""
        with sqlite_errors(self.path):
            try:
                return int(self._db.execute(sql, values).lastrowid or 0)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                    raise
                # The log moves into the file, and its space is used for one more try.
                self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
                return int(self._db.execute(sql, values).lastrowid or 0)
