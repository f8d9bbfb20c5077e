"""Trails: how each URL was found, for orders that need it when the URL is read (table `trails`).

A trail is the best `Hint` a URL ever got, and once it has been read, its relevance. Only focused crawls write it,
so others pay nothing for it.

With hard focus, the number of irrelevant pages before an irrelevant page decides which of its links are followed,
and how far (`depends`). When such a page is found again by a shorter path, the crawler fetches it once more, whole.
So the result of a crawl with hard focus depends on the web alone, not on the order of discovery.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from teia.frontier.cell.connection import CellConnection
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.queue.order import NO_HINT, NO_KIND, TOP_SCORE, Hint

HEAD_START_S = 86_400.0
"""Among free hosts, a URL with the top score counts as having waited this much longer."""


@dataclass(frozen=True, slots=True)
class ReadingResult:
    """Result of reading a page: relevance up to TOP_SCORE, kind, and whether its links depend on the path to it."""

    relevance: int
    kind: int
    depends: bool


def store_hints(cell: CellConnection, hints: Iterable[tuple[Sequence[int], Hint | None]]) -> None:
    """Merge hints into the trails; a URL without a linking page was requested by a user."""
    cell.db.executemany(
        """
        INSERT INTO trails (slot, host_id, key, score, off_topic, via) VALUES (?, ?, ?, ?, ?, ?)
        ON CONFLICT DO UPDATE SET
            via = CASE WHEN excluded.score > score THEN excluded.via ELSE via END,
            score = max(score, excluded.score), off_topic = min(off_topic, excluded.off_topic)
        """,
        ((*row_key, *(hint or NO_HINT)[:3]) for row_key, hint in hints),
    )


def is_shorter_path(cell: CellConnection, row_key: Sequence[int], hint: Hint | None) -> bool:
    """Tell whether this path to a page changes the treatment of its links; call it before `store_hints`."""
    sql = "SELECT 1 FROM trails WHERE slot = ? AND host_id = ? AND key = ? AND depends AND off_topic > ?"
    return cell.db.execute(sql, (*row_key, hint.off_topic if hint else 0)).fetchone() is not None


def has_shorter_path(cell: CellConnection, row_key: Sequence[int], used: Hint | None) -> bool:
    """Tell whether a better path than the one used is known by now, which changes the treatment of a page's links."""
    sql = "SELECT 1 FROM trails WHERE slot = ? AND host_id = ? AND key = ? AND depends AND off_topic < ?"
    return cell.db.execute(sql, (*row_key, used.off_topic if used else 0)).fetchone() is not None


def note_read(cell: CellConnection, row_key: Sequence[int], read: ReadingResult) -> None:
    """Store the result of reading a page. A row key is slot, host id and key."""
    sql = "UPDATE trails SET relevance = ?, kind = ?, depends = ? WHERE slot = ? AND host_id = ? AND key = ?"
    cell.db.execute(sql, (read.relevance, read.kind, read.depends, *row_key))


def attach_hints(cell: CellConnection, slot: int, host_id: int, items: Iterable[QueuedUrl]) -> list[QueuedUrl]:
    """Attach hints to URLs that are about to be fetched. A page to be read whole is fetched unconditionally."""
    sql = "SELECT score, off_topic, via, depends FROM trails WHERE slot = ? AND host_id = ? AND key = ?"
    known = []
    for item in items:
        row = cell.db.execute(sql, (slot, host_id, item.key)).fetchone()
        score, off_topic, via, depends = row or (*NO_HINT[:3], False)
        since_s = item.since_s - HEAD_START_S * score / TOP_SCORE
        hinted = replace(item, hint=Hint(score, off_topic, via), since_s=since_s)
        # Without validators: a 304 would bring no links to judge.
        known.append(replace(hinted, etag="", last_modified="") if depends else hinted)
    return known


# ---- rules ----------------------------------------------------------------------------------------------------------


def count_rule(cell: CellConnection, via: int, kind: int) -> None:
    """Count a page of one kind that was found through a page of another."""
    sql = "INSERT INTO rules VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET seen = seen + 1"
    cell.db.execute(sql, (via, kind))


def all_rules(cell: CellConnection) -> list[tuple[int, int, int]]:
    """Return (kind of page, kind of page it led to, count)."""
    return cell.db.execute("SELECT via, kind, seen FROM rules").fetchall()


def reset_changed_kinds(cell: CellConnection, kinds: Sequence[str]) -> None:
    """Delete records of kinds whose numbers changed their meaning; inside a transaction."""
    names = "\n".join(kinds)
    if cell.meta("kinds") == names:
        return
    cell.db.execute("DELETE FROM rules")
    cell.db.execute("UPDATE trails SET via = ?, kind = NULL", (NO_KIND,))
    cell.set_meta({"kinds": names})
