"""A node of a cluster: it joins, owns cells, crawls them, leaves.

There are two loops. The cluster's own thread renews the session, looks after cells and listens for links. The main loop
crawls, with the same crawler as one machine. The crawler is opened for the cells that are owned and closed when they
change (*shifts*, as in the coordinator): a cell was taken, another node should have one, one was lost. Closing lets
requests under way end and commits them, so a cell is always handed over complete, and the crawler itself need not
handle cells that come and go.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import uvloop

from teia.clock import Clock
from teia.cluster.cells.copies import CellCopies
from teia.cluster.cells.log import CellLog, CellLost, create_stream
from teia.cluster.cells.open_cells import prepare_cells
from teia.cluster.cells.owner import FIRST_WAIT_S, RANK_WAIT_S, CellOwner
from teia.cluster.cells.removal import ClusterRemovals
from teia.cluster.cells.ship_archive import ArchiveTransfers
from teia.cluster.cells.site_homes import SiteHomes
from teia.cluster.cells.snapshots import CannotRestore, Snapshots
from teia.cluster.cells.split import Splitter
from teia.cluster.cells.upkeep import Upkeep
from teia.cluster.crawl.agent_events import AgentEvents, members
from teia.cluster.crawl.commit import DIRECT_FORMAT, CellExchange
from teia.cluster.crawl.limits import LimitShares, limit_reached, report_kept, spending_of
from teia.cluster.crawl.ownership import open_owned, ownership_of, receive_links
from teia.cluster.crawl.runs import BetweenRuns, ClusterSchedule, ClusterTask, FinishedCheck
from teia.cluster.crawl.settings import CommandReceiver, check_supported, ignored_settings
from teia.cluster.crawl.shared_addresses import AddressLeases
from teia.cluster.crawl.signals import SignalExchange
from teia.cluster.members.agreement import Agreement, agree, agree_on_pace, write_settings
from teia.cluster.members.join import join
from teia.cluster.members.session import NodeSession, NodeState, Pace
from teia.cluster.members.shared_files import fetch_files, remove_unused_copies
from teia.cluster.nats.objects import Objects, open_objects
from teia.cluster.nats.thread import LoopThread
from teia.cluster.nats.wire import NoAnswer, Wire, connect
from teia.cluster.placing.balance import state_after
from teia.cluster.placing.balancer import Balancer
from teia.cluster.placing.cell_owners import CircleOrder, OwnerOverrides, why_moved
from teia.cluster.placing.landmarks import measure_landmarks
from teia.cluster.placing.site_analyzer import Analyzer
from teia.cluster.placing.site_strategies import ISOLATED, Strategy, strategy_named, with_rules
from teia.cluster.search.forget_after_split import SplitCleanup
from teia.cluster.search.messages import LibrarianSettings
from teia.cluster.search.processes import NodeIndex
from teia.cluster.views.node_file import NodeFileWriter
from teia.config.sections import Config
from teia.crawler.child import answer_reader
from teia.crawler.loop import Crawler
from teia.crawler.open_cell import ErasureStopped
from teia.crawler.own_timeouts import OwnTimeouts
from teia.crawler.running_collection import Crawl
from teia.crawler.signals_in.websub import end_subscriptions
from teia.crawler.start import open_crawler
from teia.errors import DiskFull
from teia.notify.keep_process import NotifierSupervisor
from teia.parse.children.spawn import ZygoteProcess
from teia.store.root import Root

POLL_S = 0.1
REPLICAS = 3
PURGE_S = 10.0
HUBS_S = 60.0
AWAY_S = 1.0
FULL_S = 2.0
_log = logging.getLogger(__name__)


def log_failure(work: Future[None]) -> None:
    """Log the error that ended work in the cluster's loop; nothing awaits such work."""
    if not work.cancelled() and (error := work.exception()) is not None:
        _log.error("work in the cluster's loop failed: %r", error)


def known_nodes(session: NodeSession) -> dict[str, NodeState]:
    """Return all nodes of this node's collection, also those that are down; none as long as they are unknown."""
    if session.is_lost or not session.has_watched:
        return {}
    return {name: node for name, node in session.nodes().items() if node.collection == session.node.collection}


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """The identity of a node, and the servers it connects to."""

    name: str
    servers: tuple[str, ...]
    key: Path | None
    ca: Path | None = None
    region: str = ""
    capacity: float = 1.0
    strategy: str = ""
    """Strategy for assigning sites to nodes (cluster/placing/site_strategies.py); empty: the cluster's."""
    countries: Path | None = None
    bind: str = ""
    max_hosts: int | None = None
    """Most hosts that this node crawls in parallel; None: as many as the collection's settings say."""
    session_s: float = Pace().silence_s
    """T of the cluster's sessions, if this is its first node."""

    def own_settings(self, config: Config) -> Config:
        """Return the agreed settings with the values that this node has of its own."""
        courtesy, fetch = config.courtesy, config.fetch
        return replace(
            config,
            courtesy=replace(courtesy, max_hosts=self.max_hosts or courtesy.max_hosts),
            fetch=replace(fetch, bind=self.bind or fetch.bind),
        )


class Node:
    """One node of a cluster and one collection; `run` returns after `stop` was called."""

    def __init__(
        self,
        root: Root,
        collection: str,
        settings: Config | None,
        identity: NodeIdentity,
        clock: Clock,
        *,
        once: bool = False,
    ) -> None:
        self._root = root
        self._collection = collection
        self._shared = f"{collection}={identity.name}" if identity.strategy == ISOLATED else collection
        """Name of the collection in the cluster; an isolated node shares its own with no other node."""
        self._settings = settings
        self._identity = identity
        self._strategy: Strategy | None = None
        self._clock = clock
        self._thread = LoopThread(uvloop.new_event_loop())
        self._stopping = False
        self._once = once
        self._finished = FinishedCheck(clock)
        self._crawler: Crawler | None = None
        self._own_timeouts: OwnTimeouts | None = None
        self._agents = AgentEvents(clock, identity.name)
        self._taken_at: dict[int, float] = {}
        self._objects: Objects | None = None
        self._index: NodeIndex | None = None
        self._is_hurried = False
        self._receiver: CommandReceiver | None = None
        self._starts: tuple[int, ...] = ()
        """The first slot of each cell that this node knows."""
        self._on_new_cells: Callable[[tuple[int, ...]], None] = lambda _: None
        self.shifts = 0
        self.pages = 0
        self.requests = 0
        self.messages = self.sent_bytes = 0
        self.exchange_cpu_s = 0.0

    def stop(self) -> None:
        """Finish what is under way, give the cells up, leave; called twice, do not wait for the web."""
        # A second call finds `_stopping` set.
        self._is_hurried = self._stopping
        if self._stopping and self._crawler is not None:
            self._crawler.stop_now()
        self._stopping = True

    async def run(self) -> None:
        """Be a node until `stop`. A lost session is followed by another, of a new instance."""
        with self._thread:
            call, identity = self._thread.call, self._identity
            wire = await call(connect(identity.servers, identity.key, identity.name, ca=identity.ca))
            try:
                replicas = REPLICAS if len(wire.client.servers) >= REPLICAS else 1
                self._pace = await call(agree_on_pace(wire, self._clock, identity.session_s, replicas))
                agreement = await call(
                    agree(wire, self._clock, self._shared, self._settings, replicas, identity.strategy, self._root)
                )
                check_supported(agreement.config, once=self._once)
                for each in ignored_settings(agreement.config):
                    _log.warning("not in a cluster: %s", each)
                self._strategy = strategy_named(agreement.strategy, agreement.config.placement, identity.countries)
                room = agreement.config.cluster.stream_bytes
                await call(create_stream(wire, self._clock, self._shared, agreement.replicas, room))
                folder, files = self._root.collection(self._collection), agreement.files
                await call(fetch_files(wire, self._clock, self._shared, agreement.replicas, files, folder))
                config = identity.own_settings(write_settings(self._root, agreement))
                remove_unused_copies(folder, files)
                self._make_cells(agreement, agreement.starts)
                copies = await call(self._open_copies(agreement, config))
                self._index = NodeIndex(self._root, config, self._librarian_settings(), self._clock)
                receiver = self._receiver = CommandReceiver(
                    self._root, self._shared, agreement, config, wire, self._thread, self._clock, self.stop,
                    self._once, identity.own_settings,
                )  # fmt: skip
                self._schedule = ClusterSchedule(receiver, self._thread, self._clock)
                self._removals = ClusterRemovals(
                    self._root, self._collection, self._shared, identity.name, wire, self._thread, self._clock, copies,
                    lambda: receiver.applied, lambda: self._stopping,
                )  # fmt: skip
                await self._remove_before_joining()
                serving = asyncio.get_running_loop().create_task(receiver.serve(self._pace.silence_s))
                notifier = NotifierSupervisor(self._root, self._clock)  # for hubs (WebSub)
                notifier.start()
                try:
                    while not self._stopping:
                        try:
                            await self._run_session(wire, agreement, receiver.config, copies)
                        except NoAnswer as error:
                            _log.warning("no session: %s", error)
                            await self._clock.sleep(AWAY_S)
                finally:
                    serving.cancel()
                    await asyncio.gather(serving, return_exceptions=True)
                    await asyncio.to_thread(notifier.stop, is_hurried=True)
            finally:
                self.exchange_cpu_s = self._thread.cpu_s()
                if self._index is not None:
                    await self._index.close(lambda: self._once or self._is_hurried)
                if self._objects is not None:
                    await call(self._objects.close())
                await call(wire.close())

    async def _remove_before_joining(self) -> None:
        """Remove pages from this folder whose removal was agreed on while this node was away."""
        while not self._stopping:
            try:
                return await self._thread.call(self._removals.remove_before_joining())
            except (NoAnswer, DiskFull) as error:
                _log.warning("pages not removed yet: %s", error)
                await self._clock.sleep(FULL_S)
            except ErasureStopped:
                return None
        return None

    def _librarian_settings(self) -> LibrarianSettings:
        """Return the settings of the process that answers searches here."""
        identity, data = self._identity, str(self._root.path.absolute())
        key, ca = (None if each is None else str(each.absolute()) for each in (identity.key, identity.ca))
        return LibrarianSettings(data, self._collection, self._shared, identity.name, identity.servers, key, ca)

    async def _open_copies(self, agreement: Agreement, config: Config) -> CellCopies:
        """Open this node's copies of cells, with the store of their snapshots."""
        identity = self._identity
        self._objects = await open_objects(
            config.cluster.snapshots, self._shared, self._clock, agreement.replicas,
            lambda: connect(identity.servers, identity.key, f"{identity.name} snapshots", ca=identity.ca),
        )  # fmt: skip
        folders = self._root.collection(self._collection).cells()
        if self._objects is None:
            return CellCopies(folders, self._thread)
        return CellCopies(folders, self._thread, Snapshots(self._objects, self._clock, agreement.identity))

    # -- cells that were split off others (cluster/cells/split.py) ---------------------------------------------------

    def _make_cells(self, agreement: Agreement, starts: tuple[int, ...]) -> None:
        """Create a folder for each cell, and write the first slot of each."""
        folder = self._root.collection(self._collection)
        prepare_cells(folder, len(starts), agreement.identity)
        folder.write_starts(starts)
        self._starts = starts

    async def _add_new_cells(self) -> None:
        """Create folders for cells that were split off others, if there are new ones."""
        starts = self._commands.starts
        if starts != self._starts:
            # Folders first; only then do the parts that count cells learn of them.
            await asyncio.to_thread(self._make_cells, self._commands.agreement, starts)
            self._on_new_cells(starts)
            if self._index is not None:
                await self._index.restart()

    def _announce_cells(
        self,
        order: CircleOrder,
        file_writer: NodeFileWriter,
        copies: CellCopies,
        owner: CellOwner,
        starts: tuple[int, ...],
    ) -> None:
        """Pass a larger number of cells to all parts that depend on it."""
        order.starts = file_writer.starts = starts
        copies.folders = {each.number: each for each in self._root.collection(self._collection).cells()}
        owner.cells = tuple(range(len(starts)))  # last: from here on the new cells are taken

    # -- a session -----------------------------------------------------------------------------------------

    async def _run_session(self, wire: Wire, agreement: Agreement, config: Config, copies: CellCopies) -> None:
        """Run one session: shift after shift, until it is lost or the node is stopped."""
        owners: list[CellOwner] = []

        def lose(why: str) -> None:
            _log.warning("session lost: %s", why)
            for owner in owners:
                owner.drop_all()

        call, identity = self._thread.call, self._identity
        session = await call(
            join(
                wire, self._clock, identity.name, lose, pace=self._pace, replicas=agreement.replicas,
                region=identity.region, capacity=identity.capacity, collection=self._shared,
            )
        )  # fmt: skip
        self._agents.note_join()
        try:
            await self._run_in_session(session, owners, wire, agreement, config, copies)
        finally:  # after any error: a session without an end would block the name
            with contextlib.suppress(TimeoutError):  # without NATS nothing can be given up; other nodes will notice
                # After T the others declare this node dead anyway.
                async with asyncio.timeout(self._pace.silence_s):
                    is_all_done = self._once and (session.node.is_done or session.others_report_done())
                    for owner in owners:  # if all is done the session's end releases all cells
                        if not session.is_lost and not is_all_done:
                            await call(owner.release(list(owner.owned)))
                    await call(session.leave())

    async def _run_in_session(
        self,
        session: NodeSession,
        owners: list[CellOwner],
        wire: Wire,
        agreement: Agreement,
        config: Config,
        copies: CellCopies,
    ) -> None:
        """Do the work of a session; the new `CellOwner` is added to `owners`."""
        call, identity = self._thread.call, self._identity
        starts = self._starts
        overrides = OwnerOverrides(wire, self._clock, self._shared, agreement.replicas)
        await call(overrides.read())
        order = CircleOrder(starts, lambda: overrides.ring)
        # In a cluster with short sessions nodes take over sooner.
        rank_wait_s = min(RANK_WAIT_S, self._pace.beat_s)
        owner = CellOwner(
            wire, self._clock, session, self._shared, range(len(starts)), order, rank_wait_s, FIRST_WAIT_S
        )
        owners.append(owner)
        leases = AddressLeases(self._clock, session, config.courtesy.delay_s, agreement.replicas)
        leases.key_prefix = f"{identity.name}=" if identity.strategy == ISOLATED else ""
        upkeep = Upkeep(owner, session, copies, self._objects, config.cluster, self._clock)
        splitter = self._splitter = Splitter(
            wire, self._clock, self._thread, self._shared, owner, copies, lambda: self._commands.agreement
        )
        upkeep.held, upkeep.original_cells = self._held, config.collection.cells
        # Archives may have been shipped before the setting was changed.
        transfers = upkeep.transfers or (None if self._objects is None else ArchiveTransfers(self._objects))
        self._commands.requests.known_nodes = partial(known_nodes, session)
        balancer = Balancer(session, overrides, order, config.balance, agreement.strategy, self._clock, splitter)
        works = (
            owner.run(self._note_taken), leases.run(), upkeep.run(), balancer.run(), splitter.run(),
            self._removals.run(owner, transfers),
            overrides.follow(session.wake, self._pace.beat_s),
            measure_landmarks(session, config.balance.landmarks, self._clock),
            SplitCleanup(session, owner, copies, order, config.collection.cells, self._clock).run(),
        )  # fmt: skip
        # All of these run in the cluster's thread, until the session ends.
        tasks = [asyncio.run_coroutine_threadsafe(work, self._thread.loop) for work in works]
        file_writer = NodeFileWriter(self._root, self._collection, starts, self._clock)
        file_writer.wanted_owner = lambda cell: next(iter(order(cell, session.alive())), "")
        file_writer.on_move = self._agents.note_move
        file_writer.move_reason = lambda cell, giver: why_moved(overrides.ring, cell, giver)
        self._between = BetweenRuns(self._clock)
        self._shares = LimitShares(session, lambda: owner.cells, self._clock.ticks_s())
        self._on_new_cells = partial(self._announce_cells, order, file_writer, copies, owner)
        writing = asyncio.get_running_loop().create_task(file_writer.write_forever(session))
        try:
            await self._run_shifts(session, owner, leases, upkeep)
        finally:
            # Before anything ends: no more cells are taken.
            owner.is_leaving = True
            for task in tasks:
                task.cancel()
            writing.cancel()
            self.messages += leases.messages
            self.sent_bytes += leases.sent_bytes

    async def _run_shifts(self, session: NodeSession, owner: CellOwner, leases: AddressLeases, upkeep: Upkeep) -> None:
        """Run shift after shift, as long as the session lasts and there are cells to own."""
        while not self._stopping and not session.is_lost:
            try:
                await self._add_new_cells()
                await self._check_schedule(session, owner)
                logs = upkeep.next_shift()
                is_between_runs = not self._schedule.current_task().task.needs_crawler
                if not logs or is_between_runs:
                    await self._wait(session, owner, copies=upkeep.copies if is_between_runs else None)
                    continue
                await self._shift(self._schedule.config(), session, owner, leases, upkeep, logs)
            except CellLost as error:
                _log.warning("%s", error)
                # A write to its log was refused: another node owns the cell, or its file fell behind.
                owner.owned.pop(error.cell, None)
            except CannotRestore as error:  # of one cell: the others continue
                await self._thread.call(upkeep.leave_to_others(error))
            except NoAnswer as error:  # the session continues, and so does this node when NATS is back
                _log.warning("shift ended: %s", error)
                await self._clock.sleep(AWAY_S)
            except DiskFull as error:  # here, or in NATS
                _log.warning("paused: %s", error)
                await self._clock.sleep(FULL_S)

    async def _wait(self, session: NodeSession, owner: CellOwner, copies: CellCopies | None) -> None:
        """Idle for one tick without a shift.

        Between runs, which may be long, report everything that other nodes use.
        """
        load = {"idle": float(not owner.owned)}
        if copies is None:
            session.set_report(load, {})
        else:
            await self._between.report(session, owner, copies, load)
            held = self._held()
            away = {cell: node for cell, node in owner.cells_to_hand_over().items() if cell not in held}
            if away:
                await self._thread.call(owner.release(list(away), away))
        if self._index is not None and not owner.owned:
            self._index.report_cells({})
        await self._check_finished(session, owner)
        await self._clock.sleep(POLL_S)

    def _held(self) -> set[int]:
        """Return the cells that are owned here and must not be crawled now."""
        return self._splitter.held() | self._removals.held()

    @property
    def _commands(self) -> CommandReceiver:
        assert self._receiver is not None
        return self._receiver

    def _note_taken(self, cell: int) -> None:
        self._taken_at[cell] = self._clock.ticks_s()
        self._agents.note_taken(cell)

    # -- a shift -------------------------------------------------------------------------------------------

    async def _shift(
        self, config: Config, session: NodeSession, owner: CellOwner, leases: AddressLeases, upkeep: Upkeep,
        logs: Mapping[int, CellLog],
    ) -> None:  # fmt: skip
        """Crawl some cells that are owned now, until the set of cells should change."""
        self.shifts += 1
        work = self._schedule.current_task()
        since_s = None if work.since_s is None else {self._collection: work.since_s}
        opened = partial(
            open_owned, logs=logs, starts=self._starts, thread=self._thread, may_fetch=owner.may_fetch,
            taken_at=dict(self._taken_at), leases=leases, shares=self._shares,
            analyze=partial(self._analyzer, config, session), agents=self._agents,
        )  # fmt: skip
        zygote = ZygoteProcess.start(answer_reader)  # it gets ready while the cells are brought up
        try:
            for cell, commits in (await self._thread.call(upkeep.copies.open_all(logs))).items():
                _log.info("cell=%d caught up commits=%d", cell, commits)
                self._agents.note_caught_up(cell, commits)
            # A file that was split before the agreement says so must not be opened as if it were whole.
            for cell in logs:
                await self._thread.call(self._splitter.check(upkeep.copies.folders[cell], self._starts))
            seed = int(self._clock.now_s())
            assert self._index is not None
            async with (
                self._index.shift(logs, lambda: self._stopping and self._once),
                open_crawler(self._root, [config], self._clock, seed, zygote, since_s, opened) as crawler,
            ):
                await self._crawl(crawler, session, owner, upkeep, logs, work)
        finally:
            zygote.abandon()  # first: no failure here may leave it running
            # All requests count as ended: hosts may move to other nodes now.
            leases.end_requests()
            upkeep.copies.close_all()
        # Committed and closed: these cells can go to nodes that are ready for them.
        away = {cell: node for cell, node in owner.cells_to_hand_over().items() if cell in logs}
        if not session.is_lost and not self._stopping:
            await self._thread.call(owner.release(list(away), away))

    def _analyzer(self, config: Config, session: NodeSession, homes: SiteHomes) -> Analyzer | None:
        strategy = None if self._identity.strategy == ISOLATED else with_rules(self._strategy, config.placement)
        if strategy is None:
            return None
        return Analyzer(
            strategy, config.placement, self._identity.name, session.alive, homes, self._clock,
            config.archive.requisites,
        )  # fmt: skip

    async def _crawl(
        self, crawler: Crawler, session: NodeSession, owner: CellOwner, upkeep: Upkeep, logs: Mapping[int, CellLog],
        work: ClusterTask,
    ) -> None:  # fmt: skip
        (crawl,) = crawler.crawls
        ownership = ownership_of(crawl)
        exchange = ownership.exchange
        self._crawler = crawler
        # What this machine carries was learnt in earlier shifts.
        crawler.own_timeouts = self._own_timeouts = self._own_timeouts or crawler.own_timeouts
        # The stream is read from the message after the last one merged.
        merged = {cell: exchange.last_merged(cell) for cell in logs}
        exchange.merged.update({cell: seq for cell, seq in merged.items() if seq})  # to be purged, if not yet
        _log.info("cells=%s open", ",".join(map(str, sorted(logs))))
        self._report(session, crawl)
        signals = SignalExchange(session.wire, self._clock, self._shared, exchange.announced)
        works = [receive_links(log, ownership, merged[cell]) for cell, log in logs.items()]
        works += [signals.receive(logs, lambda: ownership.is_over), signals.send(lambda: ownership.is_over)]
        works.append(session.report_now())  # report the cells owned now; other nodes need not wait for the next beat
        listening = [asyncio.run_coroutine_threadsafe(work, self._thread.loop) for work in works]
        for each in listening:
            each.add_done_callback(log_failure)
        watch = self._watch(crawler, crawl, session, owner, upkeep, set(logs), work)
        watching = asyncio.get_running_loop().create_task(watch)
        self._commands.open(crawler, crawl)
        try:
            await crawler.run()
        finally:
            self._crawler = None
            # Ends the listeners, which run in the other loop.
            ownership.is_over = True
            self._commands.requests.here = None
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            for each in listening:
                each.cancel()
            for cell in exchange.lost:
                owner.owned.pop(cell, None)
            self.pages += crawl.counts.pages
            self.requests += crawl.counts.requests
            self.messages += sum(log.messages for log in logs.values())
            self.sent_bytes += sum(log.sent_bytes for log in logs.values())
            # Counted above; the same log may be used in the next shift.
            for log in logs.values():
                log.messages = log.sent_bytes = 0

    async def _watch(
        self, crawler: Crawler, crawl: Crawl, session: NodeSession, owner: CellOwner, upkeep: Upkeep,
        cells: set[int], work: ClusterTask,
    ) -> None:  # fmt: skip
        """End the shift when its set of cells should change; report the node's state meanwhile."""
        purge_at, ownership = 0.0, ownership_of(crawl)
        hubs_at = self._clock.ticks_s() + HUBS_S
        exchange = ownership.exchange
        while not self._stopping:
            self._report(session, crawl)
            exchange.has_older_nodes = session.common_format() < DIRECT_FORMAT
            if self._index is not None:
                self._index.report_cells({cell: log for cell, log in list(owner.owned.items()) if cell in cells})
            if exchange.lost or upkeep.needs_new_shift(cells) or self._schedule.current_task() != work:
                break
            if not await self._commands.apply(crawler, crawl):
                break
            try:
                await self._add_new_cells()
                await self._check_schedule(session, owner)
                await self._check_limits(crawl)
                await self._check_finished(session, owner)
                # At once if idle: other nodes wait until no links are left in the stream (finished.py).
                if self._clock.ticks_s() >= purge_at or (exchange.merged and ownership.is_idle):
                    purge_at = self._clock.ticks_s() + PURGE_S
                    await self._purge(exchange, owner)
                if self._clock.ticks_s() >= hubs_at:
                    hubs_at = self._clock.ticks_s() + HUBS_S
                    await asyncio.to_thread(self._end_subscriptions, session, exchange)
            # after any error of NATS: a shift that is not watched never ends
            except Exception as error:  # noqa: BLE001
                _log.warning("shift not checked: %r", error)
            await self._clock.sleep(POLL_S)
        owner.is_leaving = owner.is_leaving or self._stopping  # cells that other nodes leave are not for us
        # Nothing can be committed any more, so no request is waited for.
        if session.is_lost:
            crawler.stop_now()
        crawl.wind_up()
        crawler.stop()

    def _report(self, session: NodeSession, crawl: Crawl) -> None:
        """Report the node's state with the session."""
        ownership = ownership_of(crawl)
        load = self._load(crawl) | {"unknown": float(session.instances.unknown)}
        cells = list(crawl.committer.cells)
        busy = state_after(
            session.node.busy, load["queued"], session.node.capacity * load["carries"], crawl.config.balance
        )
        queued = {str(cell.number): cell.frontier.queued for cell in cells}
        pages = dict(ownership.exchange.stored)
        stored = {str(cell): count for cell, count in pages.items()}
        claims = self._shares.claim(crawl.config.limits.pages, self._clock.ticks_s(), pages, crawl.open_pages)
        numbers = [cell.number for cell in cells]
        self._agents.note_members(members(session.alive()), numbers)
        self._agents.note_state(busy, load["queued"], numbers)
        session.set_report(
            load, {str(cell.number): cell.frontier.known for cell in cells}, queued, busy, stored, claims,
            ownership.exchange.arrivals.batches_by_node(), spending_of(crawl),
        )  # fmt: skip

    def _load(self, crawl: Crawl) -> dict[str, float]:
        """Return the amount of work to do here, and of work done since the node started."""
        ownership = ownership_of(crawl)
        cells = list(crawl.committer.cells)
        messages, sent_bytes = ownership.sent_totals()
        return {
            "messages": float(self.messages + messages),
            "sent_bytes": float(self.sent_bytes + sent_bytes),
            "queued": float(sum(cell.frontier.queued for cell in cells)),
            "pages": float(self.pages + crawl.counts.pages),
            "requests": float(self.requests + crawl.counts.requests),
            "inbox": float(len(ownership.exchange.inbox)),
            "idle": float(ownership.is_idle),
            "load": round(os.getloadavg()[0] / (os.cpu_count() or 1), 2),
            "carries": round(1.0 if self._own_timeouts is None else self._own_timeouts.share, 3),
            "unsaved_bytes": float(ownership.unsaved_bytes),
            **report_kept(crawl.committer.refresh),
            **ownership.exchange.arrivals.lag(),
            **({} if ownership.analyzer is None else ownership.analyzer.measurements()),
        }

    async def _check_schedule(self, session: NodeSession, owner: CellOwner) -> None:
        with contextlib.suppress(NoAnswer):
            await self._schedule.check_runs(session, owner)

    async def _check_limits(self, crawl: Crawl) -> None:
        """Let all nodes leave when the collection has reached its limit of pages or time."""
        began_s = self._commands.agreement.began_s
        why = limit_reached(crawl.config.limits, self._shares.count_stored(), began_s, self._clock.now_s())
        if why and not self._stopping:
            await self._commands.end(why)

    async def _check_finished(self, session: NodeSession, owner: CellOwner) -> None:
        """With `once`: stop when no node has anything left to do."""
        if self._once and not self._stopping and not self._finished.was_checked(session):
            with contextlib.suppress(NoAnswer):
                if await self._thread.call(self._finished.is_over(session, owner)):
                    self._stopping = True  # never reset: a user may have called `stop` meanwhile

    def _end_subscriptions(self, session: NodeSession, exchange: CellExchange) -> None:
        """End the subscriptions to hubs of feeds that another node crawls by now, which subscribes itself."""
        others = [state for name, state in session.alive().items() if name != self._identity.name]
        cells = {int(cell) for state in others for cell in state.cells}
        folder = self._root.collection(self._collection)
        end_subscriptions(folder, lambda host: exchange.homes.cell_number(host) in cells, self._clock.now_s())

    async def _purge(self, exchange: CellExchange, owner: CellOwner) -> None:
        """Purge links from NATS that are committed in our cells, and so in their logs."""
        # The commit thread fills a new dictionary meanwhile.
        merged, exchange.merged = exchange.merged, {}
        for cell, seq in merged.items():
            log = owner.owned.get(cell)
            if log is not None:
                with contextlib.suppress(NoAnswer):
                    await self._thread.call(log.purge_links(seq))
