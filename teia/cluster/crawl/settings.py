"""Commands and changes of settings while a cluster crawls: given to any node's folder, agreed on by all nodes.

`teia add`, `block`, `set`, `pause`, `resume` and `stop` write into `control.sqlite` of the folder they are given, as on
one machine. The node that runs there writes them into the collection's agreement (agreement.py), on condition that no
other node changed it meanwhile. Every node reads the agreement when it is nudged, and once in T. So one change is made
once, by all, also by nodes that were away. Settings that a running crawl can apply are applied; for others the node's
shift ends and the next one begins with them.

A pause holds until it is taken back, also for nodes that come later. A stop makes the present nodes leave; nodes that
are started afterwards continue.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from teia.clock import Clock
from teia.cluster.cells.log import MAX_CELLS
from teia.cluster.crawl.shared_aliases import SharedAliases
from teia.cluster.crawl.url_requests import ClusterRequests
from teia.cluster.members.agreement import (
    Agreement,
    amend_agreement,
    current_agreement,
    nudge,
    subject_of,
    write_settings,
)
from teia.cluster.members.shared_files import (
    TOPIC,
    check_shared,
    fetch_files,
    named_files,
    names_of_copies,
    remove_unused_copies,
    share_files,
    topic_settings,
    without_lists,
)
from teia.cluster.nats.thread import LoopThread
from teia.cluster.nats.wire import NoAnswer, Wire
from teia.collections.account import SeriesWriter
from teia.collections.control_file import ACCOUNT_S, Inbox, RequestAnswer
from teia.collections.poll_requests import (
    POLL_S,
    OpenCrawl,
    UrlActions,
    announce,
    drop_stale_requests,
    poll_requests,
    write_account,
)
from teia.collections.settings import LIVE, apply_edits, changed_keys, check, check_excluded
from teia.config.load import to_toml
from teia.config.sections import Config
from teia.crawler.compiled_settings import compile_settings
from teia.crawler.running_collection import Crawl, CrawlState
from teia.crawler.upkeep.removal import remove_from_closed
from teia.errors import ConfigError, DiskFull, TeiaError
from teia.frontier.rules.scope import list_of
from teia.lib.message import Message, encoded
from teia.records import Command, Edit, RemovedPages
from teia.store.root import Root

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

    from teia.crawler.loop import Crawler

PAUSED_BY_COMMAND = Message("asked to")
CHANGE_S = 0.5
"""Longest time for which a change of settings delays commands; it goes on in the background."""

_log = logging.getLogger(__name__)


class CommandReceiver:
    """One node's receiver of commands for its collection; `config` are the present settings of the cluster."""

    def __init__(
        self, root: Root, shared: str, agreement: Agreement, config: Config, wire: Wire, thread: LoopThread,
        clock: Clock, stop: Callable[[], None], once: bool = False,
        own_settings: Callable[[Config], Config] = lambda config: config,
    ) -> None:  # fmt: skip
        """Receive commands; `own_settings` replaces agreed settings by those that this node has of its own."""
        self.agreement = agreement
        self.starts = agreement.starts
        """The first slot of each cell, as agreed on."""
        self.config = config
        folder = root.collection(config.collection.name)
        self.requests = ClusterRequests(folder, shared, wire, thread, clock, lambda: self.agreement, self.amend)
        """Requests about URLs; it knows the crawl that is open now, whose counts are reported."""
        self._aliases = SharedAliases(shared, wire, thread, clock)
        self._root = root
        self._name = config.collection.name
        self._shared = shared
        self._wire = wire
        self._thread = thread
        self._clock = clock
        self._stop = stop
        self._once, self._own_settings = once, own_settings
        drop_stale_requests(root, clock)
        self._began = clock.ticks_s()
        self._nudged = False
        self._stops = agreement.stops
        self.applied = agreement
        """The agreement whose settings are in use."""
        self._changing: tuple[Sequence[Edit], asyncio.Task[RequestAnswer]] | None = None
        """The edits that this node is applying to the agreement."""

    # -- receiving commands --------------------------------------------------------------------------------

    async def serve(self, poll_s: float) -> None:
        """Receive commands to this folder and changes of the agreement, until cancelled."""
        inbox = Inbox(self._root.control)
        series, report_at, check_at = SeriesWriter(inbox), 0.0, 0.0
        subscriptions: list[Subscription] = []
        try:
            await announce(inbox, self._name, self._clock)
            while True:
                now = self._clock.ticks_s()
                try:
                    # Tried again until NATS is there.
                    subscriptions = subscriptions or await self._thread.call(self._subscribe())
                    await poll_requests(inbox, self, self._clock)
                    await self.requests.exchange()
                    here = self.requests.here
                    await self._aliases.exchange(None if here is None else here.crawl.committer.aliases)
                    if self._nudged or now >= check_at:
                        self._nudged, check_at = False, now + poll_s
                        await self._read_agreement()
                except TeiaError as error:
                    _log.warning("settings not agreed: %s", error)
                except Exception as error:  # noqa: BLE001  # a node that cannot be paused or stopped is worse
                    _log.warning("commands not received: %r", error)
                    await self._clock.sleep(ACCOUNT_S)
                if now >= report_at and self.requests.here is not None:
                    report_at = now + ACCOUNT_S
                    try:
                        write_account(inbox, series, self.requests.here.crawl, self._clock, now - self._began)
                    except Exception as error:  # noqa: BLE001
                        _log.warning("status not reported: %r", error)
                await self._clock.sleep(POLL_S)
        finally:
            if self._changing is not None:
                self._changing[1].cancel()
                await asyncio.gather(self._changing[1], return_exceptions=True)
            with contextlib.suppress(DiskFull):
                if self.requests.here is not None:
                    series.note_run(self.requests.here.crawl, self._clock.now_s())
                inbox.end(self._name)
            inbox.close()
            for subscription in subscriptions:
                with contextlib.suppress(Exception):
                    await self._thread.call(subscription.unsubscribe())

    async def _subscribe(self) -> list[Subscription]:
        """Subscribe to changes of the agreement, to requests about URLs and to aliases; in the cluster's thread."""
        subscribing = self._wire.client.subscribe(subject_of(self._shared), cb=self._on_nudge)
        return [
            await self._wire.request(subscribing), *await self.requests.subscribe(), await self._aliases.subscribe()
        ]  # fmt: skip

    async def _on_nudge(self, _: Msg) -> None:
        self._nudged = True

    def open_crawl(self, name: str) -> UrlActions | None:
        return self.requests if name == self._name else None

    async def run_bulk_offline(self, name: str) -> None:
        """Leave the actions on other collections of the folder to a process that serves them."""

    async def remove_offline(self, name: str, rules: tuple[str, ...]) -> RemovedPages | None:
        """Remove pages from another collection of the folder, whose lock this process holds."""
        return await asyncio.to_thread(remove_from_closed, self._root.collection(name), rules, self._clock)

    async def execute(self, name: str, command: Command) -> bool:
        """Write a command into the agreement; it is acknowledged once it is agreed on."""
        if name == self._name:
            await self.amend(lambda now: _with_command(now, command))
        return name == self._name

    async def change(self, name: str, edits: Sequence[Edit]) -> RequestAnswer | None:
        """Apply edits to the agreement; return the answer."""
        if name != self._name:
            return None
        # In a task of its own: to read large files, or to learn a topic, takes longer than commands may wait. The inbox
        # repeats the request until it is answered, and holds later changes back meanwhile.
        if self._changing is None or (self._changing[0] != edits and self._changing[1].done()):
            self._changing = (edits, asyncio.get_running_loop().create_task(self._change(edits)))
        changed, task = self._changing
        await asyncio.wait({task}, timeout=CHANGE_S)
        if changed != edits or not task.done():
            return None
        self._changing = None
        return task.result()

    async def _change(self, edits: Sequence[Edit]) -> RequestAnswer:
        try:
            edits, files = await self._thread.call(
                share_new_files(self._wire, self._clock, self._shared, self.agreement, self._root, edits)
            )
            await self.amend(lambda now: amend_settings(now, edits, files, once=self._once))
        except NoAnswer:
            raise
        except TeiaError as error:
            return RequestAnswer(error=encoded(error.message))
        return RequestAnswer(now=tuple(edit.key for edit in edits))

    async def end(self, why: str) -> None:
        """Let all nodes leave, because a limit of the collection is reached.

        Written once, even if several nodes notice.
        """
        # The present number: of several nodes that notice the limit, one write counts.
        stops = self._stops

        def ended(now: Agreement) -> Agreement:
            return msgspec.structs.replace(now, stops=now.stops + 1, ended=why) if now.stops == stops else now

        with contextlib.suppress(NoAnswer):
            await self.amend(ended)

    async def amend(self, change: Callable[[Agreement], Agreement]) -> None:
        """Change the agreement, and apply it here."""
        agreement = await self._thread.call(
            amend_agreement(self._wire, self._clock, self._shared, change, self.agreement.replicas)
        )
        try:
            await self._adopt(agreement)
        except TeiaError as error:  # it is agreed on all the same; to repeat it might be to stop twice
            _log.warning("agreed, applied here later: %s", error)
        await self._thread.call(nudge(self._wire, self._shared))

    async def _read_agreement(self) -> None:
        with contextlib.suppress(NoAnswer):
            await self._adopt(
                await self._thread.call(
                    current_agreement(self._wire, self._clock, self._shared, self.agreement.replicas)
                )
            )

    async def _adopt(self, agreement: Agreement) -> None:
        """Apply an agreement if it is newer: commands at once, settings when the files that they name are here.

        So a node can be stopped and paused though a file cannot be fetched, or the disk is full.
        """
        if agreement.edition > self.agreement.edition:
            self.agreement, self.starts = agreement, agreement.starts
            _log.info("agreed edition=%d paused=%s", agreement.edition, agreement.paused)
            if agreement.stops > self._stops:
                self._stops = agreement.stops
                if agreement.ended:
                    _log.warning("command to leave: %s", agreement.ended)
                self._stop()
        if agreement.files and self._lacks_settings(agreement):
            folder, replicas = self._root.collection(self._name), agreement.replicas
            await self._thread.call(
                fetch_files(self._wire, self._clock, self._shared, replicas, agreement.files, folder)
            )
        if self._lacks_settings(agreement):
            self.config = self._own_settings(write_settings(self._root, agreement))
            self.applied = agreement  # last: if they could not be written, the next look tries again
            folder, here = self._root.collection(self._name), self.requests.here
            remove_unused_copies(folder, agreement.files, None if here is None else here.crawl.config)

    def _lacks_settings(self, agreement: Agreement) -> bool:
        """Tell whether an agreement is the newest one that was read, and its settings are not in use yet."""
        return agreement.edition >= self.agreement.edition and agreement.edition > self.applied.edition

    # -- applying the agreement to the crawl ---------------------------------------------------------------

    def open(self, crawler: Crawler, crawl: Crawl) -> None:
        """Register a crawl that begins."""
        self.requests.here = OpenCrawl(crawler, crawl)
        self._apply_pause(crawler, crawl)

    def _apply_pause(self, crawler: Crawler, crawl: Crawl) -> None:
        if self.agreement.paused and crawl.state is CrawlState.RUNNING:
            crawler.apply_commands([Command.PAUSE], crawl)
        elif not self.agreement.paused and crawl.paused_why == PAUSED_BY_COMMAND:
            crawler.apply_commands([Command.RESUME], crawl)

    async def apply(self, crawler: Crawler, crawl: Crawl) -> bool:
        """Apply the agreement to a running crawl; False if that takes a new shift."""
        self._apply_pause(crawler, crawl)
        config = self.config
        keys = set(changed_keys(crawl.config, config))
        if config.schedule.start:  # then its runs decide whether pages are kept fresh (runs.py)
            keys.discard("refresh.keep")
        if not keys:
            return True
        if not keys <= LIVE:
            return False
        try:
            compiled = await asyncio.to_thread(compile_settings, config, self._root.collection(self._name).lists)
        except TeiaError as error:
            _log.warning("settings not applied: %s", error)
            return True
        crawler.reconfigure(crawl, compiled)
        return True


def amend_settings(
    now: Agreement, edits: Sequence[Edit], files: Mapping[str, str] | None = None, *, once: bool = False
) -> Agreement:
    """Return the agreement with other settings; refuse those that a cluster does not support.

    `files` are those that were shared for these edits (`share_new_files`).
    """
    after = apply_edits(now.config, edits)
    check(without_lists(after))
    check_supported(after, once=once)
    return msgspec.structs.replace(
        now, settings=to_toml(after), files=check_shared(after, {**now.files, **(files or {})})
    )


async def share_new_files(
    wire: Wire, clock: Clock, shared: str, now: Agreement, root: Root, edits: Sequence[Edit]
) -> tuple[list[Edit], dict[str, str]]:
    """Share the files of this machine that edits name, also again: they may have changed.

    A rule that is to be removed must be there: only here it is known which rule a copy is of.
    Returns the edits, in which a rule that names a copy in this node's folder is the one agreed on, and the files.
    """
    given = {edit.key for edit in edits}.union(*(_values(edit) for edit in edits))
    copies = names_of_copies(now.files, root.collection(now.config.collection.name))
    edits = [_with_names(edit, copies) for edit in edits]
    paths = {name: list_of(copy) for copy, name in copies.items()}

    def path_if_here(rule: str) -> str:
        path = paths.get(rule, "")
        return path if path and Path(path).exists() else ""

    await asyncio.to_thread(check_excluded, now.config.scope.exclude, edits, path_if_here)
    after = apply_edits(now.config, edits)
    if topic_settings(after.focus) != topic_settings(now.config.focus):  # else it is learnt once, as on one machine
        given.add(TOPIC)
    names = [name for name in named_files(after) if name in given or name not in now.files]
    return edits, await share_files(wire, clock, shared, now.replicas, root, after, names)


def _values(edit: Edit) -> set[str]:
    return {
        item
        for item in (edit.value if isinstance(edit.value, (list, tuple)) else [edit.value])
        if isinstance(item, str)
    }


def _with_names(edit: Edit, names: Mapping[str, str]) -> Edit:
    """Return an edit in which rules that name copies in this node's folder are those agreed on."""
    if isinstance(edit.value, (list, tuple)):
        return Edit(edit.key, edit.operator, [names.get(item, item) for item in edit.value])
    return Edit(edit.key, edit.operator, names.get(edit.value, edit.value)) if isinstance(edit.value, str) else edit


def _with_command(now: Agreement, command: Command) -> Agreement:
    if command is Command.STOP:
        return msgspec.structs.replace(now, stops=now.stops + 1, ended="")
    return msgspec.structs.replace(now, paused=command is Command.PAUSE)


# ---- settings that a cluster does not support ------------------------------------------------------------------------
#
# One that is neither here nor in the table of docs/cluster.md has the same effect as on one machine.


def check_supported(config: Config, *, once: bool = False) -> None:
    """Refuse settings that a cluster does not support; `once` is a node that leaves when nothing is left to do."""
    for key, why in _unsupported(config).items():
        raise ConfigError(
            f"{key}: not supported in a cluster: {why}; crawl the collection on one machine, or change the setting"
        )
    if once and config.refresh.keep:
        raise ConfigError("--once: a crawl that keeps pages fresh does not end (refresh.keep)")
    if once and config.schedule.start:
        raise ConfigError("--once: a crawl with a schedule does not end (schedule.start)")


def _unsupported(config: Config) -> dict[str, str]:
    """Return the settings that are refused, and the reasons."""
    wrong = {
        "collection.cells": config.collection.cells > MAX_CELLS and f"at most {MAX_CELLS} cells are possible",
    }
    return {key: why for key, why in wrong.items() if why}


def ignored_settings(config: Config) -> list[str]:
    """Return the settings that a cluster ignores, for the first lines of a node's log."""
    ignored = {
        "index.semantics": config.index.semantics and "no semantic model is trained",
        "refresh.weights": config.refresh.weights == "hits" and "each node uses the hits.txt of its own folder",
        "parse.processors": config.parse.processors and "they must be installed on every node",
    }
    return [f"{key}: {why}" for key, why in ignored.items() if why]
