"""URLs evaluated again after a change of the settings that decide about them (A10).

The row `judged` of a cell's `meta` names the settings (a *mark*) by which all its URLs were evaluated, and the
position of a newer evaluation. A crawler that finds another mark, while running or after a crash, walks through the
cell once more, a few thousand URLs in a transaction. A queued URL that may no longer be requested becomes
`out_of_scope`. A URL that was refused for its scope, its host's budget or its address, and may be requested now, is
queued again. A URL keeps its place (`lane`, `rank`) all the while. Until the walk ends, and for URLs in memory, the
crawler checks the rules before each request.

A page's own properties (its language) do not follow from settings alone: a URL whose last visit ended out of scope
stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import RowKey
from teia.frontier.cell.journal import RecordingConnection
from teia.frontier.cell.rows import url_from
from teia.frontier.cell.schema import BY_SEED, STATE_EXCLUDED, STATE_QUEUED
from teia.records import Outcome
from teia.urls import SLOTS

# URLs between two calls of `has_time`.
ROWS = 2_000
END = (SLOTS, 0, 0)
EVALUATED = "judged"
_NEXT = """
    SELECT u.host_id, u.key, h.name, u.tail, u.depth, u.found_by, u.state, u.outcome, h.requests,
        u.found_by = :seed AND EXISTS (
            SELECT 1 FROM pages AS p WHERE p.slot = u.slot AND p.host_id = u.host_id AND p.key = u.key),
        u.lane, u.rank
    FROM urls AS u JOIN hosts AS h ON h.host_id = u.host_id
    WHERE u.slot = :slot AND (u.host_id, u.key) > (:host_id, :key) AND (u.state = :queued
        OR (u.state = :excluded AND u.outcome IN (:outside, :spent, :blocked) AND NOT EXISTS (
            SELECT 1 FROM visits AS v JOIN pages AS p USING (slot, host_id, key)
            WHERE v.slot = u.slot AND v.host_id = u.host_id AND v.key = u.key
                AND v.time_s = p.last_visit_s AND v.outcome = :outside)))
    ORDER BY u.host_id, u.key LIMIT :rows
"""


@dataclass(frozen=True, slots=True)
class ReconsideredUrl:
    """A URL that is queued, or was refused without a request; `requests` are those of its host.

    `is_known_seed`: it was found as a seed alone, and has been visited.
    """

    url: str
    depth: int
    found_by: int
    outcome: str
    requests: int
    is_known_seed: bool = False


def progress(cell: FrontierCell, mark: str) -> RowKey:
    """Return the position of the evaluation by these settings; END if all URLs were evaluated."""
    row = cell.meta(EVALUATED)
    # In a cluster the position may still wait for the next change (see `reconsider`).
    if isinstance(cell.db, RecordingConnection):
        row = cell.db.deferred_meta.get(EVALUATED, row)
    evaluated_by, *position = json.loads(row) if row is not None else ("",)
    return (position[0], position[1], position[2]) if evaluated_by == mark else (0, -1, 0)


def reconsider(
    cell: FrontierCell, mark: str, is_wanted: Callable[[ReconsideredUrl], bool], has_time: Callable[[], bool]
) -> list[tuple[int, str]]:
    """Evaluate URLs again, some thousands at least; inside a transaction. Return (host id, name) with new work.

    `progress` then returns the new position.
    """
    position, touched = progress(cell, mark), dict[int, str]()
    while position < END:
        position = _evaluate(cell, position, is_wanted, touched)
        if not has_time():
            break
    progress_json = json.dumps([mark, *position])
    deferred_meta = cell.db.deferred_meta if isinstance(cell.db, RecordingConnection) else {}
    # The position in an empty cell is worth no record of its own in the cluster's log.
    if isinstance(cell.db, RecordingConnection) and not cell.known:  # a new URL is evaluated when it is added
        deferred_meta[EVALUATED] = progress_json
    else:
        deferred_meta.pop(EVALUATED, None)
        cell.set_meta({EVALUATED: progress_json})
    return list(touched.items())


def candidate_urls(cell: FrontierCell) -> Iterator[tuple[ReconsideredUrl, bool]]:
    """Yield every URL that `reconsider` would judge, and True if it is queued; nothing is changed."""
    slots = [slot for (slot,) in cell.db.execute("SELECT DISTINCT slot FROM urls")]
    for slot in slots:
        host_id, key = -1, 0
        while rows := _rows(cell, slot, host_id, key):
            host_id, key = rows[-1][:2]
            for _, _, host, tail, depth, found_by, state, outcome, requests, known, _, _ in rows:
                url = ReconsideredUrl(url_from(host, tail), depth, found_by, outcome, requests, bool(known))
                yield url, state == STATE_QUEUED


def _rows(cell: FrontierCell, slot: int, host_id: int, key: int) -> list[tuple[Any, ...]]:
    """Return the next URLs of a slot that can be evaluated anew."""
    values = {"slot": slot, "host_id": host_id, "key": key, "queued": STATE_QUEUED, "excluded": STATE_EXCLUDED}
    names = {"outside": Outcome.OUT_OF_SCOPE, "spent": Outcome.BUDGET, "blocked": Outcome.BLOCKED_ADDRESS}
    return cell.db.execute(_NEXT, values | names | {"seed": BY_SEED, "rows": ROWS}).fetchall()


def _evaluate(
    cell: FrontierCell, position: RowKey, is_wanted: Callable[[ReconsideredUrl], bool], touched: dict[int, str]
) -> RowKey:
    """Evaluate the next URLs of one slot; return the new position."""
    first = "SELECT coalesce(min(slot), ?) FROM urls WHERE slot >= ?"
    (slot,) = cell.db.execute(first, (SLOTS, position[0])).fetchone()
    if slot == SLOTS:
        return END
    host_id, key = position[1:] if slot == position[0] else (-1, 0)
    rows = _rows(cell, slot, host_id, key)
    for host_id, key, host, tail, depth, found_by, state, outcome, requests, known, lane, rank in rows:
        wanted = is_wanted(ReconsideredUrl(url_from(host, tail), depth, found_by, outcome, requests, bool(known)))
        if wanted and state == STATE_EXCLUDED:
            cell.requeue(slot, host_id, key, lane=lane, rank=rank)
            touched[host_id] = host
        elif not wanted and state == STATE_QUEUED:
            cell.withdraw(slot, host_id, key, Outcome.OUT_OF_SCOPE, lane=lane, rank=rank)
    return (slot, host_id, key) if len(rows) == ROWS else (slot + 1, -1, 0)
