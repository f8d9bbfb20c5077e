"""The courier: a process of its own that tells subscribers what there is to tell, for all collections of a root.

    python -m teia.crawl.courier PARENT DATA

It looks every second or so for what was committed (noticing.py), posts what is due (delivering.py), and asks hubs
(hubs.py), until its standard input is closed; then it looks once more, posts for a moment, and ends. It dies with its
parent and loses nothing by that. A crawl and a server may each have one; a lock on the root's `courier.lock` lets one
work, and the other waits for its turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from teia.clock import Clock, WallClock
from teia.config import Config
from teia.crawl.collections import saved
from teia.crawl.copyreader import CopyReader
from teia.crawl.delivering import deliver
from teia.crawl.hubs import HubRound
from teia.crawl.noticing import Lookout
from teia.crawl.posting import Poster
from teia.crawl.subscribing import open_subscriptions
from teia.durable import disk_errors
from teia.errors import TeiaError
from teia.frontier.database import sqlite_errors
from teia.parse.child import die_with_parent
from teia.store.root import Root, open_root

logger = logging.getLogger(__name__)

TURN_S = 1.0
"""Between two turns: also the rest of a host that is posted to."""

LAST_S = 15.0
"""For the last posts, when there is nobody left to wait for."""

LOOKING = 0.05
"""Share of the time that may be spent looking: with many subscriptions and a busy crawl looks are further apart."""

NICENESS = 10
LOCK = "courier.lock"


class Round:
    """What the courier does for one collection."""

    def __init__(self, root: Root, name: str, copies: CopyReader, clock: Clock) -> None:
        self._folder, self._clock = root.collection(name), clock
        self._config: Config = saved(root, name).config
        self._store = open_subscriptions(self._folder.subscriptions) if self._folder.subscriptions.exists() else None
        self._poster = Poster(self._config, clock)
        self._lookout = None if self._store is None else Lookout(root, name, self._store, copies, clock)
        self._look_at = 0.0
        has_hubs = self._folder.hubs.exists()
        self._hubs = HubRound(self._folder.hubs, self._config, self._poster, clock) if has_hubs else None
        self._stamp = _stamp(self._folder.config, self._folder.subscriptions, self._folder.hubs)

    @property
    def is_current(self) -> bool:
        """Whether its settings and files are those it was begun with."""
        return self._stamp == _stamp(self._folder.config, self._folder.subscriptions, self._folder.hubs)

    async def turn(self, *, is_last: bool = False) -> int:
        """Look, if it is time or the last time, and post once; returns how much there was to do."""
        asked = 0 if self._hubs is None else await self._hubs.turn()
        if self._store is None or self._lookout is None:
            return asked
        made, began = 0, self._clock.ticks_s()
        if is_last or began >= self._look_at:
            made = await asyncio.to_thread(self._lookout.look)
            now = self._clock.ticks_s()
            self._look_at = now + (now - began) * (1 / LOOKING - 1)
        with sqlite_errors(self._folder.subscriptions):
            return asked + made + await deliver(self._store, self._poster, self._clock)

    async def close(self) -> None:
        await self._poster.close()
        if self._lookout is not None:
            self._lookout.close()
        if self._store is not None:
            self._store.close()
        if self._hubs is not None:
            self._hubs.close()


def _stamp(*paths: Path) -> tuple[object, ...]:
    """Tells files that were replaced or made; what is written inside them does not matter."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            status = path.stat()
            found.append((path, status.st_ino, status.st_mtime_ns if path.suffix == ".toml" else 0))
    return tuple(found)


class Courier:
    """Goes round all collections of a root that have something to tell."""

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root, self._clock = root, clock
        self._copies = CopyReader(clock)
        self._rounds: dict[str, Round] = {}
        self._told: dict[str, str] = {}

    async def turn(self, *, is_last: bool = False) -> int:
        """One round; a collection in which something is wrong is left for the next, and said once."""
        done = 0
        names = [name for name in self._root.collections() if self._has_files(name)]
        for gone in [name for name in self._rounds if name not in names or not self._rounds[name].is_current]:
            await self._rounds.pop(gone).close()
        for name in names:
            try:
                if name not in self._rounds:
                    self._rounds[name] = Round(self._root, name, self._copies, self._clock)
                done += await self._rounds[name].turn(is_last=is_last)
                self._told.pop(name, None)
            except TeiaError as error:
                if self._told.get(name) != str(error):
                    self._told[name] = str(error)
                    logger.warning("subscriptions of %s: %s", name, error)
        return done

    def _has_files(self, name: str) -> bool:
        folder = self._root.collection(name)
        return folder.subscriptions.exists() or folder.hubs.exists()

    async def close(self) -> None:
        for each in self._rounds.values():
            await each.close()
        self._rounds.clear()
        self._copies.close()


async def run(root: Root, clock: Clock, until: asyncio.Event) -> None:
    """Go round until an event, then some last rounds."""
    courier = Courier(root, clock)
    try:
        while not until.is_set():
            await courier.turn()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(until.wait(), TURN_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_S):
                while await courier.turn(is_last=True):
                    pass
    finally:
        await courier.close()


@contextlib.contextmanager
def courier_lock(root: Root) -> Iterator[bool]:
    """Hold the right to be the courier of a root, if nobody else has it."""
    path = root.path / LOCK
    with disk_errors(path, "opened"):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


async def _until_input_closes(closed: asyncio.Event) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(1024):
        pass
    closed.set()


async def _main(root: Root) -> None:
    closed = asyncio.Event()
    listening = asyncio.create_task(_until_input_closes(closed))
    try:
        while True:
            with courier_lock(root) as is_ours:
                if is_ours:
                    await run(root, WallClock(), closed)
                    return
            if closed.is_set():
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(closed.wait(), TURN_S)
    finally:
        listening.cancel()


def main(arguments: Sequence[str]) -> int:
    parent, data = arguments
    die_with_parent(int(parent))
    os.nice(NICENESS)
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    try:
        asyncio.run(_main(open_root(Path(data))))
    except TeiaError as error:
        print(f"teia courier: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
