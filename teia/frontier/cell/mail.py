"""Links for other cells: written with the page that holds them, delivered afterwards, counted once.

Several database files cannot commit as one. So the links of a page for other cells go into the sender's outbox in
the page's own transaction and get a sequence number there. They are then merged into the receiver, which stores the
last number received from each sender. A crash between the two repeats the delivery, and the receiver ignores
duplicates (Bulk and Take of A1; in a cluster JetStream replaces this module).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from teia.errors import ClusterError, CorruptFile
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import FoundUrl
from teia.frontier.queue.order import Hint
from teia.lib.undecodable import UNDECODABLE

BULK_URLS = 1_000
"""Greatest number of links in one message between nodes."""

BULK_BYTES = 512 * 1024
"""Greatest size of such a message; NATS accepts a megabyte."""

THE_STREAM = -1
"""The sender in a cluster: all links come numbered by one stream."""

_Row = tuple[str, int, str, int, int, int, int, Hint | None]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[_Row]).decode


def post(cell: FrontierCell, to_cell: int, found: Iterable[FoundUrl]) -> None:
    """Put links for another cell into the outbox, or into the journal in a cluster; inside the sender's transaction."""
    rows = [(f.host, f.key, f.tail, f.depth, f.in_links, f.hops, f.by, f.hint) for f in found]
    if cell.journal is None:
        cell.db.execute("INSERT INTO outbox (to_cell, bulk) VALUES (?, ?)", (to_cell, _encode(rows)))
        return
    # Messages are limited in bytes, and links differ in length: a bulk that is too long is halved until it fits.
    for at in range(0, len(rows), BULK_URLS):
        for bulk in _bulks(rows[at : at + BULK_URLS]):
            cell.journal.post(to_cell, bulk)


def _bulks(rows: Sequence[_Row]) -> Iterator[bytes]:
    """Yield encoded links, in as many messages as their length requires; one link is never too long for one."""
    bulk = _encode(rows)
    if len(bulk) <= BULK_BYTES or len(rows) == 1:
        yield bulk
        return
    half = len(rows) // 2
    yield from _bulks(rows[:half])
    yield from _bulks(rows[half:])


def decode_links(bulk: bytes) -> list[FoundUrl]:
    """Return the links that another node's cell sent."""
    try:
        return [FoundUrl(*fields) for fields in _decode(bulk)]
    except UNDECODABLE as error:
        raise ClusterError(f"links from another cell cannot be read: {error}") from error


def pending(cell: FrontierCell) -> Iterator[tuple[int, int, list[FoundUrl]]]:
    """Yield (sequence, receiving cell, links) in the order they were posted."""
    for seq, to_cell, bulk in cell.db.execute("SELECT seq, to_cell, bulk FROM outbox ORDER BY seq").fetchall():
        try:
            yield seq, to_cell, [FoundUrl(*fields) for fields in _decode(bulk)]
        except UNDECODABLE as error:
            raise CorruptFile(cell.path, f"links {seq} for cell {to_cell} cannot be read: {error}") from error


def last_posted(cell: FrontierCell) -> int:
    """Return the number of the last links in the outbox; 0 if it was never used."""
    return int(cell.row("SELECT coalesce(max(seq), 0) FROM outbox")[0])


def last_received(receiver: FrontierCell, from_cell: int) -> int:
    """Return the number of the last links the receiver has from a sender."""
    row = receiver.db.execute("SELECT seq FROM inbox WHERE from_cell = ?", (from_cell,)).fetchone()
    return 0 if row is None else int(row[0])


def note_received(receiver: FrontierCell, from_cell: int, seq: int) -> None:
    """Store the number of the last links received; inside the receiver's transaction."""
    receiver.db.execute("INSERT OR REPLACE INTO inbox VALUES (?, ?)", (from_cell, seq))


def delete_delivered(cell: FrontierCell, seq: int) -> None:
    """Delete the links that every receiver has, up to `seq`; inside a transaction of the sender.

    The row with the highest number stays behind, empty, so that the numbers never start again.
    """
    cell.db.execute("DELETE FROM outbox WHERE seq < ?", (seq,))
    cell.db.execute("UPDATE outbox SET bulk = ? WHERE seq = ?", (_encode([]), seq))
