"""The browser's process: Chromium, started in isolation, watched, and ended.

It has no network of its own. Every request of a page is paused and answered by teia's crawler (page.py). Should one
ever escape that, three layers of isolation are behind it:

1. a network namespace without any interface, where the machine lets this user make one (`unshare`);
2. a resolver that knows no name, and a proxy at an address where nothing listens;
3. no background work: no updates, no safe browsing, no reports, no prefetching.

It talks to its parent by two inherited pipes and opens no port. Its data folder is empty and temporary. Each page has a
browser context of its own, and so a process of its own. The sandbox of its pages' processes is on, except where the
machine does not allow it: root cannot have it, so a browser that root starts runs as `nobody`.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import pwd
import shutil
import signal
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Self

from teia.errors import TeiaError
from teia.lib.child_process import DEVNULL, PIPE, ChildProcess, succeeds
from teia.lib.scratch import ScratchFolder
from teia.render.devtools import BrowserGone, CommandFailed, DevTools

FOLDER = "teia-browser-"
START_S = 30.0
END_S = 5.0
WATCH_S, LIST_EVERY = 0.1, 5
LOW_PRIORITY = 10
"""Pages as received come first: a browser would take the time of the crawler and its parse children."""


_OFF = (
    "Translate", "OptimizationHints", "MediaRouter", "DialMediaRouteProvider", "NetworkPrediction",
    "AutofillServerCommunication", "CertificateTransparencyComponentUpdater", "InterestFeedContentSuggestions",
)  # fmt: skip
_FLAGS = (
    "--headless", "--remote-debugging-pipe", "--disable-gpu", "--mute-audio", "--hide-scrollbars", "--no-first-run",
    "--no-default-browser-check", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-default-apps", "--disable-extensions", "--disable-domain-reliability", "--disable-breakpad",
    "--disable-crash-reporter", "--disable-client-side-phishing-detection", "--disable-field-trial-config",
    "--disable-dev-shm-usage", "--disable-popup-blocking", "--block-new-web-contents", "--no-pings",
    "--dns-prefetch-disable", f"--disable-features={','.join(_OFF)}", "--disable-site-isolation-trials",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp", "--force-webrtc-ip-handling-policy",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=http://127.0.0.1:9", "--proxy-bypass-list=<-loopback>",
    "--window-size=1280,1600", "--password-store=basic", "--use-mock-keychain",
)  # fmt: skip


class NoBrowser(TeiaError):
    """No browser is installed, or it cannot be started."""


@dataclass(frozen=True, slots=True)
class BrowserLimits:
    """Memory of one process of the browser, and of its scripts' heap."""

    memory_bytes: int = 2**30


@dataclass(frozen=True, slots=True)
class Isolation:
    """The isolation that this machine allows: the start of a command, the user it runs as, and its sandbox."""

    prefix: tuple[str, ...]
    user: int | None
    has_sandbox: bool
    has_namespace: bool


@lru_cache(maxsize=1)
def find_isolation() -> Isolation:
    """Try what this machine allows; each try is a process of some milliseconds."""
    is_root = os.geteuid() == 0
    prefix: tuple[str, ...] = ("unshare", "--net", "--pid", "--fork", "--kill-child")
    if not is_root:
        prefix = ("unshare", "--user", "--map-current-user", *prefix[1:])
    if not succeeds((*prefix, "true")):
        prefix = ()
    has_namespace = bool(prefix)
    # A crawler that is killed must not leave a browser behind. Each process of the prefix ends with the one before it.
    with_parent = ("setpriv", "--pdeathsig", "KILL")
    if succeeds((*with_parent, *prefix, "true")):
        prefix = (*with_parent, *prefix)
    user = None
    if is_root and shutil.which("setpriv"):
        with suppress(KeyError):
            entry = pwd.getpwnam("nobody")
            # A change of the user undoes what was to happen at the end of the parent.
            drop = (*with_parent, f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups")
            # Its sandbox needs a user namespace of its own.
            if succeeds((*prefix, *drop, "unshare", "--user", "--map-current-user", "true")):
                return Isolation((*prefix, *drop), entry.pw_uid, has_sandbox=True, has_namespace=has_namespace)
            if succeeds((*prefix, *drop, "true")):
                return Isolation((*prefix, *drop), entry.pw_uid, has_sandbox=False, has_namespace=has_namespace)
    has_sandbox = not is_root and succeeds(("unshare", "--user", "--map-current-user", "true"))
    return Isolation(prefix, user, has_sandbox, has_namespace)


def _temporary_folder(isolation: Isolation) -> str | None:
    """Return where the browser's folder is made: the usual place, or one that its user can reach; None: the usual."""
    if isolation.user is None:
        return None
    places = (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp"))  # noqa: S108  # only the folder's parent
    for place in places:
        with suppress(OSError):
            if all(each.stat().st_mode & 0o001 for each in (place, *place.parents)):
                return str(place)
    return None


class Browser:
    """A running browser; an async context manager. NoBrowser if it does not start."""

    def __init__(self, program: str, limits: BrowserLimits) -> None:
        self._program, self._limits = program, limits
        self._folder: ScratchFolder | None = None
        self._process: ChildProcess | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._input: asyncio.ReadTransport | None = None
        self.pages = 0
        """Number of pages that are open."""
        self.killed_for_memory = 0
        """Number of processes that were killed because they took too much memory."""

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.status is None and not self.devtools.closed.done()

    async def _start(self) -> None:
        try:
            await self._start_process()
            async with asyncio.timeout(START_S):
                await self.devtools.send("Browser.getVersion")
        except (OSError, TimeoutError, BrowserGone, CommandFailed) as error:
            raise NoBrowser(f"{self._program} does not start: {str(error) or type(error).__name__}") from error
        self._watcher = asyncio.create_task(self._watch_memory())

    async def _start_process(self) -> None:
        isolation = await asyncio.to_thread(find_isolation)
        parent = _temporary_folder(isolation)
        self._folder = await asyncio.to_thread(ScratchFolder, FOLDER, parent)
        folder = str(self._folder.path)
        if isolation.user is not None:
            os.chown(folder, isolation.user, -1)
        heap_mb = max(64, self._limits.memory_bytes // 2**20 // 2)
        command = [
            # The pipes come as standard input and output, and the browser expects them as 3 and 4.
            "sh", "-c", 'exec "$@" 3<&0 4>&1 0</dev/null 1>/dev/null', "sh",
            *isolation.prefix, self._program, *_FLAGS, f"--user-data-dir={folder}",
            f"--js-flags=--max-old-space-size={heap_mb}", *(() if isolation.has_sandbox else ("--no-sandbox",)),
        ]  # fmt: skip
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8"}
        self._process = ChildProcess(
            command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, own_session=True, env=environment, nice=LOW_PRIORITY
        )
        self.devtools = DevTools()
        self._input = await self._process.connect_output(lambda: self.devtools)
        self.devtools.attach(await self._process.connect_input())

    async def _end(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
        if self._process is not None:
            self.devtools.close()
            if self._input is not None:
                self._input.close()
            self._process.close_input()
            # Its children end when it does; with a namespace of processes, the kernel ends them.
            for pid in _descendants(self._process.pid):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            await self._process.end_async()
        if self._folder is not None:
            await asyncio.to_thread(self._folder.close)

    async def _watch_memory(self) -> None:
        """Kill the process of a page that takes too much memory; the browser reports its page as crashed."""
        processes: list[int] = []
        for count in itertools.count():
            await asyncio.sleep(WATCH_S)
            if not self.pages:
                continue
            # To list all processes takes longer than to look at each.
            processes = processes if count % LIST_EVERY else _descendants(self.pid)
            for pid in processes:
                if resident_bytes(pid) > self._limits.memory_bytes:
                    self.killed_for_memory += 1
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)


def resident_bytes(pid: int) -> int:
    """Return the memory that a process takes; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _descendants(pid: int) -> list[int]:
    """Return all processes below one, by the kernel's lists of children."""
    found, wave = [], [pid]
    while wave:
        children: list[int] = []
        for each in wave:
            # Only the first thread of each starts processes here; `task/*/children` has all.
            for file in Path(f"/proc/{each}/task").glob("*/children"):
                with suppress(OSError):
                    children += map(int, file.read_text().split())
        found += children
        wave = children
    return found
