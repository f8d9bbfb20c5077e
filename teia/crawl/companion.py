"""The indexer beside a crawl, as the crawl sees it: started, listened to, let finish or left.

What it has not indexed when it is left is indexed next time, by whoever runs next.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Collection, Sequence
from typing import Self

from teia.config import Config
from teia.store.root import Root

MODULE = "teia.crawl.indexing"
MAX_LINE_BYTES = 65_536


class Companion:
    """An indexer process. `indexed` is how many pages each collection's index holds, `behind` how many wait."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._listening = asyncio.get_running_loop().create_task(self._listen())
        self.indexed: dict[str, int] = {}
        self.behind = 0
        self.error = ""

    @classmethod
    async def start(cls, root: Root, configs: Sequence[Config], cells: Collection[int] | None = None) -> Self | None:
        """Start one for the collections that want an index; None if none does. A node says which `cells` it keeps.

        It has a process group of its own: a Ctrl-C is for the crawl, which decides what becomes of it. A session of its
        own would undo its low priority, for Linux shares the processors out between sessions first (autogroup).
        """
        names = [config.collection.name for config in configs if config.index.enabled]
        if not names:
            return None
        some = [] if cells is None else ["--cells", ",".join(map(str, sorted(cells)))]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", MODULE, *some, str(os.getpid()), str(root.path), *names,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=MAX_LINE_BYTES,
            preexec_fn=os.setpgrp,
        )  # fmt: skip
        return cls(process)

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            with contextlib.suppress(ValueError):
                said = json.loads(line)
                self.indexed.update(said.get("indexed", {}))
                self.behind, self.error = said.get("behind", self.behind), said.get("error", self.error)

    async def finish(self) -> None:
        """Let it index what is left, and wait for that."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._listening
        status = await self._process.wait()
        if status and not self.error:
            self.error = f"the indexer ended with status {status}; `teia audit index` says what is missing"

    async def leave(self) -> None:
        """End it now, if it has not ended."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        self._listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._listening
