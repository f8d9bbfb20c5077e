"""Retention by command: `teia retain` applies the rules of a collection that is not being crawled."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from teia.clock import Clock
from teia.collections.settings import is_clustered, saved
from teia.crawler.open_cell import finish_erasures
from teia.crawler.upkeep.retention import RetentionCell, RetentionResult, apply_rules
from teia.errors import UsageError
from teia.frontier.cell.cell import FrontierCell
from teia.store.root import Root


def retain(root: Root, name: str, clock: Clock, *, dry_run: bool) -> RetentionResult:
    """Apply the rules of a collection to its archive; the caller has locked the root unless it is a dry run."""
    folder, settings = root.collection(name), saved(root, name).config.retention
    if is_clustered(folder):
        raise UsageError(f"{name}: the captures of a cluster cannot be removed yet; copy it with `teia cluster copy`")
    result = RetentionResult(name, quota_bytes=settings.quota_bytes, is_dry_run=dry_run)
    with ExitStack() as stack:
        cells = []
        for each in folder.cells():
            if not dry_run:
                finish_erasures(each, clock)
            frontier = FrontierCell(each.frontier, read_only=dry_run)
            stack.callback(frontier.close)
            cells.append(RetentionCell(each, frontier, partial(finish_erasures, each, clock, frontier)))
        apply_rules(cells, settings, clock, result)
    return result
