"""A run that revisits all known pages beside finding new ones: the periodic crawl of F2, in the commit thread.

It takes the place that `Refresh` (keep_fresh.py) has in a crawl that keeps its pages fresh, and is much simpler. Pages
wait in the frontier like any URL (revisit_all.py). So the run ends when nothing is left, survives any crash, and leaves
the rest of its pages to the next run. New and known pages take turns as `refresh.share` says, so that neither has to
wait for the end of the other; where URLs are watched for traps, known ones go first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from teia.clock import Clock
from teia.config.sections import Config
from teia.crawler.keep_fresh.keep_fresh import HostRefill, interleave, is_stored_page
from teia.crawler.open_cell import Cell, Touched
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell import revisit_all
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.cell.schema import LANE_DUE, LANE_NEW, STATE_QUEUED
from teia.frontier.queue.schedule import HostQueue
from teia.frontier.tables.counts import count_kept

QUEUE_S = 0.05
"""Time that one commit may spend queueing pages for their revisit."""


@dataclass(frozen=True, slots=True)
class RoundAccount:
    """Progress of a round: of the pages `known` when it began, `visited` were revisited, and `new` were added.

    `is_whole` is True once `known` is final.
    """

    known: int = 0
    visited: int = 0
    new: int = 0
    is_whole: bool = False


class RevisitAll:
    """A round over all cells of a collection; belongs to the commit thread.

    Any thread may read `has_pending_work` and `progress`. `has_pages` is False: nothing is left to do after everything
    was visited.
    """

    has_pages = False
    wanted_budget = 0
    """Not used: a round has no budget (`Refresh`)."""

    def __init__(self, cells: Sequence[Cell], since_s: float, config: Config, clock: Clock) -> None:
        self._cells, self.since_s, self._clock = cells, since_s, clock
        self._share, self._max_pages = config.refresh.share, config.limits.pages_kept
        self._stored_pages = sum(count_kept(cell.frontier) for cell in cells) if self._max_pages else 0
        self._rounds = {cell.number: revisit_all.round_progress(cell.frontier, since_s) for cell in cells}

    @property
    def has_pending_work(self) -> bool:
        """True if there are pages that were not queued for their revisit yet."""
        return any(each.position is not None for each in self._rounds.values())

    @property
    def is_full(self) -> bool:
        """True if as many pages are kept as `limits.pages_kept` allows (F2)."""
        return 0 < self._max_pages <= self._stored_pages

    @property
    def progress(self) -> RoundAccount:
        rounds = list(self._rounds.values())
        known, visited, new = (sum(column) for column in zip(*(each[2:] for each in rounds), strict=True))
        return RoundAccount(known, visited, new, is_whole=not self.has_pending_work)

    def forget_hosts(self, cell: int, names: Collection[str] | None = None) -> None:
        """Do nothing: a round remembers no hosts."""

    def account(self) -> None:
        """Report no freshness: a round does not measure it."""

    def plan_again(self) -> Touched:
        """Queue known pages again, as many as there is time for; return hosts that have something to fetch."""
        until, touched = self._clock.ticks_s() + QUEUE_S, []
        for cell in self._cells:
            if self._rounds[cell.number].position is None:
                continue
            with cell.frontier.transaction() as frontier:
                now, hosts = revisit_all.requeue_known(frontier, self.since_s, lambda: self._clock.ticks_s() < until)
            self._rounds[cell.number] = now
            touched.append((cell, hosts))
            if self._clock.ticks_s() >= until:
                break
        return touched

    def note_visits(self, cell: Cell, visits: Sequence[ActiveVisit]) -> None:
        """Count the pages that were visited; inside the transaction that settles the visits."""
        settled = _settled(visits)
        visited = sum(each.item.visits > 0 and each.fetched is not None for each in settled)
        new = sum(each.item.visits == 0 and each.fetched is not None for each in settled)
        # Settled without a request: the settings exclude these pages now.
        left_out = sum(each.item.visits > 0 and each.fetched is None for each in settled)
        if visited or new or left_out:
            self._rounds[cell.number] = revisit_all.count_visits(cell.frontier, self.since_s, visited, new, left_out)

    def count_visits(self, cell: Cell, visits: Sequence[ActiveVisit]) -> None:  # noqa: ARG002  # `Refresh` needs the cell
        """Count the pages that are kept, once their transaction is committed: one that fails is repeated."""
        self._stored_pages += sum(each.item.visits == 0 and is_stored_page(each) for each in _settled(visits))

    def next_urls(self, cell: Cell, queue: HostQueue, limit: int, skip: Collection[int]) -> HostRefill:
        """Return a host's next URLs, new and known ones in turns while there are both."""
        frontier, now_s = cell.frontier, self._clock.now_s()
        known = frontier.next_urls(queue.host_id, queue.host, limit, skip, now_s, (LANE_DUE,))
        new: list[QueuedUrl] = []
        held = False
        if not self.is_full:
            # Known pages count as under way for the watch for traps, which tries suspects when nothing else is left.
            under_way = {*skip, *(item.key for item in known)}
            new, held = cell.next_urls(queue, limit, under_way, now_s, (LANE_NEW,))
        items = interleave(new, known, limit, self._share, queue.requests)
        return HostRefill(items, held, None if items else frontier.next_due_s(queue.host_id, queue.host))


def _settled(visits: Sequence[ActiveVisit]) -> list[ActiveVisit]:
    """Return the visits of pages that need no further try."""
    pages = (each for each in visits if each.item.purpose == "page")
    return [each for each in pages if each.verdict is not None and each.verdict.state != STATE_QUEUED]
