"""Bulk actions on many URLs of a cell: drop them from the queue, put them first, or retry them.

    drop   queued URLs leave the queue and do not return by themselves (`dropped`); a page with a capture stays as it
           is and is only not requested now
    first  queued URLs go before the others of their host; politeness delays are not shortened
    retry  URLs that were given up, whose address was blocked, or that wait for another try, are due now, with all
           their tries before them; dropped ones return to their old places

An action walks through a cell's URLs once, some thousands in a transaction. The row `bulk` of its `meta` is written
with them: the action's unique *mark*, its position, and the number of URLs changed. So a crash at any instant
neither loses a URL nor counts one twice, and the next process continues from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from teia.errors import UsageError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import RowKey
from teia.frontier.cell.rows import url_from
from teia.frontier.cell.schema import (
    LANE_DUE,
    LANE_LATER,
    LANE_NEW,
    LANE_REFRESH,
    STATE_DONE,
    STATE_EXCLUDED,
    STATE_FAILED,
    STATE_QUEUED,
)
from teia.lib.message import Message
from teia.records import Outcome
from teia.urls import SLOTS, site_of, slot_of

# URLs between two calls of `has_time`.
ROWS = 2_000
MAX_TEXT_CHARS = 500
# Greatest key: keys are signed 64-bit numbers.
_LAST_KEY = (1 << 63) - 1

# Behind every URL: the last slot is SLOTS - 1.
END: RowKey = (SLOTS, 0, 0)
_RETRIED = frozenset({Outcome.DROPPED, Outcome.BLOCKED_ADDRESS})
"""Outcomes of excluded URLs that `retry` queues again: whether an address is blocked is found out by trying."""

SOURCES = {LANE_NEW: "new", LANE_DUE: "retry", LANE_REFRESH: "refresh", LANE_LATER: "suspect"}


class BulkAction(StrEnum):
    """An action on many URLs at once."""

    DROP = "drop"
    FIRST = "first"
    RETRY = "retry"


class UrlRow(NamedTuple):
    """A URL as the walk reads it."""

    host_id: int
    key: int
    host: str
    tail: str
    depth: int
    state: int
    outcome: str
    lane: int
    rank: int

    @property
    def url(self) -> str:
        return url_from(self.host, self.tail)


@dataclass(frozen=True, slots=True)
class BulkSelection:
    """An action and the URLs it applies to; an empty field matches any.

    `source` selects among queued URLs: `new`, `retry`, `refresh` (known pages) or `suspect`; `outcome` is that of
    the last try.
    """

    action: BulkAction
    host: str = ""
    contains: str = ""
    source: str = ""
    depth: int | None = None
    outcome: str = ""

    def __post_init__(self) -> None:
        if len(self.contains) > MAX_TEXT_CHARS:
            raise UsageError(Message("the search text for URLs may have at most {n} characters", n=MAX_TEXT_CHARS))
        if self.source not in {"", *SOURCES.values()}:
            raise UsageError(f"source {self.source!r}: must be one of {', '.join(SOURCES.values())}")
        if self.action is BulkAction.DROP and self.source == SOURCES[LANE_REFRESH]:
            raise UsageError(
                Message("pages that are kept fresh cannot be dropped; exclude them from the scope instead")
            )

    def matches(self, row: UrlRow, now_s: float) -> bool:
        """Tell whether the action applies to a URL in its present state."""
        return (
            (self.depth is None or row.depth == self.depth)
            and (not self.outcome or row.outcome == self.outcome)
            and self._is_applicable(row, int(now_s * 1000))
            and self.contains in row.url
        )

    def _is_applicable(self, row: UrlRow, now_ms: int) -> bool:
        waits = row.state == STATE_QUEUED
        if self.action is BulkAction.RETRY:
            # Ranks of the DUE lane are milliseconds: a greater one is a retry whose time has not come.
            is_later = waits and row.lane == LANE_DUE and row.rank > now_ms
            given_up = row.state == STATE_FAILED or (row.state == STATE_EXCLUDED and row.outcome in _RETRIED)
            return is_later or given_up
        if self.action is BulkAction.FIRST and self.source == SOURCES[LANE_REFRESH]:
            return row.lane == LANE_REFRESH and row.state in {STATE_DONE, STATE_FAILED}
        is_first = row.lane == LANE_DUE and row.rank <= now_ms
        is_of_source = not self.source or SOURCES.get(row.lane) == self.source
        return waits and is_of_source and not (self.action is BulkAction.FIRST and is_first)


# ---- looking --------------------------------------------------------------------------------------------------------

_ROW = """
    SELECT u.host_id, u.key, h.name, u.tail, u.depth, u.state, u.outcome, u.lane, u.rank
    FROM urls AS u JOIN hosts AS h ON h.host_id = u.host_id
"""
_NEXT = f"{_ROW} WHERE u.slot = ? AND (u.host_id, u.key) > (?, ?) ORDER BY u.host_id, u.key LIMIT ?"


def matching_urls(cell: FrontierCell, selection: BulkSelection, now_s: float) -> Iterator[str]:
    """Yield every URL of a cell that the action applies to; nothing is changed."""
    if selection.host:
        host_id = cell.find_host(selection.host)
        where, values = "WHERE u.slot = ? AND u.host_id = ?", (slot_of(site_of(selection.host)), host_id)
        rows = cell.db.execute(f"{_ROW} {where}", values) if host_id is not None else ()
    else:
        rows = cell.db.execute(_ROW)
    for values in rows:
        row = UrlRow(*values)
        if selection.matches(row, now_s):
            yield row.url


# ---- doing ----------------------------------------------------------------------------------------------------------


def progress(cell: FrontierCell, mark: str) -> tuple[RowKey | None, int]:
    """Return the position of an action in a cell, and its number of URLs; None if it has not begun."""
    row = cell.meta("bulk")
    # The row holds the last action only. Under another mark, this action has not begun in the cell.
    last_mark, (slot, host_id, key), number = json.loads(row) if row is not None else ("", END, 0)
    return ((slot, host_id, key), number) if last_mark == mark else (None, 0)


def continue_action(
    cell: FrontierCell, selection: BulkSelection, mark: str, now_s: float, has_time: Callable[[], bool]
) -> list[tuple[int, str]]:
    """Continue an action, with some thousands of URLs at least; inside a transaction.

    Returns the changed hosts by id and name. `progress` then returns the new position.
    """
    started, number = progress(cell, mark)
    position, touched = _first_position(cell, selection) if started is None else started, dict[int, str]()
    while position < END:
        position, done = _process_slot(cell, position, selection, now_s, touched)
        number += done
        if not has_time():
            break
    cell.set_meta({"bulk": json.dumps([mark, position, number])})
    return list(touched.items())


def _first_position(cell: FrontierCell, selection: BulkSelection) -> RowKey:
    if not selection.host:
        return (0, -1, 0)
    host_id = cell.find_host(selection.host)
    # Behind the last possible key of the host before: the walk goes on with the first URL of this one.
    return END if host_id is None else (slot_of(site_of(selection.host)), host_id - 1, _LAST_KEY)


def _process_slot(
    cell: FrontierCell, position: RowKey, selection: BulkSelection, now_s: float, touched: dict[int, str]
) -> tuple[RowKey, int]:
    """Process the next URLs of one slot; return the new position and the number of URLs changed."""
    (slot,) = cell.db.execute(
        "SELECT coalesce(min(slot), ?) FROM urls WHERE slot >= ?", (SLOTS, position[0])
    ).fetchone()
    if slot == SLOTS or (selection.host and slot != position[0]):
        return END, 0
    # Slots without URLs are skipped; in a new slot the walk begins at its first host.
    after = position[1:] if slot == position[0] else (-1, 0)
    rows = [UrlRow(*values) for values in cell.db.execute(_NEXT, (slot, *after, ROWS))]
    number = 0
    for row in rows:
        # Rows are sorted by host: the chosen host has no more URLs.
        if selection.host and row.host != selection.host:
            return END, number
        if selection.matches(row, now_s):
            _apply(cell, selection.action, (slot, row.host_id, row.key), row, int(now_s * 1000))
            touched[row.host_id] = row.host
            number += 1
    # A short read means that the slot has no more URLs.
    return ((slot, rows[-1].host_id, rows[-1].key) if len(rows) == ROWS else (slot + 1, -1, 0)), number


def _apply(cell: FrontierCell, action: BulkAction, row_key: RowKey, row: UrlRow, now_ms: int) -> None:
    if action is BulkAction.DROP:
        _drop(cell, row_key, row)
    elif action is BulkAction.RETRY and row.outcome == Outcome.DROPPED and row.state == STATE_EXCLUDED:
        cell.requeue(*row_key, lane=row.lane, rank=row.rank)
    else:
        _make_due(cell, row_key, row, now_ms, forgets_failures=action is BulkAction.RETRY)


def _drop(cell: FrontierCell, row_key: RowKey, row: UrlRow) -> None:
    sql = "SELECT status, is_gone FROM pages WHERE slot = ? AND host_id = ? AND key = ? AND digest <> x''"
    copy = cell.db.execute(sql, row_key).fetchone()
    if copy is None:
        # Without a capture the URL is excluded at its place, where `retry` finds it.
        cell.withdraw(*row_key, Outcome.DROPPED, lane=row.lane, rank=row.rank)
        return
    # With a capture the page gets back the state of that capture; it stays in the index.
    status, is_gone = copy
    sql = "DELETE FROM queue WHERE slot = ? AND host_id = ? AND lane = ? AND rank = ? AND key = ?"
    cell.queued -= cell.db.execute(sql, (*row_key[:2], row.lane, row.rank, row.key)).rowcount
    sql = "UPDATE urls SET state = ?, outcome = ? WHERE slot = ? AND host_id = ? AND key = ?"
    cell.db.execute(sql, (STATE_FAILED if is_gone else STATE_DONE, row.outcome or str(status), *row_key))


def _make_due(cell: FrontierCell, row_key: RowKey, row: UrlRow, now_ms: int, *, forgets_failures: bool) -> None:
    if forgets_failures:
        cell.db.execute("UPDATE urls SET failures = 0 WHERE slot = ? AND host_id = ? AND key = ?", row_key)
    # A queued URL has one row in `queue`, which moves; a settled one gets a new row.
    if row.state == STATE_QUEUED:
        cell.make_due(*row_key, lane=row.lane, rank=row.rank, due=now_ms)
    else:
        cell.requeue_due(row_key, row.lane, now_ms)


def selection_fields(selection: BulkSelection) -> dict[str, Any]:
    """Return the fields of a choice, for `BulkSelection(**values)`."""
    return {
        "host": selection.host,
        "contains": selection.contains,
        "source": selection.source,
        "depth": selection.depth,
        "outcome": selection.outcome,
    }
