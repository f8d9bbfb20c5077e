"""URLs judged again when the settings that decide about them are others (A10).

The row `judged` of a cell's `meta` says by which settings (a *mark*) all its URLs were judged, and how far a newer
judgement has come. Found with another mark, by a running crawl or after any death, the cell is gone through once more,
a few thousand URLs in a transaction: what waits and may not be asked for any more becomes `out_of_scope`; what was
refused for its scope or for its host's budget, and may be asked for now, waits again. A URL keeps its place (`lane`,
`rank`) all the while. Until that is done, and for URLs that are in memory, the crawler asks before each request.

What a page says of itself (its language) is no matter of settings alone: a URL whose last visit ended out of scope
stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from teia.frontier.cell import FrontierCell
from teia.frontier.journal import RecordingConnection
from teia.frontier.schema import STATE_EXCLUDED, STATE_QUEUED
from teia.frontier.tails import url_from
from teia.records import Outcome
from teia.urls import SLOTS

ROWS = 2_000
END = (SLOTS, 0, 0)
JUDGED = "judged"
Place = tuple[int, int, int]
"""Slot, host id and key of the last URL that was judged."""

_NEXT = """
    SELECT u.host_id, u.key, h.name, u.tail, u.depth, u.found_by, u.state, u.outcome, h.requests, u.lane, u.rank
    FROM urls AS u JOIN hosts AS h ON h.host_id = u.host_id
    WHERE u.slot = :slot AND (u.host_id, u.key) > (:host_id, :key) AND (u.state = :queued
        OR (u.state = :excluded AND u.outcome IN (:outside, :spent) AND NOT EXISTS (
            SELECT 1 FROM visits AS v JOIN pages AS p USING (slot, host_id, key)
            WHERE v.slot = u.slot AND v.host_id = u.host_id AND v.key = u.key
                AND v.time_s = p.last_visit_s AND v.outcome = :outside)))
    ORDER BY u.host_id, u.key LIMIT :rows
"""


@dataclass(frozen=True, slots=True)
class Judged:
    """A URL that waits, or that was refused without being asked for; `requests` are those its host has had."""

    url: str
    depth: int
    found_by: int
    outcome: str
    requests: int


def progress(cell: FrontierCell, mark: str) -> Place:
    """How far the URLs of a cell were judged by these settings; END if all were."""
    row = cell.db.execute("SELECT value FROM meta WHERE name = ?", (JUDGED,)).fetchone()
    if isinstance(cell.db, RecordingConnection) and JUDGED in cell.db.late:
        row = (cell.db.late[JUDGED],)
    judged_by, *place = json.loads(row[0]) if row is not None else ("",)
    return (place[0], place[1], place[2]) if judged_by == mark else (0, -1, 0)


def reconsider(
    cell: FrontierCell, mark: str, is_wanted: Callable[[Judged], bool], has_time: Callable[[], bool]
) -> list[tuple[int, str]]:
    """Judge URLs again, some thousands at least; inside a transaction. Returns (host id, name) with new work.

    `progress` then says how far it came.
    """
    place, touched = progress(cell, mark), dict[int, str]()
    while place < END:
        place = _judge(cell, place, is_wanted, touched)
        if not has_time():
            break
    how_far = json.dumps([mark, *place])
    late = cell.db.late if isinstance(cell.db, RecordingConnection) else {}
    if isinstance(cell.db, RecordingConnection) and not cell.known:  # whatever comes is judged when it comes
        late[JUDGED] = how_far
    else:
        late.pop(JUDGED, None)
        cell.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (JUDGED, how_far))
    return list(touched.items())


def in_question(cell: FrontierCell) -> Iterator[tuple[Judged, bool]]:
    """Yield what `reconsider` would look at, all of it, and whether it waits; nothing is changed."""
    slots = [slot for (slot,) in cell.db.execute("SELECT DISTINCT slot FROM urls")]
    for slot in slots:
        host_id, key = -1, 0
        while rows := _rows(cell, slot, host_id, key):
            host_id, key = rows[-1][:2]
            for _, _, host, tail, depth, found_by, state, outcome, requests, _, _ in rows:
                yield Judged(url_from(host, tail), depth, found_by, outcome, requests), state == STATE_QUEUED


def _rows(cell: FrontierCell, slot: int, host_id: int, key: int) -> list[tuple[Any, ...]]:
    """The next URLs of a slot that can be judged anew."""
    values = {"slot": slot, "host_id": host_id, "key": key, "queued": STATE_QUEUED, "excluded": STATE_EXCLUDED}
    names = {"outside": Outcome.OUT_OF_SCOPE, "spent": Outcome.BUDGET, "rows": ROWS}
    return cell.db.execute(_NEXT, values | names).fetchall()


def _judge(cell: FrontierCell, place: Place, is_wanted: Callable[[Judged], bool], touched: dict[int, str]) -> Place:
    """Judge the next URLs of one slot; returns how far that went."""
    first = "SELECT coalesce(min(slot), ?) FROM urls WHERE slot >= ?"
    (slot,) = cell.db.execute(first, (SLOTS, place[0])).fetchone()
    if slot == SLOTS:
        return END
    host_id, key = place[1:] if slot == place[0] else (-1, 0)
    rows = _rows(cell, slot, host_id, key)
    for host_id, key, host, tail, depth, found_by, state, outcome, requests, lane, rank in rows:
        wanted = is_wanted(Judged(url_from(host, tail), depth, found_by, outcome, requests))
        if wanted and state == STATE_EXCLUDED:
            cell.requeue(slot, host_id, key, lane=lane, rank=rank)
            touched[host_id] = host
        elif not wanted and state == STATE_QUEUED:
            cell.withdraw(slot, host_id, key, Outcome.OUT_OF_SCOPE, lane=lane, rank=rank)
    return (slot, host_id, key) if len(rows) == ROWS else (slot + 1, -1, 0)
