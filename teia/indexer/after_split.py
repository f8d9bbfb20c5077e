"""Removal of pages from a cell's index after a split moved them to another cell.

The index follows pages that change (indexer.py). Pages that a split moved do not change: their rows are just gone. So
once for each split, `prune` looks for hosts that the index knows and the cell does not. This does not happen at once:
first the new cell's owner copies what it can of the pages from here. Until it has (`release`, forget_after_split.py)
the pages stay and may be found twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tantivy

from teia.durable import write_atomically
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.split import split_cells
from teia.frontier.tables.hosts import all_hosts
from teia.indexer.cell_indexer import CellIndexer

HOSTS_AT_ONCE = 50_000
"""Most hosts of an index that are compared; in a larger index the hosts with the fewest pages are skipped."""

PAGES_AT_ONCE = 10_000
MARKER, RELEASED = "pruned", "released"


def is_due(folder: Path, frontier: FrontierCell) -> bool:
    """Tell whether cells were split off since this index was last pruned, and all of them have released their pages."""
    return _read_count(folder, MARKER) < len(split_cells(frontier)) <= _read_count(folder, RELEASED)


def release(folder: Path, splits: int) -> None:
    """Allow `prune` to remove the pages that moved with the first `splits` splits."""
    write_atomically(folder / RELEASED, str(splits).encode())


def prune(cell: CellIndexer, folder: Path, frontier: FrontierCell) -> int:
    """Remove the pages of hosts that left a cell from its index and its link file; return their number."""
    splits, removed = len(split_cells(frontier)), 0
    # A split moves whole hosts, so comparing hosts is enough, and they are far fewer than pages.
    known = {host.name for host in all_hosts(frontier)}
    searcher = cell.index.searcher()
    for host in sorted(_hosts(searcher) - known):
        query = tantivy.Query.term_query(cell.index.schema, "host", host)
        hits = searcher.search(query, limit=PAGES_AT_ONCE, count=False).hits
        for _, address in hits:
            key = cell.index.entry(searcher, address).key
            cell.index.remove(key)
            # An empty list takes the page out of the link file, or PageRank would count it in both cells.
            cell.links.append(key, ())
        removed += len(hits)
    cell.uncommitted += removed
    if removed < PAGES_AT_ONCE:  # else there may be more pages; the next run finds them
        if removed:
            cell.commit()
        write_atomically(folder / MARKER, str(splits).encode())
    return removed


def _hosts(searcher: tantivy.Searcher) -> set[str]:
    aggregation = {"hosts": {"terms": {"field": "host", "size": HOSTS_AT_ONCE}}}
    found: Mapping[str, Any] = searcher.aggregate(tantivy.Query.all_query(), aggregation)
    return {str(bucket["key"]) for bucket in found["hosts"]["buckets"]}


def _read_count(folder: Path, name: str) -> int:
    try:
        return int((folder / name).read_text("ascii"))
    except (FileNotFoundError, ValueError):
        return 0
