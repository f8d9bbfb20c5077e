"""Reports of the crawler in `control.sqlite`: accounts of running crawls, numbers over time, dismissed alerts.

Once a second the crawler writes each collection's account into `runs`, so that a reader needs neither a socket nor the
crawler's attention. A run whose process is gone is over, regardless of its row. `series` is the history of the
account's numbers: a point every few seconds for the last minutes, one every ten minutes for the last month (series.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Any

from teia.collections.control_file import ControlFile
from teia.lib.message import Message, decoded, encoded

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


class CrawlReports(ControlFile):
    """The tables `runs`, `series` and `dismissed`."""

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
