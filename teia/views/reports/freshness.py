"""Freshness of the captures, the freshness possible, and the hosts that change too fast (P3, P9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from teia.clock import Clock, WallClock
from teia.config.sections import RefreshSettings
from teia.crawler.fetch_rows import CACHED, IMPORTED_RUN
from teia.crawler.keep_fresh.apply_signals import SignalApplier, without_sources
from teia.crawler.keep_fresh.freshness import (
    FreshnessBound,
    LostFreshness,
    attribute_loss,
    combine_bounds,
    compute_bound,
    feasibility,
)
from teia.crawler.keep_fresh.host_plan import PageColumns, Weigh, to_columns
from teia.crawler.keep_fresh.observe import decode_errors
from teia.crawler.keep_fresh.weights import weigher
from teia.frontier.cell import histories, revisits
from teia.lib.message import Message
from teia.refresh.history import DAY_S
from teia.refresh.priors import FIRST_CHANGES, FIRST_TIME_S, fit_sums
from teia.refresh.rates import Floats, Gamma, repeat_prior
from teia.refresh.trust import Trust
from teia.urls import site_of, slot_of
from teia.views.reports.source import OpenCell, Source

PART = 50_000
"""Pages of one host that are looked at together; keys are hashes, so a part is a fair sample."""

FIRST_KEY = -(1 << 63)
MAX_HOSTS = 1_000_000


@dataclass(frozen=True, slots=True)
class HostFreshnessRow:
    """One host: freshness of its captures now and at best, with errors; requests are `slot_s` apart.

    `requests_a_day` is the number of its requests within the last day. `late_share` of its pages cannot be visited
    every week; with requests `week_slot_s` apart all could. `weight` is its share of all weight, `lost` what its stale
    captures take from the freshness of the whole.
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


@dataclass(frozen=True, slots=True)
class FreshnessReport:
    """The whole collection, and the hosts with the most pages.

    `uniform` is the freshness of the captures if all pages were visited alike; `lost` breaks down what `fresh` lacks to
    1. `well_known` pages were visited often enough for their rates to be known. Within the last day hosts had
    `requests_a_day`; `granted_a_day` is how many they allow.
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


@dataclass(slots=True)
class _Known:
    """Statistics of all pages so far, as sums that fit a prior (refresh/priors.py)."""

    sums: Floats

    @property
    def prior(self) -> Gamma:
        return fit_sums(self.sums[:, None], repeat_prior(FIRST_CHANGES, FIRST_TIME_S, 1))


def freshness(source: Source, top: int = 20, clock: Clock | None = None) -> FreshnessReport:
    """Estimate the freshness of a collection from its visits; reads every page's history, a host at a time."""
    now_s = (clock or WallClock()).now_s()
    weigh = weigher(source.config.refresh, source.ranks)
    pace = read_pace(source, now_s)
    known = _Known(np.zeros(3))
    found: list[tuple[str, FreshnessBound]] = []
    hiding: list[str] = []
    again = 0
    # In a fixed order, because each host's prior comes from the hosts before it.
    for cell, host_id, host in sorted(_hosts(source), key=lambda each: each[2]):
        # A host without requests in the log has the general delay.
        slot_s = pace[host].slot_s if host in pace else source.config.courtesy.delay_s
        hiding += [host] if _trust(cell, host_id, host).hides_changes else []
        parts, seen = _host_bounds(cell, host_id, host, slot_s, source.config.refresh, weigh, known, now_s)
        again += seen
        of_host = combine_bounds(parts)
        if of_host is not None:
            found.append((host, of_host))
    found.sort(key=lambda each: (-each[1].pages, each[0]))
    whole = combine_bounds(bound for _, bound in found)
    notes: list[str] = [
        Message("{host} answered 304 although pages had changed; its pages are requested without conditions", host=host)
        for host in sorted(hiding)[:top]
    ]
    notes += [feasibility(host, bound, pace.get(host, _NO_REQUESTS).took_s) for host, bound in found[:top]]
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
        granted_a_day=round(sum(DAY_S / bound.slot_s for _, bound in found if bound.slot_s > 0), 1),
        lost=attribute_loss(whole) if whole is not None else None,
        rows=tuple(_row(*each, whole.weight) for each in rows) if whole is not None else (),
        notes=tuple(filter(None, notes)),
    )


def _row(host: str, bound: FreshnessBound, last_day: int, whole: float) -> HostFreshnessRow:
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
    )


def _hosts(source: Source) -> Iterator[tuple[OpenCell, int, str]]:
    for cell in source.cells:
        for host_id, host, *_ in revisits.hosts_with_pages(cell.frontier):
            yield cell, host_id, host


@dataclass(slots=True)
class _PlannedHost:
    """A host as the planner sees it."""

    slot: int
    host_id: int
    slot_s: float


def _trust(cell: OpenCell, host_id: int, host: str) -> Trust:
    with decode_errors(cell.frontier):
        return Trust.decode(histories.host_trust(cell.frontier, slot_of(site_of(host)), host_id)[0])


def _host_bounds(
    cell: OpenCell,
    host_id: int,
    host: str,
    slot_s: float,
    settings: RefreshSettings,
    weigh: Weigh,
    known: _Known,
    now_s: float,
) -> tuple[list[FreshnessBound], int]:
    """Return the freshness of each part of one host, and how many of its pages were revisited."""
    slot = slot_of(site_of(host))
    total = revisits.count_captured(cell.frontier, slot, host_id)
    trusted = _trust(cell, host_id, host).dates.is_trusted
    bounds, seen = [], 0
    signals, planned = SignalApplier(settings), _PlannedHost(slot, host_id, slot_s)
    for columns in _parts(cell, slot, host_id, weigh):
        # A part of a host has its part of the slots.
        slots_s = (slot_s, slot_s * total / len(columns))
        made = signals.plan(cell.frontier, planned, columns, known.prior, trusted, slots_s, now_s, warm=False)
        pages, sums = without_sources(cell.frontier, planned, made.columns), made.plan.sums
        known.sums += (sums.pages, sums.rates, sums.logs)
        seen += int(((pages.histories.visits > 0) & (pages.weight > 0) & ~pages.is_gone).sum())
        bound = compute_bound(pages, made.found, slots_s[1], now_s, settings.horizon_s)
        bounds += [bound] if bound is not None else []
    return bounds, seen


def bound_of_host(
    cell: OpenCell, host_id: int, host: str, slot_s: float, settings: RefreshSettings, weigh: Weigh, now_s: float
) -> FreshnessBound | None:
    """Return the freshness of one host with requests `slot_s` apart, learnt from its own pages alone."""
    parts, _ = _host_bounds(cell, host_id, host, slot_s, settings, weigh, _Known(np.zeros(3)), now_s)
    return combine_bounds(parts)


def _parts(cell: OpenCell, slot: int, host_id: int, weigh: Weigh) -> Iterator[PageColumns]:
    after = FIRST_KEY
    while rows := revisits.captured_pages(cell.frontier, slot, host_id, after, PART):
        after = rows[-1].key
        with decode_errors(cell.frontier):
            yield to_columns(rows, weigh)


class _Pace(NamedTuple):
    """Average delay of a host before its requests, average time of its answers, and its requests of the last day."""

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
    sql = f"SELECT host, avg(rest_s), avg({seconds}), {last_day} FROM fetches GROUP BY host"  # noqa: S608  # our own text
    delay_s = source.config.courtesy.delay_s
    return {
        host: _Pace(delay_s if mean_delay_s is None else mean_delay_s, took_s, requests)
        for host, mean_delay_s, took_s, requests in source.log.query(sql, MAX_HOSTS).rows
    }
