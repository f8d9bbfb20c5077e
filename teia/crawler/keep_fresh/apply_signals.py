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
                          gets at most one of SPEAKING of the host's requests

Nothing here needs more than one host at a time. Due times stay in the frontier.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import NamedTuple, Protocol

import numpy as np

from teia.config.sections import RefreshSettings
from teia.crawler.keep_fresh.host_plan import HostPlan, PageColumns, VisitPrice, intervals, plan_host
from teia.crawler.signals_in.site_hints import voices_of
from teia.frontier.cell import site_statements
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.site_statements import SiteStatement, StatementSource
from teia.refresh.history import DAY_S
from teia.refresh.priors import LONGEST_S
from teia.refresh.rates import Floats, Gamma
from teia.signals.trust import SignalSource, is_news

SPEAKING = 4
"""One of so many of a host's requests may go to sitemaps and feeds."""

UNHEARD_S = DAY_S
"""Shortest interval for a sitemap with untrusted dates, which is read only for the pages it names."""

MOST_SURE = 0.98
"""Highest confidence that any signal source gets."""

BROUGHT_AT_ONCE = 2_000
"""Number of pages that one sitemap brings forward at once; the others follow with the host's next plan."""


@dataclass(frozen=True, slots=True, eq=False)
class SignalEvidence:
    """Signals on pages, in columns. `recall`: the share of their changes that would have been reported.

    `belief` is the probability that a page changed since its visit because a source reported it, 0 without a report.
    `seen_s` is the last time when a source could have reported a change.
    """

    recall: Floats
    belief: Floats
    seen_s: Floats

    @property
    def has_news(self) -> bool:
        return bool(self.belief.any())


def nothing_said(pages: int) -> SignalEvidence:
    return SignalEvidence(np.zeros(pages), np.zeros(pages), np.zeros(pages))


class _Scales:
    """Accumulated evidence on pages of one cell, one signal after the other."""

    def __init__(self, frontier: FrontierCell, pages: int) -> None:
        self._frontier = frontier
        self._recall, self._doubt, self._seen_s = np.zeros(pages), np.ones(pages), np.zeros(pages)
        self._voices: dict[int, dict[int, SignalSource]] = {}
        # Source 0 stands for pings, which are never read.
        self._read_s: dict[int, float] = {0: 0.0}

    def voices(self, slot: int, host_id: int) -> dict[int, SignalSource]:
        known = self._voices.get(host_id)
        if known is None:
            known = self._voices[host_id] = voices_of(self._frontier, slot, host_id)
        return known

    def put(self, row: int, slot: int, host_id: int, said: SiteStatement, visited_s: float) -> None:
        voice = self.voices(slot, host_id).get(said.kind, SignalSource())
        if is_news(said.reported_s, said.checked_s, visited_s):
            # Sources count as independent, so that doubts multiply.
            self._doubt[row] *= 1.0 - min(voice.sure_weight, MOST_SURE)
        self._recall[row] = max(self._recall[row], min(voice.sure_recall, MOST_SURE))
        self._seen_s[row] = max(self._seen_s[row], self._last_read_s(slot, said.source))

    def _last_read_s(self, slot: int, speaker: int) -> float:
        if speaker not in self._read_s:
            known = site_statements.find_source(self._frontier.db, slot, speaker)
            self._read_s[speaker] = known.seen_s if known is not None else 0.0
        return self._read_s[speaker]

    def weighed(self) -> SignalEvidence:
        return SignalEvidence(self._recall, 1.0 - self._doubt, self._seen_s)


def evidence(frontier: FrontierCell, slot: int, host_id: int, columns: PageColumns) -> SignalEvidence:
    """Return the signals on some pages of a host; reads all between the first and last key of the columns."""
    scales = _Scales(frontier, len(columns))
    row_of = {key: row for row, key in enumerate(columns.key.tolist())}
    visited_s = columns.fresh_s.tolist()
    for said in site_statements.statements_of_pages(frontier.db, slot, host_id, int(columns.key.min()), int(columns.key.max())):
        row = row_of.get(said.key)
        if row is not None:
            scales.put(row, slot, host_id, said, visited_s[row])
    return scales.weighed()


def evidence_at(frontier: FrontierCell, hosts: Sequence[tuple[int, int]], columns: PageColumns) -> SignalEvidence:
    """Like `evidence`, for some pages of many hosts, which are (slot, host id)."""
    scales = _Scales(frontier, len(columns))
    for row, (place, key) in enumerate(zip(hosts, columns.key.tolist(), strict=True)):
        for said in site_statements.statements_of_page(frontier.db, (*place, key)):
            scales.put(row, *place, said, float(columns.fresh_s[row]))
    return scales.weighed()


def untold(found: Gamma, recall: Floats) -> Gamma:
    """Return the rates of changes that no source would report."""
    # Fewer changes in the same time: the mean is changes / time.
    return Gamma(found.changes, found.time_s / (1.0 - recall))


def heeded_intervals(
    columns: PageColumns,
    found: Gamma,
    prior: Gamma,
    prices: Sequence[VisitPrice | None],
    settings: RefreshSettings,
    said: SignalEvidence,
) -> Floats:
    """Return each page's time from its last visit to its next, given the signals; below 0 where it is urgent."""
    interval_s = intervals(columns, untold(found, said.recall), prior, prices, settings)
    if said.has_news:
        older_s = np.minimum(-np.log1p(-said.belief) / found.mean, LONGEST_S)
        sooner_s = intervals(columns, found, prior, prices, settings) - older_s
        interval_s = np.where((said.belief > 0) & ~columns.is_gone, np.minimum(interval_s, sooner_s), interval_s)
    return interval_s


def aged(columns: PageColumns, found: Gamma, said: SignalEvidence, now_s: float) -> PageColumns:
    """Shift each capture's apparent age by the signals: a look at a sitemap may confirm a page as well as a visit."""
    age_s = np.maximum(now_s - columns.fresh_s, 0.0)
    listened_s = np.clip(said.seen_s - columns.fresh_s, 0.0, age_s)
    shift_s = -said.recall * listened_s
    with np.errstate(divide="ignore"):
        older_s = np.minimum(-np.log1p(-said.belief) / found.mean, LONGEST_S)
    return replace(columns, shift_s=np.where(said.belief > 0, older_s, shift_s))


def speaking_interval_s(
    plan: HostPlan | None, speaker: StatementSource, voice: SignalSource, slot_s: float, settings: RefreshSettings
) -> float | None:
    """Return the interval for a sitemap or feed; None if it is treated as an ordinary page, for lack of a plan."""
    if plan is None or plan.price is None or not speaker.named:
        return None
    told = voice.weight * voice.recall.mean * plan.changes_per_s * min(1.0, speaker.named / max(1, plan.pages))
    best_s = sqrt(2.0 * plan.price.price / told) if told > 0 else LONGEST_S
    return min(max(best_s, SPEAKING * slot_s, settings.least_s), LONGEST_S)


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

    def speakers(self, frontier: FrontierCell, host: PlannableHost) -> dict[int, StatementSource]:
        """Return the sitemaps and feeds of a host, by key; they are never read early, which would bring no news."""
        if not self.is_on:
            return {}
        return {each.key: each for each in site_statements.sources_of(frontier.db, host.slot, host.host_id)}

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
        places = [(host.slot, host.host_id) for host in hosts]
        said = evidence_at(frontier, places, columns) if self.is_on else nothing_said(len(columns))
        interval_s = heeded_intervals(columns, found, prior, prices, self._settings, said)
        rows_of: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for row, place in enumerate(places):
            rows_of[place].append(row)
        for rows in rows_of.values():
            host, plan = hosts[rows[0]], plans[rows[0]]
            self._let_speak(frontier, host, columns, rows, interval_s, plan, host.slot_s)
        return interval_s

    def plan(
        self,
        frontier: FrontierCell,
        host: PlannableHost,
        columns: PageColumns,
        of_all: Gamma,
        trusted: bool,
        slot_s: tuple[float, float],
        now_s: float,
        warm: bool,
    ) -> PlannedHost:
        """Plan a host, or a part of one; `slot_s` is the time between requests, of the host and of the part."""
        place, every = (host.slot, host.host_id), range(len(columns))
        said = evidence(frontier, *place, columns) if self.is_on else nothing_said(len(columns))
        plan, found = plan_host(columns, of_all, trusted, slot_s[1], self._settings, now_s, warm, said.recall)
        prior, prices = plan.priors.of(columns.kind), [plan.price] * len(columns)
        interval_s = heeded_intervals(columns, found, prior, prices, self._settings, said)
        self._let_speak(frontier, host, columns, every, interval_s, plan, slot_s[0])
        return PlannedHost(plan, found, interval_s, aged(columns, found, said, now_s))

    def _let_speak(
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
        speakers = self.speakers(frontier, host)
        voices = voices_of(frontier, host.slot, host.host_id) if speakers else {}
        for row in rows if speakers else ():
            speaker = speakers.get(int(columns.key[row]))
            if speaker is None or columns.is_gone[row]:
                continue
            voice = voices.get(speaker.kind, SignalSource())
            # All sitemaps and feeds of a host share the part of its requests that is for them.
            own_s = speaking_interval_s(plan, speaker, voice, slot_s * len(speakers), self._settings)
            if voice.is_hardly_heard:
                interval_s[row] = max(interval_s[row], UNHEARD_S)
            elif own_s is not None:
                interval_s[row] = own_s
