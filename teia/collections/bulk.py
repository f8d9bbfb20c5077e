"""Bulk actions on URLs: users request them, and the process that writes the frontier runs them.

An action is a row of `control.sqlite` from its request until its final number of URLs is recorded there. A running
crawl works on it with its commits, a little at a time. While no crawl runs, the process that holds the folder lock does
it (`run_actions`). Each cell stores how far it came, so any process may die at any time, and repeatedly. Actions on
one collection run one after the other.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from teia.clock import Clock
from teia.collections.inbox import ControlFile
from teia.collections.stored import is_clustered
from teia.crawler.requests import BulkRequest
from teia.errors import ClusterError, StoreError, UsageError
from teia.frontier.cell.bulk import (
    END,
    BulkAction,
    BulkSelection,
    continue_action,
    matching_urls,
    progress,
    selection_fields,
)
from teia.frontier.cell.cell import FrontierCell
from teia.store.root import CollectionFolder, Root

LOCK_HOLD_S = 0.2
"""Longest time, in seconds, that the folder lock is held at once while no crawl runs."""

EXAMPLES = 10
MAX_PENDING = 20


@dataclass(frozen=True, slots=True)
class BulkCount:
    """Number of URLs that an action would affect, with examples."""

    number: int
    examples: tuple[str, ...]


def count_urls(cells: Sequence[FrontierCell], chosen: BulkSelection, now_s: float) -> BulkCount:
    """Count the chosen URLs, without changing anything; a walk over all URLs, unless a host is named."""
    number, examples = 0, list[str]()
    for cell in cells:
        for url in matching_urls(cell, chosen, now_s):
            number += 1
            if len(examples) < EXAMPLES:
                examples.append(url)
    return BulkCount(number, tuple(examples))


def request_action(control: ControlFile, collection: str, chosen: BulkSelection, who: str, now_s: float) -> int:
    """Record an action in `control.sqlite`; it runs as soon as a process can, and survives the death of any process."""
    if is_clustered(CollectionFolder(collection, control.path.parent / collection)):
        raise ClusterError(
            f"{collection!r} is crawled by a cluster, where single URLs cannot be selected; exclude them with `teia"
            " block`"
        )
    if len(control.pending_actions(collection)) >= MAX_PENDING:
        raise UsageError(f"{MAX_PENDING} actions on {collection} are already pending; wait until they are done")
    text = json.dumps({"deed": chosen.action, **selection_fields(chosen)})
    return control.request_action(collection, secrets.token_hex(8), text, who, now_s)


def pending_actions(control: ControlFile, collection: str) -> list[BulkRequest]:
    """Return the actions that are not done, in the order of their requests."""
    return [_request_from_row(row) for row in control.pending_actions(collection)]


def recent_actions(control: ControlFile, collection: str, limit: int) -> list[BulkRequest]:
    """Return the last actions, newest first."""
    return [_request_from_row(row) for row in control.recent_actions(collection, limit)]


def _request_from_row(row: Sequence[Any]) -> BulkRequest:
    number, mark, text, *rest = row
    values = json.loads(text)
    return BulkRequest(number, mark, BulkSelection(action=BulkAction(values.pop("deed")), **values), *rest)


# ---- no crawl runs -------------------------------------------------------------------------------------------


def run_actions(root: Root, collection: str, clock: Clock) -> bool:
    """Continue the actions on a collection that is not being crawled, for `LOCK_HOLD_S`; return True if all are done.

    The caller holds the folder lock (`Root.locked`).
    """
    control = ControlFile(root.path / "control.sqlite")
    with closing(control), _open_cells(root, collection) as cells:
        until = clock.ticks_s() + LOCK_HOLD_S
        for request in pending_actions(control, collection):
            for cell in cells:
                while progress(cell, request.mark)[0] != END:
                    with cell.transaction():
                        # One portion in each transaction, so that the lock is given back in time.
                        continue_action(cell, request.chosen, request.mark, clock.now_s(), lambda: False)
                    if clock.ticks_s() >= until:
                        control.note_action_progress(request.id, _urls_done(cells, request))
                        return False
            control.complete_action(request.id, _urls_done(cells, request), clock.now_s())
    return True


def _urls_done(cells: Sequence[FrontierCell], request: BulkRequest) -> int:
    return sum(progress(cell, request.mark)[1] for cell in cells)


@contextmanager
def _open_cells(root: Root, collection: str) -> Iterator[list[FrontierCell]]:
    """Open the existing cells of a collection for writing."""
    cells: list[FrontierCell] = []
    try:
        folders = root.collection(collection).cells()
        cells += [FrontierCell(folder.frontier) for folder in folders if folder.frontier.exists()]
        yield cells
    finally:
        for cell in cells:
            cell.close()


def try_to_run_actions(root: Root, collection: str, clock: Clock) -> bool:
    """Like `run_actions`, but take the folder lock first; return False if another process holds it."""
    try:
        with root.locked():
            return run_actions(root, collection, clock)
    # The process that holds the lock runs the actions itself.
    except StoreError:
        return False
