"""Counted links: for each page of a cell, the URLs it links to now (docs/graph.md, decision 0033).

`urls.in_links` is the number of pages that link to a URL. A page that is read again may link to other URLs than
before, and only the difference changes the counts. So the targets counted for it are stored here, in the
transaction that counts them.

    outlinks  page -> its targets: MessagePack [[host, keys], ...], the keys little-endian i64, hosts and keys sorted

A page without a row links to nothing that is counted. That holds in cells that a teia with this table has written
from the beginning, or whose links were counted anew (`teia audit links --repair`): the row `outlinks` of `meta`
records it. In other cells a page without a row was read by an older teia, and its counted links are unknown.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from teia.errors import CorruptFile
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import CellConnection, RowKey
from teia.frontier.cell.rows import FoundUrl
from teia.lib.undecodable import UNDECODABLE

Targets = Mapping[str, Iterable[int]]
"""Keys of URLs by their host."""

REMOVED_DEPTH = 1 << 30
"""Depth of a link that is taken back: deeper than any other, so that it cannot affect its URL's depth."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[str, bytes]]).decode


class Relinked(NamedTuple):
    """Keys of a page's new links, and (host, key) of those that disappeared."""

    new: set[int]
    gone: list[tuple[str, int]]


def pack(targets: Targets) -> bytes:
    """Return targets in their stored form; empty if there are none."""
    named = [(host, array("q", sorted(set(keys))).tobytes()) for host, keys in sorted(targets.items())]
    return _encode(named) if named else b""


def unpack(cell: FrontierCell, row: bytes) -> dict[int, str]:
    """Return the host of each stored target, by its key."""
    if not row:
        return {}
    try:
        named = _decode(row)
        return {key: host for host, keys in named for key in array("q", keys)}
    except (*UNDECODABLE, ValueError) as error:
        raise CorruptFile(cell.path, f"the links of a page cannot be read: {error}") from error


def replace(cell: FrontierCell, row_key: RowKey, targets: Targets) -> Relinked:
    """Store the links of a page; return the difference. Inside a transaction.

    A page that an older teia has read is assumed to link to the same URLs: its links were counted long ago.
    """
    cell.write_links()
    now = pack(targets)
    # Most pages have no row yet: one statement tests that and stores.
    if now and cell.db.execute("INSERT OR IGNORE INTO outlinks VALUES (?, ?, ?, ?)", (*row_key, now)).rowcount:
        # In an older cell, a page read before the table existed has had its links counted.
        is_new = cell.knows_links or not _was_read(cell, row_key)
        return Relinked({key for keys in targets.values() for key in keys} if is_new else set(), [])
    before = load(cell, row_key) or b""
    if before == now:
        return Relinked(set(), [])
    if now:
        cell.db.execute("UPDATE outlinks SET targets = ? WHERE slot = ? AND host_id = ? AND key = ?", (now, *row_key))
    else:
        cell.db.execute("DELETE FROM outlinks WHERE slot = ? AND host_id = ? AND key = ?", row_key)
    old, new = unpack(cell, before), {key for keys in targets.values() for key in keys}
    return Relinked(new - old.keys(), [(host, key) for key, host in old.items() if key not in new])


def store_first(cell: FrontierCell, row_key: RowKey, targets: Targets) -> None:
    """Store the links of a page that has no row yet, at the end of the transaction or when a row is read."""
    now = pack(targets)
    if now:
        cell.new_links.append((*row_key, now))


def add(cell: FrontierCell, row_key: RowKey, targets: Targets) -> set[int]:
    """Add links to those counted for a page; return the keys that are new. Inside a transaction."""
    cell.write_links()
    before = load(cell, row_key) or b""
    # An older teia counted this page's links without storing them; adding would count them twice.
    if not before and not cell.knows_links:
        return set()
    old = unpack(cell, before)
    new = {key for keys in targets.values() for key in keys} - old.keys()
    if new:
        both: dict[str, set[int]] = {host: set(keys) for host, keys in targets.items()}
        for key, host in old.items():
            both.setdefault(host, set()).add(key)
        cell.db.execute("INSERT OR REPLACE INTO outlinks VALUES (?, ?, ?, ?)", (*row_key, pack(both)))
    return new


def store(cell: FrontierCell, row_key: RowKey, targets: Targets) -> None:
    """Store the links of a page regardless of earlier ones, for a new count. Inside a transaction."""
    now = pack(targets)
    if now:
        cell.db.execute("INSERT OR REPLACE INTO outlinks VALUES (?, ?, ?, ?)", (*row_key, now))
    else:
        cell.db.execute("DELETE FROM outlinks WHERE slot = ? AND host_id = ? AND key = ?", row_key)


def removed_link(host: str, key: int) -> FoundUrl:
    """Return a removed link in the form that is sent to the cell of its URL."""
    return FoundUrl(host, key, "", REMOVED_DEPTH, -1, REMOVED_DEPTH, by=0)


def load(cell: CellConnection, row_key: RowKey) -> bytes | None:
    """Return the stored links of a page; None if there are none."""
    sql = "SELECT targets FROM outlinks WHERE slot = ? AND host_id = ? AND key = ?"
    row = cell.db.execute(sql, row_key).fetchone()
    return None if row is None else bytes(row[0])


def mark_complete(cell: FrontierCell) -> None:
    """Record that the counted links of every page are stored. Inside a transaction."""
    cell.set_meta({"outlinks": 1})
    cell.knows_links = True


def stored_counts(cell: CellConnection) -> Iterator[tuple[int, int, int, int]]:
    """Yield (slot, host id, key, in-links) of every URL."""
    return cell.rows("SELECT slot, host_id, key, in_links FROM urls")


def correct_counts(cell: CellConnection, counts: Iterable[tuple[int, int, int, int]]) -> None:
    """Store numbers of in-links, (in-links, slot, host id, key); inside a transaction."""
    cell.db.executemany("UPDATE urls SET in_links = ? WHERE slot = ? AND host_id = ? AND key = ?", counts)


def has_table(cell: CellConnection) -> bool:
    """Tell whether a cell opened read-only has the table; a teia that knows it creates it when it writes."""
    return cell.has_table("outlinks")


def _was_read(cell: CellConnection, row_key: RowKey) -> bool:
    """Tell whether a page that has just been settled had a good capture before.

    Failed tries are visits too, and leave no capture. The first good capture sets the page's last change, and
    counts none (`cell._PageWrites`).
    """
    sql = """
        SELECT 1 FROM pages WHERE slot = ? AND host_id = ? AND key = ? AND (changes OR last_change_s < last_visit_s)
    """
    return cell.db.execute(sql, row_key).fetchone() is not None
