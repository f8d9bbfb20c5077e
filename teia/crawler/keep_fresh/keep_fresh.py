"""Revisits of known pages: the work of `teia crawl --keep-fresh` in the commit thread (A13, P9).

  note_visits  after each visit: set its page's next due time, in the transaction that settles the visit;
               `count_visits` counts it once that is committed
  next_urls    a host's next URLs: new ones and known ones in turns, as `refresh.share` says. A known page that is not
               due yet is visited early if there is nothing else to do: a slot that is left unused is lost
  plan_again   hosts whose pages' rates changed are planned anew, one at a time, by a separate thread that opens the
               cell read-only; then some thousand of their due times move with each commit

Due times are in the frontier (revisits.py), so a restart finds them. Memory holds a few numbers for each host, the
plans of hosts that were visited lately, and the pages of the host being planned, PART_PAGES at a time. Keys are hashes,
so a part is a fair sample of its host, and is planned by itself with its part of the slots.

The number of visits of a host is the one it really grants: from the delays that were applied (delay, Crawl-delay,
Retry-After, response times), on average over its last requests. With `refresh.budget` it is the host's part of that, if
that is less (crawl_budget.py).
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import astuple, dataclass, field, replace
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from zlib import crc32

import numpy as np

from teia.clock import Clock
from teia.config.sections import Config, RefreshSettings
from teia.crawler.keep_fresh.apply_signals import MAX_BROUGHT_FORWARD, SignalApplier, without_sources
from teia.crawler.keep_fresh.crawl_budget import (
    BudgetOutlook,
    CrawlBudget,
    Elsewhere,
    HostDemand,
    HostTerms,
    PacedHost,
    demand_of_new,
    measure_demand,
    nothing_elsewhere,
    value_of_new,
)
from teia.crawler.keep_fresh.estimate import (
    CommonKnowledge,
    HostEstimate,
    are_304s_true,
    common_of_cells,
    read_unproven,
)
from teia.crawler.keep_fresh.freshness import (
    FreshnessBound,
    bounds_of_host,
    compute_bound,
    count_revisited,
)
from teia.crawler.keep_fresh.give_way import Swap, SwapFinder, give_way
from teia.crawler.keep_fresh.host_plan import (
    HostPlan,
    HostPriors,
    PageColumns,
    PriorSums,
    Weigh,
    due_time_changes,
    priors_of,
    to_columns,
)
from teia.crawler.keep_fresh.observe import decode_errors
from teia.crawler.open_cell import Cell, Touched
from teia.crawler.ownership import KeptElsewhere
from teia.crawler.robots import stored_crawl_delay_s
from teia.crawler.signals_in.site_hints import note_reported_changes
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell import histories, revisits, trails
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.revisits import CapturedPage, DueTimeChange
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.cell.schema import LANE_DUE, LANE_REFRESH, STATE_DONE, STATE_FAILED
from teia.frontier.cell.take import read_refresh_page
from teia.frontier.queue.host_rules import delay_of
from teia.frontier.queue.schedule import HostQueue
from teia.frontier.tables.counts import count_kept
from teia.frontier.tables.hosts import find as find_host
from teia.frontier.tables.hosts import has_more_urls
from teia.refresh.priors import FIRST_CHANGES, FIRST_TIME_S, SharedError, fit_sums
from teia.refresh.rates import Floats, Gamma, estimate, repeat_prior
from teia.refresh.trust import Trust
from teia.refresh.unproven import false_share
from teia.sqlite import sqlite_errors
from teia.urls import site_of, slot_of

if TYPE_CHECKING:
    from teia.crawler.keep_fresh.ordered_plan import PolicyQueue

ON_DISK = "edf"
"""The policy that due times alone express; others are carried out in memory (ordered_plan.py)."""

# Limits on memory: pages planned together, hosts whose plans are kept, pages in the queues of other policies.
PART_PAGES = 50_000
MAX_PLANS = 5_000
MAX_POLICY_PAGES = 500_000
MOVE_S = 0.05
"""Time that one commit may spend moving due times."""

MOVED_AT_ONCE = 500
NEWS_AT_LEAST, NEWS_SHARE = 20, 0.5
"""Number of visits, at least and as a share of a host's pages, after which it is planned at once, not at `replan_s`."""

# Least weight of the newest request in the average pace, and the number of requests before it is used.
PACE_MEMORY, PACED = 0.1, 3
# Pages looked at beyond the limit, because some may have been visited too recently.
EXTRA_CANDIDATES = 16
RECHECK_S, SOON_S = 1.0, 0.01
FIRST_KEY = -(1 << 63)
YIELD_VISITS = 4.0
"""First visits of a host that count as much as those of all hosts, where it is asked how many of them bring a page."""

COUNT_S = 20.0
"""Time after which the freshness of all hosts is counted anew, while somebody asks for it."""

COUNTED_AT_ONCE, LEAST_COUNTED = 2_000, 500
"""Number of pages that may be counted each time somebody asks, and what a host counts for at least."""

Value = TypeVar("Value")
VisitedPage = tuple[int, float, float, float, float]
"""A visited page for a plan in memory: key, weight, change rate, time of the visit, and age of its content."""

_FIRST_PRIOR = repeat_prior(FIRST_CHANGES, FIRST_TIME_S, 1)


@dataclass(slots=True, eq=False)
class RefreshedHost:
    """A host that is kept fresh. `news` are visits since it was planned, `after` is the start of the next part.

    Of `first_visits` to its URLs, `pages_found` brought a page. `bytes` is the mean size of its answers.
    """

    cell: Cell
    host_id: int
    name: str
    slot: int
    slot_s: float
    paced: int = 0
    pages: int = 0
    revisited: int = 0
    counted: float = -inf
    news: int = 0
    planned: float = 0.0
    after: int = FIRST_KEY
    sums: PriorSums = field(default_factory=PriorSums)
    bound: FreshnessBound | None = None
    are_304s_true: bool | None = None
    is_queued: bool = False
    has_new_urls: bool = False
    paced_host: PacedHost = field(default_factory=lambda: PacedHost(0.0))
    first_visits: int = 0
    pages_found: int = 0
    bytes: float = 0.0


class PlanResult(NamedTuple):
    """Result of the planning thread: a plan, due times to move, and the start of the next part, if any."""

    host: RefreshedHost
    plan: HostPlan | None
    moves: list[DueTimeChange]
    after: int | None
    pages: int
    policy_queue: PolicyQueue | None
    bound: FreshnessBound | None = None
    swaps: Sequence[Swap] = ()
    are_304s_true: bool | None = None
    demand: HostDemand | None = None
    least: float = inf
    revisited: int = 0


class CountedHost(NamedTuple):
    """Freshness of a host between two plans, the number of its pages, and that of pages with a revisit."""

    host: RefreshedHost
    bound: FreshnessBound | None
    pages: int
    revisited: int


class PlanInputs(NamedTuple):
    """What the commit thread knows of a host when it is planned."""

    common: CommonKnowledge
    outlook: BudgetOutlook
    has_new: bool
    page_yield: float
    cost: float
    now_s: float
    warm: bool


class HostRefill(NamedTuple):
    """A host's next URLs, whether more are held back, and when to look again if there are none."""

    items: list[QueuedUrl]
    held: bool
    due_s: float | None


class Refresh:
    """State of a crawl that keeps its pages fresh, beside its frontier; belongs to the commit thread.

    Any thread may read `has_pending_work`: there is something to move or to plan. `kept_elsewhere` returns the pages
    that other nodes keep fresh, for `limits.pages_kept`, and `spent_elsewhere` what they would spend of the
    budget at each price. Nodes share nothing else. A plan belongs to one host, and a host has one owner. Due times are
    in the tables of a cell, where its next owner finds them.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        config: Config,
        clock: Clock,
        weigh: Weigh,
        kept_elsewhere: Callable[[], KeptElsewhere] = KeptElsewhere,
        spent_elsewhere: Callable[[], Elsewhere] = nothing_elsewhere,
    ) -> None:
        self.wanted_budget = config.refresh.budget
        """The budget that the user wants; any thread may set it, and the next request takes it over."""
        self.budget = CrawlBudget(config.refresh, clock.now_s(), spent_elsewhere)
        self._yield = Counter[bool]()
        self._config, self._settings = config, config.refresh
        self._kept_elsewhere = kept_elsewhere
        self._clock = clock
        self._weigh, self._cells = weigh, cells
        self._swap_finder = SwapFinder(cells, config.refresh, weigh)
        self._signals = SignalApplier(config.refresh)
        self._hosts: dict[tuple[int, int], RefreshedHost] = {}
        self._plans: OrderedDict[RefreshedHost, HostPlan] = OrderedDict()
        self._policy_queues: OrderedDict[RefreshedHost, PolicyQueue] = OrderedDict()
        self._plan_queue: deque[RefreshedHost] = deque()
        self._plan_at = 0.0
        self._sums, self._bound_sums = np.zeros(3), np.zeros(11)
        self._of_all = _FIRST_PRIOR
        self._validators: Counter[bool | None] = Counter()
        self._thread = ThreadPoolExecutor(1, "plan")
        self._running: Future[PlanResult] | Future[CountedHost] | None = None
        self._to_count: deque[RefreshedHost] = deque()
        self._may_count, self._count_at, self._revisited = 0, 0.0, 0
        self._moving: tuple[RefreshedHost, deque[DueTimeChange]] | None = None
        self._scheduled: list[tuple[RefreshedHost, VisitedPage]] = []
        self.stored_pages = sum(count_kept(cell.frontier) for cell in cells) if config.limits.pages_kept else 0
        for cell in cells:
            for host_id, name, *_ in revisits.hosts_with_pages(cell.frontier):
                host = self._host(cell, host_id, name)
                # Every host of an earlier run is planned as soon as possible.
                host.planned = -inf
                self._request_plan(host)

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    @property
    def has_pages(self) -> bool:
        """True if there are pages to keep fresh, or may be: some hosts were not checked yet."""
        is_planning = self._running is not None
        return is_planning or any(host.pages or host.news or host.is_queued for host in self._hosts.values())

    @property
    def is_full(self) -> bool:
        """True if as many pages are kept as `limits.pages_kept` allows, so that no new ones are fetched (F2)."""
        return 0 < self._config.limits.pages_kept <= self.stored_pages + self._kept_elsewhere().pages

    @property
    def least_kept(self) -> float:
        """Importance of the least important page that is kept here; infinite below the size limit."""
        return self._swap_finder.least

    @property
    def has_pending_work(self) -> bool:
        """True if there is something to do before the next visit ends."""
        if self._running is not None:
            return self._running.done()
        now = self._clock.ticks_s()
        may_count = self._may_count > 0 and (bool(self._to_count) or now >= self._count_at)
        return self._moving is not None or may_count or (bool(self._plan_queue) and now >= self._plan_at)

    def _host(self, cell: Cell, host_id: int, name: str) -> RefreshedHost:
        host = self._hosts.get((cell.number, host_id))
        if host is None:
            delay_s = delay_of(self._config.courtesy, name, is_small=False)
            host = RefreshedHost(cell, host_id, name, slot_of(site_of(name)), delay_s)
            host.planned = self._clock.ticks_s()
            host.paced_host.phase = crc32(name.encode()) / 2**32
            self._hosts[cell.number, host_id] = host
        return host

    def forget_hosts(self, cell: int, names: Collection[str] | None = None) -> None:
        """Forget hosts that were sent to another cell, or all hosts of a cell that was lost."""
        gone = {host for host in self._hosts.values() if host.cell.number == cell}
        gone -= {host for host in gone if names is not None and host.name not in names}
        for host in gone:
            # Without pages, its part leaves the sums over all hosts.
            self._store_bound(host, PlanResult(host, None, [], None, 0, None))
            self.budget.set_demand(host.paced_host, None, has_new=False)
        self._hosts = {key: host for key, host in self._hosts.items() if host not in gone}
        self._plans = _without(self._plans, gone)
        self._policy_queues = _without(self._policy_queues, gone)
        self._plan_queue = deque(host for host in self._plan_queue if host not in gone)
        self._to_count = deque(host for host in self._to_count if host not in gone)
        if self._moving is not None and self._moving[0] in gone:
            self._moving = None
        if self._running is not None:  # its result may contain one of them
            running, self._running = self._running, None
            running.cancel()
            for host in self._hosts.values():
                self._request_plan(host)

    # -- after a visit -------------------------------------------------------------------------------------

    def note_visits(self, cell: Cell, visits: Sequence[ActiveVisit]) -> None:
        """Set the next due times of visited pages; inside the transaction that settles the visits.

        A transaction that fails is repeated with the same visits, so memory changes only in `count_visits`.
        """
        self._scheduled = []
        settled = [
            (self._host(cell, visit.queue.host_id, visit.queue.host), visit.item.key)
            for visit in visits
            if _settles_page(visit)
        ]
        rows = revisits.captured_pages_at(cell.frontier, [(host.slot, host.host_id, key) for host, key in settled])
        pages = [(host, row) for (host, _), row in zip(settled, rows, strict=True) if row is not None]
        # Signals first: the due times below take them into account.
        if self._signals.is_on:
            self._apply_statements(cell, visits)
        if pages:
            self._set_due_times(cell, [host for host, _ in pages], [row for _, row in pages])

    def count_visits(self, cell: Cell, visits: Sequence[ActiveVisit]) -> None:
        """Count visits, once their transaction is committed."""
        for visit in visits:
            if visit.queue.host_id and visit.was_requested:
                host = self._host(cell, visit.queue.host_id, visit.queue.host)
                self._pace(host, visit)
                # Requests for robots.txt and the like were never taken from the budget.
                if visit.item.purpose == "page":
                    self.budget.correct(host.paced_host, visit.bytes_received)
            self.stored_pages += _settles_page(visit) and not visit.item.visits and is_stored_page(visit)
        for host, page in self._scheduled:
            if host in self._policy_queues:
                self._policy_queues[host].note_visit(*page)
            host.news += 1
            self._request_plan(host)
        self._scheduled = []

    def _pace(self, host: RefreshedHost, visit: ActiveVisit) -> None:
        """Update the average time between a host's requests."""
        assert visit.fetched is not None
        slot_s = visit.delay_s + max(0.0, visit.fetched.ended_s - visit.fetched.started_s)
        host.paced += 1
        # A plain mean of the first requests, then an exponential one.
        newest = max(PACE_MEMORY, 1.0 / host.paced)
        host.slot_s += newest * (slot_s - host.slot_s)
        host.bytes += newest * (visit.bytes_received - host.bytes)
        if visit.item.purpose == "page" and not visit.item.visits and not visit.item.failures:
            is_page = is_stored_page(visit)
            self._yield[is_page] += 1
            host.first_visits, host.pages_found = host.first_visits + 1, host.pages_found + is_page

    def _apply_statements(self, cell: Cell, visits: Sequence[ActiveVisit]) -> None:
        """Store the signals of sitemaps and feeds, and bring pages forward that they report as changed."""
        for visit in visits:
            for news in note_reported_changes(cell.frontier, visit, self._clock.now_s()):
                host = self._host(cell, news.host_id, news.host)
                row_keys = [(host.slot, host.host_id, key) for key in news.keys[:MAX_BROUGHT_FORWARD]]
                # A page in another lane is due already.
                rows = [
                    row
                    for row in revisits.captured_pages_at(cell.frontier, row_keys)
                    if row and row.lane == LANE_REFRESH
                ]
                if rows:
                    self._set_due_times(cell, [host] * len(rows), rows, only_sooner=True)
                    self._request_plan(host)

    def _set_due_times(
        self, cell: Cell, hosts: Sequence[RefreshedHost], rows: Sequence[CapturedPage], *, only_sooner: bool = False
    ) -> None:
        """Set the due times of pages; with `only_sooner`, only where the new time is earlier than the old."""
        with decode_errors(cell.frontier):
            columns = to_columns(rows, self._weigh)
        plans = [self._plan_of(host) for host in hosts]
        # A host without a plan has the prior of all pages.
        unknown = HostPriors((float(self._of_all.changes[0]), float(self._of_all.time_s[0])), {})
        prior = priors_of([unknown if plan is None else plan.priors for plan in plans], columns.kind)
        trusted = np.array([plan is not None and plan.trusted for plan in plans])
        found = estimate(columns.histories, prior, trusted)
        interval_s = self._signals.intervals(cell.frontier, hosts, plans, columns, found, prior)
        for number, (host, row) in enumerate(zip(hosts, rows, strict=True)):
            requested_s = max(row.last_visit_s, float(columns.fresh_s[number]))
            due_s = requested_s + float(interval_s[number])
            if only_sooner and due_s * 1000 >= row.rank:
                continue
            revisits.set_due(cell.frontier, (host.slot, host.host_id, row.key), due_s)
            if only_sooner:
                continue
            weight, rate, fresh_s = columns.weight[number], found.mean[number], columns.fresh_s[number]
            self._scheduled.append((host, (row.key, float(weight), float(rate), row.last_visit_s, float(fresh_s))))

    def _plan_of(self, host: RefreshedHost) -> HostPlan | None:
        plan = self._plans.get(host)
        if plan is not None:
            self._plans.move_to_end(host)
        return plan

    # -- before a visit ------------------------------------------------------------------------------------

    def next_urls(self, cell: Cell, queue: HostQueue, limit: int, skip: Collection[int]) -> HostRefill:
        """Return a host's next URLs, new and known ones in turns while there are both."""
        if self.wanted_budget != self._settings.budget:
            self._apply_budget(self.wanted_budget)
        frontier, now_s = cell.frontier, self._clock.now_s()
        host = self._host(cell, queue.host_id, queue.host)
        # At the limit only retries go, and new URLs that displaced a kept page.
        if self.is_full:
            new, held = frontier.next_urls(queue.host_id, queue.host, limit, skip, now_s, (LANE_DUE,)), False
        else:
            new, held = cell.next_urls(queue, limit, skip, now_s)
        self._note_new(host, has_new=bool(new))
        allowed, paced_s = self.budget.allow(host.paced_host, limit, now_s)
        # A timetable has its own times, and as many visits as the budget has for them.
        if not allowed and not (self._has_timetable(host) and self.budget.overdrawn_s(host.paced_host, now_s) <= 0):
            return HostRefill([], held, paced_s)
        known, recheck_s = self._known(host, max(allowed, 1), skip, now_s)
        items = interleave(new[:allowed], known, max(allowed, 1), self._share(host), queue.requests)
        if items:
            self.budget.take(host.paced_host, len(items), now_s)
            return HostRefill(items, held, None)
        retry_s = frontier.next_due_s(queue.host_id, queue.host)
        times = [at_s for at_s in (recheck_s, retry_s, paced_s if new else None) if at_s is not None]
        return HostRefill([], held, min(times, default=None))

    def _apply_budget(self, budget: int) -> None:
        """Divide another budget from now on: by the demands that hosts have, and by new plans as soon as possible.

        A host without a demand, because there was no budget, is limited by the budget of all alone until its plan.
        """
        self._settings = replace(self._settings, budget=budget)
        self.budget = self.budget.renewed(self._settings, self._clock.now_s())
        for host in self._hosts.values():
            demand = host.paced_host.demand
            host.paced_host = PacedHost(host.paced_host.phase, last_s=host.paced_host.last_s)
            self.budget.set_demand(host.paced_host, demand, has_new=host.has_new_urls and not self.is_full)
            if host.pages:
                host.planned = -inf
                self._request_plan(host)

    def _note_new(self, host: RefreshedHost, *, has_new: bool) -> None:
        """Note whether a host has new URLs; one without a plan then takes part in the budget with these alone."""
        paced, is_changed = host.paced_host, has_new != host.has_new_urls
        host.has_new_urls = has_new
        has_plan = paced.demand is not None and paced.demand.pages > 0
        if not has_plan and has_new and self.budget.is_limited:
            value = self._page_yield(host) * value_of_new(self._of_all)
            demand = demand_of_new(host.slot_s, value, self._cost(host))
            self.budget.set_demand(paced, demand, has_new=True)
        elif not has_plan and self.budget.is_limited:
            # Its known pages have no curve before the first plan; until then the budget of all alone limits it.
            self.budget.set_demand(paced, None, has_new=False)
        elif is_changed:
            self.budget.set_demand(paced, paced.demand, has_new=has_new and not self.is_full)

    def _page_yield(self, host: RefreshedHost) -> float:
        """Return the expected share of first visits of a host that bring a page."""
        of_all = (self._yield[True] + 1.0) / (self._yield.total() + 1.0)
        return (host.pages_found + YIELD_VISITS * of_all) / (host.first_visits + YIELD_VISITS)

    def _cost(self, host: RefreshedHost) -> float:
        """Return the mean cost of a request to a host, in the unit of the budget."""
        return 1.0 if self._settings.budget_unit == "requests" else max(host.bytes, 1.0)

    def _share(self, host: RefreshedHost) -> float:
        """Return the share of a host's requests that go to known pages while it has new URLs too."""
        demand = host.paced_host.demand
        if demand is None or not self.budget.terms.by_value:
            return self._settings.share
        return self.budget.terms.allot(demand, has_new=True).share

    def _has_timetable(self, host: RefreshedHost) -> bool:
        policy_queue = self._policy_queues.get(host)
        return policy_queue is not None and policy_queue.is_timetable

    def _goes_early(self, host: RefreshedHost) -> bool:
        """Tell whether known pages are visited before they are due: nothing is new, or their share is fixed."""
        return not host.has_new_urls or self.budget.is_limited

    def _known(
        self, host: RefreshedHost, limit: int, skip: Collection[int], now_s: float
    ) -> tuple[list[QueuedUrl], float | None]:
        """Return the next known pages of a host, and when to look again if there are none."""
        recheck_s: float | None
        if self._settings.policy == ON_DISK:
            keys, recheck_s = self._due(host, limit, skip, now_s)
        elif host in self._policy_queues:
            self._policy_queues.move_to_end(host)
            keys, recheck_s = self._policy_queues[host].take(limit, skip, now_s, early=self._goes_early(host))
            if now_s >= self._policy_queues[host].ends_s:
                self._request_plan(host)
        else:
            if host.pages or host.news:
                self._request_plan(host)
            return [], now_s + RECHECK_S if host.pages or host.news else None
        frontier = host.cell.frontier
        found = (read_refresh_page(frontier, host.name, host.slot, host.host_id, key) for key in keys)
        items = [item for item in found if item is not None]
        if frontier.order.stores_trails:
            items = trails.attach_hints(frontier, host.slot, host.host_id, items)
        return items, None if recheck_s is None else max(recheck_s, now_s + SOON_S)

    def _due(
        self, host: RefreshedHost, limit: int, skip: Collection[int], now_s: float
    ) -> tuple[list[int], float | None]:
        """Return the keys of pages in the order of their due times; early ones only if there is nothing new."""
        frontier = host.cell.frontier
        # Pages may go early; not sitemaps and feeds, which would bring no news.
        early = self._goes_early(host)
        sources = self._signals.sources(frontier, host) if early else {}
        limit_read = limit + EXTRA_CANDIDATES + len(sources)  # sitemaps and feeds may all come first
        first = revisits.next_pages(frontier, host.slot, host.host_id, limit_read, skip)
        ready_s = [
            max(
                page.due_s if not early or page.key in sources else 0.0,
                page.requested_s + self._settings.least_s,
            )
            for page in first
        ]
        ready = [page.key for page, at_s in zip(first, ready_s, strict=True) if at_s <= now_s]
        return ready[:limit], min(ready_s, default=None)

    # -- plans ---------------------------------------------------------------------------------------------

    def _request_plan(self, host: RefreshedHost) -> None:
        if not host.is_queued:
            host.is_queued = True
            self._plan_queue.append(host)
        self._plan_at = min(self._plan_at, self._plan_due_at(host))

    def plan_again(self) -> Touched:
        """Apply the planning thread's result, move due times for a short time, and give the thread its next host."""
        touched: Touched = []
        if self._running is not None and self._running.done():
            made = self._running.result()
            self._running = None
            if isinstance(made, PlanResult):
                touched += self._apply_plan(made)
            else:
                made.host.counted = self._clock.ticks_s()
                self._set_bound(made.host, made.bound, made.pages, made.revisited)
        if self._moving is not None:
            touched.append(self._move_due_times(*self._moving))
        if self._running is None and self._moving is None:
            self._start_planning()
        if self._running is None and self._moving is None:
            self._start_counting()
        return touched

    def _apply_plan(self, made: PlanResult) -> Touched:
        """Store a plan; return the hosts of URLs that took the place of a page."""
        host = made.host
        self._store_bound(host, made)
        has_new = host.has_new_urls and not self.is_full
        self.budget.set_demand(host.paced_host, made.demand, has_new=has_new)
        if made.plan is not None:
            # The host's share in the sums is replaced; they give the prior of all pages.
            self._sums += np.subtract(made.plan.sums, host.sums)
            host.sums = made.plan.sums
            self._of_all = fit_sums(self._sums[:, None], _FIRST_PRIOR)
            self._plans[host] = made.plan
            self._plans.move_to_end(host)
            while len(self._plans) > MAX_PLANS:
                self._plans.popitem(last=False)
        if made.policy_queue is not None:
            self._policy_queues[host] = made.policy_queue
            while sum(map(len, self._policy_queues.values())) > MAX_POLICY_PAGES and len(self._policy_queues) > 1:
                self._policy_queues.popitem(last=False)
        # A large host continues with its next part.
        host.after = FIRST_KEY if made.after is None else made.after
        if made.after is not None and made.policy_queue is None:
            self._request_plan(host)
        self._moving = (host, deque(made.moves))
        queued, dropped = give_way(self._cells, host.cell, host.slot, host.host_id, made.swaps, self._clock.now_s())
        self.stored_pages -= dropped
        return queued

    def _store_bound(self, host: RefreshedHost, made: PlanResult) -> None:
        """Store a host's freshness, bounds and least important page; for a large host, those of its last part."""
        # A plan knows the host as well as a count does, but others less well; so a recent count stays.
        if not made.pages or self._clock.ticks_s() - host.counted > 2 * COUNT_S:
            self._set_bound(host, made.bound, made.pages, made.revisited)
        self._swap_finder.note_least(host.cell.number, host.host_id, made.least)
        self._validators.subtract([host.are_304s_true])
        self._validators.update([made.are_304s_true])
        host.are_304s_true = made.are_304s_true

    def _set_bound(self, host: RefreshedHost, bound: FreshnessBound | None, pages: int, revisited: int) -> None:
        self._bound_sums += _as_sums(bound) - _as_sums(host.bound)
        self._revisited += revisited - host.revisited
        host.bound, host.pages, host.revisited = bound, pages, revisited

    def _start_counting(self) -> None:
        """Count the freshness of the next host, by the records and the knowledge of the report (views/reports).

        Plans are made when there is news. On a young crawl that is long ago for most hosts, and was before anything was
        known of their rates. A host that has no plan yet is counted as well.
        """
        now = self._clock.ticks_s()
        if self._may_count > 0 and not self._to_count and now >= self._count_at:
            self._count_at = now + COUNT_S
            self._to_count.extend(
                host for host in self._hosts.values() if host.pages + host.news and host.pages <= PART_PAGES
            )
        if self._may_count > 0 and self._to_count:
            host = self._to_count.popleft()
            self._may_count -= max(host.pages, LEAST_COUNTED)
            # In the long run nothing is new, and known pages have all requests: a budget's, or all polite ones.
            plan = self._plans.get(host) if self.budget.is_limited else None
            slot_s = None if plan is None else plan.slot_s
            self._running = self._thread.submit(self._count_freshness, host, slot_s, self._clock.now_s())

    def _count_freshness(self, host: RefreshedHost, slot_s: float | None, now_s: float) -> CountedHost:
        """Count the freshness of a host; in the planning thread, with its own read-only connection to the cell."""
        common = common_of_cells([cell.frontier for cell in self._cells], now_s)
        with closing(FrontierCell(host.cell.folder.frontier, read_only=True)) as frontier:
            host_key = (host.slot, host.host_id)
            with sqlite_errors(frontier.path):
                total = revisits.count_captured(frontier, *host_key)
                slot_s = self._slot_s(frontier, host) if slot_s is None else slot_s
                counted = bounds_of_host(frontier, host_key, slot_s, self._weigh, common, now_s)
        # Hosts of more than one part are not counted between plans.
        return CountedHost(host, counted.bounds[0] if counted.bounds else None, total, counted.revisited)

    def account(self) -> dict[str, float] | None:
        """Return the freshness of all hosts as it was counted last, and its bounds; None before the first plan.

        Asking for it has it counted anew.
        """
        self._may_count = COUNTED_AT_ONCE
        pages, weight, fresh, variance, best, best_variance, possible, *shared = self._bound_sums.tolist()
        if not pages or not weight > 0:
            return None
        shares = (fresh / weight, max(variance, 0.0), best / weight)
        error, best_variance = SharedError(*shared), max(best_variance, 0.0)
        whole = FreshnessBound(round(pages), weight, *shares, 1.0, best_variance=best_variance, shared=error)
        numbers = {"fresh": whole.fresh, "fresh_error": whole.error, "best": whole.best}
        numbers |= {"best_error": whole.best_error, "possible": possible / weight}
        counts = {"pages": whole.pages, "visited_again": self._revisited}
        return {**counts, **{name: round(number, 4) for name, number in numbers.items()}, **self.budget.account()}

    def _move_due_times(self, host: RefreshedHost, moves: deque[DueTimeChange]) -> tuple[Cell, list[tuple[int, str]]]:
        until = self._clock.ticks_s() + MOVE_S
        while moves:
            some = [moves.popleft() for _ in islice(range(len(moves)), MOVED_AT_ONCE)]
            with host.cell.frontier.transaction() as frontier:
                revisits.move_due_times(frontier, host.slot, host.host_id, some)
            if self._clock.ticks_s() >= until:
                break
        if not moves:
            self._moving = None
        return host.cell, [(host.host_id, host.name)]

    def _start_planning(self) -> None:
        now, self._plan_at = self._clock.ticks_s(), inf
        for _ in range(len(self._plan_queue)):
            host = self._plan_queue.popleft()
            if now >= self._plan_due_at(host):
                # Other hosts may be due as well: look again as soon as this plan is made.
                self._plan_at = now
                host.is_queued, host.planned, host.news = False, now, 0
                found_out = false_share(self._validators[False], self._validators[True])
                has_new, now_s = host.has_new_urls and not self.is_full, self._clock.now_s()
                inputs = PlanInputs(
                    CommonKnowledge(self._of_all, found_out),
                    self.budget.outlook(host.paced_host, now_s),
                    has_new,
                    self._page_yield(host),
                    self._cost(host),
                    now_s,
                    host in self._plans,
                )
                self._running = self._thread.submit(self._plan_part, host, inputs)
                return
            self._plan_queue.append(host)
            self._plan_at = min(self._plan_at, self._plan_due_at(host))

    def _plan_due_at(self, host: RefreshedHost) -> float:
        """Return when a host with news is planned; at once if the plan has ended or lacks most of its pages."""
        if self._settings.policy != ON_DISK:
            policy_queue = self._policy_queues.get(host)
            left_s = -1.0 if policy_queue is None else policy_queue.ends_s - self._clock.now_s()
            # A timetable is carried out to its end: a new one would begin with the same first visits again.
            if policy_queue is not None and policy_queue.is_fixed and left_s > 0 and not policy_queue.lacks_pages:
                return self._clock.ticks_s() + left_s
            has_ended = left_s <= 0
        else:
            has_ended = host.news >= max(NEWS_AT_LEAST, NEWS_SHARE * host.pages) or host.after > FIRST_KEY
        return 0.0 if has_ended else host.planned + self._settings.replan_s

    def _plan_part(self, host: RefreshedHost, inputs: PlanInputs) -> PlanResult:
        """Plan one part of a host; in the planning thread, with its own read-only connection to the cell."""
        common, now_s = inputs.common, inputs.now_s
        with closing(FrontierCell(host.cell.folder.frontier, read_only=True)) as frontier:
            with sqlite_errors(frontier.path):
                total = revisits.count_captured(frontier, host.slot, host.host_id)
                rows = revisits.captured_pages(frontier, host.slot, host.host_id, host.after, PART_PAGES)
                record = histories.host_trust(frontier, host.slot, host.host_id)[0]
                slot_s = self._slot_s(frontier, host)
            with decode_errors(frontier):
                trust = Trust.decode(record)
                columns = to_columns(rows, self._weigh) if rows else None
            swaps, least = list[Swap](), inf
            if columns is not None and self.is_full:
                planned = (host.cell.number, host.slot, host.host_id, host.name)
                elsewhere = self._kept_elsewhere()
                excess = self.stored_pages + elsewhere.pages - self._config.limits.pages_kept
                swaps, least = self._swap_finder.find(frontier, planned, rows, columns, now_s, excess, elsewhere)
            if columns is None:
                return PlanResult(host, None, [], None, total, None)
            terms = HostTerms(slot_s, max(1.0, total / len(columns)), inputs.cost, inputs.page_yield)
            part = _HostPart(terms, inputs, self._settings)
            known = (common.of_all, trust.dates.is_trusted)
            made = self._signals.plan(frontier, host, columns, *known, (slot_s, part.choose_slot), now_s, inputs.warm)
            pages = without_sources(made.columns)
            unproven = read_unproven(frontier, (host.slot, host.host_id), pages, trust, common)
        plan, found, interval_s, columns = made
        after = rows[-1].key if len(rows) == PART_PAGES else None
        policy_queue = self._make_policy_queue(columns, found, part, now_s)
        bound = compute_bound(HostEstimate(pages, found, plan.priors, unproven), plan.slot_s, now_s, before=host.bound)
        moves, are_true = due_time_changes(columns, interval_s), are_304s_true(trust, columns.histories)
        revisited = count_revisited(pages)
        return PlanResult(
            host, plan, moves, after, total, policy_queue, bound, swaps, are_true, part.demand, least, revisited
        )

    def _slot_s(self, frontier: FrontierCell, host: RefreshedHost) -> float:
        """Return the time between requests to a host: as its last requests were paced, or as expected."""
        if host.paced >= PACED:
            return host.slot_s
        expected_s = self._expected_slot_s(frontier, host)
        # A host that was believed too quick would keep a part of the budget that it cannot use.
        return max(expected_s, host.slot_s) if host.paced and self.budget.is_limited else expected_s

    def _expected_slot_s(self, frontier: FrontierCell, host: RefreshedHost) -> float:
        """Return the expected time between requests to a host not visited lately, from its robots.txt and answers."""
        courtesy = self._config.courtesy
        row = find_host(frontier, host.host_id)
        took_s = 0.0 if row is None else row.response_s
        agent = courtesy.user_agent
        requested = stored_crawl_delay_s(frontier, host.host_id, host.name, agent) if courtesy.robots else None
        is_small = not has_more_urls(frontier, host.host_id, host.name, courtesy.small_site_urls)
        delay_s = delay_of(courtesy, host.name, is_small=is_small)
        delays_s = (delay_s, courtesy.response_factor * took_s if delay_s else 0.0)
        return took_s + max(*delays_s, requested or 0.0)

    def _make_policy_queue(
        self, columns: PageColumns, found: Gamma, part: _HostPart, now_s: float
    ) -> PolicyQueue | None:
        if self._settings.policy == ON_DISK or columns.is_gone.all():
            return None
        from teia.crawler.keep_fresh.ordered_plan import PolicyQueue

        if not self.budget.is_limited:
            return PolicyQueue(columns, found.mean, part.slot_s, self._settings, now_s)
        polite_s = part.terms.polite_s * part.terms.scale
        return PolicyQueue(columns, found.mean, polite_s, self._settings, now_s, part.wanted_per_s)


@dataclass(slots=True)
class _HostPart:
    """A host, or a part of one, while it is planned: what it could use, and the visits that it gets.

    `slot_s` is the time between the visits of the part's pages, `wanted_per_s` what the policy wants for them.
    """

    terms: HostTerms
    inputs: PlanInputs
    settings: RefreshSettings
    demand: HostDemand | None = None
    slot_s: float = inf
    wanted_per_s: float = 0.0

    def choose_slot(self, columns: PageColumns, rate: Floats, priors: HostPriors) -> float:
        """Return the time between two visits of the pages, by the host's part of the budget."""
        outlook, has_new = self.inputs.outlook, self.inputs.has_new
        if not outlook.terms.depend_on_demand:
            share = self.settings.share if has_new else 1.0
            self.slot_s = self.terms.polite_s * self.terms.scale / max(share, 0.01)
            return self.slot_s
        self.demand = measure_demand(columns, rate, priors, self.terms, self.settings, self.inputs.now_s)
        allotted = outlook.terms_with(self.demand, has_new=has_new).allot(self.demand, has_new=has_new)
        self.wanted_per_s = allotted.wanted_per_s / self.terms.scale
        self.slot_s = self.terms.scale / max(allotted.requests_per_s * max(allotted.share, 0.01), 1e-9)
        return self.slot_s


def interleave(
    new: Sequence[QueuedUrl], known: Sequence[QueuedUrl], limit: int, share: float, number: int
) -> list[QueuedUrl]:
    """Merge new and known URLs in the order of their fetches; `number` is that of the host's next request.

    Of all requests, `share` go to known pages while there are both; if there is only one kind, it gets all of them.
    """
    items: list[QueuedUrl] = []
    first, second = deque(known), deque(new)
    while len(items) < limit and (first or second):
        # A known page's turn is the request with which its accumulated share passes a whole number.
        is_known_turn = int((number + 1) * share) > int(number * share)
        items.append((first if first and (is_known_turn or not second) else second or first).popleft())
        number += 1
    return items


def _without(values: OrderedDict[RefreshedHost, Value], gone: set[RefreshedHost]) -> OrderedDict[RefreshedHost, Value]:
    return OrderedDict((host, each) for host, each in values.items() if host not in gone)


def _as_sums(one: FreshnessBound | None) -> Floats:
    """Return the freshness of a host, and its bounds, as numbers that can be summed."""
    if one is None:
        return np.zeros(11)
    shares = np.array([one.fresh, one.best, one.possible]) * one.weight
    numbers = [one.pages, one.weight, shares[0], one.variance, shares[1], one.best_variance, shares[2]]
    return np.array([*numbers, *astuple(one.shared)])


def _settles_page(visit: ActiveVisit) -> bool:
    """Tell whether a visit settled a page, so that it is scheduled for its next one."""
    is_settled = visit.verdict is not None and visit.verdict.state in {STATE_DONE, STATE_FAILED}
    return bool(visit.queue.host_id) and visit.item.purpose == "page" and is_settled


def is_stored_page(visit: ActiveVisit) -> bool:
    """Tell whether a visit brought a page that counts as one that is kept (F2)."""
    return visit.fetched is not None and 200 <= visit.fetched.status < 300 and visit.result is not None
