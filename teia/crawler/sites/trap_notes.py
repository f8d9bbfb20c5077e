"""Reports of the group commit to the trap watch (frontier/traps/watch.py) on the pages it commits."""

from __future__ import annotations

from collections.abc import Collection

from teia.crawler.open_cell import Cell
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.queue.schedule import HostQueue
from teia.records import Outcome


def note_visit(cell: Cell, visit: ActiveVisit) -> None:
    """Report a page that was read for the first time; inside the transaction that settles it."""
    watch, queue, item, result = cell.watch, visit.queue, visit.item, visit.result
    if watch is None or item.purpose != "page":
        return
    was_answered = visit.fetched is not None and visit.fetched.status != 0
    watch.note_returned(queue.host_id, item, was_answered=was_answered)
    if result is None or visit.fetched is None:
        return
    if result.traps:
        watch.count_refused(queue.host_id, queue.host, result.traps)
    # Only first visits tell the value of a pattern.
    if item.visits:
        return
    if visit.fetched.status in {404, 410} or visit.outcome == Outcome.SOFT_404:
        watch.count_visit(queue.host_id, queue.host, item, b"", 0)
    elif 200 <= visit.fetched.status < 300:
        watch.count_visit(queue.host_id, queue.host, item, result.text_digest or result.digest, result.outline)


def next_urls(
    cell: Cell, queue: HostQueue, limit: int, skip: Collection[int], now_s: float
) -> tuple[list[QueuedUrl], bool]:
    """Return a host's next URLs, and whether more of it are held back until these are read."""
    if cell.watch is None:
        return cell.frontier.next_urls(queue.host_id, queue.host, limit, skip, now_s), False
    choice = cell.watch.admit(queue.host_id, queue.host, limit, skip, now_s)
    return choice.items, choice.held
