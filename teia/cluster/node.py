"""A node: joins, keeps cells, crawls them, leaves.

Two loops. The cluster's own thread renews the session, looks after cells and listens for links; the main loop crawls,
with the same crawler as one machine. The crawler is opened for the cells that are kept and closed when they change
(*shifts*, as the coordinator does): a cell was taken, another node should have one, one was lost. Closing lets requests
under way end and commits them, so a cell that is handed over is handed over whole; and the crawler never has to learn
that cells come and go.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from teia.clock import Clock
from teia.cluster.agreement import Agreement, agree, agree_on_pace, write_down
from teia.cluster.cells import catch_up, prepare
from teia.cluster.chord import Circle
from teia.cluster.chord_placing import point_of_slot
from teia.cluster.crawling import NodeCrawl, check_fits, open_kept
from teia.cluster.journal import CellLog, CellLost, make_stream
from teia.cluster.keeper import RANK_WAIT_S, Keeper
from teia.cluster.publishing import LogJournal
from teia.cluster.quiet import Quiet
from teia.cluster.session import NodeState, Pace, Session, join
from teia.cluster.telling import Teller
from teia.cluster.thread import LoopThread
from teia.cluster.wire import NoAnswer, Wire, connect
from teia.config import Config
from teia.crawl import JOB
from teia.crawl.engine import Crawler
from teia.crawl.opening import open_crawler
from teia.errors import ClusterError
from teia.frontier import mail
from teia.frontier.cell import FrontierCell
from teia.parse.spawn import ZygoteProcess
from teia.store.root import Root
from teia.urls import cell_starts

LOOK_S = 0.1
REPLICAS = 3
INBOX_BULKS = 2_000
"""So many bulks of links may wait for their commit; while they do, the stream is not read on."""

PURGE_S = 2.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node is and whom it talks to."""

    name: str
    servers: tuple[str, ...]
    key: Path | None
    ca: Path | None = None
    region: str = ""
    capacity: float = 1.0
    session_s: float = Pace().silence_s
    """T of the cluster's sessions, where this is its first node."""


class Node:
    """One node of a cluster and one collection; `run` returns when it was told to `stop`."""

    def __init__(
        self, root: Root, collection: str, settings: Config | None, place: Place, clock: Clock, *, once: bool = False
    ) -> None:
        self._root = root
        self._collection = collection
        self._settings = settings
        self._place = place
        self._clock = clock
        self._thread = LoopThread()
        self._stopping = False
        self._once = once
        self._quiet = Quiet(clock)
        self._crawler: Crawler | None = None
        self._taken_at: dict[int, float] = {}
        self.shifts = 0
        self.pages = 0
        self.requests = 0
        self.messages = 0
        self.sent_bytes = 0

    def stop(self) -> None:
        """Finish what is under way, give the cells up, leave; called twice, do not wait for the web."""
        if self._stopping and self._crawler is not None:
            self._crawler.hurry()
        self._stopping = True

    async def run(self) -> None:
        """Be a node until told to stop. A session that was lost is followed by another, of a new instance."""
        with self._thread:
            call, place = self._thread.call, self._place
            wire = await call(connect(place.servers, place.key, place.name, ca=place.ca))
            try:
                replicas = REPLICAS if len(wire.client.servers) >= REPLICAS else 1
                self._pace = await call(agree_on_pace(wire, self._clock, place.session_s, replicas))
                agreement = await call(agree(wire, self._clock, self._collection, self._settings, replicas))
                check_fits(agreement.config)
                await call(make_stream(wire, self._clock, self._collection, agreement.replicas))
                config = write_down(self._root, agreement)
                prepare(self._root.collection(self._collection), config.collection.cells, agreement.identity)
                while not self._stopping:
                    await self._live(wire, agreement, config)
            finally:
                await call(wire.close())

    # -- a session -----------------------------------------------------------------------------------------

    async def _live(self, wire: Wire, agreement: Agreement, config: Config) -> None:
        """Live through one session: shift after shift, until it is lost or the node is told to stop."""
        keepers: list[Keeper] = []

        def lose(why: str) -> None:
            _log.warning("session lost: %s", why)
            for keeper in keepers:
                keeper.drop_all()

        call, place = self._thread.call, self._place
        session = await call(
            join(
                wire, self._clock, place.name, lose, pace=self._pace, replicas=agreement.replicas,
                region=place.region, capacity=place.capacity,
            )
        )  # fmt: skip
        cells = range(config.collection.cells)
        order = CircleOrder(cell_starts(len(cells)))
        rank_wait_s = min(RANK_WAIT_S, self._pace.beat_s)
        keeper = Keeper(wire, self._clock, session, self._collection, cells, order, rank_wait_s)
        keepers.append(keeper)
        tending = asyncio.run_coroutine_threadsafe(keeper.tend(self._note_taken), self._thread.loop)
        teller = Teller(self._root, self._collection, len(cells), self._clock)
        telling = asyncio.get_running_loop().create_task(teller.tell_for_ever(session))
        try:
            while not self._stopping and not session.is_lost:
                if not keeper.kept:
                    session.tell({"idle": 1.0}, {})
                    await self._look_for_the_end(session, keeper)
                    await self._clock.sleep(LOOK_S)
                    continue
                try:
                    await self._shift(config, session, keeper)
                except CellLost as error:
                    _log.warning("%s", error)
                    keeper.kept.pop(error.cell, None)
        finally:
            keeper.is_leaving = True
            tending.cancel()
            telling.cancel()
            with contextlib.suppress(TimeoutError):  # without NATS nothing can be given up; others will find out
                async with asyncio.timeout(self._pace.silence_s):
                    if not session.is_lost:
                        await call(keeper.release(list(keeper.kept)))
                    await call(session.leave())

    def _note_taken(self, cells: Iterable[int]) -> None:
        self._taken_at.update(dict.fromkeys(cells, self._clock.ticks_s()))

    # -- a shift -------------------------------------------------------------------------------------------

    async def _shift(self, config: Config, session: Session, keeper: Keeper) -> None:
        """Crawl the cells that are kept now, until they are others."""
        self.shifts += 1
        logs = dict(keeper.kept)
        folders = {each.number: each for each in self._root.collection(self._collection).cells()}
        for cell, log in logs.items():
            behind = await self._thread.call(catch_up(folders[cell], LogJournal(log, self._thread)))
            _log.info("cell=%d caught up commits=%d", cell, behind)
        opened = partial(
            open_kept, logs=logs, thread=self._thread, may_ask=keeper.may_ask, taken_at=dict(self._taken_at)
        )
        zygote = ZygoteProcess.start(JOB)
        try:
            seed = int(self._clock.now_s())
            async with open_crawler(self._root, [config], self._clock, seed, zygote, opened=opened) as crawler:
                await self._crawl(crawler, session, keeper, logs)
        finally:
            zygote.abandon()
        away = {cell: node for cell, node in keeper.elsewhere().items() if cell in logs}
        if not session.is_lost and not self._stopping:
            await self._thread.call(keeper.release(list(away), away))

    async def _crawl(self, crawler: Crawler, session: Session, keeper: Keeper, logs: Mapping[int, CellLog]) -> None:
        (crawl,) = crawler.crawls
        assert isinstance(crawl, NodeCrawl)
        self._crawler = crawler
        heard = {cell: heard_by(crawl, cell) for cell in logs}
        crawl.committer.heard.update({cell: seq for cell, seq in heard.items() if seq})  # to be purged, if not yet
        listening = [
            asyncio.run_coroutine_threadsafe(listen(log, crawl, heard[cell]), self._thread.loop)
            for cell, log in logs.items()
        ]
        watching = asyncio.get_running_loop().create_task(self._watch(crawler, crawl, session, keeper, set(logs)))
        try:
            await crawler.run()
        finally:
            self._crawler = None
            crawl.is_over = True
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            for each in listening:
                each.cancel()
            for cell in crawl.committer.lost:
                keeper.kept.pop(cell, None)
            self.pages += crawl.counts.pages
            self.requests += crawl.counts.requests
            self.messages += sum(log.messages for log in logs.values())
            self.sent_bytes += sum(log.sent_bytes for log in logs.values())
            for log in logs.values():
                log.messages = log.sent_bytes = 0

    async def _watch(
        self, crawler: Crawler, crawl: NodeCrawl, session: Session, keeper: Keeper, cells: set[int]
    ) -> None:
        """End the shift when the cells should be others; say meanwhile how things stand."""
        purge_at = 0.0
        while not self._stopping:
            session.tell(self._load(crawl), {str(cell.number): cell.frontier.known for cell in crawl.committer.cells})
            if set(keeper.kept) != cells or crawl.committer.lost or keeper.elsewhere():
                break
            await self._look_for_the_end(session, keeper)
            if self._clock.ticks_s() >= purge_at:
                purge_at = self._clock.ticks_s() + PURGE_S
                await self._purge(crawl, keeper)
            await self._clock.sleep(LOOK_S)
        if session.is_lost:
            crawler.hurry()
        crawler.stop()

    def _load(self, crawl: NodeCrawl) -> dict[str, float]:
        """How much there is to do here, and how much was done since the node started."""
        cells = list(crawl.committer.cells)
        return {
            "queued": float(sum(cell.frontier.queued for cell in cells)),
            "pages": float(self.pages + crawl.counts.pages),
            "requests": float(self.requests + crawl.counts.requests),
            "inbox": float(len(crawl.committer.inbox)),
            "idle": float(crawl.is_idle),
            "load": round(os.getloadavg()[0] / (os.cpu_count() or 1), 2),
        }

    async def _look_for_the_end(self, session: Session, keeper: Keeper) -> None:
        """With `once`: stop when there is nothing left to do anywhere."""
        if self._once and not self._stopping:
            with contextlib.suppress(NoAnswer):
                self._stopping = await self._thread.call(self._quiet.is_over(session, keeper))

    async def _purge(self, crawl: NodeCrawl, keeper: Keeper) -> None:
        """Let NATS forget links that are in our cells, and so in their logs."""
        heard, crawl.committer.heard = crawl.committer.heard, {}
        for cell, seq in heard.items():
            log = keeper.kept.get(cell)
            if log is not None:
                with contextlib.suppress(NoAnswer):
                    await self._thread.call(log.purge_links(seq))


class CircleOrder:
    """The nodes that live in the order in which a cell would be theirs, by the circle (A2)."""

    def __init__(self, starts: Sequence[int]) -> None:
        self._starts = starts
        self._circle = Circle({})

    def __call__(self, cell: int, alive: Mapping[str, NodeState]) -> list[str]:
        capacities = {name: node.capacity for name, node in alive.items()}
        circle = self._circle
        if circle.nodes != capacities:
            circle = self._circle = Circle(capacities)
        return list(circle.order(point_of_slot(self._starts[cell]))) if capacities else []


def heard_by(crawl: NodeCrawl, cell: int) -> int:
    """How far a cell has heard what others sent."""
    frontier: FrontierCell = crawl.committer.cells[cell].frontier
    return mail.heard(frontier, mail.THE_STREAM)


async def listen(log: CellLog, crawl: NodeCrawl, after: int) -> None:
    """Bring links from the stream to the crawl's next commit."""
    inbox = crawl.committer.inbox
    try:
        async for bulk in log.links(after, lambda: crawl.is_over):
            inbox.append((log.cell, bulk.seq, bulk.data))
            while len(inbox) > INBOX_BULKS and not crawl.is_over:  # noqa: ASYNC110  # another thread empties it
                await asyncio.sleep(LOOK_S)
    except ClusterError as error:
        _log.info("cell=%d no longer listened to: %s", log.cell, error)
