"""Rows of the fetch log that are in no file yet, for the queries at the end of a crawl.

DuckDB and Arrow take a third of a second to load, which is more than a small crawl needs for all its commits. SQLite is
loaded already. It answers the SQL that both understand: times as `epoch(started)`, CAST, windows, `least`, `greatest`.
Only the columns that such queries need are present.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import chain
from operator import attrgetter
from typing import Any

from teia.lib.closing import Closing
from teia.store.fetchlog import LogPart, Rows

COLUMNS = ("started", "ended", "url", "host", "site", "kind", "address", "run", "rest_s", "rested_s")


class PendingLog(Closing):
    """Stand-in for `FetchLog` over the pending rows alone; times are seconds."""

    def __init__(self, parts: Sequence[LogPart]) -> None:
        self._db = sqlite3.connect(":memory:")
        self._db.create_function("epoch", 1, lambda value: value, deterministic=True)
        self._db.create_function("least", -1, _least, deterministic=True)
        self._db.create_function("greatest", -1, _greatest, deterministic=True)
        self._db.execute(f"CREATE TABLE fetches ({', '.join(COLUMNS)})")
        marks = ", ".join("?" * len(COLUMNS))
        rows = map(attrgetter(*COLUMNS), chain.from_iterable(part.pending for part in parts))
        self._db.executemany(f"INSERT INTO fetches VALUES ({marks})", rows)  # noqa: S608  # our own names

    def query(self, sql: str, max_rows: int = 10_000) -> Rows:
        """Answer one SELECT of ours."""
        try:
            with closing(self._db.execute(sql)) as cursor:
                # One row more than wanted tells whether the answer was cut.
                rows = cursor.fetchmany(max_rows + 1)
                columns = tuple(each[0] for each in cursor.description)
        except sqlite3.OperationalError as error:
            # The functions above fail only where a Ctrl-C comes inside one, and SQLite drops what they raised.
            if "user-defined function raised" in str(error):
                raise KeyboardInterrupt from error
            raise
        return Rows(columns, rows[:max_rows], len(rows) > max_rows)

    def add_table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Add a table beside `fetches`, looked up by its first column; another of that name is replaced."""
        self._db.execute(f"DROP TABLE IF EXISTS {name}")
        self._db.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
        self._db.execute(f"CREATE INDEX {name}_index ON {name} ({columns[0]})")
        self._db.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)  # noqa: S608  # our own names

    def close(self) -> None:
        self._db.close()


def _least(*values: Any) -> Any:
    """Emulate DuckDB's `least`, which ignores NULL."""
    return min((value for value in values if value is not None), default=None)


def _greatest(*values: Any) -> Any:
    return max((value for value in values if value is not None), default=None)
