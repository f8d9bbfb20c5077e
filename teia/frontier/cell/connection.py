"""A cell's `frontier.sqlite`, open: its connection, and the rows of its table `meta`.

Only modules of `teia/frontier` use the connection; all other packages call the verbs of those modules
(tests/conventions/test_frontier_sql.py).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from teia.sqlite import data_version, sqlite_errors
from teia.urls import site_of, slot_of

RowKey = tuple[int, int, int]
"""(slot, host id, key) of a URL."""

LOOK_UP_SIZES = (64, 8, 1)
"""Numbers of URLs that one query looks up; few different ones, so that SQLite's statements are prepared once."""

CLUSTER = "cluster"
"""Row of `meta` that names the cluster whose log the file is a copy of."""


class CellConnection:
    """One open cell, for the verbs that read and write its tables."""

    has_shorter_paths = True
    """False if the table `shorter_paths` is known to be empty (shorter_paths.py)."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        self.path = path
        self.db = db

    def close(self) -> None:
        self.db.close()

    def rows(self, sql: str, *values: Any) -> Iterator[Any]:  # Any: tuples of columns
        """Yield the rows of a query; an error of SQLite is a StoreError about the file."""
        with sqlite_errors(self.path):
            yield from self.db.execute(sql, values)

    def row(self, sql: str, *values: Any) -> Any:  # Any: a tuple of columns
        """Return the first row of a query; None if there is none."""
        with sqlite_errors(self.path):
            return self.db.execute(sql, values).fetchone()

    def look_up(self, row_keys: Iterable[RowKey], columns: str, joined: str = "") -> dict[RowKey, Any]:
        """Return columns of `urls AS u`, and of a table joined to it, of those URLs that are known.

        Many URLs of a host in one query take a third of the time of a query for each.
        """
        found: dict[RowKey, Any] = {}
        for (slot, host_id), of_host in groupby(sorted(row_keys), itemgetter(0, 1)):
            keys, start = [key for _, _, key in of_host], 0
            for size in LOOK_UP_SIZES:
                while start + size <= len(keys):
                    sql, values = _look_up_sql(columns, joined, size), (slot, host_id, *keys[start : start + size])
                    for key, *row in self.db.execute(sql, values):
                        found[slot, host_id, key] = row
                    start += size
        return found

    def data_version(self) -> int:
        """Return a number that changes when another connection has committed to the file."""
        return data_version(self.db)

    def begin_snapshot(self) -> None:
        """See the file as it is now, until `end_snapshot` or `close`."""
        with sqlite_errors(self.path):
            self.db.execute("BEGIN")
            # BEGIN alone takes no snapshot in SQLite; the first read does.
            self.db.execute("SELECT count(*) FROM meta").fetchone()

    def end_snapshot(self) -> None:
        """See later commits again."""
        self.db.execute("ROLLBACK")

    def sort_on_disk(self) -> None:
        """Let large sorts of this connection use files instead of memory."""
        self.db.execute("PRAGMA temp_store = FILE")

    def has_table(self, name: str) -> bool:
        """Tell whether a table exists: a cell that an older teia wrote, opened read-only, may lack one."""
        return self.row("SELECT 1 FROM pragma_table_info(?)", name) is not None

    # -- rows of `meta` ------------------------------------------------------------------------------------

    def meta(self, name: str) -> Any:  # Any: a number, a text or bytes, as it was stored
        """Return the value of a row of `meta`; None if there is none."""
        row = self.row("SELECT value FROM meta WHERE name = ?", name)
        return None if row is None else row[0]

    def meta_under(self, prefix: str) -> dict[str, Any]:
        """Return the rows of `meta` whose names begin with a prefix, without it."""
        # The prefix with its last character raised by one sorts just behind all names that begin with it.
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        rows = self.rows("SELECT name, value FROM meta WHERE name >= ? AND name < ?", prefix, end)
        return {name.removeprefix(prefix): value for name, value in rows}

    def set_meta(self, rows: Mapping[str, Any]) -> None:
        """Store rows of `meta`; inside a transaction."""
        self.db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows.items())

    def delete_meta(self, names: Iterable[str]) -> None:
        """Delete rows of `meta`; inside a transaction."""
        self.db.executemany("DELETE FROM meta WHERE name = ?", [(name,) for name in names])

    @property
    def is_of_cluster(self) -> bool:
        """True if the cell belongs to a cluster."""
        return self.meta(CLUSTER) is not None

    def last_change(self) -> int:
        """Return the number of changes so far."""
        return int(self.meta("changes") or 0)

    # -- numbers of hosts ----------------------------------------------------------------------------------

    def find_host(self, host: str) -> int | None:
        """Return the number of a host; None if it is unknown."""
        row = self.row("SELECT host_id FROM hosts WHERE name = ?", host)
        return None if row is None else int(row[0])

    def with_names(self, host_ids: Iterable[int]) -> list[tuple[int, str]]:
        """Return (number, name) of hosts, sorted by number."""
        sql = "SELECT host_id, name FROM hosts WHERE host_id = ?"
        return [self.row(sql, host_id) for host_id in sorted(host_ids)]

    def find_row_key(self, host: str, key: int) -> RowKey | None:
        """Return the row key of a URL; None if its host is unknown."""
        host_id = self.find_host(host)
        return None if host_id is None else (slot_of(site_of(host)), host_id, key)


@lru_cache
def _look_up_sql(columns: str, joined: str, size: int) -> str:
    marks = ", ".join("?" * size)
    return f"SELECT u.key, {columns} FROM urls AS u {joined} WHERE u.slot = ? AND u.host_id = ? AND u.key IN ({marks})"  # noqa: S608  # our own text
