"""A user's request to fetch one URL now: it becomes due, unless it was excluded."""

from __future__ import annotations

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.schema import LANE_DUE, STATE_EXCLUDED, STATE_QUEUED
from teia.frontier.tables.pages import find_url, find_url_at
from teia.records import Outcome
from teia.urls import key_of, split


def visit_soon(cell: FrontierCell, url: str, now_s: float) -> tuple[int, str] | None:
    """Make a known URL due; inside a transaction. Return its host's id and name.

    Returns None if it is unknown, or was excluded for a reason that a visit would not change.
    """
    host = split(url).host
    row_key = cell.find_row_key(host, key_of(url))
    known = None if row_key is None else find_url(cell, row_key)
    # robots.txt may have changed since; scope, budget and trap rules would refuse the URL again.
    if row_key is None or known is None or (known.state == STATE_EXCLUDED and known.outcome != Outcome.ROBOTS):
        return None
    soon = int(now_s * 1000)
    if known.state != STATE_QUEUED:
        cell.requeue_due(row_key, known.lane, soon)
    # Otherwise it is already among the first of its host.
    elif known.lane != LANE_DUE or known.rank > soon:
        cell.make_due(*row_key, lane=known.lane, rank=known.rank, due=soon)
    return row_key[1], host


def outcome_of(cell: FrontierCell, url: str) -> str:
    """Return the outcome of a URL's last visit; empty if there was none."""
    known = find_url_at(cell, split(url).host, key_of(url))
    return "" if known is None else known.outcome
