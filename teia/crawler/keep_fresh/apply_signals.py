"""Change signals of sites, applied: pages reported as changed are revisited sooner, others later (docs/signals.md).

A signal is evidence, in proportion to the value that its source has proved to have (signals/trust.py). With a page's
rate lam, the price of its host's visits and its weight, three things follow:

  a new report            the page is stale with the probability 1 - (1 - w) exp(-lam age), as if it were older by
                          -ln(1 - w) / lam; so it is due that much sooner
  no report               of all changes a share r would have been reported; the others come at the rate
                          (1 - r) lam, and for these the page is visited: later than without the signal
  the source itself       a sitemap or feed is visited as often as it is worth: with changes of all pages it
                          names coming at the rate L (by weight), the loss of reading it every I seconds is
                          w r L I / 2, and reading it costs price / I. So I = sqrt(2 price / (w r L)), and it
                          gets at most one of SOURCE_SHARE of the host's requests

Nothing here needs more than one host at a time. Due times stay in the frontier.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from math import sqrt
from typing import NamedTuple, Protocol

import numpy as np

from teia.config.sections import RefreshSettings
from teia.crawler.keep_fresh.host_plan import (
    ChooseSlot,
    HostPlan,
    PageColumns,
    VisitPrice,
    intervals,
    plan_host,
    priors_of,
)
from teia.crawler.signals_in.site_hints import source_trust
from teia.frontier.cell import site_statements
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.site_statements import SiteStatement, StatementSource
from teia.refresh.history import DAY_S
from teia.refresh.priors import LONGEST_S
from teia.refresh.rates import Floats, Gamma, fresh_probability_of
from teia.signals.trust import SignalSource, is_news

SOURCE_SHARE = 4
"""One of so many of a host's requests may go to sitemaps and feeds."""

UNTRUSTED_INTERVAL_S = DAY_S
"""Shortest interval for a sitemap with untrusted dates, which is read only for the pages it names."""

MOST_SURE = 0.98
"""Highest confidence that any signal source gets."""

MAX_BROUGHT_FORWARD = 2_000
"""Number of pages that one sitemap brings forward at once; the others follow with the host's next plan."""


@dataclass(frozen=True, slots=True, eq=False)
class SignalEvidence:
    """Signals on pages, in columns. `recall`: the share of their changes that would have been reported.

    `belief` is the probability that a page changed since its visit because a source reported it, 0 without a report.
    `seen_s` is the last time when a source could have reported a change. Visits are moved as far as a source surely
    deserves. `likely` is the same evidence without that care, for estimates; None: it is the same. The errors are
    standard deviations, which the pages of a host have in common.
    """

    recall: Floats
    belief: Floats
    seen_s: Floats
    likely: SignalEvidence | None = None
    recall_error: Floats | float = 0.0
    belief_error: Floats | float = 0.0

    @property
    def for_estimates(self) -> SignalEvidence:
        return self.likely or self


def no_evidence(pages: int) -> SignalEvidence:
    return SignalEvidence(np.zeros(pages), np.zeros(pages), np.zeros(pages))


class _EvidenceBuilder:
    """Accumulated evidence on pages of one cell, one signal after the other."""

    def __init__(self, frontier: FrontierCell, pages: int) -> None:
        self._frontier = frontier
        self._recall, self._doubt, self._seen_s = np.zeros(pages), np.ones(pages), np.zeros(pages)
        self._likely_recall, self._likely_doubt = np.zeros(pages), np.ones(pages)
        self._recall_error, self._belief_error = np.zeros(pages), np.zeros(pages)
        self._trusts: dict[int, dict[int, SignalSource]] = {}
        # Source 0 stands for pings, which are never read.
        self._read_s: dict[int, float] = {0: 0.0}

    def trusts(self, slot: int, host_id: int) -> dict[int, SignalSource]:
        known = self._trusts.get(host_id)
        if known is None:
            known = self._trusts[host_id] = source_trust(self._frontier, slot, host_id)
        return known

    def add(self, row: int, slot: int, host_id: int, statement: SiteStatement, visited_s: float) -> None:
        trust = self.trusts(slot, host_id).get(statement.kind, SignalSource())
        if is_news(statement.reported_s, statement.checked_s, visited_s):
            # Sources count as independent, so that doubts multiply.
            self._doubt[row] *= 1.0 - min(trust.sure_weight, MOST_SURE)
            self._likely_doubt[row] *= 1.0 - min(trust.weight, MOST_SURE)
            self._belief_error[row] = max(self._belief_error[row], trust.credibility.deviation)
        self._recall[row] = max(self._recall[row], min(trust.sure_recall, MOST_SURE))
        if trust.likely_recall > self._likely_recall[row]:
            self._likely_recall[row], self._recall_error[row] = trust.likely_recall, trust.recall.deviation
        self._seen_s[row] = max(self._seen_s[row], self._last_read_s(slot, statement.source))

    def _last_read_s(self, slot: int, source: int) -> float:
        if source not in self._read_s:
            known = site_statements.find_source(self._frontier, slot, source)
            self._read_s[source] = known.seen_s if known is not None else 0.0
        return self._read_s[source]

    def build(self) -> SignalEvidence:
        belief, errors = 1.0 - self._likely_doubt, (self._recall_error, self._belief_error)
        likely = SignalEvidence(self._likely_recall, belief, self._seen_s, None, *errors)
        return SignalEvidence(self._recall, 1.0 - self._doubt, self._seen_s, likely)


def read_evidence(frontier: FrontierCell, slot: int, host_id: int, columns: PageColumns) -> SignalEvidence:
    """Return the signals on some pages of a host; reads all between the first and last key of the columns."""
    builder = _EvidenceBuilder(frontier, len(columns))
    row_of = {key: row for row, key in enumerate(columns.key.tolist())}
    visited_s = columns.fresh_s.tolist()
    for statement in site_statements.statements_of_pages(
        frontier, slot, host_id, int(columns.key.min()), int(columns.key.max())
    ):
        row = row_of.get(statement.key)
        if row is not None:
            builder.add(row, slot, host_id, statement, visited_s[row])
    return builder.build()


def read_evidence_at(frontier: FrontierCell, hosts: Sequence[tuple[int, int]], columns: PageColumns) -> SignalEvidence:
    """Like `read_evidence`, for some pages of many hosts, which are (slot, host id)."""
    builder = _EvidenceBuilder(frontier, len(columns))
    for row, (host, key) in enumerate(zip(hosts, columns.key.tolist(), strict=True)):
        for statement in site_statements.statements_of_page(frontier, (*host, key)):
            builder.add(row, *host, statement, float(columns.fresh_s[row]))
    return builder.build()


def signal_intervals(
    columns: PageColumns,
    found: Gamma,
    prior: Gamma,
    prices: Sequence[VisitPrice | None],
    settings: RefreshSettings,
    evidence: SignalEvidence,
) -> Floats:
    """Return each page's time from its last visit to its next, given the signals; below 0 where it is urgent."""
    # Changes that no source would report: fewer in the same time, since the mean is changes / time.
    unreported = Gamma(found.changes, found.time_s / (1.0 - evidence.recall))
    interval_s = intervals(columns, unreported, prior, prices, settings)
    if evidence.belief.any():
        older_s = np.minimum(-np.log1p(-evidence.belief) / found.mean, LONGEST_S)
        sooner_s = intervals(columns, found, prior, prices, settings) - older_s
        interval_s = np.where((evidence.belief > 0) & ~columns.is_gone, np.minimum(interval_s, sooner_s), interval_s)
    return interval_s


def add_silence(columns: PageColumns, evidence: SignalEvidence, now_s: float) -> PageColumns:
    """Add the time in which no source reported a change to the time that pages are known to have been quiet.

    Reported pages are visited, and others are not. Their rates would be too high if only visits counted.
    """
    silent_s = np.where(evidence.belief > 0, 0.0, evidence.recall * _covered_s(columns, evidence, now_s))
    known = columns.histories
    return replace(columns, histories=replace(known, quiet_s=known.quiet_s + silent_s)) if silent_s.any() else columns


def _covered_s(columns: PageColumns, evidence: SignalEvidence, now_s: float) -> Floats:
    """Return the time from each capture to the last reading of a source that would have reported a change."""
    age_s = np.maximum(now_s - columns.fresh_s, 0.0)
    return np.clip(evidence.seen_s - columns.fresh_s, 0.0, age_s)


def shift_ages(columns: PageColumns, found: Gamma, evidence: SignalEvidence, now_s: float) -> PageColumns:
    """Shift each capture's apparent age by the signals: a read sitemap may confirm a page as well as a visit."""
    covered_s = _covered_s(columns, evidence, now_s)
    # The age at which the capture is fresh with 1 - belief times the probability that it has by its own age.
    age_s = np.maximum(now_s - columns.fresh_s, 0.0)
    passed_s = found.time_s + age_s
    with np.errstate(over="ignore"):
        older_s = np.minimum(passed_s * ((1.0 - evidence.belief) ** (-1.0 / found.changes) - 1.0), LONGEST_S)
    is_reported = evidence.belief > 0
    shift_s = np.where(is_reported, older_s, -evidence.recall * covered_s)
    # The slope of the probability with the belief, or with the recall, times their errors.
    fresh, by_age = fresh_probability_of(found, age_s + shift_s), fresh_probability_of(found, age_s)
    by_recall = fresh * found.changes * covered_s / (found.time_s + age_s + shift_s) * evidence.recall_error
    error = np.where(is_reported, by_age * evidence.belief_error, by_recall)
    return replace(columns, shift_s=shift_s, shift_error=error)


def mark_sources(frontier: FrontierCell, host_key: tuple[int, int], columns: PageColumns) -> PageColumns:
    """Mark the sitemaps and feeds among the pages of a host."""
    sources = [each.key for each in site_statements.sources_of(frontier, *host_key)]
    return replace(columns, is_source=np.isin(columns.key, sources))


def without_sources(columns: PageColumns) -> PageColumns:
    """Give sitemaps and feeds no weight, for figures of freshness: they tell of pages, and are none themselves."""
    return replace(columns, weight=np.where(columns.is_source, 0.0, columns.weight))


def source_interval_s(
    plan: HostPlan | None, source: StatementSource, trust: SignalSource, slot_s: float, settings: RefreshSettings
) -> float | None:
    """Return the interval for a sitemap or feed; None if it is treated as an ordinary page, for lack of a plan."""
    if plan is None or plan.price is None or not source.named:
        return None
    reported_per_s = trust.weight * trust.recall.mean * plan.changes_per_s * min(1.0, source.named / max(1, plan.pages))
    best_s = sqrt(2.0 * plan.price.price / reported_per_s) if reported_per_s > 0 else LONGEST_S
    return min(max(best_s, SOURCE_SHARE * slot_s, settings.least_s), LONGEST_S)


class PlannableHost(Protocol):
    """The parts of a host used here; `slot_s` is the time between its requests."""

    slot: int
    host_id: int
    slot_s: float


class PlannedHost(NamedTuple):
    """A host's plan, the rates of its pages, their intervals from the last visits, and the pages themselves."""

    plan: HostPlan
    found: Gamma
    interval_s: Floats
    columns: PageColumns


class SignalApplier:
    """Due times adjusted by signals; without `refresh.signals` they follow from the rates alone."""

    def __init__(self, settings: RefreshSettings) -> None:
        self._settings = settings
        self.is_on = settings.signals

    def sources(self, frontier: FrontierCell, host: PlannableHost) -> dict[int, StatementSource]:
        """Return the sitemaps and feeds of a host, by key; they are never read early, which would bring no news."""
        if not self.is_on:
            return {}
        return {each.key: each for each in site_statements.sources_of(frontier, host.slot, host.host_id)}

    def intervals(
        self,
        frontier: FrontierCell,
        hosts: Sequence[PlannableHost],
        plans: Sequence[HostPlan | None],
        columns: PageColumns,
        found: Gamma,
        prior: Gamma,
    ) -> Floats:
        """Return the times from the last visits to the next, for some pages of many hosts."""
        prices = [None if plan is None else plan.price for plan in plans]
        host_keys = [(host.slot, host.host_id) for host in hosts]
        evidence = read_evidence_at(frontier, host_keys, columns) if self.is_on else no_evidence(len(columns))
        interval_s = signal_intervals(columns, found, prior, prices, self._settings, evidence)
        rows_of: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for row, host_key in enumerate(host_keys):
            rows_of[host_key].append(row)
        for rows in rows_of.values():
            host, plan = hosts[rows[0]], plans[rows[0]]
            self._set_source_intervals(frontier, host, columns, rows, interval_s, plan, host.slot_s)
        return interval_s

    def plan(
        self,
        frontier: FrontierCell,
        host: PlannableHost,
        columns: PageColumns,
        of_all: Gamma,
        trusted: bool,
        slot_s: tuple[float, float | ChooseSlot],
        now_s: float,
        warm: bool,
    ) -> PlannedHost:
        """Plan a host, or a part of one; `slot_s` is the time between requests of the host, and visits of the part."""
        host_key, every = (host.slot, host.host_id), range(len(columns))
        columns = mark_sources(frontier, host_key, columns)
        evidence = read_evidence(frontier, *host_key, columns) if self.is_on else no_evidence(len(columns))
        likely = evidence.for_estimates
        columns = add_silence(columns, likely, now_s)
        plan, found = plan_host(columns, of_all, trusted, slot_s[1], self._settings, now_s, warm, evidence.recall)
        prior, prices = priors_of(repeat(plan.priors), columns.kind), [plan.price] * len(columns)
        interval_s = signal_intervals(columns, found, prior, prices, self._settings, evidence)
        self._set_source_intervals(frontier, host, columns, every, interval_s, plan, slot_s[0])
        return PlannedHost(plan, found, interval_s, shift_ages(columns, found, likely, now_s))

    def _set_source_intervals(
        self,
        frontier: FrontierCell,
        host: PlannableHost,
        columns: PageColumns,
        rows: Sequence[int],
        interval_s: Floats,
        plan: HostPlan | None,
        slot_s: float,
    ) -> None:
        """Replace the intervals of a host's sitemaps and feeds by those that their signals are worth."""
        sources = self.sources(frontier, host)
        trusts = source_trust(frontier, host.slot, host.host_id) if sources else {}
        for row in rows if sources else ():
            source = sources.get(int(columns.key[row]))
            if source is None or columns.is_gone[row]:
                continue
            trust = trusts.get(source.kind, SignalSource())
            # All sitemaps and feeds of a host share the part of its requests that is for them.
            own_s = source_interval_s(plan, source, trust, slot_s * len(sources), self._settings)
            if trust.is_distrusted:
                interval_s[row] = max(interval_s[row], UNTRUSTED_INTERVAL_S)
            elif own_s is not None:
                interval_s[row] = own_s
