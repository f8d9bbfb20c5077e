"""The history of a collection: its pages, the posteriors of their change rates, and the behaviour of its hosts.

Pages are read host by host, a large host in parts, as the live crawler plans them (keep_fresh.py). Rates are
posteriors; priors are learnt from all hosts first, then each host's pages from their own visits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from teia.crawler.keep_fresh.host_plan import PageColumns, Weigh, learn_priors, priors_of, to_columns
from teia.crawler.keep_fresh.observe import decode_errors
from teia.crawler.keep_fresh.weights import weigher
from teia.crawler.robots import stored_crawl_delay_s
from teia.errors import LabError
from teia.frontier.cell import histories, revisits
from teia.frontier.tables.hosts import all_hosts, count_new
from teia.lib.message import Message
from teia.refresh.priors import FIRST_CHANGES, FIRST_TIME_S, fit_sums
from teia.refresh.rates import Floats, Gamma, repeat_prior
from teia.refresh.trust import Trust
from teia.urls import site_of, slot_of
from teia.views.reports.source import OpenCell, Source

PART = 50_000
"""Number of pages of one host that are planned together; keys are hashes, so a part is a fair sample."""

# The smallest 64-bit key; pages are read from the keys above it.
FIRST_KEY = -(1 << 63)
_NOTHING = repeat_prior(FIRST_CHANGES, FIRST_TIME_S, 1)


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


@dataclass(frozen=True, slots=True, eq=False)
class HostPages:
    """Pages of one host: `host` is its number. `posterior` and `prior` are the distributions of their rates."""

    host: int
    columns: PageColumns
    prior: Gamma
    posterior: Gamma
    trusted: bool

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
    """Read a collection's history; LabError if no page was visited twice."""
    hosts: list[HostPast] = []
    read: list[tuple[int, PageColumns, bool]] = []
    weigh = weigher(source.config.refresh, source.ranks)
    for cell in source.cells:
        parked = {host.host_id for host in all_hosts(cell.frontier) if host.parked}
        for host_id, name, address, _ in revisits.hosts_with_pages(cell.frontier):
            slot, pages = slot_of(site_of(name)), 0
            with decode_errors(cell.frontier):
                trusted = Trust.decode(histories.host_trust(cell.frontier, slot, host_id)[0]).dates.is_trusted
            for columns in _columns(cell, slot, host_id, weigh):
                read.append((len(hosts), columns, trusted))
                pages += int((~columns.is_gone & (columns.weight > 0)).sum())
            waiting, is_parked = count_new(cell.frontier, slot, host_id), host_id in parked
            obeyed = source.config.courtesy.robots
            delay_s = stored_crawl_delay_s(cell.frontier, host_id, name, source.agent) if obeyed else None
            hosts.append(HostPast(name, cell, host_id, address, pages, waiting, delay_s or 0.0, is_parked))
    if not any(columns.histories.visits.any() for _, columns, _ in read):
        raise LabError(
            Message(
                "no page was visited twice yet, so no change rates are known; run `teia crawl --keep-fresh` for a while"
            )
        )
    # A crawl on a sped-up clock has visits after the wall clock's now; the future begins after the last visit.
    latest_s = max(float(columns.fresh_s.max()) for _, columns, _ in read)
    return Past(tuple(hosts), _learn_rates(read), max(now_s, latest_s))


def _columns(cell: OpenCell, slot: int, host_id: int, weigh: Weigh) -> Iterator[PageColumns]:
    after = FIRST_KEY
    while rows := revisits.captured_pages(cell.frontier, slot, host_id, after, PART):
        after = rows[-1].key
        with decode_errors(cell.frontier):
            yield to_columns(rows, weigh)


def _learn_rates(read: list[tuple[int, PageColumns, bool]]) -> tuple[HostPages, ...]:
    """Learn the prior of all pages first, host by host; then each part's rates, beginning from that prior."""
    sums = np.zeros(3)
    for _, columns, trusted in read:
        # Each part's rates begin from a prior of the parts before it.
        of_part = learn_priors(columns, fit_sums(sums[:, None], _NOTHING), np.full(len(columns), trusted))[2]
        sums += of_part
    of_all, parts = fit_sums(sums[:, None], _NOTHING), []
    for host, columns, trusted in read:
        priors, posterior, _ = learn_priors(columns, of_all, np.full(len(columns), trusted))
        parts.append(HostPages(host, columns, priors_of(repeat(priors), columns.kind), posterior, trusted))
    return tuple(parts)
