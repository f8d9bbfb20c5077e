"""Subscriptions: a page or a search is watched, and its subscriber is notified of changes.

    subscription   the watched page or search, and its channel: a webhook (URL, secret), a feed (the key in its address)
    notice         one message: kept for the feed, and pending for the webhook until its receiver accepted it

A notice and the progress of its subscription are one transaction: after a death nothing is forgotten, and nothing is
noticed twice. A notice is sent to its webhook after that, and is removed when an answer confirmed its arrival. A
process that dies in between sends it once more, under the same id. The messages of one subscription are sent one after
the other. While its receiver fails, each wait is twice as long as the last. After TRIES one message is given up, and
after PATIENCE_S each that waits; given-up messages are kept and shown.

Everything is bounded. Each subscription has a limit of waiting notices, and the oldest make room; the feed has another.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from teia.errors import UsageError
from teia.sqlite import PRIVATE, Schema, transaction
from teia.urls import canonicalize

PAGE, SEARCH = "page", "search"

MOST, MOST_SEARCHES = 1_000, 100
"""Most subscriptions of a collection, and of these searches, which cost more."""

MAX_WAITING = 1_000
MAX_NOTICES = 100
MAX_NOTIFIED = 10_000
"""Limits of one subscription: notices that wait for its webhook, notices in its feed, results already announced."""

TRIES = 12
PATIENCE_S = 3 * 86_400.0
FIRST_WAIT_S, LONGEST_WAIT_S = 30.0, 6 * 3_600.0

_PRAGMAS = ("PRAGMA busy_timeout = 5000", "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL")
_DDL = """
CREATE TABLE subscriptions (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, what TEXT NOT NULL, webhook TEXT NOT NULL, secret TEXT NOT NULL,
    feed TEXT NOT NULL UNIQUE, made_s REAL NOT NULL, made_by TEXT NOT NULL, seen_s REAL NOT NULL,
    failures INTEGER NOT NULL DEFAULT 0, again_s REAL NOT NULL DEFAULT 0, outcome TEXT NOT NULL DEFAULT '',
    delivered INTEGER NOT NULL DEFAULT 0, given_up INTEGER NOT NULL DEFAULT 0, dropped INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE positions (
    subscription TEXT NOT NULL, cell INTEGER NOT NULL, change INTEGER NOT NULL, PRIMARY KEY (subscription, cell)
) WITHOUT ROWID;
CREATE TABLE notified (
    subscription TEXT NOT NULL, key INTEGER NOT NULL, changed_s REAL NOT NULL, PRIMARY KEY (subscription, key)
) WITHOUT ROWID;
CREATE TABLE notices (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, subscription TEXT NOT NULL, time_s REAL NOT NULL,
    message BLOB NOT NULL, is_waiting INTEGER NOT NULL, tries INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL DEFAULT ''
);
CREATE INDEX notices_of ON notices (subscription, number);
CREATE INDEX notices_waiting ON notices (subscription, number) WHERE is_waiting;
"""
SCHEMA = Schema(2, _DDL, _PRAGMAS, renamed={"told": ("notified", {})}, mode=PRIVATE)

DELIVERED, GIVEN_UP, DROPPED = "delivered", "given up", "dropped"
"""Final states of a notice; empty where there was no webhook."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A watched page or search. `what` is a URL or a query; `webhook` is empty where there is a feed alone.

    `seen_s` is the last checked visit of a page. `failures` in a row, the last with this `outcome`, keep its webhook
    from being tried before `again_s`. The last three count notices.
    """

    id: str
    kind: str
    what: str
    webhook: str
    secret: str
    feed: str
    made_s: float
    made_by: str
    seen_s: float
    failures: int = 0
    again_s: float = 0.0
    outcome: str = ""
    delivered: int = 0
    given_up: int = 0
    dropped: int = 0

    def __repr__(self) -> str:
        return f"Subscription({self.id})"  # secrets stay out of logs


_COLUMNS = (
    "id, kind, what, webhook, secret, feed, made_s, made_by, seen_s, failures, again_s, outcome,"
    " delivered, given_up, dropped"
)


class Notice(NamedTuple):
    """One message; `state` is its final state, empty while it waits or where there is no webhook."""

    number: int
    id: str
    subscription: str
    time_s: float
    message: bytes
    is_waiting: bool
    tries: int
    state: str


_NOTICE = "number, id, subscription, time_s, message, is_waiting, tries, state"


def wait_s(failures: int) -> float:
    """Return the wait in seconds before a receiver is tried again after so many failures in a row."""
    return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(failures - 1, 20)) if failures else 0.0


class Subscriptions:
    """The subscriptions of a collection; `db` was opened with this module's tables."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

    def close(self) -> None:
        self.db.close()

    # -- subscriptions -------------------------------------------------------------------------------------

    def add(self, subscription: Subscription, positions: Mapping[int, int]) -> None:
        """Add a subscription; for a search, from these positions on. UsageError if there are too many."""
        with transaction(self.db):
            # Counted inside the transaction: two requests at once cannot both take the last place.
            total, searches = self.db.execute(
                "SELECT count(*), coalesce(sum(kind = ?), 0) FROM subscriptions", (SEARCH,)
            ).fetchone()
            if total >= MOST or (subscription.kind == SEARCH and searches >= MOST_SEARCHES):
                raise UsageError(
                    f"there are already {total:,} subscriptions, {searches:,} of them to searches; remove some"
                    f" first (maximum: {MOST:,} and {MOST_SEARCHES:,})"
                )
            marks = ", ".join("?" * len(row := _row(subscription)))
            self.db.execute(f"INSERT INTO subscriptions ({_COLUMNS}) VALUES ({marks})", row)  # noqa: S608
            self.set_positions(subscription.id, positions)

    def remove(self, identity: str) -> bool:
        """Forget a subscription with all its notices; False if there is none."""
        with transaction(self.db):
            found = self.db.execute("DELETE FROM subscriptions WHERE id = ?", (identity,)).rowcount
            for table in ("positions", "notified", "notices"):
                self.db.execute(f"DELETE FROM {table} WHERE subscription = ?", (identity,))  # noqa: S608  # our own
        return bool(found)

    def forget_pages(self, matches: Callable[[str], bool]) -> tuple[int, int]:
        """End subscriptions to matching URLs and delete notices that name one; return the numbers of both."""
        ended = [each.id for each in self.all() if each.kind == PAGE and matches(each.what)]
        for identity in ended:
            self.remove(identity)
        rows = self.db.execute("SELECT number, message FROM notices").fetchall()
        named = [(number,) for number, message in rows if any(map(matches, _urls_in(json.loads(message))))]
        with transaction(self.db):
            self.db.executemany("DELETE FROM notices WHERE number = ?", named)
        return len(ended), len(named)

    def all(self) -> list[Subscription]:
        """Return all subscriptions, oldest first."""
        rows = self.db.execute(f"SELECT {_COLUMNS} FROM subscriptions ORDER BY made_s, id")  # noqa: S608  # our own
        return [Subscription(*row) for row in rows]

    def get(self, identity: str) -> Subscription | None:
        return self._one("id", identity)

    def with_feed(self, key: str) -> Subscription | None:
        """Return the subscription whose feed has this key in its address."""
        return self._one("feed", key) if key else None

    def _one(self, column: str, value: str) -> Subscription | None:
        row = self.db.execute(f"SELECT {_COLUMNS} FROM subscriptions WHERE {column} = ?", (value,)).fetchone()  # noqa: S608
        return None if row is None else Subscription(*row)

    # -- progress; inside a transaction with the notices ----------------------------------------------------

    def record_visit(self, identity: str, seen_s: float) -> None:
        """Record the last checked visit of a page."""
        self.db.execute("UPDATE subscriptions SET seen_s = ? WHERE id = ?", (seen_s, identity))

    def positions(self, identity: str) -> dict[int, int]:
        """Return by cell the last change that was checked for a search."""
        return dict(self.db.execute("SELECT cell, change FROM positions WHERE subscription = ?", (identity,)))

    def set_positions(self, identity: str, positions: Mapping[int, int]) -> None:
        rows = [(identity, cell, change) for cell, change in positions.items()]
        self.db.executemany("INSERT OR REPLACE INTO positions VALUES (?, ?, ?)", rows)

    def notified_versions(self, identity: str, keys: Iterable[int]) -> dict[int, float]:
        """Return by key the version of each result in the last notification, as the time of its change."""
        sql = "SELECT changed_s FROM notified WHERE subscription = ? AND key = ?"
        found = {key: self.db.execute(sql, (identity, key)).fetchone() for key in keys}
        return {key: row[0] for key, row in found.items() if row is not None}

    def record_notified(self, identity: str, versions: Mapping[int, float]) -> None:
        """Store the announced versions of results; the oldest make room."""
        rows = [(identity, key, changed_s) for key, changed_s in versions.items()]
        self.db.executemany("INSERT OR REPLACE INTO notified VALUES (?, ?, ?)", rows)
        sql = """
            DELETE FROM notified WHERE subscription = ?1 AND key IN
                (SELECT key FROM notified WHERE subscription = ?1 ORDER BY changed_s DESC LIMIT -1 OFFSET ?2)
        """
        self.db.execute(sql, (identity, MAX_NOTIFIED))

    def queue_notice(self, subscription: Subscription, identity: str, time_s: float, message: bytes) -> bool:
        """Queue a notice; return False if it was queued before. Inside a transaction."""
        sql = "INSERT OR IGNORE INTO notices (id, subscription, time_s, message, is_waiting) VALUES (?, ?, ?, ?, ?)"
        row = (identity, subscription.id, time_s, message, bool(subscription.webhook))
        # The id is made from the event, so a repetition after a crash finds it there.
        if not self.db.execute(sql, row).rowcount:
            return False
        sql = """
            UPDATE notices SET is_waiting = 0, state = ?3 WHERE is_waiting AND number IN
                (SELECT number FROM notices WHERE subscription = ?1 AND is_waiting
                 ORDER BY number DESC LIMIT -1 OFFSET ?2)
        """
        # LIMIT -1 OFFSET n: all but the newest n.
        dropped = self.db.execute(sql, (subscription.id, MAX_WAITING, DROPPED)).rowcount
        sql = "UPDATE subscriptions SET dropped = dropped + ? WHERE id = ?"
        self.db.execute(sql, (dropped, subscription.id))
        sql = """
            DELETE FROM notices WHERE NOT is_waiting AND number IN
                (SELECT number FROM notices WHERE subscription = ?1 ORDER BY number DESC LIMIT -1 OFFSET ?2)
        """
        self.db.execute(sql, (subscription.id, MAX_NOTICES))
        return True

    # -- notices -------------------------------------------------------------------------------------------

    def notices(self, identity: str, limit: int = MAX_NOTICES) -> list[Notice]:
        """Return the last notices of a subscription, newest first."""
        sql = f"SELECT {_NOTICE} FROM notices WHERE subscription = ? ORDER BY number DESC LIMIT ?"  # noqa: S608
        return [Notice(*row) for row in self.db.execute(sql, (identity, limit))]

    def count_waiting(self, identity: str) -> int:
        """Count the notices that wait for a webhook."""
        sql = "SELECT count(*) FROM notices WHERE subscription = ? AND is_waiting"
        return int(self.db.execute(sql, (identity,)).fetchone()[0])

    def due_notices(self, now_s: float) -> list[tuple[Subscription, Notice]]:
        """Return the next notice of every subscription whose webhook may be tried now."""
        sql = f"""
            SELECT {_NOTICE} FROM notices WHERE number IN (
                SELECT (SELECT min(number) FROM notices AS n WHERE n.subscription = s.id AND n.is_waiting)
                FROM subscriptions AS s WHERE s.webhook <> '' AND s.again_s <= ?
            ) ORDER BY number
        """  # noqa: S608  # our own names
        found = [Notice(*row) for row in self.db.execute(sql, (now_s,))]
        return [(subscription, each) for each in found if (subscription := self.get(each.subscription)) is not None]

    def record_delivery(self, notice: Notice) -> None:
        """Record that a webhook accepted a notice."""
        with transaction(self.db):
            self._settle(notice, DELIVERED)
            sql = """
                UPDATE subscriptions SET failures = 0, again_s = 0, outcome = '', delivered = delivered + 1
                WHERE id = ?
            """
            self.db.execute(sql, (notice.subscription,))

    def record_failure(
        self, notice: Notice, outcome: str, now_s: float, *, least_s: float = 0.0, is_final: bool
    ) -> None:
        """Record that a webhook did not accept a notice; its receiver requests a pause of `least_s`."""
        with transaction(self.db):
            subscription = self.get(notice.subscription)
            # The subscription was removed while the message was on its way.
            if subscription is None:
                return
            failures = subscription.failures + 1
            sql = "UPDATE subscriptions SET failures = ?, again_s = ?, outcome = ? WHERE id = ?"
            again_s = now_s + max(wait_s(failures), least_s)
            self.db.execute(sql, (failures, again_s, outcome[:200], subscription.id))
            self.db.execute("UPDATE notices SET tries = tries + 1 WHERE number = ?", (notice.number,))
            if is_final or notice.tries + 1 >= TRIES:
                self._settle(notice, GIVEN_UP)
                self.db.execute("UPDATE subscriptions SET given_up = given_up + 1 WHERE id = ?", (subscription.id,))
            self._give_up_old(subscription.webhook, now_s - PATIENCE_S)

    def _give_up_old(self, webhook: str, before_s: float) -> None:
        """Give up all notices that have waited too long for a receiver, including those that were never sent."""
        old = "FROM notices AS n WHERE n.subscription = s.id AND n.is_waiting AND n.time_s < ?2"
        count = f"UPDATE subscriptions AS s SET given_up = given_up + (SELECT count(*) {old}) WHERE s.webhook = ?1"  # noqa: S608
        self.db.execute(count, (webhook, before_s))
        sql = """
            UPDATE notices SET is_waiting = 0, state = ?3 WHERE is_waiting AND time_s < ?2
            AND subscription IN (SELECT id FROM subscriptions WHERE webhook = ?1)
        """
        self.db.execute(sql, (webhook, before_s, GIVEN_UP))

    def _settle(self, notice: Notice, state: str) -> None:
        self.db.execute("UPDATE notices SET is_waiting = 0, state = ? WHERE number = ?", (state, notice.number))


def _row(subscription: Subscription) -> tuple[object, ...]:
    return tuple(getattr(subscription, name.strip()) for name in _COLUMNS.split(","))


def _urls_in(value: Any) -> Iterator[str]:
    """Yield every URL in a message."""
    if isinstance(value, str) and value.startswith(("http://", "https://")):
        canonical = canonicalize(value)
        if canonical is not None:
            yield canonical
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _urls_in(each)
