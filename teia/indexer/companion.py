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
import os
import signal
import sys
from collections.abc import Collection, Sequence
from typing import Self

from teia.config.sections import Config
from teia.store.root import Root

MODULE = "teia.indexer.process"
MAX_LINE_BYTES = 65_536
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0
FINISH_TRIES = 5
"""Deaths of a finishing indexer after which the crawl ends without it and reports that."""

logger = logging.getLogger(__name__)


class IndexerProcess:
    """An indexer process, kept alive.

    `indexed` is the number of pages in each collection's index, `lag` the number of pages that wait. `error` is the
    reason why it does not index at the moment, or why not everything is indexed in the end. `deaths` counts how often
    it ended before `finish`, or failed after it.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
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
        companion = cls([sys.executable, "-m", MODULE, *cell_flags, str(os.getpid()), str(root.path), *names])
        await companion.begin()
        return companion

    async def begin(self) -> None:
        """Start the indexer, and keep it alive from then on."""
        self._supervision = asyncio.get_running_loop().create_task(self._supervise(await self._try_spawn()))

    @property
    def pid(self) -> int | None:
        """Process id of the running indexer; None while none runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def _spawn(self) -> asyncio.subprocess.Process:
        """Start a process.

        It has a process group of its own: a Ctrl-C goes to the crawl, which decides how the indexer ends. A session of
        its own would undo its low priority, because Linux shares the processors between sessions first (autogroup).
        """
        return await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=MAX_LINE_BYTES,
            preexec_fn=os.setpgrp,
        )

    async def _try_spawn(self) -> asyncio.subprocess.Process | None:
        """Start a process; if the system has no room for one, set `error` and return None."""
        try:
            self._process = await self._spawn()
        except OSError as error:
            self.error = f"the indexer cannot be started: {error.strerror or error}"
            return None
        # `finish` was called while no process ran: the new one is to finish at once.
        if self._is_finishing:
            _close_input(self._process)
        return self._process

    async def _supervise(self, process: asyncio.subprocess.Process | None) -> None:
        """Read the indexer's reports, and start another process when it dies, until one has finished."""
        loop = asyncio.get_running_loop()
        wait_s, tries = FIRST_WAIT_S, 0
        while True:
            began = loop.time()
            if process is None:
                why = self.error
            else:
                why = await self._read_reports(process)
                status = await process.wait()
                # Status 0 without a request to finish is a death too: the crawl still commits pages.
                if self._is_finishing and status == 0:
                    self.error = ""
                    return
                self.deaths += 1
                why = why or f"the indexer exited with {_exit_reason(status)}"
            was_stable = loop.time() - began >= LONGEST_WAIT_S
            if was_stable or (self._is_finishing and not tries):  # the crawl waits for the end now
                wait_s = FIRST_WAIT_S
            tries += self._is_finishing
            if tries >= FINISH_TRIES:
                self.error = f"{why}; `teia audit index` lists the missing pages, and the next crawl will index them"
                return
            self.error = why
            logger.warning("%s; restarting it in %.1f s", why, wait_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    # A request to finish ends the wait early; after it, each further wait takes its full time.
                    await (asyncio.sleep(wait_s) if self._is_finishing else self._finish_requested.wait())
            wait_s = min(LONGEST_WAIT_S, 2 * wait_s)
            process = await self._try_spawn()

    async def _read_reports(self, process: asyncio.subprocess.Process) -> str:
        """Read an indexer's reports until it ends; return the error it reported last, or an empty text."""
        assert process.stdout is not None
        why = ""
        while line := await process.stdout.readline():
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
            _close_input(self._process)
        # Shielded: a caller that is cancelled must not end the supervision; `kill` does that.
        await asyncio.shield(self._supervision)

    async def kill(self) -> None:
        """Kill the indexer now, if it has not ended."""
        if self._supervision is not None:
            self._supervision.cancel()
            await asyncio.gather(self._supervision, return_exceptions=True)
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


def _close_input(process: asyncio.subprocess.Process) -> None:
    """Request an indexer to finish, by closing its standard input."""
    assert process.stdin is not None
    process.stdin.close()


def _exit_reason(status: int) -> str:
    if status >= 0:
        return f"status {status}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"
