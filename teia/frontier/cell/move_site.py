"""Move of a site from one cell to another: all its rows, in messages (A4).

The rows of a site lie together by slot and host number in every table of its cell, so a move copies them. The
message contains the rows as they are, including queue, schedule and history, and the ends of its hosts' delays.
Host numbers are local to a cell: the receiver assigns new ones. The rows name the locations of its captures in the
archive; the captures themselves stay.

    a part:  "site" MessagePack, packed [version, version of the tables, site, hosts {number: name},
             delays {host: time}, note, [[table, [row, ...]], ...], is it the last]

The sender's transaction deletes the rows and posts the parts to the other cell, so that they are in the one atomic
batch or nowhere. A part waits in the stream until the receiver's own transaction has it. So the site is never in
both cells: it is in one of them, or on its way.
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
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.mail import BULK_BYTES
from teia.frontier.cell.old_names import NEW_NAMES_FORMAT, OLD_VERSION, TO_NEW, TO_OLD, translate_tables
from teia.frontier.cell.schema import LANE_REFRESH
from teia.frontier.cell.schema import VERSION as TABLES_VERSION
from teia.lib.undecodable import UNDECODABLE
from teia.urls import site_of, slot_of

VERSION = 1
MARK = b"site"
"""First bytes of a part; links never begin so."""

MAX_URLS = 20_000
"""Greatest number of URLs of a site that can move: more would not fit into one batch. Its whole cell can move."""

PART_ROWS = 2_000
"""Greatest number of rows in one part, which also fits into one message, unless one row alone is larger."""

MAX_PACKED_BYTES = 768 * 1024
"""Greatest size of a packed part; NATS accepts a megabyte."""

MAX_PARTS = 100
"""Greatest number of parts of a site; more do not fit into one batch."""

# Limit on an unpacked part: a broken message must not fill the memory.
MAX_PART_BYTES = 64 << 20

HOSTS, QUEUE, VISITS = "hosts", "queue", "visits"
VISIT_LENGTH = 9
"""Column of `visits` with the length of the capture; 0 where nothing was archived."""

Row = list[Any]  # Any: the types of SQLite


class SiteTooLarge(ClusterError):
    """A site does not fit into one batch; it stays in its cell."""


class SiteRows(msgspec.Struct, array_like=True, frozen=True):
    """Some rows of a site on its way; `note` is the sender's note to the receiver."""

    version: int
    tables: int
    site: str
    names: dict[int, str]
    delays: dict[str, float]
    note: str
    rows: list[tuple[str, list[Row]]]
    is_last: bool
    knows_links: bool = False
    """True if the counted links of every page are stored in the sender's cell (in_link_counts.py)."""


@dataclass(frozen=True, slots=True)
class MovedSite:
    """Size of a site that was moved."""

    hosts: tuple[str, ...]
    urls: int
    queued: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SiteRows).decode


def is_part(bulk: bytes) -> bool:
    return bulk.startswith(MARK)


def decode_part(bulk: bytes) -> SiteRows:
    """Decode a part; raise ClusterError if it is unreadable or from another version of teia."""
    try:
        unpacker = zlib.decompressobj()
        part = _decode(unpacker.decompress(bulk[len(MARK) :], MAX_PART_BYTES))
    except (zlib.error, *UNDECODABLE) as error:
        raise ClusterError(f"a site from another cell cannot be read: {error}") from error
    if part.version == VERSION and part.tables == OLD_VERSION:
        return msgspec.structs.replace(part, tables=TABLES_VERSION, rows=translate_tables(TO_NEW, part.rows))
    if (part.version, part.tables) != (VERSION, TABLES_VERSION):
        raise ClusterError(
            f"a site was sent by another version of teia (parts {part.version}, tables {part.tables}; here "
            f"{VERSION}, {TABLES_VERSION}); run the same version on all nodes"
        )
    return part


def tables_of(cell: FrontierCell) -> dict[str, int]:
    """Return the tables that hold rows of hosts, and the column with the host's number; the queue last."""
    names = [name for (name,) in cell.db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    found = {}
    for name in sorted(names, key=lambda each: each == QUEUE):
        columns = [row[1] for row in cell.db.execute(f"PRAGMA table_info({name})")]
        if name != HOSTS and {"slot", "host_id"} <= set(columns):
            found[name] = columns.index("host_id")
    return found


def hosts_of(cell: FrontierCell, site: str) -> dict[int, str]:
    """Return the hosts of a site that a cell knows, by number."""
    rows = cell.db.execute("SELECT host_id, name FROM hosts WHERE slot = ?", (slot_of(site),))
    return {host_id: name for host_id, name in rows if site_of(name) == site}


def urls_of(cell: FrontierCell, site: str) -> int:
    """Return the number of URLs of a site in a cell."""
    sql = "SELECT count(*) FROM urls WHERE slot = ? AND host_id = ?"
    slot = slot_of(site)
    return sum(int(cell.db.execute(sql, (slot, host_id)).fetchone()[0]) for host_id in hosts_of(cell, site))


def send(cell: FrontierCell, site: str, to_cell: int, delays: Mapping[str, float], note: str = "") -> MovedSite:
    """Take a site out of a cell and post it to another.

    Inside the sender's transaction, which SiteTooLarge ends.
    """
    assert cell.journal is not None
    names = hosts_of(cell, site)
    moved = _size_of(cell, site, names)
    pieces = list(islice(_pieces(cell, site, names), MAX_PARTS + 1)) or [[]]
    if len(pieces) > MAX_PARTS:
        raise SiteTooLarge(f"{site} was not moved: it needs more than {MAX_PARTS} messages")
    tables = TABLES_VERSION
    if cell.journal.format < NEW_NAMES_FORMAT:
        tables, pieces = OLD_VERSION, [translate_tables(TO_OLD, piece) for piece in pieces]
    for at, rows in enumerate(pieces):
        is_last = at == len(pieces) - 1
        part = SiteRows(VERSION, tables, site, names, dict(delays), note, rows, is_last, cell.knows_links)
        packed = MARK + isal_zlib.compress(_encode(part), 1)
        if len(packed) > MAX_PACKED_BYTES:
            raise SiteTooLarge(f"{site} was not moved: one of its messages would have {len(packed):,} bytes")
        cell.journal.post(to_cell, packed)
    cell.captures -= _captures_of(cell, site, names)
    _delete(cell, site, names)
    cell.known -= moved.urls
    cell.queued -= moved.queued
    return moved


def _size_of(cell: FrontierCell, site: str, names: Mapping[int, str]) -> MovedSite:
    sql = "SELECT count(*) FROM queue WHERE slot = ? AND host_id = ? AND lane <> ?"
    slot = slot_of(site)
    queued = sum(int(cell.db.execute(sql, (slot, host_id, LANE_REFRESH)).fetchone()[0]) for host_id in names)
    return MovedSite(tuple(names.values()), urls_of(cell, site), queued)


def _captures_of(cell: FrontierCell, site: str, names: Iterable[int]) -> int:
    sql = "SELECT count(*) FROM visits WHERE slot = ? AND host_id = ? AND length > 0"
    return sum(int(cell.row(sql, slot_of(site), host_id)[0]) for host_id in names)


def _pieces(cell: FrontierCell, site: str, names: Mapping[int, str]) -> Iterator[list[tuple[str, list[Row]]]]:
    """Yield the rows of a site in pieces, the hosts themselves first."""
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
    """Yield the rows of a site's hosts, table by table."""
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


def store_part(cell: FrontierCell, part: SiteRows) -> list[tuple[int, str]]:
    """Store a part of a site in a cell; inside the receiver's transaction. Return its (host id, name) pairs."""
    # Hosts first, in a pass of their own: all other rows need the numbers that hosts get here.
    for table, rows in part.rows:
        if table == HOSTS:
            _add_hosts(cell, rows)
    numbers, at = _numbers(cell, part.names), tables_of(cell)
    for table, rows in part.rows:
        if table in at:
            _add(cell, table, [[*row[: at[table]], numbers[row[at[table]]], *row[at[table] + 1 :]] for row in rows])
    if cell.knows_links and not part.knows_links:  # pages without a row may have been read by an older teia
        cell.delete_meta(["outlinks"])
        cell.knows_links = False
    _forget(cell)
    return [(numbers[old], name) for old, name in part.names.items()]


def _add_hosts(cell: FrontierCell, rows: Sequence[Row]) -> None:
    marks = ", ".join("?" * (len(rows[0]) - 1)) if rows else ""
    # All columns but `host_id`, the first: the receiver assigns its own numbers.
    columns = "slot, name, found_s, requests, bytes, parked, address, response_s"
    sql = f"INSERT OR IGNORE INTO hosts ({columns}) VALUES ({marks})"  # noqa: S608  # only our own words
    cell.db.executemany(sql, [row[1:] for row in rows])


def _numbers(cell: FrontierCell, names: Mapping[int, str]) -> dict[int, int]:
    found = {}
    for old, name in names.items():
        host_id = cell.find_host(name)
        if host_id is None:
            raise ClusterError(f"the rows of {name} arrived before the host itself")
        found[old] = host_id
    return found


def _add(cell: FrontierCell, table: str, rows: Sequence[Row]) -> None:
    """Insert rows that the cell does not have; count the new URLs, those that wait for a fetch, and the captures."""
    if table == QUEUE:
        cell.queued += _insert(cell, table, [row for row in rows if row[2] != LANE_REFRESH])
        _insert(cell, table, [row for row in rows if row[2] == LANE_REFRESH])
        return
    if table == VISITS:
        cell.captures += _insert(cell, table, [row for row in rows if row[VISIT_LENGTH] > 0])
        rows = [row for row in rows if row[VISIT_LENGTH] <= 0]
    added = _insert(cell, table, rows)
    if table == "urls":
        cell.known += added


def _insert(cell: FrontierCell, table: str, rows: Sequence[Row]) -> int:
    """Insert rows unless they are there; return the number of those that were not."""
    if not rows:
        return 0
    # IGNORE: a link may have brought one of these URLs here before the site itself arrived.
    marks = ", ".join("?" * len(rows[0]))
    sql = f"INSERT OR IGNORE INTO {table} VALUES ({marks})"  # noqa: S608  # one of the cell's tables
    return cell.db.executemany(sql, rows).rowcount


def _forget(cell: FrontierCell) -> None:
    """Clear cached data of hosts whose rows were added or deleted."""
    cell._host_ids.clear()
    cell.has_shorter_paths = True
    if cell.watch is not None:
        cell.watch.forget()
