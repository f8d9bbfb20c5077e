"""Schedules on many machines (T1, T3): all nodes derive the same task, and each run is begun once.

A schedule is arithmetic on the calendar (calendar.py), and the task follows from it and from the last run
(scheduled_runs.py). So nodes need no coordinator to know whether to crawl, to keep pages fresh or to wait; they only
need to agree on the runs. Those are in the agreement. The node whose name comes first begins and ends them, on
condition that no other node did: two that believe to be the first for a moment write one run.

Between runs nodes keep their cells and send no requests. A run visits all known pages again since it began
(revisit_all.py), under any owner of their cell. It ends when nothing is left to do anywhere (`FinishedCheck`), or at
its deadline, by each node's own clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace
from typing import NamedTuple

import msgspec

from teia.clock import Clock
from teia.cluster.cells.copies import CellCopies
from teia.cluster.cells.log import stream_name
from teia.cluster.cells.owner import CellOwner
from teia.cluster.crawl.limits import STORED
from teia.cluster.crawl.settings import CommandReceiver
from teia.cluster.members.agreement import Agreement, ClusterRun
from teia.cluster.members.session import NodeSession, NodeState
from teia.cluster.nats.thread import LoopThread
from teia.collections.controllers import collection_schedule
from teia.collections.scheduled_runs import CrawlTask, DueTask, EndReason, ScheduledRun, find_due_task
from teia.config.sections import Config
from teia.errors import TeiaError
from teia.frontier.cell.cell import FrontierCell
from teia.store.root import CellFolder

MAX_RUNS = 20
"""Number of runs that are remembered."""

READ_AGAIN_S = 30.0
"""Interval at which cells are read between runs, while they are not crawled."""

_log = logging.getLogger(__name__)


class ClusterTask(NamedTuple):
    """The present task of all nodes and, for a run, the time since which all known pages are visited again."""

    task: CrawlTask
    since_s: float | None = None


def due_task_now(config: Config, runs: list[ClusterRun], now_s: float) -> DueTask:
    """Return the task of a collection's schedule; without a schedule it is to crawl."""
    schedule = collection_schedule(config)
    if schedule is None:
        return DueTask(CrawlTask.CRAWL)
    last = None
    if runs:
        run = runs[-1]
        last = ScheduledRun("", len(runs), run.due_s, run.began_s, run.began_s, None, run.ended_s, run.why)
    return find_due_task(schedule, last, now_s)


def start_run(agreement: Agreement, due_s: float, now_s: float) -> Agreement:
    """Return the agreement with a run that begins now; unchanged if it has begun already."""
    # Another node was first.
    if agreement.runs and (agreement.runs[-1].ended_s is None or agreement.runs[-1].due_s >= due_s):
        return agreement
    return msgspec.structs.replace(agreement, runs=[*agreement.runs, ClusterRun(due_s, now_s)][-MAX_RUNS:])


def end_run(agreement: Agreement, run: ClusterRun, why: str, now_s: float) -> Agreement:
    """Return the agreement with a run that has ended; unchanged if that run is not under way."""
    if not agreement.runs or agreement.runs[-1] != run or run.ended_s is not None:
        return agreement
    over = msgspec.structs.replace(run, ended_s=now_s, why=why)
    return msgspec.structs.replace(agreement, runs=[*agreement.runs[:-1], over])


class ClusterSchedule:
    """One node's view of the schedule; lives in the loop of the crawl."""

    def __init__(self, receiver: CommandReceiver, thread: LoopThread, clock: Clock) -> None:
        self._receiver, self._thread, self._clock = receiver, thread, clock
        self._finished = FinishedCheck(clock)

    def current_task(self) -> ClusterTask:
        """Return the present task."""
        runs = self._receiver.agreement.runs
        due_task = due_task_now(self._receiver.config, runs, self._clock.now_s())
        if due_task.task is not CrawlTask.RUN:
            return ClusterTask(due_task.task)
        # A run that is due and that no node has begun yet makes all nodes wait.
        is_on = runs and runs[-1].ended_s is None and runs[-1].due_s == due_task.due_s
        return ClusterTask(CrawlTask.RUN, runs[-1].began_s) if is_on else ClusterTask(CrawlTask.WAIT)

    def config(self) -> Config:
        """Return the settings of a shift."""
        config, task = self._receiver.config, self.current_task().task
        if task is CrawlTask.CRAWL:
            return config
        return replace(config, refresh=replace(config.refresh, keep=task is CrawlTask.KEEP_FRESH))

    async def check_runs(self, session: NodeSession, owner: CellOwner) -> None:
        """Begin a run that is due, or end one that is over, if this node is the first by name."""
        now_s, runs = self._clock.now_s(), self._receiver.agreement.runs
        due_task = due_task_now(self._receiver.config, runs, now_s)
        # The first by name writes. The write is conditional, so that a wrong belief does no harm.
        is_ours = session.has_watched and session.may_work and min(session.alive()) == session.node.name
        if due_task.task is CrawlTask.CRAWL or not is_ours:
            return
        last = runs[-1] if runs and runs[-1].ended_s is None else None
        due_s = due_task.due_s
        # Its deadline is over, or the next start is due.
        if last is not None and (due_task.task is not CrawlTask.RUN or due_s != last.due_s):
            await self._end(last, EndReason.DEADLINE, now_s)
        elif last is None and due_task.task is CrawlTask.RUN and due_s is not None:
            _log.warning("run starts")
            await self._receiver.amend(lambda now: start_run(now, due_s, now_s))
        elif last is not None and await self._is_quiet(session, owner):
            await self._end(last, EndReason.FINISHED, now_s)

    async def _is_quiet(self, session: NodeSession, owner: CellOwner) -> bool:
        return not self._finished.was_checked(session) and await self._thread.call(
            self._finished.is_quiet(session, owner)
        )

    async def _end(self, run: ClusterRun, why: EndReason, now_s: float) -> None:
        _log.warning("run ends: %s", why)
        await self._receiver.amend(lambda now: end_run(now, run, why, now_s))


class BetweenRuns:
    """A node's report on its cells while none is crawled: counts from their files, read now and then."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[int, tuple[int, int, int]] = {}
        """By cell: URLs known, queued, pages stored."""
        self._read_at = 0.0

    async def report(
        self, session: NodeSession, owner: CellOwner, copies: CellCopies, load: Mapping[str, float]
    ) -> None:
        """Report the cells owned here, with their counts."""
        owned, now = list(owner.owned), self._clock.ticks_s()
        if now - self._read_at >= READ_AGAIN_S or self._counts.keys() != set(owned):
            self._read_at = now
            self._counts = {cell: await asyncio.to_thread(_counts_of, copies.folders[cell]) for cell in owned}
        known, queued, stored = ({str(cell): some[at] for cell, some in self._counts.items()} for at in range(3))
        session.set_report({**load, "queued": float(sum(queued.values()))}, known, queued, stored=stored)


def _counts_of(folder: CellFolder) -> tuple[int, int, int]:
    """Return the counts of a cell's file; zeros while the file is being replaced."""
    with suppress(TeiaError), closing(FrontierCell(folder.frontier, read_only=True)) as frontier:
        return frontier.known, frontier.queued, int(frontier.meta(STORED) or 0)
    return 0, 0, 0


# ---- the end of a crawl by many nodes --------------------------------------------------------------------------------


BEATS = 2.5
DONE = frozenset({"queued", "pages", "requests", "inbox", "idle"})


class FinishedCheck:
    """One node's check that there is nothing to do anywhere, and nothing on its way; `is_over` is called repeatedly.

    Every node reports with its session whether it is idle and how much it has done; links that are not merged yet are
    in the stream. A report is up to a beat old, so everything has to look the same twice, more than two beats apart:
    had links arrived in between, their receiver's count of work done would differ.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = 0.0
        self._checked_at = 0.0
        self._seen: object = None

    def was_checked(self, session: NodeSession) -> bool:
        """Tell whether there is nothing to check before the next beat."""
        return self._clock.ticks_s() - self._checked_at < session.pace.beat_s and not session.others_report_done()

    async def is_over(self, session: NodeSession, owner: CellOwner) -> bool:
        """Tell whether all is done; then notify the other nodes with the session. To be called once a beat."""
        self._checked_at = self._clock.ticks_s()
        if session.others_report_done():
            return True
        if not await self.is_quiet(session, owner):
            return False
        await session.report_done()
        return True

    async def is_quiet(self, session: NodeSession, owner: CellOwner) -> bool:
        """Tell whether nothing was left to do anywhere, twice. To be called once a beat."""
        now = self._checked_at = self._clock.ticks_s()
        state = await self._idle_state(session, owner)
        # Any difference begins the wait anew.
        if state is None or state != self._seen:
            self._seen, self._since = state, now
            return False
        return now - self._since >= BEATS * session.pace.beat_s

    async def _idle_state(self, session: NodeSession, owner: CellOwner) -> object:
        """Return the state of all nodes if nothing is left to do; None if something is."""
        nodes = session.alive()
        owned = sorted(cell for node in nodes.values() for cell in node.cells)
        # Every cell must have an owner that is idle.
        if owned != sorted(map(str, owner.cells)) or not all(node.load.get("idle") for node in nodes.values()):
            return None
        collection = owner.collection
        js = session.wire.js
        info = await session.wire.request(
            js.stream_info(stream_name(collection), subjects_filter=f"{collection}.links.*")
        )
        # Links that their cell has not merged yet.
        if info.state.subjects:
            return None
        return {name: (node.instance, sorted(node.cells.items()), _done_by(node)) for name, node in nodes.items()}


def _done_by(node: NodeState) -> dict[str, float]:
    """Return a node's counts of work done, without the load of its machine, which is never the same twice."""
    return {key: value for key, value in node.load.items() if key in DONE}
