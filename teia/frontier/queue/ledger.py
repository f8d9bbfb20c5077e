"""The ledger: politeness delays of servers and addresses on disk, shared by all collections of a root.

The crawler writes it after every group commit, with the places whose delay changed. Two marks make a crash
harmless. While a crawler runs, the ledger is *open*; a clean stop closes it. If a crawler finds it open at the
start, the requests under way at the crash are unknown, so every host that the ledger or a frontier knows waits its
full delay from now. If it finds it closed, the recorded times are exact.

Times on disk are Unix seconds. A calendar that was set back meanwhile can only lengthen a delay, and never beyond
MAX_DELAY_S. A calendar that was set forward while no crawler ran makes delays end sooner.

A crash of the machine, unlike a crash of the process, may lose data that was not synced. So the two marks are
synced, and so is a delay longer than LONG_DELAY_S: it comes from Retry-After or is a back-off, and no other file
records it. Ordinary delays are not synced, because every place waits its full delay after such a crash anyway.

Entries whose delay ended long ago are deleted, so that the size of the file follows the hosts being visited and not
all hosts ever seen. The history of our own delay is kept too: the audit of a crawl whose delay was changed needs
it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from teia.config.sections import CourtesySettings
from teia.frontier.queue.host_rules import agreements
from teia.sqlite import Schema, open_database, open_to_read, sqlite_errors

LONG_DELAY_S = 60.0
# Changes of the courtesy settings that are kept for audits.
MAX_HISTORY = 500
FORGOTTEN_AFTER_S = 3_600.0
"""Age after which the entry of a ready place is deleted; a request cut off by a crash is younger."""

_DDL = """
CREATE TABLE delays (
    kind TEXT NOT NULL, name TEXT NOT NULL, ready_at_s REAL NOT NULL, delay_s REAL NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_SHARED = "CREATE TABLE IF NOT EXISTS shared (address TEXT PRIMARY KEY, sites INTEGER NOT NULL) WITHOUT ROWID;"
"""Created when it is missing, because older ledgers were written without it."""

_PRAGMAS = ("PRAGMA journal_mode = WAL", "PRAGMA busy_timeout = 10000")
SCHEMA = Schema(2, _DDL, _PRAGMAS, _SHARED, {"places": ("delays", {"rest_s": "delay_s"})})
_SYNC = "PRAGMA synchronous = FULL"
_DO_NOT_SYNC = "PRAGMA synchronous = NORMAL"


@dataclass(frozen=True, slots=True)
class DelayEntry:
    """Entry of one place: `kind` is `server` or `address`; `delay_s` is the delay after each answer.

    `sites` is the number of registered domains that share an address, where that is more than a few.
    """

    kind: str
    name: str
    ready_at_s: float
    delay_s: float
    sites: int = 0


@dataclass(frozen=True, slots=True)
class CourtesyInForce:
    """Our own courtesy settings from a time on: delay, parallel requests per host, and agreed delays by host."""

    since_s: float
    delay_s: float
    per_host: int
    agreed: tuple[tuple[str, float], ...] = ()

    @classmethod
    def from_settings(cls, since_s: float, courtesy: CourtesySettings) -> CourtesyInForce:
        agreed = ((host, each.delay_s) for host, each in agreements(courtesy.agreed_delays).items())
        return cls(since_s, courtesy.delay_s, courtesy.per_host, tuple(sorted(agreed)))


class Ledger:
    """The file `ledger.sqlite` of a root. The root's lock makes sure that one process opens it at a time."""

    MAX_DELAY_S = 86_400.0

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = open_database(path, SCHEMA)

    def open(self) -> bool:
        """Mark the ledger as in use; return True if the last user stopped cleanly."""
        with sqlite_errors(self.path):
            row = self._db.execute("SELECT value FROM meta WHERE name = 'state'").fetchone()
            self._mark("open")
        # A new file counts as clean: nothing was requested before.
        return row is None or row[0] == "closed"

    def _mark(self, state: str) -> None:
        # Synced: if `open` were lost in a crash of the machine, the next start would take the times for exact.
        self._db.execute(_SYNC)
        self._db.execute("INSERT OR REPLACE INTO meta VALUES ('state', ?)", (state,))

    def delays(self, now_s: float) -> list[DelayEntry]:
        """Return every delay that has not ended, none longer than a day from now."""
        # If the calendar was set back, no place waits longer than a day.
        latest_s = now_s + self.MAX_DELAY_S
        delays = [entry for entry in self.all_entries() if entry.ready_at_s > now_s]
        return [replace(entry, ready_at_s=min(entry.ready_at_s, latest_s)) for entry in delays]

    def all_entries(self) -> list[DelayEntry]:
        """Return every place requested since the last clean stop; `delay_s` is at most a day.

        After a crash each place waits its `delay_s` again in full.
        """
        with sqlite_errors(self.path):
            rows = self._db.execute("SELECT kind, name, ready_at_s, delay_s FROM delays").fetchall()
        return [
            DelayEntry(kind, name, ready_at_s, min(delay_s, self.MAX_DELAY_S))
            for kind, name, ready_at_s, delay_s in rows
        ]

    def write(self, delays: Iterable[DelayEntry]) -> None:
        """Record delays in one transaction."""
        delays = list(delays)
        rows = [(entry.kind, entry.name, entry.ready_at_s, entry.delay_s) for entry in delays]
        shared = [(entry.name, entry.sites) for entry in delays if entry.sites]
        with sqlite_errors(self.path):
            self._db.execute(_SYNC if any(row[3] > LONG_DELAY_S for row in rows) else _DO_NOT_SYNC)
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany("INSERT OR REPLACE INTO delays VALUES (?, ?, ?, ?)", rows)
                self._db.executemany("INSERT OR REPLACE INTO shared VALUES (?, ?)", shared)
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def shared_addresses(self) -> dict[str, int]:
        """Return the number of sites at each address that many share; a property of the address, so it is kept."""
        with sqlite_errors(self.path):
            return dict(self._db.execute("SELECT address, sites FROM shared"))

    def forget_expired(self, now_s: float) -> None:
        """Delete the places whose delay ended long ago."""
        with sqlite_errors(self.path):
            self._db.execute("DELETE FROM delays WHERE ready_at_s < ?", (now_s - FORGOTTEN_AFTER_S,))

    def note_courtesy(self, now: CourtesyInForce) -> None:
        """Record the courtesy settings in force from a time on, if they differ from the last ones."""
        with sqlite_errors(self.path):
            history = _history(self._db)
            # Equal except for the time: nothing changed.
            if not history or replace(history[-1], since_s=now.since_s) != now:
                value = json.dumps([astuple(each) for each in (*history[-MAX_HISTORY:], now)])
                self._db.execute("INSERT OR REPLACE INTO meta VALUES ('courtesy', ?)", (value,))

    def close(self, *, clean: bool, now_s: float) -> None:
        """Close the file; after a clean stop, delays that ended are deleted and the remaining ones are exact."""
        try:
            with sqlite_errors(self.path):
                if clean:
                    # Delays that ended mean nothing after a clean stop. After a crash every place is needed
                    # (`all_entries`).
                    self._db.execute("DELETE FROM delays WHERE ready_at_s < ?", (now_s,))
                    self._mark("closed")
        finally:
            self._db.close()


def read_shared_addresses(path: Path) -> dict[str, int]:
    """Read the number of sites at shared addresses from a ledger that may be in use; empty if there is none."""
    if not path.exists():
        return {}
    with closing(open_to_read(path, SCHEMA)) as db, sqlite_errors(path):
        has_any = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'shared'").fetchone()
        return dict(db.execute("SELECT address, sites FROM shared")) if has_any else {}


def read_courtesy_history(path: Path) -> list[CourtesyInForce]:
    """Read the history of our own delay from a ledger that may be in use; empty if there is none."""
    if not path.exists():
        return []
    with closing(open_to_read(path, SCHEMA)) as db, sqlite_errors(path):
        return _history(db)


def _history(db: sqlite3.Connection) -> list[CourtesyInForce]:
    row = db.execute("SELECT value FROM meta WHERE name = 'courtesy'").fetchone()
    return [] if row is None else [_from_json(*each) for each in json.loads(row[0])]


def _from_json(
    since_s: float, delay_s: float, per_host: int, agreed: Iterable[tuple[str, float]] = ()
) -> CourtesyInForce:
    return CourtesyInForce(since_s, delay_s, per_host, tuple((host, agreed_s) for host, agreed_s in agreed))


def read_servers(path: Path) -> dict[str, tuple[float, float]]:
    """Read each server's ready time and delay from a ledger that another process may be writing."""
    if not path.exists():
        return {}
    with closing(open_to_read(path, SCHEMA)) as db, sqlite_errors(path):
        rows = db.execute("SELECT name, ready_at_s, delay_s FROM delays WHERE kind = 'server'")
        return {name: (ready_at_s, delay_s) for name, ready_at_s, delay_s in rows}


def read_ready_at_s(path: Path, host: str) -> float:
    """Read the time when a server's delay ends from a ledger that another process may be writing; 0 if it has none."""
    if not path.exists():
        return 0.0
    with closing(open_to_read(path, SCHEMA)) as db, sqlite_errors(path):
        row = db.execute("SELECT ready_at_s FROM delays WHERE kind = 'server' AND name = ?", (host,)).fetchone()
    return 0.0 if row is None else float(row[0])
