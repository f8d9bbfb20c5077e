"""Record of a transaction's changes, for replay on another node: the interface to a cluster.

On one machine a transaction is its own log, and this module is not used. In a cluster (teia/cluster) a cell's
connection *records* every statement that changes the database, with its values, in order. Before the transaction
commits, its `Journal` publishes the record. Only published changes are committed, so the file is always a prefix of
the cell's log, and a node that applies the published changes to an older copy of the file gets the same file.

The record holds changes, not visits: all code that writes to a cell is in the log without knowing it. The effect of
a statement must follow from the tables and its values alone; SQL without clock or random functions does that.

    changes:  MessagePack [version, version of the tables, [statement, ...], [[number of one, [values, ...]], ...]]
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from teia.errors import ClusterError
from teia.frontier.cell.schema import VERSION as TABLES_VERSION

VERSION = 1
LOG_SEQ = "log_seq"
"""Row of `meta` with the number of the last record that is in this file."""

_CHANGES = ("INSERT", "UPDATE", "DELETE", "REPLACE")
# Verbs that need no record. Any other verb is refused, because a replay could not repeat it safely.
_READS = ("SELECT", "BEGIN", "COMMIT", "ROLLBACK", "PRAGMA", "SAVEPOINT", "RELEASE")


def _plain(value: Any) -> Any:  # Any: numpy's numbers, which SQLite accepts
    return value.item()


_encode = msgspec.msgpack.Encoder(enc_hook=_plain).encode
_decode = msgspec.msgpack.Decoder(tuple[int, int, list[str], list[tuple[int, list[list[Any]]]]]).decode  # Any: values


class Journal(Protocol):
    """Publisher of a cell's changes before they are committed. Called in the thread that writes the cell."""

    def post(self, to_cell: int, bulk: bytes) -> None:
        """Send links to another cell, together with the changes of the open transaction."""

    def publish(self, changes: bytes) -> int:
        """Publish changes and posted links, or raise and publish nothing; return the record's number."""

    def forget(self, published: int) -> None:
        """Handle a rollback; `published` is the number of the transaction's record if it had one by then."""


class RecordingConnection(sqlite3.Connection):
    """A connection that records its changes since the last `pop_changes`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # Any: as sqlite3.connect passes them
        super().__init__(*arguments, **options)
        self._statements: dict[str, int] = {}
        self._changes: list[tuple[int, list[Sequence[Any]]]] = []
        self.deferred_meta: dict[str, Any] = {}
        """Rows of `meta` that are written with the next change: by themselves they are worth no record."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> sqlite3.Cursor:  # type: ignore[override]
        if _is_change(sql):
            self._note(sql, [parameters])
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> sqlite3.Cursor:  # type: ignore[override]
        # An iterator can be read once, and the rows are needed twice: recorded and executed.
        rows = list(parameters)
        if rows:
            self._note(sql, rows)
        return super().executemany(sql, rows)

    def execute_unrecorded(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Make a change that concerns this file alone."""
        super().execute(sql, parameters)

    def _note(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        # Each statement's text is stored once; consecutive rows of the same statement are one entry.
        number = self._statements.setdefault(sql, len(self._statements))
        if self._changes and self._changes[-1][0] == number:
            self._changes[-1][1].extend(rows)
        else:
            self._changes.append((number, list(rows)))

    @property
    def has_changes(self) -> bool:
        return bool(self._changes)

    def pop_changes(self) -> bytes:
        """Return the recorded changes, encoded, and clear them."""
        changes = _encode((VERSION, TABLES_VERSION, list(self._statements), self._changes))
        self.forget()
        return changes

    def forget(self) -> None:
        self._statements, self._changes = {}, []


def _is_change(sql: str) -> bool:
    verb = sql.lstrip()[:9].upper()
    if verb.startswith(_CHANGES):
        return True
    if verb.startswith(_READS):
        return False
    raise ClusterError(f"a cell in a cluster cannot run `{sql.strip()[:60]}`: it is neither a change nor a query")


def publish(db: sqlite3.Connection, journal: Journal, save_counters: Callable[[], None]) -> int:
    """Publish a transaction's changes before it commits, if there are any; return the record's number."""
    assert isinstance(db, RecordingConnection)
    if not db.has_changes:
        return 0
    # Counters and late rows are part of the record, so they are written before it is taken.
    save_counters()
    db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", db.deferred_meta.items())
    seq = journal.publish(db.pop_changes())
    db.deferred_meta.clear()
    # The record is in the log. If its number cannot be stored, the journal must learn that the file is behind.
    try:
        note_seq(db, seq)
    except BaseException:
        journal.forget(seq)
        raise
    return seq


def forget(db: sqlite3.Connection, journal: Journal, published: int) -> None:
    """Discard the record of a transaction that was rolled back."""
    assert isinstance(db, RecordingConnection)
    db.forget()
    journal.forget(published)


def apply(
    db: RecordingConnection, records: Iterable[tuple[int, bytes]], on_record: Callable[[], None] = lambda: None
) -> None:
    """Apply the changes of some records to an older copy of the cell, and note their numbers; one transaction.

    `on_record` is called after each record, for callers that inspect the cell's state at that point.
    """
    db.execute_unrecorded("BEGIN IMMEDIATE")
    try:
        for seq, changes in records:
            _apply(db, seq, changes)
            note_seq(db, seq)
            on_record()
        db.execute_unrecorded("COMMIT")
    finally:
        if db.in_transaction:
            db.execute_unrecorded("ROLLBACK")


def _apply(db: RecordingConnection, seq: int, changes: bytes) -> None:
    try:
        version, tables, statements, done = _decode(changes)
    except msgspec.MsgspecError as error:
        raise ClusterError(f"the changes of record {seq} cannot be read: {error}") from error
    if (version, tables) != (VERSION, TABLES_VERSION):
        raise ClusterError(
            f"record {seq} was written by another version of teia (changes {version}, tables {tables}; here "
            f"{VERSION}, {TABLES_VERSION}); run the same version on all nodes"
        )
    # All statements are checked before the first is executed: the record came from another machine.
    for sql in statements:
        if not sql.lstrip()[:9].upper().startswith(_CHANGES):
            raise ClusterError(f"record {seq} contains `{sql.strip()[:60]}`, which is not a change of a cell")
    for number, rows in done:
        for row in rows:
            db.execute_unrecorded(statements[number], row)


def note_seq(db: RecordingConnection, seq: int) -> None:
    """Store the number of the last record in the file; inside its transaction."""
    db.execute_unrecorded("INSERT OR REPLACE INTO meta VALUES (?, ?)", (LOG_SEQ, seq))


def applied_seq(db: sqlite3.Connection) -> int:
    """Return the number of the last record in the file; 0 if it has none."""
    row = db.execute("SELECT value FROM meta WHERE name = ?", (LOG_SEQ,)).fetchone()
    return 0 if row is None else int(row[0])
