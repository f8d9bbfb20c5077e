"""The history of a collection: its pages, the posteriors of their change rates, and the behaviour of its hosts.

Pages are read host by host, a large host in parts, as the live crawler plans them (keep_fresh.py). Rates are those of
the reports (crawler/keep_fresh/estimate.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from teia.crawler.keep_fresh.estimate import (
    FIRST_KEY,
    CommonKnowledge,
    HostKnowledge,
    HostRecords,
    Unproven,
    common_of_cells,
)
from teia.crawler.keep_fresh.host_plan import PageColumns, Weigh, priors_of
from teia.crawler.keep_fresh.weights import weigher
from teia.crawler.robots import stored_crawl_delay_s
from teia.errors import LabError
from teia.frontier.cell import revisits
from teia.frontier.tables.hosts import all_hosts, count_new
from teia.lib.message import Message
from teia.refresh.rates import Floats, Gamma
from teia.urls import site_of, slot_of
from teia.views.reports.source import OpenCell, Source

PART = 50_000
"""Number of pages of one host that are planned together; keys are hashes, so a part is a fair sample."""


@dataclass(frozen=True, slots=True, eq=False)
class HostPast:
    """A host: the cell of its pages, its address, its waiting URLs, and the Crawl-delay of its robots.txt.

    `is_parked`: the crawler does not visit it.
    """

    name: str
    cell: OpenCell
    host_id: int
    address: str
    pages: int
    waiting: int
    crawl_delay_s: float
    is_parked: bool

    @property
    def is_busy(self) -> bool:
        """Whether the crawler has anything to request from it."""
        return (self.pages > 0 or self.waiting > 0) and not self.is_parked


@dataclass(frozen=True, slots=True, eq=False)
class HostPages:
    """Pages of one host: `host` is its number. `posterior` and `prior` are the distributions of their rates.

    `unproven` has other ones, if the host's 304s may be false.
    """

    host: int
    columns: PageColumns
    prior: Gamma
    posterior: Gamma
    trusted: bool
    unproven: Unproven | None = None

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def weight(self) -> Floats:
        """Weights of the pages; 0 if they are gone."""
        return np.where(self.columns.is_gone, 0.0, self.columns.weight)

    @property
    def prior_share(self) -> Floats:
        """Share of the knowledge of each rate that comes from the prior: 1 is all.

        Imaginary changes among all changes, or imaginary time in all observed time, whichever is less.
        """
        of_changes = self.prior.changes / self.posterior.changes
        of_time = self.prior.time_s / self.posterior.time_s
        return np.clip(np.minimum(of_changes, of_time), 0.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """A collection as its visits left it. `now_s` is the time at which the future begins."""

    hosts: tuple[HostPast, ...]
    parts: tuple[HostPages, ...]
    now_s: float

    @property
    def pages(self) -> int:
        """Number of existing pages with a weight."""
        return sum(int((part.weight > 0).sum()) for part in self.parts)

    @property
    def visited_again(self) -> int:
        return sum(int(((part.weight > 0) & (part.columns.histories.visits > 0)).sum()) for part in self.parts)

    @property
    def revisits(self) -> float:
        """Number of remembered visits of known pages; old ones have decayed."""
        return sum(float(part.columns.histories.visits.sum()) for part in self.parts)


def read_past(source: Source, now_s: float) -> Past:
    """Read a collection's history; LabError if no page was captured, or none was visited twice and no URL waits."""
    hosts: list[HostPast] = []
    parts: list[HostPages] = []
    weigh = weigher(source.config.refresh, source.ranks)
    common = common_of_cells([cell.frontier for cell in source.cells], now_s)
    for cell in source.cells:
        for host in all_hosts(cell.frontier):
            host_key, pages = (slot_of(site_of(host.name)), host.host_id), 0
            waiting = count_new(cell.frontier, *host_key)
            if not waiting and not host.requests:
                continue
            for part in _parts(cell, host_key, len(hosts), weigh, common, now_s):
                parts.append(part)
                pages += int((part.weight > 0).sum())
            obeyed = source.config.courtesy.robots
            delay_s = stored_crawl_delay_s(cell.frontier, host.host_id, host.name, source.agent) if obeyed else None
            known = (host.name, cell, host.host_id, host.address, pages, waiting)
            hosts.append(HostPast(*known, delay_s or 0.0, bool(host.parked)))
    # While URLs wait, the load and the end of the crawl can be predicted, and freshness from priors.
    visited_again = any(part.columns.histories.visits.any() for part in parts)
    if not parts or not (visited_again or any(host.waiting for host in hosts)):
        raise LabError(
            Message(
                "no page was visited twice yet, so no change rates are known; run `teia crawl --keep-fresh` for a while"
            )
        )
    # A crawl on a sped-up clock has visits after the wall clock's now; the future begins after the last visit.
    latest_s = max(float(part.columns.fresh_s.max()) for part in parts)
    return Past(tuple(hosts), tuple(parts), max(now_s, latest_s))


def _parts(
    cell: OpenCell, host_key: tuple[int, int], host: int, weigh: Weigh, common: CommonKnowledge, now_s: float
) -> Iterator[HostPages]:
    after = FIRST_KEY
    while rows := revisits.captured_pages(cell.frontier, *host_key, after, PART):
        after = rows[-1].key
        records = HostRecords.read(cell.frontier, host_key, rows, now_s, weigh)
        known = HostKnowledge.learn(cell.frontier, host_key, records, common)
        found = known.estimate(cell.frontier, host_key, records, now_s)
        prior = priors_of(repeat(known.priors), found.columns.kind)
        yield HostPages(host, found.columns, prior, found.found, known.trusts_dates, found.unproven)
