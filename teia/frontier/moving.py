"""A site moves from one cell to another: everything that is known of it, in messages (A4).

The rows of a site lie together by slot and host number in every table of its cell, so a move is copying them. What
travels is the rows as they are, its queue, schedule and history among them, and until when its hosts rest. Host numbers
are a cell's own: the receiver gives new ones. Where copies of its pages lie in the archive goes with the rows; the
copies themselves stay.

    a part:  "site" MessagePack, packed [version, version of the tables, site, hosts {number: name}, rests {host: time},
             note, [[table, [row, ...]], ...], is it the last]

In the sender's transaction the rows are deleted and the parts posted to the other cell, so that they are in the one
atomic batch or nowhere; a part waits in the stream until the receiver's own transaction has it. So the site is never in
both cells, and never in none but on its way.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
from isal import isal_zlib

from teia.errors import ClusterError
from teia.frontier.cell import FrontierCell
from teia.frontier.mail import BULK_BYTES
from teia.frontier.schema import LANE_REFRESH
from teia.frontier.schema import VERSION as TABLES_VERSION
from teia.urls import site_of, slot_of

VERSION = 1
MARK = b"site"
"""What a part begins with; links never do."""

URLS_MOST = 20_000
"""A site that has more is not moved: it would not fit into one batch. Its cell can be."""

PART_ROWS = 2_000
"""Rows in one part, at most; and no more than a message between nodes holds, unless one row alone is larger."""

PACKED_MOST = 768 * 1024
"""What a part may take, packed; NATS takes a megabyte."""

PARTS_MOST = 100
"""A site takes no more parts than fit into one batch."""

PART_BYTES_MOST = 64 << 20

HOSTS = "hosts"

Row = list[Any]  # Any: what SQLite holds


class SiteTooLarge(ClusterError):
    """A site does not fit into one batch; it stays where it is."""


class Part(msgspec.Struct, array_like=True, frozen=True):
    """Some rows of a site on its way; `note` is what the sender wants the receiver to know."""

    version: int
    tables: int
    site: str
    names: dict[int, str]
    rests: dict[str, float]
    note: str
    rows: list[tuple[str, list[Row]]]
    is_last: bool


@dataclass(frozen=True, slots=True)
class Moved:
    """How much of a site was moved."""

    hosts: tuple[str, ...]
    urls: int
    queued: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Part).decode


def is_part(bulk: bytes) -> bool:
    return bulk.startswith(MARK)


def part_in(bulk: bytes) -> Part:
    """Read a part; ClusterError if it cannot be, or is another teia's."""
    try:
        unpacker = zlib.decompressobj()
        part = _decode(unpacker.decompress(bulk[len(MARK) :], PART_BYTES_MOST))
    except (zlib.error, msgspec.MsgspecError) as error:
        raise ClusterError(f"a site from another cell cannot be read: {error}") from error
    if (part.version, part.tables) != (VERSION, TABLES_VERSION):
        raise ClusterError(
            f"a site was sent by another teia (parts {part.version}, tables {part.tables}; here {VERSION},"
            f" {TABLES_VERSION}); run the same teia on all nodes"
        )
    return part


def tables_of(cell: FrontierCell) -> dict[str, int]:
    """The tables that hold rows of hosts, and the column with the host's number; the queue last, for it is asked."""
    names = [name for (name,) in cell.db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    found = {}
    for name in sorted(names, key=lambda each: each == "queue"):
        columns = [row[1] for row in cell.db.execute(f"PRAGMA table_info({name})")]
        if name != HOSTS and {"slot", "host_id"} <= set(columns):
            found[name] = columns.index("host_id")
    return found


def hosts_of(cell: FrontierCell, site: str) -> dict[int, str]:
    """The hosts of a site that a cell knows, by their numbers."""
    rows = cell.db.execute("SELECT host_id, name FROM hosts WHERE slot = ?", (slot_of(site),))
    return {host_id: name for host_id, name in rows if site_of(name) == site}


def urls_of(cell: FrontierCell, site: str) -> int:
    """How many URLs a cell knows of a site."""
    sql = "SELECT count(*) FROM urls WHERE slot = ? AND host_id = ?"
    slot = slot_of(site)
    return sum(int(cell.db.execute(sql, (slot, host_id)).fetchone()[0]) for host_id in hosts_of(cell, site))


def send(cell: FrontierCell, site: str, to_cell: int, rests: Mapping[str, float], note: str = "") -> Moved:
    """Take a site out of a cell and post it to another; inside the sender's transaction, which SiteTooLarge ends."""
    assert cell.journal is not None
    names = hosts_of(cell, site)
    moved = _counted(cell, site, names)
    pieces = list(islice(_pieces(cell, site, names), PARTS_MOST + 1)) or [[]]
    if len(pieces) > PARTS_MOST:
        raise SiteTooLarge(f"{site} is not moved: it takes more than {PARTS_MOST} messages")
    for at, rows in enumerate(pieces):
        is_last = at == len(pieces) - 1
        part = Part(VERSION, TABLES_VERSION, site, names, dict(rests), note, rows, is_last)
        packed = MARK + isal_zlib.compress(_encode(part), 1)
        if len(packed) > PACKED_MOST:
            raise SiteTooLarge(f"{site} is not moved: a message with some of it would take {len(packed):,} bytes")
        cell.journal.post(to_cell, packed)
    _delete(cell, site, names)
    cell.known -= moved.urls
    cell.queued -= moved.queued
    return moved


def _counted(cell: FrontierCell, site: str, names: Mapping[int, str]) -> Moved:
    sql = "SELECT count(*) FROM queue WHERE slot = ? AND host_id = ? AND lane <> ?"
    slot = slot_of(site)
    queued = sum(int(cell.db.execute(sql, (slot, host_id, LANE_REFRESH)).fetchone()[0]) for host_id in names)
    return Moved(tuple(names.values()), urls_of(cell, site), queued)


def _pieces(cell: FrontierCell, site: str, names: Mapping[int, str]) -> Iterator[list[tuple[str, list[Row]]]]:
    """The rows of a site, the hosts themselves first, some at a time."""
    hosts = [_host_row(cell, host_id) for host_id in names]
    piece: list[tuple[str, list[Row]]] = [(HOSTS, hosts)]
    count, size = len(hosts), len(_encode(hosts))
    for table, row in _rows(cell, site, names):
        row_bytes = len(_encode(row))
        if piece and (count >= PART_ROWS or size + row_bytes > BULK_BYTES):
            yield piece
            piece, count, size = [], 0, 0
        if not piece or piece[-1][0] != table:
            piece.append((table, []))
        piece[-1][1].append(row)
        count += 1
        size += row_bytes
    yield piece


def _rows(cell: FrontierCell, site: str, names: Iterable[int]) -> Iterator[tuple[str, Row]]:
    """The rows of a site's hosts, table by table."""
    slot = slot_of(site)
    for table in tables_of(cell):
        for host_id in names:
            sql = f"SELECT * FROM {table} WHERE slot = ? AND host_id = ?"  # noqa: S608  # one of the cell's tables
            for row in cell.db.execute(sql, (slot, host_id)):
                yield table, list(row)


def _host_row(cell: FrontierCell, host_id: int) -> Row:
    return list(cell.db.execute("SELECT * FROM hosts WHERE host_id = ?", (host_id,)).fetchone())


def _delete(cell: FrontierCell, site: str, names: Mapping[int, str]) -> None:
    slot = slot_of(site)
    for table in tables_of(cell):
        sql = f"DELETE FROM {table} WHERE slot = ? AND host_id = ?"  # noqa: S608  # one of the cell's tables
        cell.db.executemany(sql, [(slot, host_id) for host_id in names])
    cell.db.executemany("DELETE FROM hosts WHERE host_id = ?", [(host_id,) for host_id in names])
    _forget(cell)


def take(cell: FrontierCell, part: Part) -> list[tuple[int, str]]:
    """Put a part of a site into a cell; inside the receiver's transaction. Returns (host id, name) of what it holds."""
    for table, rows in part.rows:
        if table == HOSTS:
            _add_hosts(cell, rows)
    numbers, at = _numbers(cell, part.names), tables_of(cell)
    for table, rows in part.rows:
        if table in at:
            _add(cell, table, [[*row[: at[table]], numbers[row[at[table]]], *row[at[table] + 1 :]] for row in rows])
    _forget(cell)
    return [(numbers[old], name) for old, name in part.names.items()]


def _add_hosts(cell: FrontierCell, rows: Sequence[Row]) -> None:
    marks = ", ".join("?" * (len(rows[0]) - 1)) if rows else ""
    columns = "slot, name, found_s, requests, bytes, parked, address, response_s"
    sql = f"INSERT OR IGNORE INTO hosts ({columns}) VALUES ({marks})"  # noqa: S608  # only our own words
    cell.db.executemany(sql, [row[1:] for row in rows])


def _numbers(cell: FrontierCell, names: Mapping[int, str]) -> dict[int, int]:
    found = {}
    for old, name in names.items():
        row = cell.db.execute("SELECT host_id FROM hosts WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise ClusterError(f"the rows of {name} came before the host itself")
        found[old] = int(row[0])
    return found


def _add(cell: FrontierCell, table: str, rows: Sequence[Row]) -> None:
    marks = ", ".join("?" * len(rows[0]))
    sql = f"INSERT OR IGNORE INTO {table} VALUES ({marks})"  # noqa: S608  # one of the cell's tables
    added = cell.db.executemany(sql, rows).rowcount
    if table == "urls":
        cell.known += added
    elif table == "queue":
        cell.queued += sum(row[2] != LANE_REFRESH for row in rows) if added == len(rows) else added


def _forget(cell: FrontierCell) -> None:
    """Drop what is in memory of hosts whose rows came or went."""
    cell._host_ids.clear()
    if cell.watch is not None:
        cell.watch.forget()
