"""The indexer as a process of its own.

    python -m teia.indexer.process [--cells 0,3,5] PARENT DATA NAME...

It follows the collections until its standard input is closed, then indexes what is left and ends. Twice a second it
reports its progress in a line of JSON. It runs at a lower priority than the crawler, so on a busy machine pages are
fetched first and found later. It dies with its parent, and loses nothing by that.

At most one process indexes a collection: it holds a lock on the file `index.lock` beside the collection's settings.

If it is killed at any moment, everything it had committed can be searched, and the next indexer continues from there.
If an index is deleted while the indexer has it open, the indexer reports that and ends; the crawl starts another
(companion.py), which builds the index again. With several collections only the one with an error is closed, and opened
again after a while. Every report names the error as long as it lasts. If it lasts until the end the process ends with
status 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from teia.clock import Clock, WallClock
from teia.collections.index_state import LOCK_FILE
from teia.collections.stored import saved
from teia.crawler.compiled_settings import reading_of
from teia.durable import disk_errors, mend_exchange
from teia.errors import StoreError, TeiaError
from teia.indexer.indexer import CollectionIndexer
from teia.indexer.ranks import Ranker
from teia.indexer.reread import Rereader
from teia.indexer.semantic_model import Trainer
from teia.parse.children.child import die_with_parent
from teia.store.root import Root, open_root

COMMIT_S = 2.0
"""Longest time that an indexed page waits for its commit, after which it is searchable."""

COMMIT_PAGES = 5_000
QUIET_S = 5.0
TRY_AGAIN_S = 10.0
"""Interval at which an idle node tries pages again whose captures it lacks, some hundred at a time."""
UNREADABLE_AGAIN_S = 60.0
"""Interval at which a single machine tries pages again whose captures could not be read."""

LOCK_TRIES, LOCK_PAUSE_S = 5, 0.05
"""Tries for the lock: `is_being_written` (index_state.py) takes it for an instant to find out whether it is held."""

IDLE_S = 0.25
SAY_S = 0.5
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0
"""First and longest wait before one of several collections that failed is opened again; it doubles each time."""

MAX_ERROR_CHARS = 2_000
NICENESS = 19
FAILURES = (TeiaError, sqlite3.Error, OSError)


@contextlib.contextmanager
def indexing_lock(root: Root, name: str) -> Iterator[None]:
    """Hold the lock for writing a collection's index."""
    path = root.collection(name).path / LOCK_FILE
    with disk_errors(path, "opened"):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        for _ in range(LOCK_TRIES):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(LOCK_PAUSE_S)
        else:
            raise StoreError(f"another process is writing the index of {name}; wait until it has finished")
        for cell in root.collection(name).cells():
            # A rebuild killed in the middle of an exchange may have left a folder under its third name (durable.py).
            mend_exchange(cell.index)
        yield
    finally:
        os.close(descriptor)


class CollectionFollower:
    """One collection being followed: takes changes, commits in time, ranks pages now and then."""

    def __init__(
        self, root: Root, name: str, clock: Clock, cells: Collection[int] | None = None, *, beside: bool = False
    ) -> None:
        """Open a collection; `cells` are those that a node of a cluster owns. The owner of cell 0 ranks for all nodes.

        With `beside`, another index is built beside the present one; ranks and model are not renewed meanwhile.
        """
        config = saved(root, name).config
        self._clock = clock
        self.rereader = Rereader(reading_of(config), config, clock)
        ranks = not beside and (cells is None or 0 in cells)
        self._ranker = Ranker(root.collection(name), clock, cells) if ranks else None
        learns = config.index.semantics and cells is None and not beside
        self._trainer = Trainer(root.collection(name), clock) if learns else None
        # Opened last: it may raise, and the objects above hold no open files yet.
        self.indexer = CollectionIndexer(root, name, self.rereader, cells, beside=beside)
        self._committed = self._taken_at = clock.ticks_s()
        self._uncommitted = self.indexer.uncommitted
        self._look_at = 0.0
        self._is_node = cells is not None
        self._try_at = 0.0 if self._is_node else clock.ticks_s() + UNREADABLE_AGAIN_S

    async def turn(self) -> int:
        """Take the changes there are, and do what is due; return the number of changes."""
        taken = await self.indexer.step()
        now = self._clock.ticks_s()
        self._taken_at = now if taken else self._taken_at
        # On one machine the last anchor texts are taken when the crawl ends; a node's crawl never ends.
        everything = self._is_node and now - self._taken_at >= QUIET_S
        # New pages first; pages with new anchor texts only when no change is waiting.
        self._uncommitted += taken or self.indexer.refresh(everything=everything)
        if everything and now >= self._try_at:
            self._try_at = now + TRY_AGAIN_S
            self._uncommitted += await self.indexer.try_lacking()
            self._uncommitted += self.indexer.prune()
        elif not taken and not self._is_node and now >= self._try_at:
            self._uncommitted += await self.indexer.try_unreadable()
            self._try_at = self._clock.ticks_s() + UNREADABLE_AGAIN_S
        waited_s = self._clock.ticks_s() - self._committed
        if self._uncommitted and (waited_s >= COMMIT_S or self._uncommitted >= COMMIT_PAGES):
            self.commit()
        if now >= self._look_at:
            self.indexer.check_places()
            self._look_at = now + COMMIT_S
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
        while await self.turn():
            pass
        if not self._is_node:
            await self.indexer.try_unreadable()
        self.indexer.check_places()
        self.commit()
        while self.indexer.refresh(everything=True):
            self.commit()
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
        self._following: CollectionFollower | None = None
        self._held = ExitStack()
        self._began = self._again_at = 0.0
        self._wait_s = FIRST_WAIT_S

    async def turn(self) -> int:
        """Take the changes there are; return their number. A collection that is out is opened again when it is time."""
        if self._following is None and self._clock.ticks_s() < self._again_at:
            return 0
        return await self._do(CollectionFollower.turn)

    async def finish(self) -> None:
        """Take all changes that are left; a collection that is out is opened again for that."""
        await self._do(CollectionFollower.finish)
        await self.look()

    async def look(self) -> None:
        """Update `indexed` and `lag`; of a collection that is out the last values stay."""
        if self._following is not None:
            await self._do(self._seen)

    async def _seen(self, following: CollectionFollower) -> None:
        self.indexed, self.lag = following.indexer.documents, following.indexer.lag

    async def _do(self, deed: Callable[[CollectionFollower], Awaitable[int | None]]) -> int:
        try:
            if self._following is None:
                self._following = self._begun()
            done = await deed(self._following) or 0
        except FAILURES as error:
            if self._is_only:
                raise
            await self._leave(str(error))
            return 0
        self.error = ""
        return done

    def _begun(self) -> CollectionFollower:
        self._began = self._clock.ticks_s()
        self._held.enter_context(indexing_lock(self._root, self.name))
        return CollectionFollower(self._root, self.name, self._clock, self._cells)

    async def _leave(self, why: str) -> None:
        now = self._clock.ticks_s()
        # A collection that was followed for a while has recovered from its last failure.
        self._wait_s = FIRST_WAIT_S if now - self._began >= LONGEST_WAIT_S else self._wait_s
        self.error = f"{self.name}: {why}"[:MAX_ERROR_CHARS]
        self._again_at, self._wait_s = now + self._wait_s, min(LONGEST_WAIT_S, 2 * self._wait_s)
        with contextlib.suppress(*FAILURES):  # the error was reported already
            await self.close()

    async def close(self) -> None:
        following, self._following = self._following, None
        # The lock is released after the files are closed, even if closing fails.
        with self._held:
            if following is not None:
                await following.close()


async def follow(
    root: Root, names: Sequence[str], clock: Clock, until: asyncio.Event, cells: Collection[int] | None = None
) -> None:
    """Follow collections until an event, then finish. One that cannot be followed does not hold up the others.

    Raises StoreError in the end if one of several could not be finished; the others are.
    """
    all_of_them = [FollowedCollection(root, name, clock, cells, is_only=len(names) == 1) for name in names]
    try:
        said = 0.0
        while not until.is_set():
            taken = sum([await each.turn() for each in all_of_them])
            if clock.ticks_s() - said >= SAY_S:
                said = clock.ticks_s()
                await _say(all_of_them)
            if not taken:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(until.wait(), IDLE_S)
        for each in all_of_them:
            await each.finish()
        await _say(all_of_them)
        if out := [each.error for each in all_of_them if each.error]:
            raise StoreError("; ".join(out)[:MAX_ERROR_CHARS])
    finally:
        for each in all_of_them:
            await each.close()


async def _say(all_of_them: Sequence[FollowedCollection]) -> None:
    """Print the progress of the indexes as JSON and, as long as a collection is out, the reason."""
    for each in all_of_them:
        await each.look()
    indexed = {each.name: each.indexed for each in all_of_them if each.indexed is not None}
    said: dict[str, object] = {"indexed": indexed, "behind": sum(each.lag for each in all_of_them)}
    if out := [each.error for each in all_of_them if each.error]:
        said["error"] = "; ".join(out)[:MAX_ERROR_CHARS]
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(said), flush=True)


async def _until_input_closes(closed: asyncio.Event) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(1024):
        pass
    closed.set()


async def _main(root: Root, names: Sequence[str], cells: Collection[int] | None) -> None:
    closed = asyncio.Event()
    listening = asyncio.create_task(_until_input_closes(closed))
    try:
        await follow(root, names, WallClock(), closed, cells)
    finally:
        listening.cancel()


def main(arguments: Sequence[str]) -> int:
    cells = None
    if arguments[0] == "--cells":
        cells = frozenset(int(each) for each in arguments[1].split(","))
        arguments = arguments[2:]
    parent, data, *names = arguments
    # Before anything is opened: a parent that is gone already must leave no indexer behind.
    die_with_parent(int(parent))
    os.nice(NICENESS)
    try:
        asyncio.run(_main(open_root(Path(data)), names, cells))
    except FAILURES as error:
        print(json.dumps({"error": str(error)[:MAX_ERROR_CHARS]}), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
