"""Commands to a running crawler, and what it says of itself: the tables of `control.sqlite`.

Another terminal (`teia pause`) or the web interface writes a row into `commands`; the crawler looks there every 200 ms
and marks what it did. Once a second it writes each collection's account into `runs`, so that a reader needs neither a
socket nor the crawler's attention. A run whose process is gone is over, whatever the row says.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from teia.errors import CorruptFile, StoreError

POLL_S = 0.2
ACCOUNT_S = 1.0

_DDL = """
CREATE TABLE IF NOT EXISTS commands (
    id INTEGER PRIMARY KEY AUTOINCREMENT, collection TEXT NOT NULL, command TEXT NOT NULL,
    asked_s REAL NOT NULL, done_s REAL
);
CREATE TABLE IF NOT EXISTS runs (
    collection TEXT PRIMARY KEY, pid INTEGER NOT NULL, started_s REAL NOT NULL, updated_s REAL NOT NULL,
    account TEXT NOT NULL
) WITHOUT ROWID;
"""


class Command(StrEnum):
    """What a running crawl can be told."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Run:
    """What a crawler last said of one collection."""

    collection: str
    pid: int
    started_s: float
    updated_s: float
    account: Mapping[str, Any]

    @property
    def is_alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


class Control:
    """The file `control.sqlite` of a root; any number of processes may have it open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._db = sqlite3.connect(path, isolation_level=None, timeout=5.0)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.executescript(_DDL)
        except sqlite3.OperationalError as error:
            raise StoreError(f"{path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise CorruptFile(path, str(error)) from error

    def close(self) -> None:
        self._db.close()

    # -- those who ask -------------------------------------------------------------------------------------

    def ask(self, collection: str, command: Command, now_s: float) -> int:
        """Write a command; returns its number, for `is_done`."""
        sql = "INSERT INTO commands (collection, command, asked_s) VALUES (?, ?, ?)"
        return int(self._db.execute(sql, (collection, str(command), now_s)).lastrowid or 0)

    def is_done(self, number: int) -> bool:
        row = self._db.execute("SELECT done_s FROM commands WHERE id = ?", (number,)).fetchone()
        return row is not None and row[0] is not None

    def run(self, collection: str) -> Run | None:
        """The running crawl of a collection; None if there is none."""
        sql = "SELECT collection, pid, started_s, updated_s, account FROM runs WHERE collection = ?"
        row = self._db.execute(sql, (collection,)).fetchone()
        if row is None:
            return None
        name, pid, started_s, updated_s, account = row
        run = Run(name, pid, started_s, updated_s, json.loads(account))
        return run if run.is_alive else None

    # -- the crawler ---------------------------------------------------------------------------------------

    def begin(self, collection: str, now_s: float) -> None:
        """Announce a crawl; commands that an earlier one never saw are no longer meant."""
        self._db.execute("UPDATE commands SET done_s = ? WHERE collection = ? AND done_s IS NULL", (now_s, collection))
        row = (collection, os.getpid(), now_s, now_s, "{}")
        self._db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", row)

    def account(self, collection: str, account: Mapping[str, Any], now_s: float) -> None:
        sql = "UPDATE runs SET updated_s = ?, account = ? WHERE collection = ?"
        self._db.execute(sql, (now_s, json.dumps(account), collection))

    def take(self, collection: str, now_s: float) -> list[Command]:
        """Return the commands not yet carried out, marked as done: carrying them out cannot fail."""
        sql = "SELECT id, command FROM commands WHERE collection = ? AND done_s IS NULL ORDER BY id"
        rows = self._db.execute(sql, (collection,)).fetchall()
        self._db.executemany("UPDATE commands SET done_s = ? WHERE id = ?", [(now_s, number) for number, _ in rows])
        return [Command(command) for _, command in rows]

    def end(self, collection: str) -> None:
        self._db.execute("DELETE FROM runs WHERE collection = ?", (collection,))
