"""Main part of `teia crawl` for collections with a schedule: coordinator, display, signals and summary."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import asdict
from typing import Any

import typer
import uvloop

from teia.cli.exits import FAILED, INTERRUPTED
from teia.cli.output import print_json, progress_console
from teia.cli.progress import print_summary, show_progress
from teia.clock import Clock, WallClock
from teia.collections.account import empty_summary, with_index
from teia.collections.controllers import CollectionController
from teia.collections.coordinator import Coordinator
from teia.collections.index_state import read_index_state
from teia.collections.overview import schedule_keys
from teia.collections.resident import StandingCommandFollower
from teia.collections.scheduled_runs import EndReason
from teia.config.sections import Config
from teia.crawler.loop import Crawler
from teia.errors import StoreError
from teia.indexer.keep_process import IndexerProcess
from teia.notify.keep_process import NotifierSupervisor
from teia.parse.children.spawn import ZygoteProcess
from teia.store.root import Root
from teia.transfer.read_all import audit_fetch_log, idle_account

Names = Callable[[], Sequence[str]]
Read = Callable[[str], Config]
STORED_COUNTS = ("urls_known", "urls_queued", "captures", "indexed")
ORPHAN_S = 600.0
"""Time that a resident crawler continues after its server is gone; the next server starts another."""


def serve_and_report(
    root: Root,
    names: Names,
    read: Read,
    as_json: bool,
    zygote: ZygoteProcess | None,
    *,
    run_now: bool = False,
    is_resident: bool = False,
) -> None:
    """Serve the schedules of some collections until they are over or the user stops them; then report."""
    coordinator, interrupted = uvloop.run(_serve(root, names, read, zygote, run_now, is_resident))
    if is_resident:
        return
    accounts = [account_of(root, controller) for controller in coordinator.controllers.values()]
    for account in accounts:
        print_summary(account, progress_console())
    if as_json:
        print_json(accounts[0] if len(accounts) == 1 else {"collections": accounts})
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if coordinator.config_errors or any(controller.parked for controller in coordinator.controllers.values()):
        raise typer.Exit(FAILED)  # the error was printed when it was found


async def _serve(
    root: Root, names: Names, read: Read, zygote: ZygoteProcess | None, run_now: bool, is_resident: bool
) -> tuple[Coordinator, bool]:
    """Run the coordinator with a live display; return it, and whether Ctrl-C ended it."""
    clock, console, signals = WallClock(), progress_console(), list[int]()
    display_and_indexer = _DisplayAndIndexer(root, clock, is_shown=not is_resident)
    notifier = None if is_resident else NotifierSupervisor(root, clock)  # a server has its own

    def report(line: str) -> None:
        console.print(line, soft_wrap=True, markup=False)

    options: dict[str, Any] = {
        "run_now": run_now,
        "shift_context": display_and_indexer.shift_context,
        "report": report,
        "zygote": zygote,
    }
    if is_resident:
        options["follow"] = StandingCommandFollower
    coordinator = Coordinator(root, names, read, clock, **options)
    if is_resident:
        _stop_without_server(coordinator)

    def on_signal(number: int) -> None:
        signals.append(number)
        # The first signal stops cleanly; the second does not wait for requests under way.
        if len(signals) == 1:
            coordinator.stop()
        else:
            coordinator.stop_now()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    if notifier is not None:
        notifier.start()
    try:
        await coordinator.serve()
        await display_and_indexer.finish(is_hurried=bool(signals))
    finally:
        await display_and_indexer.leave()
        if notifier is not None:
            await asyncio.to_thread(notifier.stop, is_hurried=bool(signals))
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
    return coordinator, signal.SIGINT in signals


def _stop_without_server(coordinator: Coordinator) -> None:
    """Stop the coordinator some time after the server is gone, which holds the other end of standard input."""
    loop = asyncio.get_running_loop()

    def check_input() -> None:
        # An empty read is the end of the pipe: the server has ended or was killed.
        if not os.read(0, 4_096):
            loop.remove_reader(0)
            loop.call_later(ORPHAN_S, coordinator.stop)

    # Started by hand in a terminal, or by a service manager with no input: there is no server to watch.
    if not os.isatty(0):
        with suppress(PermissionError):  # of epoll, for /dev/null and other files
            loop.add_reader(0, check_input)


class _DisplayAndIndexer:
    """Display and indexer beside a shift; the indexer may take longer than the shift.

    An indexer that still runs when the next shift begins is killed, and the next one continues from there.
    """

    def __init__(self, root: Root, clock: Clock, *, is_shown: bool = True) -> None:
        self._root, self._clock, self._is_shown = root, clock, is_shown
        self._indexer: IndexerProcess | None = None
        self._finishing: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def shift_context(self, crawler: Crawler, configs: Sequence[Config]) -> AsyncIterator[None]:
        # The indexer of the shift before may still be at work; two must not write one index.
        await self.leave()
        self._indexer = await IndexerProcess.start(self._root, configs)
        shown = [show_progress(crawler, self._clock, progress_console())] if self._is_shown else []
        displays = [asyncio.create_task(each) for each in shown]
        try:
            yield
        finally:
            for display in displays:
                display.cancel()
            await asyncio.gather(*displays, return_exceptions=True)
            if self._indexer is not None:
                # Not awaited: the next shift may begin before the index is complete.
                self._finishing = asyncio.create_task(self._indexer.finish())

    async def finish(self, *, is_hurried: bool) -> None:
        """Wait for the index, unless the user wants to leave."""
        if self._finishing is not None and not is_hurried:
            with progress_console().status("indexing"):
                await asyncio.wait([self._finishing])

    async def leave(self) -> None:
        indexer, self._indexer = self._indexer, None
        if self._finishing is not None:
            self._finishing.cancel()
            await asyncio.gather(self._finishing, return_exceptions=True)
        if indexer is not None:
            await indexer.kill()


def account_of(root: Root, controller: CollectionController) -> dict[str, Any]:
    """Return the result of a collection's runs, under the keys of a crawl's summary."""
    if controller.summary is None:  # no run was due
        account = asdict(empty_summary(controller.name))
        with suppress(StoreError):  # a collection that is parked or new may have no file that can be read
            stored = idle_account(root, controller.name)
            account |= {key: stored[key] for key in STORED_COUNTS}
    else:
        violations, summary = 0, controller.summary
        with nullcontext() if not controller.parked else suppress(StoreError):  # a parked collection may be unreadable
            violations = audit_fetch_log(root, controller.name, controller.config.courtesy).violations
            if controller.config.index.enabled:
                summary = with_index(summary, read_index_state(root.collection(controller.name)))
        account = {**asdict(summary), "politeness_violations": violations}
    # A run that is not over is continued by the next crawler.
    account["state"] = "stopped"
    account["paused_why"] = controller.parked
    if controller.is_over:
        was_cut = controller.run is not None and controller.run.why in {EndReason.DEADLINE, EndReason.LIMIT}
        account["state"] = "limit" if was_cut else "finished"
    return {**account, **schedule_keys(root, controller.name, WallClock())}
