"""Freshness of the captures, the freshness possible, and the hosts that change too fast (P3, P9)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from teia.clock import Clock, WallClock
from teia.collections.account import MIN_REVISITED, truth_of
from teia.collections.control_file import CrawlReports
from teia.config.sections import RefreshSettings
from teia.crawler.fetch_rows import CACHED, IMPORTED_RUN
from teia.crawler.keep_fresh.crawl_budget import CrawlBudget, HostDemand, PacedHost
from teia.crawler.keep_fresh.estimate import CommonKnowledge, common_of_cells
from teia.crawler.keep_fresh.freshness import (
    FreshnessBound,
    LostFreshness,
    attribute_loss,
    bounds_of_host,
    combine_bounds,
    feasibility,
    parts_of_host,
)
from teia.crawler.keep_fresh.host_plan import SHORTEST_SLOT_S, Weigh
from teia.crawler.keep_fresh.observe import decode_errors
from teia.crawler.keep_fresh.weights import weigher
from teia.errors import TeiaError
from teia.frontier.cell import histories, revisits
from teia.lib.message import Message
from teia.refresh.demand import level_of, price_at
from teia.refresh.history import DAY_S
from teia.refresh.priors import LONGEST_S
from teia.refresh.trust import Trust
from teia.urls import site_of, slot_of
from teia.views.host_budget import RunningBudget, demand_of_host
from teia.views.reports.source import OpenCell, Source

MEASURED_S = 60.0
"""Age up to which a measurement of the true freshness is shown beside the estimate."""

PACED_BY = 20
"""Number of a host's last requests from which its pace is computed."""

MAX_HOSTS = 1_000_000


@dataclass(frozen=True, slots=True)
class HostFreshnessRow:
    """One host: freshness of its captures now and at best, with errors; requests are `slot_s` apart.

    `requests_a_day` is the number of its requests within the last day. `late_share` of its pages cannot be visited
    every week; with requests `week_slot_s` apart all could. `weight` is its share of all weight, `lost` what its stale
    captures take from the freshness of the whole. `planned_a_day` is the number of visits to its known pages that a
    budget has for it; None without a budget.
    """

    host: str
    pages: int
    fresh: float
    fresh_error: float
    best: float
    best_error: float
    best_next: float
    possible: float
    slot_s: float
    requests_a_day: int
    full_pass_s: float
    late_share: float
    week_slot_s: float
    weight: float
    changes_per_day: float
    lost: float
    planned_a_day: float | None = None


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """The budget of all hosts together, its unit, and the price that divides it.

    A visit is made if it is worth the price: the hours for which it keeps a page of weight 1 fresh, for each unit.
    """

    a_day: int
    unit: str
    price_hours: float


@dataclass(frozen=True, slots=True)
class FreshnessReport:
    """The whole collection, and the hosts with the most pages.

    `uniform` is the freshness of the captures if all pages were visited alike; `lost` breaks down what `fresh` lacks to
    1. `well_known` pages were visited often enough for their rates to be known. Within the last day hosts had
    `requests_a_day`; `granted_a_day` is how many they allow. `fresh` is within `error` in 95 of 100 cases;
    `fresh_error` is the same number under its old name. `true` is the measured freshness of a lab's web. With a
    `budget`, all figures are for the requests that it allows.
    """

    pages: int
    visited_again: int
    hosts: int
    fresh: float | None
    fresh_error: float | None
    best: float | None
    best_error: float | None
    best_next: float | None
    possible: float | None
    uniform: float | None
    well_known: int
    requests_a_day: int
    granted_a_day: float
    lost: LostFreshness | None
    rows: tuple[HostFreshnessRow, ...]
    notes: tuple[str, ...]
    error: float | None = None
    true: float | None = None
    budget: BudgetReport | None = None

    def without_guesses(self) -> FreshnessReport:
        """Return the report without the estimates that too few visits make no more than guesses."""
        if self.visited_again >= MIN_REVISITED:
            return self
        unknown = replace(
            self, fresh=None, fresh_error=None, error=None, possible=None, uniform=None, lost=None, rows=()
        )
        return replace(unknown, best=None, best_error=None, best_next=None)


def freshness(source: Source, top: int = 20, clock: Clock | None = None) -> FreshnessReport:
    """Estimate the freshness of a collection from its visits; reads every page's history, a host at a time."""
    now_s = (clock or WallClock()).now_s()
    weigh = weigher(source.config.refresh, source.ranks)
    pace = read_pace(source, now_s)
    common = common_of_cells([cell.frontier for cell in source.cells], now_s)
    budget, planned = _divide_budget(source, pace, weigh, common, now_s)
    granted_s: dict[str, float] = {}
    found: list[tuple[str, FreshnessBound]] = []
    hiding: list[str] = []
    again = unproven = 0
    for cell, host_id, host in sorted(_hosts(source.cells), key=lambda each: each[2]):
        granted_s[host] = max(_polite_s(source, pace, host), SHORTEST_SLOT_S)
        slot_s = max(granted_s[host], 1.0 / planned[host] if host in planned else 0.0)
        hiding += [host] if _trust(cell, host_id, host).hides_changes else []
        host_key, horizon_s = (slot_of(site_of(host)), host_id), source.config.refresh.horizon_s
        counted = bounds_of_host(cell.frontier, host_key, slot_s, weigh, common, now_s, horizon_s)
        again += counted.revisited
        unproven += counted.is_unproven
        of_host = combine_bounds(counted.bounds)
        if of_host is not None:
            found.append((host, of_host))
    found.sort(key=lambda each: (-each[1].pages, each[0]))
    whole = combine_bounds(bound for _, bound in found)
    # A budget is not a delay: advice on a host's delay is by what its politeness allows.
    polite = [(host, replace(bound, slot_s=granted_s[host])) for host, bound in found]
    notes = few_visits(again) + _notes(hiding, unproven, polite, pace, top)
    rows = [(host, bound, pace.get(host, _NO_REQUESTS).last_day) for host, bound in found[:top]]
    return FreshnessReport(
        pages=whole.pages if whole is not None else 0,
        visited_again=again,
        hosts=len(found),
        fresh=round(whole.fresh, 6) if whole is not None else None,
        fresh_error=round(whole.error, 6) if whole is not None else None,
        best=round(whole.best, 6) if whole is not None else None,
        best_error=round(whole.best_error, 6) if whole is not None else None,
        best_next=round(whole.best_next or 0.0, 6) if whole is not None else None,
        possible=round(whole.possible, 6) if whole is not None else None,
        uniform=round(whole.excess.uniform / whole.weight, 6) if whole is not None and whole.excess else None,
        well_known=whole.excess.well_known if whole is not None and whole.excess else 0,
        requests_a_day=sum(pace.get(host, _NO_REQUESTS).last_day for host, _ in found),
        granted_a_day=round(sum(DAY_S / granted_s[host] for host, _ in found), 1),
        lost=attribute_loss(whole) if whole is not None else None,
        rows=tuple(_row(*each, whole.weight, planned) for each in rows) if whole is not None else (),
        notes=tuple(filter(None, notes)),
        error=round(whole.error, 6) if whole is not None else None,
        true=_measured(source, now_s),
        budget=budget,
    )


def few_visits(visited_again: int) -> list[str]:
    """Return the note that too few pages were visited again for an estimate; none if there are enough."""
    if visited_again >= MIN_REVISITED:
        return []
    return [
        Message(
            "not enough visits to estimate: {n:,} of {enough:,} pages were visited again",
            n=visited_again,
            enough=MIN_REVISITED,
        )
    ]


def _notes(
    hiding: Sequence[str],
    unproven: int,
    found: Sequence[tuple[str, FreshnessBound]],
    pace: Mapping[str, _Pace],
    top: int,
) -> list[str]:
    """Return what the figures do not show: hosts with false 304s, doubts in others, hosts that allow too few visits."""
    notes: list[str] = [
        Message("{host} answered 304 although pages had changed; its pages are requested without conditions", host=host)
        for host in sorted(hiding)[:top]
    ]
    if unproven:
        notes.append(
            Message(
                "no change of a page has proved the 304s of {n} hosts yet; the error covers that they may be false",
                n=unproven,
            )
        )
    notes += [feasibility(host, bound, pace.get(host, _NO_REQUESTS).took_s) for host, bound in found[:top]]
    return notes


def _polite_s(source: Source, pace: dict[str, _Pace], host: str) -> float:
    """Return the time between requests that politeness requires; without requests in the log, the general delay."""
    return pace[host].slot_s if host in pace else source.config.courtesy.delay_s


def _divide_budget(
    source: Source, pace: dict[str, _Pace], weigh: Weigh, common: CommonKnowledge, now_s: float
) -> tuple[BudgetReport | None, dict[str, float]]:
    """Divide the budget as the crawler does; return the visits per second of each host's known pages too.

    The price is that of the running crawl, which knows of new URLs and of other nodes. Without one, it is the price at
    which the known pages use the budget up.
    """
    settings = source.config.refresh
    if not settings.budget:
        return None, {}
    budget = CrawlBudget(settings, now_s)
    hosts: dict[str, HostDemand] = {}
    for cell, host_id, host in _hosts(source.cells):
        demand = _demand_of(cell, host_id, host, _polite_s(source, pace, host), settings, weigh, common, now_s)
        if demand is not None:
            hosts[host] = demand
            budget.set_demand(PacedHost(0.0), demand, has_new=False)
    budget.solve(now_s)
    running = RunningBudget.read(source.control, source.collection)
    terms = budget.terms
    if running is not None:
        terms = replace(terms, level=level_of(running.price_hours * 3_600.0))
    assert terms.level is not None
    least = 1.0 / LONGEST_S
    planned = {host: max(terms.allot(each, has_new=False).requests_per_s, least) for host, each in hosts.items()}
    return BudgetReport(settings.budget, settings.budget_unit, round(price_at(terms.level) / 3_600.0, 6)), planned


def _demand_of(
    cell: OpenCell,
    host_id: int,
    host: str,
    slot_s: float,
    settings: RefreshSettings,
    weigh: Weigh,
    common: CommonKnowledge,
    now_s: float,
) -> HostDemand | None:
    """Return what a host could use of a budget; of a large host, by a part of its pages."""
    host_key = (slot_of(site_of(host)), host_id)
    for rows in parts_of_host(cell.frontier, host_key):
        return demand_of_host(cell.frontier, host_key, rows, slot_s, settings, weigh, common, now_s)
    return None


def _measured(source: Source, now_s: float) -> float | None:
    """Return the true freshness if it was measured just now, as beside `teia demo`."""
    shares: list[float] = []
    # A folder that cannot be written to has no crawl beside which anything is measured.
    with suppress(TeiaError, sqlite3.Error):
        if source.control.exists():
            with CrawlReports(source.control) as reports:
                measured = truth_of(reports, source.collection, now_s - MEASURED_S, MAX_HOSTS)
                shares = [share for time_s, share in measured if time_s <= now_s]
    return round(shares[-1], 6) if shares else None


def _row(
    host: str, bound: FreshnessBound, last_day: int, whole: float, planned: Mapping[str, float]
) -> HostFreshnessRow:
    weight = bound.weight / whole
    changes_per_day = bound.excess.changes_per_s * DAY_S if bound.excess is not None else 0.0
    return HostFreshnessRow(
        host=host,
        pages=bound.pages,
        fresh=round(bound.fresh, 6),
        fresh_error=round(bound.error, 6),
        best=round(bound.best, 6),
        best_error=round(bound.best_error, 6),
        best_next=round(bound.best_next or 0.0, 6),
        possible=round(bound.possible, 6),
        slot_s=round(bound.slot_s, 6),
        requests_a_day=last_day,
        full_pass_s=round(bound.full_pass_s, 6),
        late_share=round(bound.late_share, 6),
        week_slot_s=round(bound.week_slot_s, 6),
        weight=round(weight, 6),
        changes_per_day=round(changes_per_day, 6),
        lost=round(weight * (1.0 - bound.fresh), 6),
        planned_a_day=round(planned[host] * DAY_S, 2) if host in planned else None,
    )


def _hosts(cells: Sequence[OpenCell]) -> Iterator[tuple[OpenCell, int, str]]:
    for cell in cells:
        for host_id, host, *_ in revisits.hosts_with_pages(cell.frontier):
            yield cell, host_id, host


def _trust(cell: OpenCell, host_id: int, host: str) -> Trust:
    with decode_errors(cell.frontier):
        return Trust.decode(histories.host_trust(cell.frontier, slot_of(site_of(host)), host_id)[0])


def bound_of_host(
    cells: Sequence[OpenCell],
    cell: OpenCell,
    host_id: int,
    host: str,
    slot_s: float,
    settings: RefreshSettings,
    weigh: Weigh,
    now_s: float,
) -> FreshnessBound | None:
    """Return the freshness of one host of a collection's cells, with requests `slot_s` apart."""
    common = common_of_cells([each.frontier for each in cells], now_s)
    host_key = (slot_of(site_of(host)), host_id)
    return combine_bounds(
        bounds_of_host(cell.frontier, host_key, slot_s, weigh, common, now_s, settings.horizon_s).bounds
    )


class _Pace(NamedTuple):
    """Average delay of a host before its last requests, time of their answers, and its requests of the last day."""

    mean_delay_s: float
    took_s: float
    last_day: int

    @property
    def slot_s(self) -> float:
        return self.mean_delay_s + self.took_s


_NO_REQUESTS = _Pace(0.0, 0.0, 0)


def read_pace(source: Source, now_s: float) -> dict[str, _Pace]:
    """Return the pace of each host's requests, from the fetch log."""
    seconds = "date_diff('microsecond', started, ended) / 1e6"
    # Imported rows and pages from a cache were no requests of this crawler.
    is_ours = f"kind <> '{CACHED}' AND (run IS NULL OR run <> {IMPORTED_RUN})"
    last_day = f"count(*) FILTER (epoch(started) > {now_s - DAY_S} AND {is_ours})"
    # A crawl begins with longer delays, before it is known that a site is small; its plans are by the last requests.
    last = [f"list_avg(arg_max({each}, started, {PACED_BY}) FILTER ({is_ours}))" for each in ("rest_s", seconds)]
    sql = f"SELECT host, {', '.join(last)}, {last_day} FROM fetches GROUP BY host"  # noqa: S608  # our own text
    delay_s = source.config.courtesy.delay_s
    return {
        host: _Pace(delay_s if mean_delay_s is None else mean_delay_s, took_s or 0.0, requests)
        for host, mean_delay_s, took_s, requests in source.log.query(sql, MAX_HOSTS).rows
    }
