"""The notifier: a process that sends notices to subscribers, for all collections of a root.

Every second or so it looks for committed changes (notices.py), posts due notices (deliver.py), and sends requests to
hubs (websub.py), until its standard input is closed. Then it looks once more, posts for a moment, and ends. It dies
with its parent and loses nothing by that. A crawl and a server may each have a notifier. The lock on the root's
`notifier.lock` lets one of them work, and the other waits for the lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from teia.clock import Clock, WallClock
from teia.collections.settings import saved
from teia.config.sections import Config
from teia.crawler.signals_in.outgoing import Poster, ReceiverStates
from teia.crawler.signals_in.websub import HubRound
from teia.durable import file_lock
from teia.errors import TeiaError
from teia.lib.entry_points import input_end
from teia.notify.deliver import Delivery
from teia.notify.notices import NoticeFinder
from teia.notify.subscriptions import open_subscriptions
from teia.signals.subscriptions import Subscriptions
from teia.sqlite import sqlite_errors
from teia.store.root import Root, open_root
from teia.views.capture_reader import CaptureReader

logger = logging.getLogger(__name__)

ROUND_S = 1.0
LAST_ROUND_S = 0.2
LAST_ROUNDS_S = 15.0
"""Pause between turns, pause between last turns, and time for all last turns after a crawl or server ended."""

SEARCH_SHARE = 0.05
"""Share of the time that may be spent looking: with many subscriptions and a busy crawl looks are further apart."""

NICENESS = 10
LOCK = "courier.lock"


class NotifyRound:
    """The notifier's work for one collection: hubs, look, delivery; a failure of one does not stop the others."""

    def __init__(
        self, root: Root, name: str, capture_reader: CaptureReader, receivers: ReceiverStates, clock: Clock
    ) -> None:
        self._root, self._name, self._capture_reader, self._receivers, self._clock = (
            root,
            name,
            capture_reader,
            receivers,
            clock,
        )
        self._folder = root.collection(name)
        self._config: Config = saved(root, name).config
        self._stamp = _stamp(self._folder.config, self._folder.subscriptions, self._folder.hubs)
        self._store: Subscriptions | None = None
        self._finder: NoticeFinder | None = None
        self._delivery: Delivery | None = None
        self._hubs: HubRound | None = None
        self._search_task: asyncio.Task[int] | None = None
        self._search_at = 0.0
        self._logged_errors: dict[str, str] = {}
        self._poster = Poster(self._config, clock)

    @property
    def is_current(self) -> bool:
        """True if its settings and files are still those it was opened with."""
        return self._stamp == _stamp(self._folder.config, self._folder.subscriptions, self._folder.hubs)

    async def run(self, *, is_last: bool = False) -> int:
        """Look, if it is time or the last time, send and record answers; return how much there is to do.

        An error of one part is logged once, and the part is tried again the next time.
        """
        done = 0
        for part in (self._request_hubs, self._find_notices, self._deliver):
            try:
                done += await part(is_last=is_last)
                self._logged_errors.pop(part.__name__, None)
            except TeiaError as error:
                if self._logged_errors.get(part.__name__) != str(error):
                    self._logged_errors[part.__name__] = str(error)
                    logger.warning("subscriptions of %s: %s", self._name, error)
        return done

    async def _request_hubs(self, *, is_last: bool) -> int:  # noqa: ARG002  # the last time is like any
        if self._hubs is None and self._folder.hubs.exists():
            self._hubs = HubRound(self._folder.hubs, self._config, self._poster, self._receivers, self._clock)
        return 0 if self._hubs is None else self._hubs.step()

    async def _find_notices(self, *, is_last: bool) -> int:
        store, began = self._open_store(), self._clock.ticks_s()
        if store is None or not (is_last or began >= self._search_at):
            return 0
        if self._finder is None:
            self._finder = NoticeFinder(self._root, self._name, store, self._capture_reader, self._clock)
        # Shielded below: a time-out of the last turns cannot end the thread, which goes on using the store.
        self._search_task = asyncio.create_task(asyncio.to_thread(self._finder.find_notices))
        try:
            return await asyncio.shield(self._search_task) + self._finder.is_cut
        finally:
            now = self._clock.ticks_s()
            # After d seconds of searching, a pause of d * (1 / SEARCH_SHARE - 1) keeps that share.
            self._search_at = now + (now - began) * (1 / SEARCH_SHARE - 1)

    async def _deliver(self, *, is_last: bool) -> int:  # noqa: ARG002
        store = self._open_store()
        if store is None:
            return 0
        if self._delivery is None:
            self._delivery = Delivery(store, self._poster, self._receivers, self._clock)
        with sqlite_errors(self._folder.subscriptions):
            return self._delivery.step()

    def _open_store(self) -> Subscriptions | None:
        if self._store is None and self._folder.subscriptions.exists():
            self._store = open_subscriptions(self._folder.subscriptions)
        return self._store

    async def close(self) -> None:
        """Close; received answers are recorded, and messages under way are sent again by the next notifier."""
        if self._search_task is not None:
            await asyncio.wait([self._search_task])  # up to a second: its thread uses the store
        if self._delivery is not None:
            # Before messages under way are dropped: an arrival that is not recorded is sent again.
            with contextlib.suppress(TeiaError), sqlite_errors(self._folder.subscriptions):
                self._delivery.settle()
            await self._delivery.close()
        if self._hubs is not None:
            await self._hubs.close()
        await self._poster.close()
        if self._finder is not None:
            self._finder.close()
        if self._store is not None:
            self._store.close()


def _stamp(*paths: Path) -> tuple[object, ...]:
    """Return a value that changes when a file is replaced or created; writes inside a database do not matter."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            status = path.stat()
            # Databases change all the time and count by inode alone; settings also by their time of change.
            found.append((path, status.st_ino, status.st_mtime_ns if path.suffix == ".toml" else 0))
    return tuple(found)


class Notifier:
    """The notifier's rounds over all collections of a root that have subscriptions or hubs."""

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root, self._clock = root, clock
        self._capture_reader = CaptureReader(clock)
        self._receivers = ReceiverStates(clock)
        self._rounds: dict[str, NotifyRound] = {}
        self._logged_errors: dict[str, str] = {}
        self._rounds_done = 0

    @property
    def under_way(self) -> int:
        """Number of messages under way without an answer."""
        return self._receivers.under_way

    async def run_round(self, *, is_last: bool = False) -> int:
        """Do one round; a collection with an error is left for the next round, and the error is logged once.

        No answer is waited for. Each round begins with another collection, so that each finds room in turn.
        """
        done, self._rounds_done = 0, self._rounds_done + 1
        names = [name for name in self._root.collections() if self._has_files(name)]
        first = self._rounds_done % max(1, len(names))
        # Removed collections, and those whose settings or files were replaced; the latter are opened anew below.
        for gone in [name for name in self._rounds if name not in names or not self._rounds[name].is_current]:
            await self._rounds.pop(gone).close()
        for name in names[first:] + names[:first]:
            try:
                if name not in self._rounds:
                    self._rounds[name] = NotifyRound(
                        self._root, name, self._capture_reader, self._receivers, self._clock
                    )
                done += await self._rounds[name].run(is_last=is_last)
                self._logged_errors.pop(name, None)
            except TeiaError as error:
                if self._logged_errors.get(name) != str(error):
                    self._logged_errors[name] = str(error)
                    logger.warning("subscriptions of %s: %s", name, error)
        return done

    def _has_files(self, name: str) -> bool:
        folder = self._root.collection(name)
        return folder.subscriptions.exists() or folder.hubs.exists()

    async def close(self) -> None:
        for each in self._rounds.values():
            await each.close()
        self._rounds.clear()
        self._capture_reader.close()


async def run(root: Root, clock: Clock, until: asyncio.Event) -> None:
    """Do rounds until an event, then some last rounds."""
    notifier = Notifier(root, clock)
    try:
        while not until.is_set():
            await notifier.run_round()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(until.wait(), ROUND_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_ROUNDS_S):
                while await notifier.run_round(is_last=True):  # noqa: ASYNC110  # for answers, and for delays to end
                    await asyncio.sleep(LAST_ROUND_S)
    finally:
        await notifier.close()


def notifier_lock(root: Root) -> AbstractContextManager[bool]:
    """Hold the lock for being the notifier of a root; the block gets False if another process has it."""
    return file_lock(root.path / LOCK)


async def _main(root: Root) -> None:
    closed = input_end()
    while True:
        with notifier_lock(root) as is_ours:
            if is_ours:
                await run(root, WallClock(), closed)
                return
        if closed.is_set():
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(closed.wait(), ROUND_S)


def main(arguments: Sequence[str]) -> int:
    """Run the notifier of a root; the argument is its folder."""
    (data,) = arguments
    os.nice(NICENESS)
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    try:
        asyncio.run(_main(open_root(Path(data))))
    except TeiaError as error:
        print(f"teia notify: {error}", file=sys.stderr, flush=True)
        return 1
    return 0
