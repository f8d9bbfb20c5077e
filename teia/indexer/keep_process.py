"""The indexer process beside a crawl, as the crawl manages it: start, read reports, restart, finish, kill.

The crawl restarts an indexer that ends before `finish`. The wait before a restart doubles each time, up to
a minute. It is reset to the first wait if the indexer had lived that long, or if it is to finish. An indexer that
cannot be started is tried again in the same way. Pages that it has not indexed when it is killed are indexed by the
next indexer of the collection.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Collection, Sequence
from typing import Self

from teia.clock import WallClock
from teia.config.sections import Config
from teia.lib.child_process import PIPE, BackOff, ChildProcess
from teia.lib.entry_points import command_of
from teia.store.root import Root

MAX_LINE_BYTES = 65_536
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0
FINISH_TRIES = 5
"""Deaths of a finishing indexer after which the crawl ends without it and reports that."""

logger = logging.getLogger(__name__)


def run_indexer(arguments: Sequence[str]) -> int:
    """Be the indexer process."""
    from teia.indexer.process import main  # a crawl imports nothing of an index

    return main(arguments)


class IndexerProcess:
    """An indexer process, kept alive.

    `indexed` is the number of pages in each collection's index, `lag` the number of pages that wait. `error` is the
    reason why it does not index at the moment, or why not everything is indexed in the end. `deaths` counts how often
    it ended before `finish`, or failed after it.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: ChildProcess | None = None
        self._is_finishing = False
        self._finish_requested = asyncio.Event()
        self._supervision: asyncio.Task[None] | None = None
        self.indexed: dict[str, int] = {}
        self.lag = 0
        self.error = ""
        self.deaths = 0

    @classmethod
    async def start(cls, root: Root, configs: Sequence[Config], cells: Collection[int] | None = None) -> Self | None:
        """Start an indexer for collections with an index; None if there is none. A node passes the `cells` it owns."""
        names = [config.collection.name for config in configs if config.index.enabled]
        if not names:
            return None
        cell_flags = [] if cells is None else ["--cells", ",".join(map(str, sorted(cells)))]
        indexer = cls(command_of(run_indexer, *cell_flags, str(root.path), *names))
        await indexer.begin()
        return indexer

    async def begin(self) -> None:
        """Start the indexer, and keep it alive from then on."""
        self._supervision = asyncio.get_running_loop().create_task(self._supervise(self._try_spawn()))

    @property
    def pid(self) -> int | None:
        """Process id of the running indexer; None while none runs."""
        process = self._process
        return process.pid if process is not None and process.status is None else None

    def _try_spawn(self) -> ChildProcess | None:
        """Start a process; if the system has no room for one, set `error` and return None."""
        try:
            # No session of its own, which would undo its low priority: Linux shares the processors between sessions
            # first (autogroup).
            self._process = ChildProcess(self._command, stdin=PIPE, stdout=PIPE)
        except OSError as error:
            self.error = f"the indexer cannot be started: {error.strerror or error}"
            return None
        # `finish` was called while no process ran: the new one is to finish at once.
        if self._is_finishing:
            self._process.close_input()
        return self._process

    async def _supervise(self, process: ChildProcess | None) -> None:
        """Read the indexer's reports, and start another process when it dies, until one has finished."""
        back_off, tries = BackOff(WallClock().ticks_s, FIRST_WAIT_S, LONGEST_WAIT_S), 0
        while True:
            back_off.begin()
            if process is None:
                why = self.error
            else:
                why = await self._read_reports(process)
                status = await process.ended()
                await process.end_async()
                # Status 0 without a request to finish is a death too: the crawl still commits pages.
                if self._is_finishing and status == 0:
                    self.error = ""
                    return
                self.deaths += 1
                why = why or f"the indexer exited with {process.exit_reason}"
            if self._is_finishing and not tries:  # the crawl waits for the end now
                back_off.reset()
            tries += self._is_finishing
            if tries >= FINISH_TRIES:
                self.error = f"{why}; `teia audit index` lists the missing pages, and the next crawl will index them"
                return
            self.error, wait_s = why, back_off.fail()
            logger.warning("%s; restarting it in %.1f s", why, wait_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    # A request to finish ends the wait early; after it, each further wait takes its full time.
                    await (asyncio.sleep(wait_s) if self._is_finishing else self._finish_requested.wait())
            process = self._try_spawn()

    async def _read_reports(self, process: ChildProcess) -> str:
        """Read an indexer's reports until it ends; return the error it reported last, or an empty text."""
        why = ""
        async for line in process.lines(MAX_LINE_BYTES):
            # A line that is no JSON was printed by a library; it is no report.
            with contextlib.suppress(ValueError):
                report = json.loads(line)
                self.indexed.update(report.get("indexed", {}))
                why = report.get("error", "")
                if "indexed" in report and why not in {"", self.error}:  # it continues with the other collections
                    logger.warning("not all pages could be indexed: %s", why)
                self.lag, self.error = report.get("behind", self.lag), why
        return why

    async def finish(self) -> None:
        """Let the indexer index what is left, and wait until it has."""
        assert self._supervision is not None
        self._is_finishing = True
        self._finish_requested.set()
        if self._process is not None:
            self._process.close_input()
        # Shielded: a caller that is cancelled must not end the supervision; `kill` does that.
        await asyncio.shield(self._supervision)

    async def kill(self) -> None:
        """Kill the indexer now, if it has not ended."""
        if self._supervision is not None:
            self._supervision.cancel()
            await asyncio.gather(self._supervision, return_exceptions=True)
        if self._process is not None:
            await self._process.end_async()
