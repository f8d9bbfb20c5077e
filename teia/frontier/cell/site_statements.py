"""Reports of sites about their own pages: the tables `site_statements`, `statement_sources` and `signal_trust`.

    site_statements    for each page and kind of signal: the reported time of its last change (`reported_s`); the report
              at its last visit (`checked_s`); the time until which the change that waits for a visit was not yet
              reported (`since_s`); the `source`, the key of a sitemap or feed, 0 for pings. `open_s` is set when a
              visit found a change that was not reported yet: the time of the visit before it, checked when the source
              is read next
    statement_sources  sitemaps and feeds: the time they were last read, and the number of dated pages they name
    signal_trust       the trust in each kind for each host; bytes here, decoded by signals/trust.py

The tables are created where they are missing, so that older cells have them too; a read-only user must do without. See
docs/signals.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from teia.frontier.cell.connection import CellConnection, RowKey

TABLES = """
CREATE TABLE IF NOT EXISTS site_statements (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, key INTEGER NOT NULL, kind INTEGER NOT NULL,
    reported_s REAL NOT NULL, checked_s REAL NOT NULL, since_s REAL NOT NULL, source INTEGER NOT NULL, open_s REAL,
    PRIMARY KEY (slot, host_id, key, kind)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS open_statements ON site_statements (slot, source) WHERE open_s IS NOT NULL;
CREATE TABLE IF NOT EXISTS statement_sources (
    slot INTEGER NOT NULL, key INTEGER NOT NULL, host_id INTEGER NOT NULL, kind INTEGER NOT NULL,
    seen_s REAL NOT NULL, named INTEGER NOT NULL,
    PRIMARY KEY (slot, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS signal_trust (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, kind INTEGER NOT NULL, record BLOB NOT NULL,
    PRIMARY KEY (slot, host_id, kind)
) WITHOUT ROWID;
"""

# For more keys than this, one read of all the host's reports replaces a look-up for each key.
KEYS_AT_ONCE = 200
_AT = "slot = ? AND host_id = ? AND key = ? AND kind = ?"


class SiteStatement(NamedTuple):
    """Report of one kind of signal about one page; see the module's docstring."""

    key: int
    kind: int
    reported_s: float
    checked_s: float
    since_s: float
    source: int
    open_s: float | None


class StatementSource(NamedTuple):
    """A sitemap or feed."""

    key: int
    host_id: int
    kind: int
    seen_s: float
    named: int


def has_tables(cell: CellConnection) -> bool:
    """Tell whether a cell opened read-only has the tables; a teia that knows them creates them when it writes."""
    return cell.has_table("signal_trust")


_COLUMNS = "key, kind, reported_s, checked_s, since_s, source, open_s"


def statements_of_page(cell: CellConnection, row_key: RowKey) -> list[SiteStatement]:
    """Return all reports about a page."""
    sql = f"SELECT {_COLUMNS} FROM site_statements WHERE slot = ? AND host_id = ? AND key = ?"  # noqa: S608  # our own text
    return [SiteStatement(*row) for row in cell.db.execute(sql, row_key)]


def statements_of_pages(cell: CellConnection, slot: int, host_id: int, first: int, last: int) -> list[SiteStatement]:
    """Return all reports about a host's pages whose keys lie between two."""
    sql = f"SELECT {_COLUMNS} FROM site_statements WHERE slot = ? AND host_id = ? AND key BETWEEN ? AND ?"  # noqa: S608
    return [SiteStatement(*row) for row in cell.db.execute(sql, (slot, host_id, first, last))]


def _known(
    cell: CellConnection, slot: int, host_id: int, kind: int, keys: Sequence[int]
) -> dict[int, tuple[float, float]]:
    """Return, by key, the reported time and the report at the last visit; unknown keys are left out."""
    columns = "SELECT key, reported_s, checked_s FROM site_statements WHERE slot = ? AND host_id = ?"
    if len(keys) > KEYS_AT_ONCE:
        rows = cell.db.execute(f"{columns} AND kind = ?", (slot, host_id, kind))
        return {key: (reported_s, checked_s) for key, reported_s, checked_s in rows}
    found = {}
    for key in keys:
        row = cell.db.execute(f"{columns} AND key = ? AND kind = ?", (slot, host_id, key, kind)).fetchone()
        if row is not None:
            found[key] = row[1:]
    return found


def store_statements(
    cell: CellConnection,
    slot: int,
    host_id: int,
    kind: int,
    source: int,
    dates: Mapping[int, float],
    before_s: float,
) -> list[int]:
    """Store reports about a host's pages, `dates` by key; return the keys with a new report.

    `before_s` is the time of the previous look at the same source. Inside a transaction.
    """
    known = _known(cell, slot, host_id, kind, list(dates))
    new, later, moved = [], [], []
    for key, reported_s in dates.items():
        before = known.get(key)
        if before is None:
            new.append((slot, host_id, key, kind, reported_s, 0.0, before_s, source))
        elif reported_s > before[0]:
            if before[0] > before[1]:  # the earlier report has not been checked by a visit yet
                later.append((reported_s, source, slot, host_id, key, kind))
            else:
                # First report since the last visit: `before_s` is the earliest time of the change.
                moved.append((reported_s, before_s, source, slot, host_id, key, kind))
    cell.db.executemany("INSERT OR REPLACE INTO site_statements VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)", new)
    cell.db.executemany(f"UPDATE site_statements SET reported_s = ?, source = ? WHERE {_AT}", later)  # noqa: S608  # our own text
    cell.db.executemany(f"UPDATE site_statements SET reported_s = ?, since_s = ?, source = ? WHERE {_AT}", moved)  # noqa: S608
    return [row[2] for row in new] + [row[4] for row in later] + [row[5] for row in moved]


def mark_checked(cell: CellConnection, row_key: RowKey, statement: SiteStatement, open_s: float | None) -> None:
    """Record that a visit checked a report; `open_s` is set for a change that was not reported."""
    # Most visits have no new report to check, and write nothing.
    if statement.checked_s != statement.reported_s or statement.open_s != open_s:
        sql = f"UPDATE site_statements SET checked_s = reported_s, open_s = ? WHERE {_AT}"  # noqa: S608  # our own text
        cell.db.execute(sql, (open_s, *row_key, statement.kind))


def pop_open(cell: CellConnection, slot: int, source: int) -> list[tuple[int, SiteStatement]]:
    """Return a source's pages with a change it had not reported, each once, with its host's id."""
    sql = f"SELECT host_id, {_COLUMNS} FROM site_statements WHERE slot = ? AND source = ? AND open_s IS NOT NULL"  # noqa: S608
    found = [(row[0], SiteStatement(*row[1:])) for row in cell.db.execute(sql, (slot, source))]
    close = f"UPDATE site_statements SET open_s = NULL WHERE {_AT}"  # noqa: S608  # our own text
    cell.db.executemany(close, [(slot, host_id, statement.key, statement.kind) for host_id, statement in found])
    return found


# ---- sources --------------------------------------------------------------------------------------------------------


def find_source(cell: CellConnection, slot: int, key: int) -> StatementSource | None:
    row = cell.db.execute(
        "SELECT key, host_id, kind, seen_s, named FROM statement_sources WHERE slot = ? AND key = ?", (slot, key)
    ).fetchone()
    return None if row is None else StatementSource(*row)


def sources_of(cell: CellConnection, slot: int, host_id: int) -> list[StatementSource]:
    sql = "SELECT key, host_id, kind, seen_s, named FROM statement_sources WHERE slot = ? AND host_id = ?"
    return [StatementSource(*row) for row in cell.db.execute(sql, (slot, host_id))]


def note_source_read(cell: CellConnection, slot: int, source: StatementSource) -> None:
    """Record that a sitemap or feed was read; inside a transaction."""
    cell.db.execute("INSERT OR REPLACE INTO statement_sources VALUES (?, ?, ?, ?, ?, ?)", (slot, *source))


# ---- trust ----------------------------------------------------------------------------------------------------------


def trust_of(cell: CellConnection, slot: int, host_id: int) -> dict[int, bytes]:
    """Return the trust in a host's signals, by kind; only for kinds that it sends."""
    return dict(
        cell.db.execute("SELECT kind, record FROM signal_trust WHERE slot = ? AND host_id = ?", (slot, host_id))
    )


def store_trust(cell: CellConnection, slot: int, host_id: int, trust: Iterable[tuple[int, bytes]]) -> None:
    """Store the trust in a host's signals; inside a transaction."""
    rows = [(slot, host_id, kind, record) for kind, record in trust]
    cell.db.executemany("INSERT OR REPLACE INTO signal_trust VALUES (?, ?, ?, ?)", rows)
