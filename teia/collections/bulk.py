"""Bulk actions on URLs: users request them, and the process that writes the frontier runs them.

An action is a request (`Inbox`) until its final number of URLs is recorded there. A running crawl works on it with its
commits, a little at a time. While no crawl runs, the process that holds the folder lock does it (`run_actions`). In a
cluster all nodes work on it (cluster/crawl/url_requests.py). Each cell stores how far it came, so any process may die
at any time, and repeatedly. Actions on one collection run one after the other.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from teia.clock import Clock
from teia.collections.control_file import Inbox, RequestAnswer, RunBulkAction
from teia.collections.open_cells import each_cell
from teia.collections.settings import is_clustered, no_node_error
from teia.errors import StoreError
from teia.frontier.cell.bulk import END, BulkSelection, continue_action, matching_urls, progress
from teia.frontier.cell.cell import FrontierCell
from teia.store.root import CollectionFolder, Root

LOCK_HOLD_S = 0.2
"""Longest time, in seconds, that the folder lock is held at once while no crawl runs."""

EXAMPLES = 10


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


def request_action(inbox: Inbox, collection: str, chosen: BulkSelection, who: str, now_s: float) -> int:
    """Request an action; it runs as soon as a process can, and survives the death of any process."""
    folder = CollectionFolder(collection, inbox.path.parent / collection)
    if inbox.running_crawl(collection) is None and is_clustered(folder):
        raise no_node_error(folder)
    return inbox.send(collection, RunBulkAction(secrets.token_hex(8), chosen), now_s, who)


# ---- no crawl runs -------------------------------------------------------------------------------------------


def run_actions(root: Root, collection: str, clock: Clock) -> bool:
    """Continue the actions on a collection that is not being crawled, for `LOCK_HOLD_S`; return True if all are done.

    The caller holds the folder lock (`Root.locked`).
    """
    folder = root.collection(collection)
    with Inbox(root.control) as inbox:
        left_s = LOCK_HOLD_S
        for request in inbox.pending(collection, RunBulkAction):
            mark, chosen = request.body.mark, request.body.selection
            for cell in each_cell(folder, read_only=False):
                while progress(cell, mark)[0] != END:
                    # To open cells is not counted: there may be so many that no time would be left for their URLs.
                    began_s = clock.ticks_s()
                    with cell.transaction():
                        # One portion in each transaction, so that the lock is given back in time.
                        continue_action(cell, chosen, mark, clock.now_s(), lambda: False)
                    left_s -= clock.ticks_s() - began_s
                    if left_s <= 0:
                        inbox.note_progress(request.id, _urls_done(folder, mark))
                        return False
            inbox.finish(request.id, clock.now_s(), RequestAnswer(urls=_urls_done(folder, mark)))
    return True


def _urls_done(folder: CollectionFolder, mark: str) -> int:
    return sum(progress(cell, mark)[1] for cell in each_cell(folder))


def try_to_run_actions(root: Root, collection: str, clock: Clock) -> bool:
    """Like `run_actions`, but take the folder lock first; return False if another process holds it."""
    try:
        with root.locked():
            return run_actions(root, collection, clock)
    # The process that holds the lock runs the actions itself.
    except StoreError:
        return False
