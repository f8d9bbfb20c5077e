"""What sites say of changes, heeded: pages that are called changed come sooner, others later (docs/signals.md).

A signal is evidence, in proportion to what its voice has proved to be worth (signals/trust.py). With a page's rate lam,
the price of its host's visits and its weight, three things follow:

    something new is said   the page is stale with the probability 1 - (1 - w) exp(-lam age), as if it were older by
                            -ln(1 - w) / lam; so it is due that much sooner
    nothing is said         of all changes a share r would have been told; those that are not come at the rate
                            (1 - r) lam, and for these the page is visited: later than without the signal
    who says it             a sitemap or feed is itself visited as often as it is worth: with changes of all pages it
                            names coming at the rate L (by weight), what is missed by reading it every I seconds is
                            w r L I / 2, and reading it costs price / I. So I = sqrt(2 price / (w r L)), and never more
                            than one of SPEAKING of the host's requests

Nothing here needs more than one host at a time. Due times stay where they are, in the frontier.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import NamedTuple, Protocol

import numpy as np

from teia.config import RefreshSettings
from teia.crawl.hostplan import Columns, HostPlan, Price, intervals, plan_host
from teia.crawl.listening import voices_of
from teia.frontier import sayings
from teia.frontier.cell import FrontierCell
from teia.frontier.sayings import Said, Speaker
from teia.refresh.history import DAY_S
from teia.refresh.priors import LONGEST_S
from teia.refresh.rates import Floats, Gamma
from teia.signals.trust import Voice, is_news

SPEAKING = 4
"""Of a host's requests, one of so many may go to sitemaps and feeds."""

UNHEARD_S = DAY_S
"""A sitemap that nobody believes is read for the pages it names alone, and not more often than this."""

MOST_SURE = 0.98
"""Nobody is believed more than this."""

BROUGHT_AT_ONCE = 2_000
"""Pages that one sitemap brings forward at once; the others' turn comes with the host's next plan."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What is said of pages, side by side. `recall`: the share of their changes that would have been told.

    `belief` is how sure it is that a page changed since its visit because somebody says so, 0 where nobody does;
    `seen_s` is when somebody last could have.
    """

    recall: Floats
    belief: Floats
    seen_s: Floats

    @property
    def has_news(self) -> bool:
        return bool(self.belief.any())


def nothing_said(pages: int) -> Evidence:
    return Evidence(np.zeros(pages), np.zeros(pages), np.zeros(pages))


class _Scales:
    """What is said of pages of one cell, weighed one after the other."""

    def __init__(self, frontier: FrontierCell, pages: int) -> None:
        self._frontier = frontier
        self._recall, self._doubt, self._seen_s = np.zeros(pages), np.ones(pages), np.zeros(pages)
        self._voices: dict[int, dict[int, Voice]] = {}
        self._read_s: dict[int, float] = {0: 0.0}

    def voices(self, slot: int, host_id: int) -> dict[int, Voice]:
        known = self._voices.get(host_id)
        if known is None:
            known = self._voices[host_id] = voices_of(self._frontier, slot, host_id)
        return known

    def put(self, row: int, slot: int, host_id: int, said: Said, visited_s: float) -> None:
        voice = self.voices(slot, host_id).get(said.kind, Voice())
        if is_news(said.said_s, said.heard_s, visited_s):
            self._doubt[row] *= 1.0 - min(voice.sure_weight, MOST_SURE)
        self._recall[row] = max(self._recall[row], min(voice.sure_recall, MOST_SURE))
        self._seen_s[row] = max(self._seen_s[row], self._last_read_s(slot, said.speaker))

    def _last_read_s(self, slot: int, speaker: int) -> float:
        if speaker not in self._read_s:
            known = sayings.speaker(self._frontier.db, slot, speaker)
            self._read_s[speaker] = known.seen_s if known is not None else 0.0
        return self._read_s[speaker]

    def weighed(self) -> Evidence:
        return Evidence(self._recall, 1.0 - self._doubt, self._seen_s)


def evidence(frontier: FrontierCell, slot: int, host_id: int, columns: Columns) -> Evidence:
    """What is said of some pages of a host, of all that lie between the first and last key of the columns."""
    scales = _Scales(frontier, len(columns))
    row_of = {key: row for row, key in enumerate(columns.key.tolist())}
    visited_s = columns.fresh_s.tolist()
    for said in sayings.of_pages(frontier.db, slot, host_id, int(columns.key.min()), int(columns.key.max())):
        row = row_of.get(said.key)
        if row is not None:
            scales.put(row, slot, host_id, said, visited_s[row])
    return scales.weighed()


def evidence_at(frontier: FrontierCell, hosts: Sequence[tuple[int, int]], columns: Columns) -> Evidence:
    """The same for some pages of many hosts, which are (slot, host id)."""
    scales = _Scales(frontier, len(columns))
    for row, (place, key) in enumerate(zip(hosts, columns.key.tolist(), strict=True)):
        for said in sayings.of_page(frontier.db, (*place, key)):
            scales.put(row, *place, said, float(columns.fresh_s[row]))
    return scales.weighed()


def untold(found: Gamma, recall: Floats) -> Gamma:
    """The rates of changes of which nobody would tell."""
    return Gamma(found.changes, found.time_s / (1.0 - recall))


def heeded_intervals(
    columns: Columns,
    found: Gamma,
    prior: Gamma,
    prices: Sequence[Price | None],
    settings: RefreshSettings,
    said: Evidence,
) -> Floats:
    """How long after its last visit each page is due again, with what is said of it; below 0 where it is urgent."""
    interval_s = intervals(columns, untold(found, said.recall), prior, prices, settings)
    if said.has_news:
        older_s = np.minimum(-np.log1p(-said.belief) / found.mean, LONGEST_S)
        sooner_s = intervals(columns, found, prior, prices, settings) - older_s
        interval_s = np.where((said.belief > 0) & ~columns.is_gone, np.minimum(interval_s, sooner_s), interval_s)
    return interval_s


def aged(columns: Columns, found: Gamma, said: Evidence, now_s: float) -> Columns:
    """The pages as old as they seem by what is said: of some a look at their sitemap says as much as a visit."""
    age_s = np.maximum(now_s - columns.fresh_s, 0.0)
    listened_s = np.clip(said.seen_s - columns.fresh_s, 0.0, age_s)
    shift_s = -said.recall * listened_s
    with np.errstate(divide="ignore"):
        older_s = np.minimum(-np.log1p(-said.belief) / found.mean, LONGEST_S)
    return replace(columns, shift_s=np.where(said.belief > 0, older_s, shift_s))


def speaking_interval_s(
    plan: HostPlan | None, speaker: Speaker, voice: Voice, slot_s: float, settings: RefreshSettings
) -> float | None:
    """How often a sitemap or feed is read; None where it is a page like others, for nothing is known or believed."""
    if plan is None or plan.price is None or not speaker.named:
        return None
    told = voice.weight * voice.recall.mean * plan.changes_per_s * min(1.0, speaker.named / max(1, plan.pages))
    best_s = sqrt(2.0 * plan.price.price / told) if told > 0 else LONGEST_S
    return min(max(best_s, SPEAKING * slot_s, settings.least_s), LONGEST_S)


class Kept(Protocol):
    """A host as far as it matters here; `slot_s` is how far apart its requests are."""

    slot: int
    host_id: int
    slot_s: float


class Planned(NamedTuple):
    """A host's plan, the rates of its pages, when they are due after their last visits, and the pages themselves."""

    plan: HostPlan
    found: Gamma
    interval_s: Floats
    columns: Columns


class Heeding:
    """Due times with what is said; where nobody listens (`refresh.signals`) they are those of the rates alone."""

    def __init__(self, settings: RefreshSettings) -> None:
        self._settings = settings
        self.is_on = settings.signals

    def speakers(self, frontier: FrontierCell, host: Kept) -> dict[int, Speaker]:
        """The sitemaps and feeds of a host, by key. They are never read early: that would tell nothing."""
        if not self.is_on:
            return {}
        return {each.key: each for each in sayings.speakers_of(frontier.db, host.slot, host.host_id)}

    def intervals(
        self,
        frontier: FrontierCell,
        hosts: Sequence[Kept],
        plans: Sequence[HostPlan | None],
        columns: Columns,
        found: Gamma,
        prior: Gamma,
    ) -> Floats:
        """How long after their last visits some pages of many hosts are due again."""
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
        host: Kept,
        columns: Columns,
        of_all: Gamma,
        trusted: bool,
        slot_s: tuple[float, float],
        now_s: float,
        warm: bool,
    ) -> Planned:
        """Plan a host, or a part of one; `slot_s` is how far apart requests are, of the host and of the part."""
        place, every = (host.slot, host.host_id), range(len(columns))
        said = evidence(frontier, *place, columns) if self.is_on else nothing_said(len(columns))
        plan, found = plan_host(columns, of_all, trusted, slot_s[1], self._settings, now_s, warm, said.recall)
        prior, prices = plan.priors.of(columns.kind), [plan.price] * len(columns)
        interval_s = heeded_intervals(columns, found, prior, prices, self._settings, said)
        self._let_speak(frontier, host, columns, every, interval_s, plan, slot_s[0])
        return Planned(plan, found, interval_s, aged(columns, found, said, now_s))

    def _let_speak(
        self,
        frontier: FrontierCell,
        host: Kept,
        columns: Columns,
        rows: Sequence[int],
        interval_s: Floats,
        plan: HostPlan | None,
        slot_s: float,
    ) -> None:
        """Let those among a host's pages who speak be read as often as what they say is worth."""
        speakers = self.speakers(frontier, host)
        voices = voices_of(frontier, host.slot, host.host_id) if speakers else {}
        for row in rows if speakers else ():
            speaker = speakers.get(int(columns.key[row]))
            if speaker is None or columns.is_gone[row]:
                continue
            voice = voices.get(speaker.kind, Voice())
            own_s = speaking_interval_s(plan, speaker, voice, slot_s * len(speakers), self._settings)
            if voice.is_hardly_heard:
                interval_s[row] = max(interval_s[row], UNHEARD_S)
            elif own_s is not None:
                interval_s[row] = own_s
