"""The study of A12 under the paper's conditions, as a model on a virtual clock.

Three crawlers (United States, Germany, Brazil) start with the paper's five seeds and crawl for forty minutes, breadth
first, one download at a time, with 60 s between two requests to a server. The strategies are the product's own
(cluster/placing/site_strategies.py). Real rounds of forty minutes would take eighty hours; so this part is computed,
and real nodes make the rounds of `rounds.py`, where all times are divided by forty.

Response times are drawn from table 2, whose median and mean give a logarithmic normal distribution. Everything that the
paper does not tell is a field of `StudyConditions`, and the experiment varies those one by one.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import log

import numpy as np
import numpy.typing as npt

from teia.cluster.members.session import NodeState
from teia.cluster.placing.countries import Countries
from teia.cluster.placing.site_strategies import Geo, ObservedSite, Rtt, SiteNote, owner_among, zone_of
from teia.lab.reproduce.rounds import (
    BYTES_PER_S,
    COURTESY_S,
    HOSTED,
    ISOLATED,
    MEDIAN_S,
    MINIMUM_KB_S,
    NEAR,
    REGIONS,
    SECONDS,
    SPREAD,
    RoundResult,
)

SEED_REGIONS = (0, 0, 0, 0, 2)
"""Regions of the paper's seeds: dir.yahoo.com, yahoo.com, dmoz.org and cnn.com (us), globo.com (br)."""

SITES, PORTAL_PAGES, MAX_PAGES = 300, 400, 400
MEAN_KB, SIZE_SPREAD = 28.0, 0.8
NODES = {name: NodeState(name, name, region=name) for name in REGIONS}


@dataclass(frozen=True, slots=True)
class StudyConditions:
    """What the paper does not tell of its web and its crawlers.

    `hosted`: share of sites in each region, the rest is in countries without a crawler. `near`: response times from the
    own region, as a multiple of those from others. `outside`: share of pages that link to another site. `geo_drops`:
    sites of countries without a crawler are refused by all, instead of being left to the hash.
    """

    hosted: tuple[float, float, float] = HOSTED
    near: float = NEAR
    outside: float = 0.15
    geo_drops: bool = False


@dataclass(frozen=True, slots=True)
class StudyWeb:
    """The web of one round, the same for all strategies; rows are sites."""

    region: npt.NDArray[np.int64]
    pages: npt.NDArray[np.int64]
    size_kb: npt.NDArray[np.float64]
    outside: npt.NDArray[np.int64]
    """Site that a page links to; -1 for none."""
    response_s: npt.NDArray[np.float64]
    """By site and crawler."""


def draw_web(conditions: StudyConditions, random: np.random.Generator) -> StudyWeb:
    """Draw the web of a round."""
    elsewhere = 1 - sum(conditions.hosted)
    region = random.choice(len(REGIONS) + 1, SITES, p=(*conditions.hosted, elsewhere))
    region[: len(SEED_REGIONS)] = SEED_REGIONS
    pages = np.minimum(random.lognormal(2.5, 1.2, SITES).astype(np.int64) + 1, MAX_PAGES)
    pages[: len(SEED_REGIONS)] = PORTAL_PAGES
    shape = (SITES, MAX_PAGES)
    size_kb = random.lognormal(log(MEAN_KB) - SIZE_SPREAD**2 / 2, SIZE_SPREAD, shape)
    # Popular sites get more links: the square puts half of all links on the first quarter of the sites.
    target = (SITES * random.random(shape) ** 2).astype(np.int64)
    outside = np.where(random.random(shape) < conditions.outside, target, -1)
    response_s = random.lognormal(log(MEDIAN_S), SPREAD, (SITES, len(REGIONS)))
    response_s[region[:, None] == np.arange(len(REGIONS))] *= conditions.near
    return StudyWeb(region, pages, size_kb, outside, response_s)


@dataclass(slots=True)
class ModelSite:
    """A site in a crawler's queue: its waiting pages, when it may be requested, and the measurements of it."""

    waiting: deque[tuple[int, int]] = field(default_factory=deque)
    """(sequence number, page)."""
    ready_s: float = 0.0
    note: SiteNote = field(default_factory=SiteNote)


class StudyRound:
    """One round of one strategy."""

    def __init__(self, web: StudyWeb, strategy: str, conditions: StudyConditions) -> None:
        self._web, self._strategy, self._conditions = web, strategy, conditions
        names = (*(each.upper() for each in REGIONS), "ELSEWHERE")
        places = [(site, site, names[region]) for site, region in enumerate(web.region.tolist())]
        self._geo, self._rtt = Geo(Countries(places, [])), Rtt(MINIMUM_KB_S)
        self._queues: list[dict[int, ModelSite]] = [{} for _ in REGIONS]
        self._homes: dict[int, int] = {}
        self._known: list[set[tuple[int, int]]] = [set() for _ in REGIONS]
        self._sequence = 0
        self._idle: set[int] = set()
        self._events: list[tuple[float, int]] = [(0.0, node) for node in range(len(REGIONS))]
        self.fetches: list[tuple[tuple[int, int], float, float]] = []
        """(page, seconds, kilobytes)."""

    def run(self) -> StudyRound:
        """Crawl until the time of a round is over."""
        for node in range(len(REGIONS)):
            for site in range(len(SEED_REGIONS)):
                self._add(node, site, 0, 0.0)
        while self._events:
            now_s, node = heapq.heappop(self._events)
            if now_s < SECONDS:
                self._take(node, now_s)
        return self

    def _home(self, site: int) -> int:
        """Return the crawler that gets a new site; -1 for none."""
        if site not in self._homes:
            name = owner_among(f"site{site}.test", NODES.values())
            if self._strategy == "geo":
                address = f"0.0.{site >> 8}.{site & 255}"
                seen = ObservedSite(f"site{site}.test", address, SiteNote(), NODES[name], NODES)
                name = self._geo.choose_node(seen) or name
                if self._conditions.geo_drops and self._web.region[site] == len(REGIONS):
                    name = ""
            self._homes[site] = REGIONS.index(name) if name else -1
        return self._homes[site]

    def _add(self, finder: int, site: int, page: int, now_s: float) -> None:
        """Give a found page to its crawler, which then may have something to do."""
        node = finder if self._strategy == ISOLATED else self._home(site)
        if node < 0 or (site, page) in self._known[node] or page >= self._web.pages[site]:
            return
        self._known[node].add((site, page))
        self._sequence += 1
        self._queues[node].setdefault(site, ModelSite()).waiting.append((self._sequence, page))
        self._wake(node, now_s)

    def _wake(self, node: int, now_s: float) -> None:
        if node in self._idle:
            self._idle.discard(node)
            heapq.heappush(self._events, (now_s, node))

    def _take(self, node: int, now_s: float) -> None:
        """Fetch the oldest page whose server may be requested; else wait for the first server."""
        sites = [(site, each) for site, each in self._queues[node].items() if each.waiting]
        ready = [(each.waiting[0][0], site) for site, each in sites if each.ready_s <= now_s]
        if ready:
            self._fetch(node, min(ready)[1], now_s)
        elif sites:
            heapq.heappush(self._events, (min(each.ready_s for _, each in sites), node))
        else:
            self._idle.add(node)

    def _fetch(self, node: int, site: int, now_s: float) -> None:
        web, state = self._web, self._queues[node][site]
        _, page = state.waiting.popleft()
        kilobytes = float(web.size_kb[site, page])
        seconds = float(web.response_s[site, node]) + 1_000 * kilobytes / BYTES_PER_S
        end_s = now_s + seconds
        state.ready_s = end_s + COURTESY_S
        if end_s <= SECONDS:
            self.fetches.append(((site, page), seconds, kilobytes))
        if self._strategy == "rtt":
            self._move(node, site, kilobytes / seconds, end_s)
        for number in range(3 * page + 1, 3 * page + 4):
            self._add(node, site, number, end_s)
        if web.outside[site, page] >= 0:
            self._add(node, int(web.outside[site, page]), 0, end_s)
        heapq.heappush(self._events, (end_s, node))

    def _move(self, node: int, site: int, kb_s: float, now_s: float) -> None:
        """Let the response time strategy decide on a site that was measured here for the first time."""
        state, here = self._queues[node][site], NODES[REGIONS[node]]
        if zone_of(here) in state.note.speeds:
            return
        state.note = state.note.measured(zone_of(here), kb_s, now_s)
        chosen = self._rtt.choose_node(ObservedSite(f"site{site}.test", "", state.note, here, NODES))
        if chosen:
            to = REGIONS.index(chosen)
            self._homes[site] = to
            self._queues[to][site] = self._queues[node].pop(site)
            self._known[to] |= {each for each in self._known[node] if each[0] == site}
            self._wake(to, now_s)

    def result(self, number: int, study: str) -> RoundResult:
        """Return the paper's measures; a page that several crawlers fetched counts once, by its first fetch."""
        first: dict[tuple[int, int], tuple[float, float]] = {}
        for page, seconds, kilobytes in self.fetches:
            first.setdefault(page, (seconds, kilobytes))
        pages, kilobytes = len(first), sum(each[1] for each in first.values())
        capture_s = sum(each[0] for each in first.values()) / max(1, pages)
        domains = len({site for site, _ in first})
        repeated = len(self.fetches) - pages
        return RoundResult(
            self._strategy, number, pages, domains, kilobytes, kilobytes / max(1, pages), capture_s, repeated, study
        )


def model_rounds(
    conditions: StudyConditions, strategies: tuple[str, ...], rounds: int, seed: int
) -> Mapping[str, list[RoundResult]]:
    """Return the rounds of each strategy, on the same webs."""
    found: dict[str, list[RoundResult]] = {name: [] for name in strategies}
    for number in range(rounds):
        web = draw_web(conditions, np.random.default_rng([seed, number]))
        for name in strategies:
            found[name].append(StudyRound(web, name, conditions).run().result(number, "model"))
    return found
