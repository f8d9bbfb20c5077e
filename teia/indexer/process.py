"""The indexer as a process of its own.

It follows the collections until its standard input is closed, then indexes what is left and ends. Twice a second it
reports its progress in a line of JSON. It runs at a lower priority than the crawler, so on a busy machine pages are
fetched first and found later. It dies with its parent, and loses nothing by that.

At most one process indexes a collection: it holds a lock on the file `index.lock` beside the collection's settings.

If it is killed at any moment, everything it had committed can be searched, and the next indexer continues from there.
If an index is deleted while the indexer has it open, the indexer reports that and ends; the crawl starts another
(keep_process.py), which builds the index again. With several collections only the one with an error is closed, and
opened again after a while. Every report names the error as long as it lasts. If it lasts until the end the process ends
with status 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from teia.clock import Clock, WallClock
from teia.collections.index_state import LOCK_FILE
from teia.collections.settings import saved
from teia.crawler.compiled_settings import encode_read_settings
from teia.durable import file_lock, repair_exchange
from teia.errors import StoreError, TeiaError
from teia.indexer.indexer import CollectionIndexer
from teia.indexer.ranks import Ranker
from teia.indexer.reread import Rereader
from teia.indexer.semantic_model import Trainer
from teia.lib.child_process import BackOff
from teia.lib.entry_points import input_end
from teia.store.root import Root, open_root

COMMIT_S = 2.0
"""Longest time that an indexed page waits for its commit, after which it is searchable."""

COMMIT_PAGES = 5_000
QUIET_S = 5.0
REFRESH_S = 60.0
"""Interval at which an indexer that has no changes to take indexes pages with new words by anchor texts again."""

RETRY_S = 10.0
"""Interval at which an idle node tries pages again whose captures it lacks, some hundred at a time."""
UNREADABLE_RETRY_S = 60.0
"""Interval at which a single machine tries pages again whose captures could not be read."""

LOCK_TRIES, LOCK_PAUSE_S = 5, 0.05
"""Tries for the lock: `is_being_written` (index_state.py) takes it for an instant to find out whether it is held."""

IDLE_S = 0.25
REPORT_S = 0.5
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0
"""First and longest wait before one of several collections that failed is opened again; it doubles each time."""

MAX_ERROR_CHARS = 2_000
NICENESS = 19
FAILURES = (TeiaError, sqlite3.Error, OSError)


@contextlib.contextmanager
def indexing_lock(root: Root, name: str) -> Iterator[None]:
    """Hold the lock for writing a collection's index."""
    path = root.collection(name).path / LOCK_FILE
    with file_lock(path, tries=LOCK_TRIES, pause_s=LOCK_PAUSE_S) as is_ours:
        if not is_ours:
            raise StoreError(f"another process is writing the index of {name}; wait until it has finished")
        for cell in root.collection(name).cells():
            # A rebuild killed in the middle of an exchange may have left a folder under its third name (durable.py).
            repair_exchange(cell.index)
        yield


class CollectionFollower:
    """One collection being followed: takes changes, commits in time, ranks pages now and then."""

    def __init__(
        self, root: Root, name: str, clock: Clock, cells: Collection[int] | None = None, *, is_rebuild: bool = False
    ) -> None:
        """Open a collection; `cells` are those that a node of a cluster owns. The owner of cell 0 ranks for all nodes.

        With `is_rebuild`, another index is built beside the present one; ranks and model are not renewed meanwhile.
        """
        config = saved(root, name).config
        self._clock = clock
        self.rereader = Rereader(encode_read_settings(config), config, clock)
        ranks = not is_rebuild and (cells is None or 0 in cells)
        self._ranker = Ranker(root.collection(name), clock, cells) if ranks else None
        learns = config.index.semantics and cells is None and not is_rebuild
        self._trainer = Trainer(root.collection(name), clock) if learns else None
        # Opened last: it may raise, and the objects above hold no open files yet.
        bags = None if self._trainer is None else self._trainer.bags
        self.indexer = CollectionIndexer(root, name, self.rereader, cells, is_rebuild=is_rebuild, bags=bags)
        self._committed = self._last_change_at = clock.ticks_s()
        self._uncommitted = self.indexer.uncommitted
        self._check_at = 0.0
        self._refresh_at = clock.ticks_s() + REFRESH_S
        self._is_node = cells is not None
        self._is_ending = False
        """True when all that is left is taken: one commit is enough, and each takes as long as hundreds of pages."""

        self._retry_at = 0.0 if self._is_node else clock.ticks_s() + UNREADABLE_RETRY_S

    async def step(self) -> int:
        """Take the changes there are, and do what is due; return the number of changes."""
        taken = await self.indexer.step()
        now = self._clock.ticks_s()
        self._last_change_at = now if taken else self._last_change_at
        # On one machine the last anchor texts are taken when the crawl ends; a node's crawl never ends.
        everything = self._is_node and now - self._last_change_at >= QUIET_S
        self._uncommitted += taken
        # New pages first. A page is indexed again for the anchor texts of many pages, not for those of each.
        if not taken and (everything or now >= self._refresh_at):
            self._uncommitted += self.indexer.refresh(everything=everything)
            self._refresh_at = self._clock.ticks_s() + REFRESH_S
        if everything and now >= self._retry_at:
            self._retry_at = now + RETRY_S
            self._uncommitted += await self.indexer.retry_missing()
            self._uncommitted += self.indexer.prune()
        elif not taken and not self._is_node and now >= self._retry_at:
            self._uncommitted += await self.indexer.retry_unreadable()
            self._retry_at = self._clock.ticks_s() + UNREADABLE_RETRY_S
        waited_s = self._clock.ticks_s() - self._committed
        is_time = waited_s >= COMMIT_S and not self._is_ending
        if self._uncommitted and (is_time or self._uncommitted >= COMMIT_PAGES):
            self.commit()
        if now >= self._check_at:
            self.indexer.check_folders()
            self._check_at = now + COMMIT_S
        if self._ranker is not None:
            self._ranker.rank_if_due()
        if self._trainer is not None:
            self._trainer.train_if_due()
        return taken

    def commit(self) -> None:
        self.indexer.commit()
        self._committed, self._uncommitted = self._clock.ticks_s(), 0

    async def finish(self) -> None:
        """Take all changes that are left, the anchor texts too."""
        # 1. All changes. 2. Captures that could not be read before. 3. All anchor texts. 4. Ranks and model.
        self._is_ending = True
        while await self.step():
            pass
        if not self._is_node:
            await self.indexer.retry_unreadable()
        self.indexer.check_folders()
        # tantivy commits without holding up Python, so the model is trained meanwhile.
        if self._trainer is not None:
            self._trainer.begin()
        self.commit()
        while self.indexer.refresh(everything=True):
            pass
        self.indexer.end_handover()
        if self._ranker is not None:
            self._ranker.rank()
        if self._trainer is not None:
            self._trainer.train()

    async def close(self) -> None:
        if self._ranker is not None:
            self._ranker.close()
        if self._trainer is not None:
            self._trainer.close()
        self.indexer.close()
        await self.rereader.close()


class FollowedCollection:
    """One of the collections of an indexer: it is followed, or is *out* for a while after a failure.

    While it is followed, the lock on its index is held. A failure releases the lock, and after a wait that doubles each
    time the collection is opened again. So it neither delays the other collections nor is lost until the crawl ends.
    """

    def __init__(
        self, root: Root, name: str, clock: Clock, cells: Collection[int] | None, *, is_only: bool = False
    ) -> None:
        """Set up; if `is_only`, errors are raised.

        The process then ends with the error, and its parent restarts it.
        """
        self.name = name
        self.error = ""
        """The reason why it is out; empty while it is followed."""

        self.indexed: int | None = None
        self.lag = 0
        self._root, self._clock, self._cells, self._is_only = root, clock, cells, is_only
        self._follower: CollectionFollower | None = None
        self._lock_stack = ExitStack()
        self._back_off = BackOff(clock.ticks_s, FIRST_WAIT_S, LONGEST_WAIT_S)

    async def step(self) -> int:
        """Take the changes there are; return their number. A collection that is out is opened again when it is time."""
        if self._follower is None and self._back_off.left_s:
            return 0
        return await self._run(CollectionFollower.step)

    async def finish(self) -> None:
        """Take all changes that are left; a collection that is out is opened again for that."""
        await self._run(CollectionFollower.finish)
        await self.update_counts()

    async def update_counts(self) -> None:
        """Update `indexed` and `lag`; of a collection that is out the last values stay."""
        if self._follower is not None:
            await self._run(self._read_counts)

    async def _read_counts(self, follower: CollectionFollower) -> None:
        self.indexed, self.lag = follower.indexer.documents, follower.indexer.lag

    async def _run(self, action: Callable[[CollectionFollower], Awaitable[int | None]]) -> int:
        try:
            if self._follower is None:
                self._follower = self._open()
            done = await action(self._follower) or 0
        except FAILURES as error:
            if self._is_only:
                raise
            await self._suspend(str(error))
            return 0
        self.error = ""
        return done

    def _open(self) -> CollectionFollower:
        self._back_off.begin()
        self._lock_stack.enter_context(indexing_lock(self._root, self.name))
        return CollectionFollower(self._root, self.name, self._clock, self._cells)

    async def _suspend(self, why: str) -> None:
        self.error = f"{self.name}: {why}"[:MAX_ERROR_CHARS]
        self._back_off.fail()
        with contextlib.suppress(*FAILURES):  # the error was reported already
            await self.close()

    async def close(self) -> None:
        follower, self._follower = self._follower, None
        # The lock is released after the files are closed, even if closing fails.
        with self._lock_stack:
            if follower is not None:
                await follower.close()


async def follow(
    root: Root, names: Sequence[str], clock: Clock, until: asyncio.Event, cells: Collection[int] | None = None
) -> None:
    """Follow collections until an event, then finish. One that cannot be followed does not hold up the others.

    Raises StoreError in the end if one of several could not be finished; the others are.
    """
    collections = [FollowedCollection(root, name, clock, cells, is_only=len(names) == 1) for name in names]
    try:
        reported = 0.0
        while not until.is_set():
            taken = sum([await each.step() for each in collections])
            if clock.ticks_s() - reported >= REPORT_S:
                reported = clock.ticks_s()
                await _report(collections)
            if not taken:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(until.wait(), IDLE_S)
        for each in collections:
            await each.finish()
        await _report(collections)
        if errors := [each.error for each in collections if each.error]:
            raise StoreError("; ".join(errors)[:MAX_ERROR_CHARS])
    finally:
        for each in collections:
            await each.close()


async def _report(collections: Sequence[FollowedCollection]) -> None:
    """Print the progress of the indexes as JSON and, as long as a collection is out, the reason."""
    for each in collections:
        await each.update_counts()
    indexed = {each.name: each.indexed for each in collections if each.indexed is not None}
    report: dict[str, object] = {"indexed": indexed, "behind": sum(each.lag for each in collections)}
    if errors := [each.error for each in collections if each.error]:
        report["error"] = "; ".join(errors)[:MAX_ERROR_CHARS]
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(report), flush=True)


async def _main(root: Root, names: Sequence[str], cells: Collection[int] | None) -> None:
    await follow(root, names, WallClock(), input_end(), cells)


def main(arguments: Sequence[str]) -> int:
    """Run the indexer; the arguments are `[--cells 0,3,5] DATA NAME...`."""
    cells = None
    if arguments[0] == "--cells":
        cells = frozenset(int(each) for each in arguments[1].split(","))
        arguments = arguments[2:]
    data, *names = arguments
    os.nice(NICENESS)
    try:
        asyncio.run(_main(open_root(Path(data)), names, cells))
    except FAILURES as error:
        print(json.dumps({"error": str(error)[:MAX_ERROR_CHARS]}), flush=True)
        return 1
    return 0
