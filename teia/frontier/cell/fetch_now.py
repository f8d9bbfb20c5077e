"""A user's request to fetch one URL now: it becomes due, unless it was excluded."""

from __future__ import annotations

from teia.frontier.cell import revisits
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.schema import LANE_DUE, LANE_REFRESH, STATE_EXCLUDED, STATE_QUEUED
from teia.records import Outcome
from teia.urls import key_of, site_of, slot_of, split


def visit_soon(cell: FrontierCell, url: str, now_s: float) -> tuple[int, str] | None:
    """Make a known URL due; inside a transaction. Return its host's id and name.

    Returns None if it is unknown, or was excluded for a reason that a visit would not change.
    """
    host = split(url).host
    row = cell.db.execute("SELECT host_id FROM hosts WHERE name = ?", (host,)).fetchone()
    if row is None:
        return None
    row_key = (slot_of(site_of(host)), row[0], key_of(url))
    sql = "SELECT state, outcome, lane, rank FROM urls WHERE slot = ? AND host_id = ? AND key = ?"
    known = cell.db.execute(sql, row_key).fetchone()
    # robots.txt may have changed since; scope, budget and trap rules would refuse the URL again.
    if known is None or (known[0] == STATE_EXCLUDED and known[1] != Outcome.ROBOTS):
        return None
    state, _, lane, rank = known
    soon = int(now_s * 1000)
    # Already among the first of its host.
    if lane == LANE_DUE and state == STATE_QUEUED and rank <= soon:
        return row[0], host
    if state == STATE_QUEUED:
        cell.make_due(*row_key, lane=lane, rank=rank, due=soon)
        return row[0], host
    if lane == LANE_REFRESH:
        revisits.withdraw(cell, row_key)
    sql = "UPDATE urls SET lane = ?, rank = ? WHERE slot = ? AND host_id = ? AND key = ?"
    cell.db.execute(sql, (LANE_DUE, soon, *row_key))
    cell.requeue(*row_key, lane=LANE_DUE, rank=soon)
    return row[0], host


def outcome_of(cell: FrontierCell, url: str) -> str:
    """Return the outcome of a URL's last visit; empty if there was none."""
    host = split(url).host
    sql = "SELECT u.outcome FROM hosts AS h JOIN urls AS u USING (slot, host_id) WHERE h.name = ? AND u.key = ?"
    row = cell.db.execute(sql, (host, key_of(url))).fetchone()
    return "" if row is None or row[0] is None else str(row[0])
