"""Row changes of a cell's log: a record is applied whole, or refused with a ClusterError and nothing is changed."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec

from teia.errors import ClusterError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.journal import RecordingConnection, apply
from tests.fuzz.pieces import Pieces, folder

encode = msgspec.msgpack.encode
SEEDS = (
    encode((3, [("meta", "put", ["key", "value"], [["a", 1], ["b", b"x"]])])),
    encode((3, [("meta", "delete", ["key"], [["a"]])])),
    encode((2, [("meta", "set", ["key", "value"], [["a", None]])])),
    encode((3, [("urls", "cut", ["slot"], [[0, 5]])])),
    encode((1, 3, ["INSERT INTO meta VALUES (?, ?)"], [(0, [["a", 2]])])),
)


@cache
def _connection() -> RecordingConnection:
    """Return a connection to an empty cell; the tables are made once."""
    path = folder() / "cell.sqlite"
    FrontierCell(path).close()
    return sqlite3.connect(path, isolation_level=None, factory=RecordingConnection)


@cache
def _tables() -> list[tuple[str, list[str]]]:
    found = _connection().execute_unrecorded("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    names = [name for (name,) in found.fetchall()]
    return [
        (name, [row[1] for row in _connection().execute_unrecorded(f'PRAGMA table_info("{name}")')]) for name in names
    ]


def fuzz_one(data: bytes) -> None:
    pieces = Pieces(data)
    _applied(data)
    _applied(encode((pieces.choice((2, 3)), [_group(pieces) for _ in range(1 + pieces.number() % 3)])))


def _group(pieces: Pieces) -> tuple[str, str, list[str], list[list[Any]]]:
    """Return changes of a table that is there, of kinds and columns that mostly are."""
    name, columns = pieces.choice(_tables())
    kind = pieces.choice(("put", "put", "set", "delete", "cut"))
    chosen = ["slot"] if kind == "cut" else columns[: 1 + pieces.number() % len(columns)]
    rows = [[_value(pieces) for _ in chosen] for _ in range(1 + pieces.number() % 3)]
    return name, kind, chosen, [row + [0] * (kind == "cut") for row in rows]


def _value(pieces: Pieces) -> Any:
    return pieces.choice((None, 0, 1, pieces.number(8, signed=True), "x", b"y", 1.5, [], {}, 2**64 - 1, True))


def _applied(changes: bytes) -> None:
    db = _connection()
    before = db.total_changes

    def undo() -> None:
        raise _Applied

    with suppress(_Applied, ClusterError):
        apply(db, [(1, changes)], undo)
    assert not db.in_transaction
    assert db.total_changes >= before


class _Applied(Exception):
    """The record was applied; the transaction is rolled back, so that the next one meets the same cell."""
