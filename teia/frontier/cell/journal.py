"""Record of a transaction's changes, for replay on another node: the interface to a cluster.

On one machine a transaction is its own log, and this module is not used. In a cluster (teia/cluster) a cell's
connection *records* its changes. Before the transaction commits, its `Journal` publishes the record. Only published
changes are committed, so the file is always a prefix of the cell's log, and a node that applies the published changes
to an older copy of the file gets the same file. All code that writes to a cell is in the log without knowing it. A
transaction that only posts links to other cells has a record without changes.

There are three formats, and a node reads all of them. It writes the newest one that all nodes of its cluster can read,
so that they can be upgraded one after another (docs/decisions/0037-row-changes.md):

    3  row changes (row_changes.py)
    2  row changes with the names that tables and columns had before (old_names.py)
    1  with those names: the statements with their values, in order; written while a node is there that reads nothing
       else. The effect of a statement must follow from the tables and its values alone; SQL without clock or random
       functions does that
       MessagePack [1, version of the tables, [statement, ...], [[number of one, [values, ...]], ...]]
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from teia.errors import ClusterError
from teia.frontier.cell.old_names import NEW_NAMES_FORMAT, OLD_VERSION, TO_NEW, TO_OLD, translate_statement
from teia.frontier.cell.row_changes import DELETE_SLOTS, UNFIT, RowRecorder, RowWriter
from teia.lib.undecodable import UNDECODABLE

STATEMENTS = 1
NEWEST_FORMAT = NEW_NAMES_FORMAT
"""Newest format of changes that this teia can read and write. A node announces it with its session."""

LOG_SEQ = "log_seq"
"""Row of `meta` with the number of the last record that is in this file."""

_CHANGES = ("INSERT", "UPDATE", "DELETE", "REPLACE")
# Verbs that need no record. Any other verb is refused, because a replay could not repeat it safely.
_READS = ("SELECT", "BEGIN", "COMMIT", "ROLLBACK", "PRAGMA", "SAVEPOINT", "RELEASE")


def _plain(value: Any) -> Any:  # Any: numpy's numbers, which SQLite accepts
    return value.item()


_encode = msgspec.msgpack.Encoder(enc_hook=_plain).encode
_decode = msgspec.msgpack.Decoder(tuple[int, int, list[str], list[tuple[int, list[list[Any]]]]]).decode  # Any: values
_parts = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


class Journal(Protocol):
    """Publisher of a cell's changes before they are committed. Called in the thread that writes the cell."""

    @property
    def format(self) -> int:
        """Newest format of changes that all readers of the log can read."""

    @property
    def has_posts(self) -> bool:
        """True if links were posted since the last record."""

    def post(self, to_cell: int, bulk: bytes) -> None:
        """Send links to another cell, together with the changes of the open transaction."""

    def publish(self, changes: bytes) -> int:
        """Publish changes and posted links, or raise and publish nothing; return the record's number."""

    def forget(self, published: int) -> None:
        """Handle a rollback; `published` is the number of the transaction's record if it had one by then."""


class RecordingConnection(sqlite3.Connection):
    """A connection that records its changes since the last `forget`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # Any: as sqlite3.connect passes them
        super().__init__(*arguments, **options)
        self._statements: dict[str, int] = {}
        self._changes: list[tuple[int, list[Sequence[Any]]]] = []
        self.rows: RowRecorder | None = None
        """Recorder of row changes; None while statements are recorded."""
        self._format = STATEMENTS
        self.deferred_meta: dict[str, Any] = {}
        """Rows of `meta` that are written with the next change: by themselves they are worth no record."""

    def set_format(self, wanted: int) -> None:
        """Choose the format of the next transaction's record; between transactions."""
        self._format = wanted
        if (wanted == STATEMENTS) == (self.rows is None):
            return
        # All or nothing: with half of the triggers a record would lack changes.
        self.execute_unrecorded("BEGIN")
        try:
            if self.rows is None:
                rows = RowRecorder(self.execute_unrecorded)
            else:
                self.rows.stop()
                rows = None
            self.execute_unrecorded("COMMIT")
        except BaseException:
            self.execute_unrecorded("ROLLBACK")
            raise
        self.rows = rows

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> sqlite3.Cursor:  # type: ignore[override]
        if _is_change(sql) and self.rows is None:
            self._note(sql, [parameters])
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> sqlite3.Cursor:  # type: ignore[override]
        if self.rows is not None:
            return super().executemany(sql, parameters)
        # An iterator can be read once, and the rows are needed twice: recorded and executed.
        rows = list(parameters)
        if rows:
            self._note(sql, rows)
        return super().executemany(sql, rows)

    def execute_unrecorded(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute a statement without a note of its text."""
        return super().execute(sql, parameters)

    def _note(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        # Each statement's text is stored once; consecutive rows of the same statement are one entry.
        number = self._statements.setdefault(sql, len(self._statements))
        if self._changes and self._changes[-1][0] == number:
            self._changes[-1][1].extend(rows)
        else:
            self._changes.append((number, list(rows)))

    @property
    def has_changes(self) -> bool:
        return bool(self._changes) if self.rows is None else self.rows.has_changes

    def recorded_changes(self) -> bytes:
        """Return the recorded changes, encoded."""
        if self.rows is not None:
            return self.rows.encoded(self._format)
        statements = [translate_statement(TO_OLD, sql) for sql in self._statements]
        return _encode((STATEMENTS, OLD_VERSION, statements, self._changes))

    def forget(self) -> None:
        """Clear the recorded changes."""
        self._statements, self._changes = {}, []
        if self.rows is not None:
            self.rows.clear()


def _is_change(sql: str) -> bool:
    verb = sql.lstrip()[:9].upper()
    if verb.startswith(_CHANGES):
        return True
    if verb.startswith(_READS):
        return False
    raise ClusterError(f"a cell in a cluster cannot run `{sql.strip()[:60]}`: it is neither a change nor a query")


def choose_format(db: sqlite3.Connection, journal: Journal) -> None:
    """Record the next transaction in the newest format that all readers can read."""
    assert isinstance(db, RecordingConnection)
    db.set_format(min(journal.format, NEWEST_FORMAT))


def publish(db: sqlite3.Connection, journal: Journal, save_counters: Callable[[], None]) -> int:
    """Publish a transaction's changes and posts before it commits, if there are any; return the record's number."""
    assert isinstance(db, RecordingConnection)
    has_changes = db.has_changes
    if has_changes:
        # Counters and late rows are part of the record, so they are written before it is taken.
        save_counters()
        db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", db.deferred_meta.items())
    elif not journal.has_posts:
        return 0
    seq = journal.publish(db.recorded_changes())
    if has_changes:
        db.deferred_meta.clear()
    # The record is in the log. If its number cannot be stored, the journal must learn that the file is behind.
    try:
        note_seq(db, seq)
        db.forget()
    except BaseException:
        journal.forget(seq)
        raise
    return seq


def delete_slots_of(db: sqlite3.Connection, table: str, first: int, end: int) -> None:
    """Delete a table's rows of some slots; in a cluster, as one short change of the record."""
    if isinstance(db, RecordingConnection) and db.rows is not None:
        db.rows.delete_slots(table, first, end)
    else:
        db.execute(DELETE_SLOTS.format(table), (first, end))


def forget(db: sqlite3.Connection, journal: Journal, published: int) -> None:
    """Discard the record of a transaction that was rolled back."""
    assert isinstance(db, RecordingConnection)
    # The journal first: on a failing disk even the connection's own notes may not be cleared.
    journal.forget(published)
    db.forget()


def apply(
    db: RecordingConnection, records: Iterable[tuple[int, bytes]], on_record: Callable[[], None] = lambda: None
) -> None:
    """Apply the changes of some records to an older copy of the cell, and note their numbers; one transaction.

    `on_record` is called after each record, for callers that inspect the cell's state at that point.
    """
    # Statements that are compiled without triggers stay in the connection's cache: it could not record afterwards.
    assert db.rows is None
    writer, last = RowWriter(db.execute_unrecorded), STATEMENTS
    db.execute_unrecorded("BEGIN IMMEDIATE")
    try:
        for seq, changes in records:
            format_ = _format_of(seq, changes)
            if format_ != last:  # only then: SQLite compiles all statements anew
                db.set_authorizer(None if format_ == STATEMENTS else _without_triggers)
                last = format_
            if format_ == STATEMENTS:
                _apply_statements(db, seq, changes)
            else:
                writer.apply(seq, changes)
            note_seq(db, seq)
            on_record()
        db.execute_unrecorded("COMMIT")
    finally:
        db.set_authorizer(None)
        if db.in_transaction:
            db.execute_unrecorded("ROLLBACK")
        db.forget()


def _without_triggers(_action: int, _1: str | None, _2: str | None, _database: str | None, trigger: str | None) -> int:
    """Let SQLite compile triggers to nothing: row changes have their effects."""
    return sqlite3.SQLITE_OK if trigger is None else sqlite3.SQLITE_IGNORE


def _format_of(seq: int, changes: bytes) -> int:
    try:
        format_ = msgspec.msgpack.decode(_parts(changes)[0], type=int)
    except (*UNDECODABLE, IndexError) as error:
        raise ClusterError(f"the changes of record {seq} cannot be read: {error}") from error
    if not STATEMENTS <= format_ <= NEWEST_FORMAT:
        raise ClusterError(
            f"record {seq} was written by a newer teia (format {format_} of changes, and this one reads up to"
            f" {NEWEST_FORMAT}); upgrade this node"
        )
    return format_


def _apply_statements(db: RecordingConnection, seq: int, changes: bytes) -> None:
    try:
        _, tables, statements, done = _decode(changes)
    except UNDECODABLE as error:
        raise ClusterError(f"the changes of record {seq} cannot be read: {error}") from error
    if tables != OLD_VERSION:
        raise ClusterError(
            f"record {seq} was written by another version of teia (tables {tables}; here {OLD_VERSION}); run the"
            " same version on all nodes"
        )
    # All statements are checked before the first is executed: the record came from another machine.
    for sql in statements:
        if not sql.lstrip()[:9].upper().startswith(_CHANGES):
            raise ClusterError(f"record {seq} contains `{sql.strip()[:60]}`, which is not a change of a cell")
    try:
        for number, rows in done:
            sql = translate_statement(TO_NEW, statements[number])
            for row in rows:
                db.execute_unrecorded(sql, row)
    except (IndexError, sqlite3.OperationalError, *UNFIT) as error:
        if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise  # of the disk, not of the statement
        raise ClusterError(f"the changes of record {seq} cannot be applied: {error}") from error


def note_seq(db: RecordingConnection, seq: int) -> None:
    """Store the number of the last record in the file; inside its transaction."""
    db.execute_unrecorded("INSERT OR REPLACE INTO meta VALUES (?, ?)", (LOG_SEQ, seq))


def applied_seq(db: sqlite3.Connection) -> int:
    """Return the number of the last record in the file; 0 if it has none."""
    row = db.execute("SELECT value FROM meta WHERE name = ?", (LOG_SEQ,)).fetchone()
    return 0 if row is None else int(row[0])
