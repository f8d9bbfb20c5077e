"""New scores for the URLs of a cell whose order is `pagerank` (A6).

Scores come from outside (graph/rankfile.py) as one set for the whole collection, identified by a stamp. The row
`scores` of `meta` names the set by which the cell's URLs are ranked, and the position of a newer one. A cell is
walked from its first URL to its last, some thousand at a time, in transactions of the group commit. So ten million
URLs do not hold up a crawl, and after a crash the walk continues. Only URLs whose level changed are moved.

A URL that the scores do not contain, because it was found since, is ranked as an average URL with as many links.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import RowKey
from teia.frontier.cell.schema import LANE_DUE, STATE_EXCLUDED, STATE_QUEUED
from teia.frontier.queue.order import LEVEL_BITS_AT, LEVELS_A_DOUBLING, MAX_LEVEL, SCORED_BIT, authority_rank

# URLs between two calls of `has_time`.
AT_ONCE = 1_024
_BEFORE_ALL = (-1, 0, 0)


class Scores(Protocol):
    """PageRank of a collection; `alone` is that of a page without in-links, `per_link` the increase per link."""

    @property
    def stamp(self) -> int: ...
    @property
    def alone(self) -> float: ...
    @property
    def per_link(self) -> float: ...
    def scores(self, keys: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the score of each key; 0 for an unknown one."""


def use_link_worth(cell: FrontierCell, scores: Scores) -> None:
    """Rank URLs found from now on by the link value of these scores."""
    cell.order = replace(cell.order, rank=authority_rank(_link_worth(scores)))


def _link_worth(scores: Scores) -> float:
    return scores.per_link / scores.alone if scores.alone > 0 else 1.0


def is_ranked_by(cell: FrontierCell, scores: Scores) -> bool:
    """Tell whether all URLs of the cell are ranked by these scores."""
    return _reached(cell, scores.stamp) is None


def apply_scores(cell: FrontierCell, scores: Scores, has_time: Callable[[], bool]) -> list[tuple[int, str]]:
    """Rank queued URLs by the scores, some thousand at least; inside a transaction.

    Returns (host id, name) of hosts whose queue changed. `is_ranked_by` then tells whether all are ranked.
    """
    reached, moved_hosts = _reached(cell, scores.stamp), set[int]()
    sql = """
        SELECT slot, host_id, key, state, lane, rank, in_links FROM urls
        WHERE (slot, host_id, key) > (?, ?, ?) ORDER BY slot, host_id, key LIMIT ?
    """
    while reached is not None:
        rows = cell.db.execute(sql, (*reached, AT_ONCE)).fetchall()
        moved_hosts |= _rank(cell, rows, scores)
        # A short read is the end of the cell.
        reached = rows[-1][:3] if len(rows) == AT_ONCE else None
        if not has_time():
            break
    cell.set_meta({"scores": json.dumps([scores.stamp, reached])})
    return cell.with_names(moved_hosts)


def _reached(cell: FrontierCell, stamp: int) -> RowKey | None:
    """Return the last URL that is ranked by a set of scores; None if all are."""
    row = cell.meta("scores")
    ranked_by, reached = json.loads(row) if row is not None else (None, None)
    if ranked_by != stamp:
        return _BEFORE_ALL
    return None if reached is None else (reached[0], reached[1], reached[2])


def _rank(cell: FrontierCell, rows: Sequence[tuple[int, ...]], scores: Scores) -> set[int]:
    """Move the URLs whose level changed; return the hosts whose queue changed."""
    if not rows:
        return set()
    _, _, keys, states, lanes, ranks, in_links = np.array(rows, np.int64).T
    known = scores.scores(keys)
    times = np.where(known > 0, known / (scores.alone or 1.0), 1 + _link_worth(scores) * in_links)
    levels = np.rint(LEVELS_A_DOUBLING * np.log2(np.maximum(times, 1))).astype(np.int64).clip(0, MAX_LEVEL)
    bases = ((MAX_LEVEL - levels) << LEVEL_BITS_AT) | np.where(known > 0, SCORED_BIT, 0)
    # DUE is ordered by time. Excluded URLs are ranked as well, because they may return.
    may_move = np.isin(states, (STATE_QUEUED, STATE_EXCLUDED)) & (lanes != LANE_DUE)
    # Below the level are GIVEN and the sequence number; only another level is worth a write.
    moves = np.flatnonzero(may_move & (ranks >> LEVEL_BITS_AT != bases >> LEVEL_BITS_AT))
    new = (bases | ranks & (SCORED_BIT - 1))[moves].tolist()
    placed = [(rank, *rows[move]) for rank, move in zip(new, moves.tolist(), strict=True)]
    queued = [each for each in placed if each[4] == STATE_QUEUED]
    cell.db.executemany(
        "UPDATE queue SET rank = ? WHERE slot = ? AND host_id = ? AND lane = ? AND key = ? AND rank = ?",
        ((rank, slot, host_id, lane, key, old) for rank, slot, host_id, key, _, lane, old, _ in queued),
    )
    cell.db.executemany(
        "UPDATE urls SET rank = ? WHERE slot = ? AND host_id = ? AND key = ?", (each[:4] for each in placed)
    )
    return {each[2] for each in queued}
