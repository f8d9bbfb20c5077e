"""Another order for an existing collection: its queued URLs are ranked anew (T1).

The row `order` of `meta` names the order of the cell's ranks. The sequence number can be read back from any rank,
so URLs keep their turn among equals. Refused URLs are ranked too, because they may return. A URL found before a
focused crawl could judge it gets a middle score; URLs that a user requested come first, as always. A preference knows
the hosts of known URLs, not the language of the pages that named them: those wait until another page names them.
"""

from __future__ import annotations

from contextlib import nullcontext

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.schema import BY_SEED, LANE_DUE, STATE_EXCLUDED, STATE_QUEUED
from teia.frontier.queue.order import ASIDE, TOP_SCORE, sequence_of

DEFAULT_SCORE = TOP_SCORE // 2


def reorder_queue(cell: FrontierCell, *, anew: bool = False) -> int:
    """Rank the queued URLs by the cell's order, if they are ranked by another or `anew`; return how many moved.

    Uses the open transaction, or one of its own.
    """
    before = cell.meta("order")
    if before == cell.order.name and not anew:
        return 0
    moved = 0
    with nullcontext() if cell.db.in_transaction else cell.transaction():
        # Without the row the cell is new, and no URL has a rank to change.
        if before is not None:
            slots = cell.db.execute("SELECT DISTINCT slot FROM hosts ORDER BY slot").fetchall()
            moved = sum(_rank_slot(cell, slot) for (slot,) in slots)
        cell.set_meta({"order": cell.order.name})
        cell.delete_meta(["scores"])  # ranks are not by these any more (pagerank_scores.py)
    return moved


def _rank_slot(cell: FrontierCell, slot: int) -> int:
    sql = """
        SELECT u.host_id, u.lane, u.key, u.rank, u.depth, u.in_links, u.found_by, t.score, h.name FROM urls AS u
        JOIN hosts AS h USING (host_id)
        LEFT JOIN trails AS t ON t.slot = u.slot AND t.host_id = u.host_id AND t.key = u.key
        WHERE u.slot = ? AND u.state IN (?, ?) AND u.lane <> ?
    """
    has_scores, default_score = cell.order.stores_trails, DEFAULT_SCORE if cell.order.stores_trails else TOP_SCORE
    parameters = (slot, STATE_QUEUED, STATE_EXCLUDED, LANE_DUE)
    moves = []
    preference = cell.order.preference
    for host_id, lane, key, old, depth, in_links, found_by, known, host in cell.db.execute(sql, parameters):
        # A URL that a user requested has no page that judges it; it keeps the top score.
        score = known if has_scores and known is not None else TOP_SCORE if found_by & BY_SEED else default_score
        if cell.order.has_preference and not found_by & BY_SEED and not preference.is_host_preferred(host):
            score = ASIDE
        rank = cell.order.rank(depth, in_links, sequence_of(old), score)
        moves.append((rank, slot, host_id, key, lane, old))
    cell.db.executemany(
        "UPDATE queue SET rank = ? WHERE slot = ? AND host_id = ? AND key = ? AND lane = ? AND rank = ?", moves
    )
    cell.db.executemany(
        "UPDATE urls SET rank = ? WHERE slot = ? AND host_id = ? AND key = ?", (move[:4] for move in moves)
    )
    return len(moves)
