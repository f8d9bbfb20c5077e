"""URLs read from a host's queue on disk into its buffer in memory, with the stored data of their pages."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from teia.frontier.cell.connection import CellConnection
from teia.frontier.cell.revisits import CAPTURED_S
from teia.frontier.cell.rows import QueuedUrl, url_from
from teia.frontier.cell.schema import LANE_DUE, LANE_REFRESH

BY_TIME = frozenset({LANE_DUE, LANE_REFRESH})
"""Lanes whose ranks are times in milliseconds; in the others a rank is the collection's order."""

_URL_COLUMNS = f"""
    u.depth, u.found_s, u.failures, u.hops, u.found_by, u.pattern,
    p.visits, p.etag, p.last_modified, iif(p.file = '', '', p.payload_digest), {CAPTURED_S}, p.file,
    p.offset, p.simhash
"""
_ROWS = f"""
    SELECT u.tail, q.key, q.lane, q.rank, {_URL_COLUMNS}
    FROM queue AS q
    JOIN urls AS u ON u.slot = q.slot AND u.host_id = q.host_id AND u.key = q.key
    LEFT JOIN pages AS p ON p.slot = q.slot AND p.host_id = q.host_id AND p.key = q.key
"""  # noqa: S608  # our own text
_OF_LANE = f"""
    {_ROWS} WHERE q.slot = ? AND q.host_id = ? AND q.lane = ? AND q.rank <= ? ORDER BY q.rank, q.key LIMIT ?
"""
_LATER_OF_LANE = f"""
    {_ROWS} WHERE q.slot = ? AND q.host_id = ? AND q.lane = ? AND (q.rank, q.key) > (?, ?)
        ORDER BY q.rank, q.key LIMIT ?
"""
_ALL_OF_LANE = """
    SELECT u.tail, q.key, q.rank, u.depth, u.found_s, u.failures, u.in_links
    FROM queue AS q JOIN urls AS u ON u.slot = q.slot AND u.host_id = q.host_id AND u.key = q.key
    WHERE q.slot = ? AND q.host_id = ? AND q.lane = ? AND (q.rank, q.key) > (?, ?) ORDER BY q.rank, q.key LIMIT ?
"""
_OF_PAGE = f"""
    {_ROWS} WHERE q.slot = ? AND q.host_id = ? AND q.lane = ? AND q.key = ? AND q.rank = u.rank
        AND q.rank = (SELECT rank FROM urls WHERE slot = ? AND host_id = ? AND key = ?)
"""  # noqa: S608  # our own text
_OF_URL = f"""
    SELECT u.state, u.outcome, p.last_visit_s, u.tail, u.key, u.lane, u.rank, {_URL_COLUMNS}
    FROM urls AS u LEFT JOIN pages AS p ON p.slot = u.slot AND p.host_id = u.host_id AND p.key = u.key
    WHERE u.slot = ? AND u.host_id = ? AND u.key = ?
"""  # noqa: S608  # our own text


def read_lane(
    cell: CellConnection, host: str, lane_key: tuple[int, int, int], before: int, limit: int, skip: Collection[int]
) -> Iterator[QueuedUrl]:
    """Yield the first URLs of one lane up to a rank, without those in `skip`; `lane_key` is (slot, host id, lane)."""
    # Enough rows even if all of `skip` are among the first.
    for row in cell.db.execute(_OF_LANE, (*lane_key, before, limit + len(skip))):
        if row[1] not in skip:
            yield _queued(host, row)


def read_lane_after(
    cell: CellConnection, host: str, lane_key: tuple[int, int, int], after: tuple[int, int], limit: int
) -> Iterator[QueuedUrl]:
    """Yield the URLs of one lane behind a position in it, which is (rank, key)."""
    for row in cell.db.execute(_LATER_OF_LANE, (*lane_key, *after, limit)):
        yield _queued(host, row)


def read_refresh_page(cell: CellConnection, host: str, slot: int, host_id: int, key: int) -> QueuedUrl | None:
    """Return a known page from its place in the REFRESH lane; None if it is not there."""
    row = cell.db.execute(_OF_PAGE, (slot, host_id, LANE_REFRESH, key, slot, host_id, key)).fetchone()
    return None if row is None else _queued(host, row)


class LaneUrl(NamedTuple):
    """A URL in a lane, without its page's data, for callers that read all of them."""

    url: str
    key: int
    lane: int
    rank: int
    depth: int
    since_s: float
    failures: int
    in_links: int


def read_lane_urls(
    cell: CellConnection, host: str, lane_key: tuple[int, int, int], after: tuple[int, int], limit: int
) -> list[LaneUrl]:
    """Return the next URLs of one lane behind a position in it, which is (rank, key)."""
    lane = lane_key[2]
    return [
        LaneUrl(url_from(host, tail), key, lane, rank, depth, rank / 1000 if lane in BY_TIME else float(found_s), *rest)
        for tail, key, rank, depth, found_s, *rest in cell.db.execute(_ALL_OF_LANE, (*lane_key, *after, limit))
    ]


class KnownUrl(NamedTuple):
    """A URL in or out of the queue: its state, the time of its last visit (0: never), and its other data."""

    state: int
    outcome: str
    last_visit_s: float
    item: QueuedUrl


def read_url(cell: CellConnection, host: str, slot: int, host_id: int, key: int) -> KnownUrl | None:
    """Return a URL in any state; None if it is unknown."""
    row = cell.db.execute(_OF_URL, (slot, host_id, key)).fetchone()
    if row is None:
        return None
    state, outcome, last_visit_s, *rest = row
    return KnownUrl(state, outcome, last_visit_s or 0.0, _queued(host, tuple(rest)))


def _queued(host: str, row: tuple[Any, ...]) -> QueuedUrl:
    tail, key, lane, rank, depth, found_s, failures, hops, found_by, pattern, *page = row
    # A URL that is scheduled by time waits since it became due, any other since it was found.
    since_s = rank / 1000 if lane in BY_TIME else float(found_s)
    visits, *page_fields = page if page[0] is not None else (0, "", "", "", 0.0, "", 0, 0)
    queue_fields, state = (key, lane, rank, depth, since_s), (visits, failures, hops, found_by, pattern)
    return QueuedUrl(url_from(host, tail), *queue_fields, *state, *page_fields)
