"""Row changes of a transaction: noted by SQLite, encoded as data, applied to another copy of the cell (journal.py).

A connection that records has TEMP triggers on every table of the cell. They note the primary key of each row that
changes, and which of its columns, in a TEMP table. That includes changes by the schema's own triggers, and a rollback
takes the notes back. Before COMMIT the noted rows are read once, as they are by then. So a row that was written ten
times is one change, and an update holds only the changed columns.

    changes:  MessagePack [format, [[table, kind, columns, [row, ...]], ...]]

    cut     the rows of some slots were deleted: first slot, slot after the last one
    delete  the rows with these primary keys were deleted
    set     primary keys, and the new values of some columns
    put     whole rows, new or replaced

A table's kinds come in this order. The reader knows its own tables: a column that a record lacks gets its default, a
table or column that the reader lacks is an error that names it. So a later version may add columns. Format 2 has the
names of version 3 of the tables; they are translated when a record is written or read (old_names.py).
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from teia.errors import ClusterError
from teia.frontier.cell.old_names import NEW_NAMES_FORMAT, TO_NEW, TO_OLD, translate_group
from teia.lib.undecodable import UNDECODABLE

DELETE_SLOTS = 'DELETE FROM "{}" WHERE slot >= ? AND slot < ?'
UNFIT = (
    sqlite3.ProgrammingError, sqlite3.InterfaceError, sqlite3.IntegrityError, sqlite3.DataError, OverflowError
)  # fmt: skip
"""Errors of values that do not fit the tables; those of the disk are others."""

_ALL = -1
"""Mask of a row that is new, replaced or deleted; of an updated row the mask has a bit for each changed column."""

_Group = tuple[str, str, Sequence[str], Sequence[Sequence[Any]]]  # Any: values of SQLite
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, list[tuple[str, str, list[str], list[list[Any]]]]]).decode


class _Table(NamedTuple):
    """A table of the cell: the columns of its primary key, and the others."""

    name: str
    key: list[str]
    others: list[str]

    @property
    def columns(self) -> list[str]:
        return [*self.key, *self.others]

    def at(self, alias: str = "", values: Sequence[str] = ()) -> str:
        """Return the condition for a row with a primary key."""
        marks = values or ["?"] * len(self.key)
        return " AND ".join(f'{alias}"{name}" = {mark}' for name, mark in zip(self.key, marks, strict=True))


def _tables(execute: Callable[..., sqlite3.Cursor]) -> list[_Table]:
    columns: dict[str, list[tuple[str, int]]] = defaultdict(list)
    sql = (
        "SELECT m.name, c.name, c.pk FROM main.sqlite_master m, pragma_table_info(m.name, 'main') c"
        " WHERE m.type = 'table' ORDER BY m.name, c.cid"
    )
    for table, column, place in execute(sql):
        columns[table].append((column, place))
    return [
        _Table(
            name,
            [column for column, place in sorted(each, key=lambda column: column[1]) if place],
            [column for column, place in each if not place],
        )
        for name, each in columns.items()
    ]


class RowRecorder:
    """The row changes of one connection since the last `clear`; `execute` is the connection's own."""

    def __init__(self, execute: Callable[..., sqlite3.Cursor]) -> None:
        self._execute = execute
        self._tables = _tables(execute)
        self._numbers = {table.name: number for number, table in enumerate(self._tables)}
        self._width = max(len(table.key) for table in self._tables)
        keys = ", ".join(f"k{n}" for n in range(self._width))
        execute(f"CREATE TEMP TABLE touched (t, {keys}, mask, PRIMARY KEY (t, {keys})) WITHOUT ROWID")
        execute("CREATE TEMP TABLE cuts (t, first, end)")
        self._reads = [self._read(table) for table in self._tables]
        self._triggers = self._all_triggers()
        for trigger in self._triggers.values():
            execute(trigger)

    def stop(self) -> None:
        """Record no more changes."""
        for name in self._triggers:
            self._execute(f"DROP TRIGGER temp.{name}")
        self._execute("DROP TABLE touched")
        self._execute("DROP TABLE cuts")

    def _all_triggers(self) -> dict[str, str]:
        """Return the triggers by their quoted names."""
        triggers: dict[str, str] = {}
        for table in self._tables:
            moved = " OR ".join(f'OLD."{name}" IS NOT NEW."{name}"' for name in table.key)
            triggers |= [
                self._trigger(table, "put", "INSERT", self._note(table, "NEW")),
                self._trigger(table, "delete", "DELETE", self._note(table, "OLD")),
                self._trigger(table, "move", "UPDATE", self._note(table, "OLD") + self._note(table, "NEW"), moved),
            ]
            if table.others:
                bits = (f'((OLD."{name}" IS NOT NEW."{name}") << {n})' for n, name in enumerate(table.others))
                triggers |= [self._trigger(table, "set", "UPDATE", self._note(table, "NEW", " | ".join(bits)))]
        return triggers

    @staticmethod
    def _trigger(table: _Table, kind: str, event: str, body: str, when: str = "1") -> tuple[str, str]:
        name = f'"{table.name} {kind}"'
        return name, f'CREATE TEMP TRIGGER {name} AFTER {event} ON main."{table.name}" WHEN {when} BEGIN {body} END'

    def _note(self, table: _Table, row: str, mask: str = str(_ALL)) -> str:
        keys = [f'{row}."{name}"' for name in table.key] + ["0"] * (self._width - len(table.key))
        values = ", ".join([str(self._numbers[table.name]), *keys, mask])
        return f"INSERT INTO touched VALUES ({values}) ON CONFLICT DO UPDATE SET mask = mask | excluded.mask; "  # noqa: S608

    @staticmethod
    def _read(table: _Table) -> str:
        """Return the query for a table's noted rows with their masks; NULL is the mask of a row that was deleted."""
        keys = [f"n.k{n}" for n in range(len(table.key))]
        mask = f'iif(r."{table.key[0]}" IS NULL, NULL, n.mask)'
        values = ", ".join([*keys, *(f'r."{name}"' for name in table.others), mask])
        rows = f'main."{table.name}" r ON {table.at("r.", keys)}'
        return f"SELECT {values} FROM touched n LEFT JOIN {rows} WHERE n.t = ? AND n.mask <> 0"  # noqa: S608

    def delete_slots(self, table: str, first: int, end: int) -> None:
        """Delete a table's rows of some slots, as one change whatever their number."""
        trigger = f'"{table} delete"'
        self._execute(f"DROP TRIGGER temp.{trigger}")
        self._execute(DELETE_SLOTS.format(table), (first, end))
        self._execute(self._triggers[trigger])
        self._execute("INSERT INTO cuts VALUES (?, ?, ?)", (self._numbers[table], first, end))

    @property
    def has_changes(self) -> bool:
        sql = "SELECT EXISTS (SELECT 1 FROM touched WHERE mask <> 0) OR EXISTS (SELECT 1 FROM cuts)"
        return bool(self._execute(sql).fetchone()[0])

    def encoded(self, format_: int) -> bytes:
        """Return the changes, encoded."""
        names = TO_OLD if format_ < NEW_NAMES_FORMAT else {}
        return _encode((format_, [translate_group(names, group) for group in self._groups()]))

    def clear(self) -> None:
        self._execute("DELETE FROM touched")
        self._execute("DELETE FROM cuts")

    def _groups(self) -> Iterator[_Group]:
        for number, first, end in self._execute("SELECT t, first, end FROM cuts ORDER BY rowid"):
            yield self._tables[number].name, "cut", ["slot"], [(first, end)]
        for (number,) in self._execute("SELECT DISTINCT t FROM touched WHERE mask <> 0").fetchall():
            yield from self._table_groups(self._tables[number], number)

    def _table_groups(self, table: _Table, number: int) -> Iterator[_Group]:
        """Yield the changes of a table: rows with the same changed columns together, sorted by their keys."""
        rows: dict[int | None, list[Sequence[Any]]] = defaultdict(list)
        for row in self._execute(self._reads[number], (number,)):
            rows[row[-1]].append(row)
        width = len(table.key)
        if None in rows:
            yield table.name, "delete", table.key, [row[:width] for row in rows.pop(None)]
        whole = rows.pop(_ALL, [])
        for mask, updated in rows.items():
            assert mask is not None
            places = [*range(width), *(width + n for n in range(len(table.others)) if mask >> n & 1)]
            yield table.name, "set", [table.columns[place] for place in places], list(map(itemgetter(*places), updated))
        if whole:
            yield table.name, "put", table.columns, [row[:-1] for row in whole]


class RowWriter:
    """Writer of recorded changes; the triggers of its connection must be off, because records have their effects."""

    def __init__(self, execute: Callable[..., sqlite3.Cursor]) -> None:
        self._execute = execute
        self._tables = {table.name: table for table in _tables(execute)}

    def apply(self, seq: int, changes: bytes) -> None:
        """Apply the changes of a record; inside a transaction. ClusterError if they do not fit the tables."""
        try:
            format_, groups = _decode(changes)
            if format_ < NEW_NAMES_FORMAT:
                groups = [translate_group(TO_NEW, group) for group in groups]
            # All groups are checked before the first change: the record came from another machine.
            statements = [self._statement(*group[:3]) for group in groups]
            for (table, kind, _, rows), sql in zip(groups, statements, strict=True):
                width = len(self._tables[table].key) if kind == "set" else 0
                for row in rows:
                    self._execute(sql, row[width:] + row[:width])
        except (*UNDECODABLE, *UNFIT) as error:
            raise ClusterError(f"the changes of record {seq} cannot be read: {error}") from error
        except _UnknownError as error:
            raise ClusterError(f"record {seq} was written by a newer teia: {error}; upgrade this node") from error

    def _statement(self, name: str, kind: str, columns: Sequence[str]) -> str:
        """Return the SQL of a group, made of names that the tables here have."""
        table = self._tables.get(name)
        if table is None:
            raise _UnknownError(f"there is no table {name!r} here")
        for column in columns:
            if column not in table.columns:
                raise _UnknownError(f"the table {name!r} has no column {column!r} here")
        names = [f'"{column}"' for column in columns]
        begins_with_key = list(columns[: len(table.key)]) == table.key
        if kind == "cut" and columns == ["slot"]:
            return DELETE_SLOTS.format(name)
        if kind == "delete" and columns == table.key:
            return f'DELETE FROM "{name}" WHERE {table.at()}'  # noqa: S608  # names of our own tables
        if kind == "set" and begins_with_key and len(columns) > len(table.key):
            values = ", ".join(f"{column} = ?" for column in names[len(table.key) :])
            return f'UPDATE "{name}" SET {values} WHERE {table.at()}'  # noqa: S608  # names of our own tables
        if kind == "put" and begins_with_key:
            marks = ", ".join("?" * len(names))
            return f'INSERT OR REPLACE INTO "{name}" ({", ".join(names)}) VALUES ({marks})'  # noqa: S608
        raise _UnknownError(f"{kind!r} of {name!r} cannot be applied here")


class _UnknownError(Exception):
    """A name in a record that the reader does not know."""
