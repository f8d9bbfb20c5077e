"""The ledger: until when each server and address rests, on disk, for all collections of a root.

Written after every group commit with the places whose rest changed. Two marks make death harmless: while a crawler
runs the ledger is *open*; a clean stop closes it. Found open at the start, the requests under way at the death are
unknown, so every host the ledger or a frontier knows rests its full time from now; found closed, the
recorded times are exact. Times on disk are Unix seconds: a calendar that was set back meanwhile can only lengthen a
rest, and never beyond MAX_REST_S; one that was set forward while no crawler ran makes rests look over sooner.

A crash of the machine, unlike one of the process, may lose what was not synced. So the two marks are synced, and so is
a rest longer than LONG_REST_S: it was asked for (Retry-After) or is a back-off, and nothing else remembers it.
Ordinary ones are not, because everything rests its full time after such a crash anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from teia.frontier.database import open_database, sqlite_errors

VERSION = 1
LONG_REST_S = 60.0

_DDL = """
CREATE TABLE places (
    kind TEXT NOT NULL, name TEXT NOT NULL, ready_at_s REAL NOT NULL, rest_s REAL NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_SYNC = "PRAGMA synchronous = FULL"
_DO_NOT_SYNC = "PRAGMA synchronous = NORMAL"


@dataclass(frozen=True, slots=True)
class Rest:
    """One place's entry: `kind` is `server` or `address`; `rest_s` is how long it rests after each answer."""

    kind: str
    name: str
    ready_at_s: float
    rest_s: float


class Ledger:
    """The file `ledger.sqlite` of a root. One process has it at a time (the root's lock sees to that)."""

    MAX_REST_S = 86_400.0

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = open_database(path, _DDL, VERSION, ("PRAGMA journal_mode = WAL", "PRAGMA busy_timeout = 10000"))

    def open(self) -> bool:
        """Mark the ledger as in use; returns whether the last user stopped cleanly."""
        with sqlite_errors(self.path):
            row = self._db.execute("SELECT value FROM meta WHERE name = 'state'").fetchone()
            self._mark("open")
        return row is None or row[0] == "closed"

    def _mark(self, state: str) -> None:
        self._db.execute(_SYNC)
        self._db.execute("INSERT OR REPLACE INTO meta VALUES ('state', ?)", (state,))

    def rests(self, now_s: float) -> list[Rest]:
        """Every rest that is not over, none longer than a day from now."""
        latest_s = now_s + self.MAX_REST_S
        rests = [rest for rest in self.all_places() if rest.ready_at_s > now_s]
        return [replace(rest, ready_at_s=min(rest.ready_at_s, latest_s)) for rest in rests]

    def all_places(self) -> list[Rest]:
        """Every place asked since the last clean stop; `rest_s`, which a death makes run again, is a day at most."""
        with sqlite_errors(self.path):
            rows = self._db.execute("SELECT kind, name, ready_at_s, rest_s FROM places").fetchall()
        return [Rest(kind, name, ready_at_s, min(rest_s, self.MAX_REST_S)) for kind, name, ready_at_s, rest_s in rows]

    def write(self, rests: Iterable[Rest]) -> None:
        """Record rests in one transaction."""
        rows = [(rest.kind, rest.name, rest.ready_at_s, rest.rest_s) for rest in rests]
        with sqlite_errors(self.path):
            self._db.execute(_SYNC if any(row[3] > LONG_REST_S for row in rows) else _DO_NOT_SYNC)
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany("INSERT OR REPLACE INTO places VALUES (?, ?, ?, ?)", rows)
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def close(self, *, clean: bool, now_s: float) -> None:
        """Close the file; after a clean stop rests that are over are dropped and the rest are exact."""
        try:
            with sqlite_errors(self.path):
                if clean:
                    self._db.execute("DELETE FROM places WHERE ready_at_s < ?", (now_s,))
                    self._mark("closed")
        finally:
            self._db.close()
