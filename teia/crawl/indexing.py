"""The indexer as a process of its own, and how a crawl starts and ends it.

    python -m teia.crawl.indexing [--cells 0,3,5] PARENT DATA NAME...

It follows the collections until its standard input is closed, then takes what is left and ends. Now and then it says in
a line of JSON how far it is. It runs at a lower priority than the crawler, so on a busy machine pages are fetched first
and found later; it dies with its parent, and loses nothing by that.

At most one process indexes a collection: it holds a lock on the file `index.lock` beside the collection's settings.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from teia.clock import Clock, WallClock
from teia.crawl.collections import saved
from teia.crawl.indexer import CollectionIndexer
from teia.crawl.meaning import reading_of
from teia.crawl.ranking import Ranker, Trainer
from teia.crawl.rereading import Rereader
from teia.durable import disk_errors
from teia.errors import StoreError, TeiaError
from teia.parse.child import die_with_parent
from teia.store.root import Root, open_root

COMMIT_S = 2.0
"""So long a page waits at most for its commit; then it is searchable."""

COMMIT_PAGES = 5_000
QUIET_S = 5.0
TRY_AGAIN_S = 10.0
"""A node tries pages again that it lacks a copy of, some hundred at a time, when there is nothing else to do."""
IDLE_S = 0.25
SAY_S = 0.5
NICENESS = 19


@contextlib.contextmanager
def indexing_lock(root: Root, name: str) -> Iterator[None]:
    """Hold the right to write a collection's index."""
    path = root.collection(name).path / "index.lock"
    with disk_errors(path, "opened"):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(f"the index of {name} is being written by another process; wait for it to end") from None
        yield
    finally:
        os.close(descriptor)


class Following:
    """One collection being followed: takes changes, commits in time, ranks pages now and then."""

    def __init__(self, root: Root, name: str, clock: Clock, cells: Collection[int] | None = None) -> None:
        """`cells` are those that a node of a cluster keeps; then whoever has the first ranks for all nodes."""
        config = saved(root, name).config
        self._clock = clock
        self.rereader = Rereader(reading_of(config), config, clock)
        self.indexer = CollectionIndexer(root, name, self.rereader, cells)
        self._ranker = Ranker(root.collection(name), clock, cells) if cells is None or 0 in cells else None
        learns = config.index.semantics and cells is None
        self._trainer = Trainer(root.collection(name), clock) if learns else None
        self._committed = self._taken_at = clock.ticks_s()
        self._uncommitted = 0
        self._is_node = cells is not None
        self._try_at = 0.0

    async def turn(self) -> int:
        """Take what there is; returns how many changes that was."""
        taken = await self.indexer.step()
        now = self._clock.ticks_s()
        self._taken_at = now if taken else self._taken_at
        # On one machine the last words on links are taken when the crawl ends; a node's never does.
        everything = self._is_node and now - self._taken_at >= QUIET_S
        self._uncommitted += taken or self.indexer.refresh(everything=everything)
        if everything and now >= self._try_at:
            self._try_at = now + TRY_AGAIN_S
            self._uncommitted += await self.indexer.try_lacking()
            self._uncommitted += self.indexer.prune()
        waited_s = self._clock.ticks_s() - self._committed
        if self._uncommitted and (waited_s >= COMMIT_S or self._uncommitted >= COMMIT_PAGES):
            self.commit()
        if self._ranker is not None:
            self._ranker.rank_if_due()
        if self._trainer is not None:
            self._trainer.train_if_due()
        return taken

    def commit(self) -> None:
        self.indexer.commit()
        self._committed, self._uncommitted = self._clock.ticks_s(), 0

    async def finish(self) -> None:
        """Take all that is left, the words on links too."""
        while await self.turn():
            pass
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


async def follow(
    root: Root, names: Sequence[str], clock: Clock, until: asyncio.Event, cells: Collection[int] | None = None
) -> None:
    """Follow collections until an event, then finish."""
    with ExitStack() as locks:
        for name in names:
            locks.enter_context(indexing_lock(root, name))
        following = [Following(root, name, clock, cells) for name in names]
        try:
            said = 0.0
            while not until.is_set():
                taken = sum([await each.turn() for each in following])
                if clock.ticks_s() - said >= SAY_S:
                    said = clock.ticks_s()
                    _say(following)
                if not taken:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(until.wait(), IDLE_S)
            for each in following:
                await each.finish()
            _say(following)
        finally:
            for each in following:
                await each.close()


def _say(following: Sequence[Following]) -> None:
    indexed = {each.indexer.name: each.indexer.documents for each in following}
    line = json.dumps({"indexed": indexed, "behind": sum(each.indexer.behind for each in following)})
    with contextlib.suppress(BrokenPipeError):
        print(line, flush=True)


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
    die_with_parent(int(parent))
    os.nice(NICENESS)
    try:
        asyncio.run(_main(open_root(Path(data)), names, cells))
    except TeiaError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
