"""A cell's `frontier.sqlite`, open: its connection, and the rows of its table `meta`.

Only modules of `teia/frontier` use the connection; all other packages call the verbs of those modules
(tests/conventions/test_frontier_sql.py).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

CLUSTER = "cluster"
"""Row of `meta` that names the cluster whose log the file is a copy of."""


class CellConnection:
    """One open cell, for the verbs that read and write its tables."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        self.path = path
        self.db = db

    def close(self) -> None:
        self.db.close()

    def meta(self, name: str) -> Any:  # Any: a number, a text or bytes, as it was stored
        """Return the value of a row of `meta`; None if there is none."""
        row = self.db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def meta_under(self, prefix: str) -> dict[str, Any]:
        """Return the rows of `meta` whose names begin with a prefix, without it."""
        # The prefix with its last character raised by one sorts just behind all names that begin with it.
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        rows = self.db.execute("SELECT name, value FROM meta WHERE name >= ? AND name < ?", (prefix, end)).fetchall()
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

    def has_table(self, name: str) -> bool:
        """Tell whether a table exists: a cell that an older teia wrote, opened read-only, may lack one."""
        return self.db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is not None

    def find_host(self, host: str) -> int | None:
        """Return the number of a host; None if it is unknown."""
        row = self.db.execute("SELECT host_id FROM hosts WHERE name = ?", (host,)).fetchone()
        return None if row is None else int(row[0])
