"""Standing orders: what people want of collections, whether or not anybody crawls them now (T2).

They are a table of `control.sqlite`. A command (control.py) is for a crawl that runs. An order stands until another one
is given, through deaths and restarts of whoever crawls: a collection that was started is crawled until that has ended,
one that was paused stays paused, one that was stopped rests until it is started again or its schedule begins the next
run. `teia serve` gives orders, and the crawler it looks after goes by them; a crawl that somebody began in a terminal
does not.

Removing a collection takes both sides: the order says that it is to go, the crawler lets go of its files and says so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from teia.crawl.control import Command
from teia.crawl.duties import Task, duty_of
from teia.crawl.runs import ScheduledRun
from teia.crawl.schedule import Schedule
from teia.frontier.database import sqlite_errors

_DDL = """
CREATE TABLE IF NOT EXISTS orders (
    collection TEXT PRIMARY KEY, wanted_s REAL, paused_s REAL, stopped_s REAL, removal TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
"""
_GIVEN = {
    Command.RUN: "wanted_s = :now_s, paused_s = NULL, stopped_s = NULL",
    Command.PAUSE: "paused_s = :now_s",
    Command.RESUME: "paused_s = NULL",
    Command.STOP: "wanted_s = NULL, paused_s = NULL, stopped_s = :now_s",
}
ASKED, RELEASED = "asked", "released"


@dataclass(frozen=True, slots=True)
class Order:
    """What is wanted of one collection, and since when; None: that is not wanted. `removal`: ASKED, then RELEASED."""

    wanted_s: float | None = None
    paused_s: float | None = None
    stopped_s: float | None = None
    removal: str = ""

    def holds_back(self, schedule: Schedule | None, now_s: float) -> bool:
        """Whether the collection was stopped, and no start of its schedule came since."""
        again_s = self.again_s(schedule)
        return bool(self.removal) or (self.stopped_s is not None and (again_s is None or now_s < again_s))

    def again_s(self, schedule: Schedule | None) -> float | None:
        """When a stopped collection begins again by itself."""
        return None if schedule is None or self.stopped_s is None else schedule.next_start(self.stopped_s)


NO_ORDER = Order()


def is_needed(order: Order, schedule: Schedule | None, last: ScheduledRun | None, now_s: float) -> bool:
    """Whether somebody has to be there who crawls a collection, now or when its time comes."""
    if order.removal or order.paused_s is not None:
        return False
    if order.wanted_s is not None:
        return True
    if order.holds_back(schedule, now_s):
        return order.again_s(schedule) is not None
    return schedule is not None and duty_of(schedule, last, now_s).task is not Task.NOTHING


class Orders:
    """The table `orders`; any number of processes may have it open, each for one thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with sqlite_errors(path):
            self._db = sqlite3.connect(path, isolation_level=None, timeout=5.0)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(_DDL)

    def close(self) -> None:
        self._db.close()

    def all(self) -> Mapping[str, Order]:
        sql = "SELECT collection, wanted_s, paused_s, stopped_s, removal FROM orders"
        with sqlite_errors(self.path):
            return {name: Order(*rest) for name, *rest in self._db.execute(sql)}

    def of(self, collection: str) -> Order:
        return self.all().get(collection, NO_ORDER)

    def give(self, collection: str, command: Command, now_s: float) -> None:
        """Let a command stand from now on."""
        self._write(f"UPDATE orders SET {_GIVEN[command]} WHERE collection = :name", collection, now_s=now_s)  # noqa: S608

    def done(self, collection: str, wanted_s: float | None) -> None:
        """Note that what was wanted then is done; what was asked for since still stands."""
        sql = "UPDATE orders SET wanted_s = NULL WHERE collection = :name AND wanted_s = :wanted_s"
        self._write(sql, collection, wanted_s=wanted_s)

    def ask_removal(self, collection: str) -> None:
        """Say that a collection is to go; whoever has its files open lets go of them."""
        self._write(
            "UPDATE orders SET wanted_s = NULL, removal = :word WHERE collection = :name", collection, word=ASKED
        )

    def release(self, collection: str) -> None:
        """Say that nothing of a collection that is to go is open any more."""
        self._write("UPDATE orders SET removal = :word WHERE collection = :name", collection, word=RELEASED)

    def forget(self, collection: str) -> None:
        with sqlite_errors(self.path):
            self._db.execute("DELETE FROM orders WHERE collection = ?", (collection,))

    def _write(self, sql: str, collection: str, **values: object) -> None:
        with sqlite_errors(self.path):
            self._db.execute("INSERT OR IGNORE INTO orders (collection) VALUES (?)", (collection,))
            self._db.execute(sql, {"name": collection, **values})
