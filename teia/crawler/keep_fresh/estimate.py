"""The estimate of freshness: one probability for each page, from which every figure of freshness is made.

  CommonKnowledge  what all pages of a collection share: the prior of their rates, the share of hosts that lie
  HostKnowledge    what the pages of a host share: their priors, and the doubt in its 304s
  HostEstimate     pages of a host with the distributions of their rates; `fresh` is the probability of each

Search results, pages, hosts and reports read the same records with the same knowledge, so at one time they show the
same numbers (`host_knowledge` of a large host comes from a part of its pages). A running crawl makes its estimates
while it plans, by the same functions, from the knowledge that its plans have.

The rate of a single page starts from a prior of the other pages of its host, those of its kind foremost
(refresh/priors.py), because its own visits are few. Nothing is known of a page that was never revisited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import repeat
from math import ceil, inf, log
from operator import itemgetter
from pathlib import Path

import numpy as np

from teia.crawler.keep_fresh import host_plan
from teia.crawler.keep_fresh.apply_signals import (
    SignalEvidence,
    add_silence,
    mark_sources,
    read_evidence,
    shift_ages,
)
from teia.crawler.keep_fresh.host_plan import (
    HostPriors,
    PageColumns,
    Weigh,
    equal_weights,
    fresh_probabilities,
    priors_of,
    to_columns,
)
from teia.crawler.keep_fresh.observe import decode_errors
from teia.frontier.cell import histories, revisits
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.revisits import CapturedPage
from teia.frontier.cell.schema import STATE_DONE
from teia.refresh.history import DAY_S, Histories, concatenate, decode_columns
from teia.refresh.priors import learn_common_prior, learn_priors
from teia.refresh.rates import Floats, Gamma, estimate
from teia.refresh.trust import Trust
from teia.refresh.unproven import FalseShare, false_probability, false_share
from teia.urls import site_of, slot_of

FIRST_KEY = -(1 << 63)

LIFETIME_S = 300.0
"""Time for which the knowledge that pages share is kept."""

SAMPLE_HOSTS, SAMPLE_PAGES, HOST_PAGES = 1_000, 5_000, 500
"""Most hosts and pages from which the knowledge of all pages is learnt, and pages for that of a host, for one page.

Keys are hashes, so the first pages of a host are a fair sample.
"""

MIN_PEERS, MAX_PEERS = 5, 1_000
INTERVAL = 0.9
SHOWN = 0.002
"""Precision at which the rate of a page agrees with its probability, which is shown in percent."""

HostKey = tuple[int, int]


def learnt_s(now_s: float) -> float:
    """Return the time up to which shared knowledge is learnt: it is the same for all figures of some minutes."""
    return now_s // LIFETIME_S * LIFETIME_S


# ---- pages ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class HostRecords:
    """Pages of a host, with the signals on them, and the record of the host's validators."""

    columns: PageColumns
    evidence: SignalEvidence
    trust: Trust

    @classmethod
    def read(
        cls,
        frontier: FrontierCell,
        host_key: HostKey,
        rows: Sequence[CapturedPage],
        now_s: float,
        weigh: Weigh = equal_weights,
    ) -> HostRecords:
        with decode_errors(frontier):
            columns = mark_sources(frontier, host_key, to_columns(rows, weigh))
            trust = Trust.decode(histories.host_trust(frontier, *host_key)[0])
        evidence = read_evidence(frontier, *host_key, columns).for_estimates
        return cls(add_silence(columns, evidence, learnt_s(now_s)), evidence, trust)


@dataclass(frozen=True, slots=True, eq=False)
class Unproven:
    """The pages of a host whose 304s may be false, as they are if so, and the probability of that with its error."""

    probability: float
    deviation: float
    columns: PageColumns
    found: Gamma
    priors: HostPriors


@dataclass(frozen=True, slots=True, eq=False)
class HostEstimate:
    """Pages of a host with the distributions of their rates, and the priors that they come from."""

    columns: PageColumns
    found: Gamma
    priors: HostPriors
    unproven: Unproven | None = None

    def fresh(self, now_s: float) -> Floats:
        """Return the probability that each capture equals its page."""
        fresh = fresh_probabilities(self.columns, self.found, now_s)
        if self.unproven is None:
            return fresh
        if_false = fresh_probabilities(self.unproven.columns, self.unproven.found, now_s)
        return fresh + self.unproven.probability * (if_false - fresh)


# ---- knowledge that pages share -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class CommonKnowledge:
    """Knowledge that all hosts share: the prior of their pages, and the share of hosts whose 304s are false."""

    of_all: Gamma
    false_share: FalseShare


@dataclass(frozen=True, slots=True, eq=False)
class HostKnowledge:
    """Knowledge that a host's pages share: their priors, and trust in its dates.

    If its 304s are neither proven true nor false, `unproven` has the probability that they are false, and the priors if
    so.
    """

    priors: HostPriors
    trusts_dates: bool
    unproven: Unproven | None

    @classmethod
    def learn(
        cls, frontier: FrontierCell, host_key: HostKey, pages: HostRecords, common: CommonKnowledge
    ) -> HostKnowledge:
        trusts_dates = pages.trust.dates.is_trusted
        priors, _, _ = host_plan.learn_priors(pages.columns, common.of_all, np.full(len(pages.columns), trusts_dates))
        unproven = read_unproven(frontier, host_key, pages.columns, pages.trust, common)
        return cls(priors, trusts_dates, unproven)

    def estimate(self, frontier: FrontierCell, host_key: HostKey, pages: HostRecords, now_s: float) -> HostEstimate:
        """Estimate the rates of some pages of the host."""
        columns = pages.columns
        found = self._rates(columns, self.priors)
        columns = shift_ages(columns, found, pages.evidence, now_s)
        unproven = self.unproven
        if unproven is not None:
            if_false = _by_bodies(frontier, host_key, columns)
            unproven = replace(unproven, columns=if_false, found=self._rates(if_false, unproven.priors))
        return HostEstimate(columns, found, self.priors, unproven)

    def _rates(self, columns: PageColumns, priors: HostPriors) -> Gamma:
        prior = priors_of(repeat(priors), columns.kind)
        return estimate(columns.histories, prior, np.full(len(columns), self.trusts_dates))


def common_of_cells(frontiers: Sequence[FrontierCell], now_s: float) -> CommonKnowledge:
    """Return what a sample of a collection's pages tells of all of them; it is kept for `LIFETIME_S`."""
    return _learn_common(tuple(frontier.path for frontier in frontiers), learnt_s(now_s))


@lru_cache(maxsize=64)
def _learn_common(paths: tuple[Path, ...], now_s: float) -> CommonKnowledge:
    with ExitStack() as stack:
        cells = [stack.enter_context(closing(FrontierCell(path, read_only=True))) for path in paths]
        hosts = [
            (requests, cell, host_id, host)
            for cell in cells
            for host_id, host, _, requests in revisits.hosts_with_pages(cell)
        ]
        # Small hosts first: what they leave of their equal parts goes to the larger ones. No pages are counted: that
        # takes as long as reading them all, and a person may wait.
        some = sorted(hosts[:: max(1, ceil(len(hosts) / SAMPLE_HOSTS))], key=itemgetter(0))
        left = SAMPLE_PAGES
        known: list[Histories] = []
        trusted: list[bool] = []
        are_true: Counter[bool | None] = Counter()
        for number, (_, cell, host_id, host) in enumerate(some):
            host_key = (slot_of(site_of(host)), host_id)
            if rows := revisits.captured_pages(cell, *host_key, FIRST_KEY, ceil(left / (len(some) - number))):
                left -= len(rows)
                pages = HostRecords.read(cell, host_key, rows, now_s)
                are_true[are_304s_true(pages.trust, pages.columns.histories)] += 1
                known.append(pages.columns.histories.select(~np.asarray(pages.columns.is_source)))
                trusted += [pages.trust.dates.is_trusted] * len(known[-1])
    of_all = learn_common_prior(concatenate(known), np.array(trusted, dtype=np.bool_))
    return CommonKnowledge(of_all, false_share(are_true[False], are_true[True]))


@lru_cache(maxsize=4_096)
def _learn_host(paths: tuple[Path, ...], cell: int, host_key: HostKey, now_s: float) -> HostKnowledge:
    with closing(FrontierCell(paths[cell], read_only=True)) as frontier:
        common, rows = _learn_common(paths, now_s), revisits.captured_pages(frontier, *host_key, FIRST_KEY, HOST_PAGES)
        if not rows:  # its pages wait to be tried again
            of_all = common.of_all
            return HostKnowledge(HostPriors((float(of_all.changes[0]), float(of_all.time_s[0])), {}), False, None)
        return HostKnowledge.learn(frontier, host_key, HostRecords.read(frontier, host_key, rows, now_s), common)


# ---- 304s that may be false -----------------------------------------------------------------------------------------


def are_304s_true(trust: Trust, known: Histories) -> bool | None:
    """Tell whether a host's 304s are true; None as long as no change of its pages came with another validator."""
    if trust.hides_changes:
        return False
    return True if float(known.changes.sum()) > trust.hidden + 0.5 else None


def read_unproven(
    frontier: FrontierCell, host_key: HostKey, columns: PageColumns, trust: Trust, common: CommonKnowledge
) -> Unproven | None:
    """Read a host whose 304s are neither proven true nor false; None for any other."""
    known = columns.histories
    visited = known.visits > 0
    if are_304s_true(trust, known) is not None or not visited.any():
        return None
    pages = _by_bodies(frontier, host_key, columns)
    if np.allclose(pages.histories.quiet_s, known.quiet_s):  # there was no 304
        return None
    spans_s = (known.quiet_s[visited], pages.histories.quiet_s[visited])
    probability = false_probability(*spans_s, common.of_all, trust.hidden, common.false_share.mean)
    priors, found, _ = host_plan.learn_priors(pages, common.of_all, np.full(len(pages), trust.dates.is_trusted))
    deviation = probability * (1.0 - probability) * common.false_share.deviation
    return Unproven(probability, deviation, pages, found, priors)


def _by_bodies(frontier: FrontierCell, host_key: HostKey, columns: PageColumns) -> PageColumns:
    """Return pages as they are if only visits that brought a body count."""
    known = columns.histories
    visited = known.visits > 0
    spans = histories.body_times(frontier, *host_key, columns.key[visited].tolist())
    first_s, last_s = np.array(spans).reshape(-1, 2).T
    quiet_s, fresh_s, visited_s = known.quiet_s.copy(), columns.fresh_s.copy(), known.visited_s.copy()
    quiet_s[visited] = np.clip(last_s - first_s, 0.0, known.quiet_s[visited])
    fresh_s[visited] = np.minimum(fresh_s[visited], last_s)
    visited_s[visited] = np.minimum(visited_s[visited], last_s)
    return replace(columns, histories=replace(known, quiet_s=quiet_s, visited_s=visited_s), fresh_s=fresh_s)


# ---- one page -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PageFreshness:
    """A page's change rate with its 90% interval, and the probability that the capture is fresh.

    `fresh_probability` is averaged over the possible rates, with what signals and unproven 304s say of the time since
    the capture. The rate is the one nearest to the mean of its visits by which exp(-rate x age) is this probability.
    """

    rate_per_day: float
    low_per_day: float
    high_per_day: float
    fresh_probability: float

    @classmethod
    def of_rates(cls, found: Gamma, age_s: float, probability: float) -> PageFreshness:
        """Derive the rate that is shown from the one probability; `found` is of this page alone."""
        low, high = (float(limits[0]) for limits in found.interval(INTERVAL))
        rate = agreeing_rate(float(found.mean[0]), age_s, probability)
        return cls(rate * DAY_S, min(low, rate) * DAY_S, max(high, rate) * DAY_S, probability)


def agreeing_rate(rate: float, age_s: float, probability: float) -> float:
    """Return the nearest rate by which a capture of this age is fresh with this probability, within SHOWN."""
    if age_s <= 0:
        return rate
    least = -log(min(probability + SHOWN, 1.0)) / age_s
    most = -log(probability - SHOWN) / age_s if probability > SHOWN else inf
    return min(max(rate, least), most)


def freshness_of(
    cells: Sequence[FrontierCell], cell: int, host: str, host_id: int, key: int, now_s: float
) -> PageFreshness | None:
    """Return the freshness of one page of a collection's cells; None if it was not revisited yet."""
    frontier, host_key = cells[cell], (slot_of(site_of(host)), host_id)
    page = histories.revisited_page(frontier, (*host_key, key))
    if page is None:
        return None
    known = _learn_host(tuple(each.path for each in cells), cell, host_key, learnt_s(now_s))
    row = CapturedPage(
        page.key, page.tail, page.depth, 0, page.media_type, 200, STATE_DONE, 0, 0, 0, 0.0, 0.0, page.record
    )
    estimated = known.estimate(frontier, host_key, HostRecords.read(frontier, host_key, [row], now_s), now_s)
    age_s = now_s - float(estimated.columns.fresh_s[0])
    return PageFreshness.of_rates(estimated.found, age_s, float(estimated.fresh(now_s)[0]))


def rate_of_peers(frontier: FrontierCell, host: str, host_id: int, key: int) -> float | None:
    """Return the changes per day of a host's other pages that were revisited; None if too few were."""
    others = histories.other_records(frontier, slot_of(site_of(host)), host_id, key, MAX_PEERS)
    if len(others) < MIN_PEERS:
        return None
    with decode_errors(frontier):
        columns = decode_columns(others)
    alike = np.zeros(len(others), dtype=np.int64)
    found = estimate(columns, learn_priors(columns, alike, alike))
    return float(np.median(found.mean) * DAY_S)
