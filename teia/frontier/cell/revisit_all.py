"""A *round*: all known pages of a cell visited once more.

The caller gives the start of the round. A page that was not visited since then waits in its host's lane DUE, the
one visited longest ago first. Pages that an earlier round did not reach have waited longest and so come first in
the next: a round that is cut short again and again still reaches every page in the end. Failed URLs, and those that
a robots.txt forbade, are requested again too. Pages that were excluded for other reasons stay as they are.

The row `again` of `meta` stores the round, its position in the cell, and its number of pages, so that after a crash
a round continues and does not begin anew. A cell is walked some thousand URLs at a time, in transactions of the
group commit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from teia.frontier.cell import revisits
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import RowKey
from teia.frontier.cell.schema import (
    LANE_DUE,
    LANE_REFRESH,
    STATE_DONE,
    STATE_EXCLUDED,
    STATE_FAILED,
    STATE_QUEUED,
)
from teia.records import Outcome

# URLs between two calls of `has_time`.
AT_ONCE = 1_024
BEFORE_ALL = (-1, 0, 0)

_NEXT = """
    SELECT u.slot, u.host_id, u.key, u.state, u.outcome, u.lane, u.found_s, p.visits, p.last_visit_s
    FROM urls AS u LEFT JOIN pages AS p USING (slot, host_id, key)
    WHERE (u.slot, u.host_id, u.key) > (?, ?, ?) ORDER BY u.slot, u.host_id, u.key LIMIT ?
"""


class RoundProgress(NamedTuple):
    """Progress of a round in one cell. `position` is the last URL processed; None if all were.

    `known` pages existed when it began, `visited` of them have been visited since, and `new` ones beside them.
    """

    since_s: float
    position: RowKey | None = BEFORE_ALL
    known: int = 0
    visited: int = 0
    new: int = 0


def round_progress(cell: FrontierCell, since_s: float) -> RoundProgress:
    """Return the progress of the round that began at `since_s`; a new one if the cell was in another round."""
    row = cell.meta("again")
    since, position, *counts = json.loads(row) if row is not None else (None, None)
    if since != since_s:
        return RoundProgress(since_s)
    return RoundProgress(since_s, None if position is None else (position[0], position[1], position[2]), *counts)


def _store(cell: FrontierCell, progress: RoundProgress) -> RoundProgress:
    cell.set_meta({"again": json.dumps(progress)})
    return progress


def count_visits(cell: FrontierCell, since_s: float, visited: int, new: int, left_out: int) -> RoundProgress:
    """Add visits to the counts of a round; inside the transaction that settles them.

    `left_out` are known pages that turned out not to be wanted any more.
    """
    progress = round_progress(cell, since_s)
    return _store(
        cell,
        progress._replace(known=progress.known - left_out, visited=progress.visited + visited, new=progress.new + new),
    )


def requeue_known(
    cell: FrontierCell, since_s: float, has_time: Callable[[], bool]
) -> tuple[RoundProgress, list[tuple[int, str]]]:
    """Queue known pages again, some thousand at least; inside a transaction.

    Returns the progress of the round, and (host id, name) of hosts that have something to fetch.
    """
    progress, hosts = round_progress(cell, since_s), set[int]()
    while progress.position is not None:
        rows = cell.db.execute(_NEXT, (*progress.position, AT_ONCE)).fetchall()
        due = [row for row in rows if _is_due(row, since_s)]
        _queue(cell, due)
        hosts.update(row[1] for row in due)
        last = rows[-1][:3] if len(rows) == AT_ONCE else None
        progress = progress._replace(position=last, known=progress.known + sum(_is_known(row, since_s) for row in rows))
        if not has_time():
            break
    return _store(cell, progress), cell.with_names(hosts)


def _is_due(row: tuple[int, int, int, int, str, int, int, int | None, float | None], since_s: float) -> bool:
    """Tell whether a URL must be requested again: it is settled, and was not seen since the round began."""
    _, _, _, state, outcome, _, found_s, _, last_visit_s = row
    is_settled = state in {STATE_DONE, STATE_FAILED} or (state == STATE_EXCLUDED and outcome == Outcome.ROBOTS)
    # A URL found since the round began is an ordinary new one.
    return is_settled and found_s < since_s and (last_visit_s or 0.0) < since_s


def _is_known(row: tuple[int, int, int, int, str, int, int, int | None, float | None], since_s: float) -> bool:
    """Tell whether a URL counts as a known page of the round: it was visited before the round, even if also since."""
    _, _, _, state, outcome, _, _, visits, last_visit_s = row
    if not visits or (state == STATE_EXCLUDED and outcome != Outcome.ROBOTS):
        return False
    # Of several visits one may lie within the round; a single one must lie before it.
    return visits > 1 or (last_visit_s or 0.0) < since_s


def _queue(cell: FrontierCell, rows: list[tuple[int, int, int, int, str, int, int, int | None, float | None]]) -> None:
    waiting = []
    for slot, host_id, key, _, _, lane, found_s, _, last_visit_s in rows:
        # Out of the REFRESH lane first: a URL has one place in the queue.
        if lane == LANE_REFRESH:
            revisits.withdraw(cell, (slot, host_id, key))
        # All of them are due; the time of the last visit puts the oldest first.
        waiting.append((slot, host_id, key, int((last_visit_s or found_s) * 1000)))
    cell.db.executemany(
        "UPDATE urls SET state = ?, lane = ?, rank = ? WHERE slot = ? AND host_id = ? AND key = ?",
        ((STATE_QUEUED, LANE_DUE, rank, *row_key) for *row_key, rank in waiting),
    )
    queue = sorted((slot, host_id, LANE_DUE, rank, key) for slot, host_id, key, rank in waiting)
    cell.db.executemany("INSERT INTO queue VALUES (?, ?, ?, ?, ?)", queue)
    cell.queued += len(waiting)
