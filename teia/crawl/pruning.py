"""Pages that left a cell with another that was split off it leave its index too.

The index follows pages that change (indexer.py). Those that a split took along do not: their rows are just gone. So the
hosts that an index knows and its cell does not are looked for, once for each split. Not at once: the new cell's keeper
brings what it can of the pages from here first, and until it has (`release`, cluster/settling.py) they stay and may be
found twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tantivy

from teia.durable import write_atomically
from teia.frontier.cell import FrontierCell
from teia.frontier.splitting import split_off

if TYPE_CHECKING:
    from teia.crawl.indexer import CellIndexer

HOSTS_AT_ONCE = 50_000
"""In an index of more hosts those with the fewest pages are not looked at."""

PAGES_AT_ONCE = 10_000
MARKER, RELEASED = "pruned", "released"


def is_due(folder: Path, frontier: FrontierCell) -> bool:
    """Whether cells were split off this one since its index was last looked through, and all have their pages."""
    return _said(folder, MARKER) < len(split_off(frontier.db)) <= _said(folder, RELEASED)


def release(folder: Path, splits: int) -> None:
    """Let pages be forgotten that went with so many splits."""
    write_atomically(folder / RELEASED, str(splits).encode())


def prune(cell: CellIndexer, folder: Path, frontier: FrontierCell) -> int:
    """Take the pages of hosts that left a cell out of its index and of its links; returns how many."""
    splits, removed = len(split_off(frontier.db)), 0
    known = {name for (name,) in frontier.db.execute("SELECT name FROM hosts")}
    searcher = cell.index.searcher()
    for host in sorted(_hosts(searcher) - known):
        query = tantivy.Query.term_query(cell.index.schema, "host", host)
        hits = searcher.search(query, limit=PAGES_AT_ONCE, count=False).hits
        for _, address in hits:
            key = cell.index.entry(searcher, address).key
            cell.index.remove(key)
            cell.links.append(key, ())
        removed += len(hits)
    cell.uncommitted += removed
    if removed < PAGES_AT_ONCE:  # else there may be more; the next look finds them
        if removed:
            cell.commit()
        write_atomically(folder / MARKER, str(splits).encode())
    return removed


def _hosts(searcher: tantivy.Searcher) -> set[str]:
    wanted = {"hosts": {"terms": {"field": "host", "size": HOSTS_AT_ONCE}}}
    found: Mapping[str, Any] = searcher.aggregate(tantivy.Query.all_query(), wanted)
    return {str(bucket["key"]) for bucket in found["hosts"]["buckets"]}


def _said(folder: Path, name: str) -> int:
    try:
        return int((folder / name).read_text("ascii"))
    except (FileNotFoundError, ValueError):
        return 0
