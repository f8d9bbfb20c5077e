"""A URL that somebody wants visited now: it waits among those that are due, whatever it was doing before."""

from __future__ import annotations

from teia.frontier import revisits
from teia.frontier.cell import FrontierCell
from teia.frontier.schema import LANE_DUE, LANE_REFRESH, STATE_EXCLUDED, STATE_QUEUED
from teia.records import Outcome
from teia.urls import key_of, site_of, slot_of, split


def visit_soon(cell: FrontierCell, url: str, now_s: float) -> tuple[int, str] | None:
    """Put a known URL among those that are due; inside a transaction. Returns its host's id and name.

    None if it is not known, or was left out for a reason that a visit would not change.
    """
    host = split(url).host
    row = cell.db.execute("SELECT host_id FROM hosts WHERE name = ?", (host,)).fetchone()
    if row is None:
        return None
    place = (slot_of(site_of(host)), row[0], key_of(url))
    sql = "SELECT state, outcome, lane, rank FROM urls WHERE slot = ? AND host_id = ? AND key = ?"
    known = cell.db.execute(sql, place).fetchone()
    if known is None or (known[0] == STATE_EXCLUDED and known[1] != Outcome.ROBOTS):
        return None
    state, outcome, lane, rank = known
    soon = int(now_s * 1000)
    if lane == LANE_DUE and state == STATE_QUEUED and rank <= soon:
        return row[0], host
    if state == STATE_QUEUED:
        cell.withdraw(*place, outcome, lane=lane, rank=rank)
    elif lane == LANE_REFRESH:
        revisits.withdraw(cell.db, place)
    sql = "UPDATE urls SET lane = ?, rank = ? WHERE slot = ? AND host_id = ? AND key = ?"
    cell.db.execute(sql, (LANE_DUE, soon, *place))
    cell.requeue(*place, lane=LANE_DUE, rank=soon)
    return row[0], host
