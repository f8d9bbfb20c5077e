"""Rows of the fetch log in the frontier."""

from __future__ import annotations

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.tables import pending_log


def test_rows_leave_in_their_order_when_they_are_in_a_file(cell: FrontierCell) -> None:
    with cell.transaction():
        pending_log.append(cell, [b"one", b"two", b"three"])
    assert (pending_log.count(cell), pending_log.next_serial(cell)) == (3, 1)
    assert [row for _, row in pending_log.read(cell, 2)] == [b"one", b"two"]
    assert pending_log.search_last(cell, b"o", 2) == [b"two"]
    (first, _), (second, _), _ = pending_log.read(cell)
    with cell.transaction():
        pending_log.replace(cell, second, b"other")
        pending_log.delete_rolled_out(cell, first, 1)
    assert [row for _, row in pending_log.read(cell)] == [b"other", b"three"]
    assert (pending_log.count(cell), pending_log.next_serial(cell)) == (2, 2)
