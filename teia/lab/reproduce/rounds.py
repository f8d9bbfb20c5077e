"""One round of A12: three real nodes in three regions crawl a lab web for half a minute or a minute, by one strategy.

There are two kinds of rounds. In one, near servers are fast, and each region has as many. The other has the paper's
conditions, as strategy_model.py has them, with all times divided by FASTER: 40 minutes are one.

Each node sends its requests from an address of its region; the lab delays answers by latency and bandwidth between the
two regions. The result of a round is read from the nodes' own fetch logs, from the first request on. A finished round
is a small file, so an interrupted study continues where it stopped.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from math import log, sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from teia.clock import WallClock
from teia.lab.reproduce.nodes import COLLECTION, format_toml, run_nodes
from teia.lab.server.process import lab_process
from teia.lab.world.regions import format_countries
from teia.lab.world.spec import WorldSpec
from teia.lab.world.world import World
from teia.store.root import open_root
from teia.views.reports.source import ANSWERED, open_source

REGIONS = ("us", "de", "br")
"""Regions of the paper's three servers."""

BOUND = {"us": "127.81.0.1", "de": "127.82.0.1", "br": "127.83.0.1"}
ISOLATED = "isolated"
"""Nodes that share not even NATS; with a shared NATS they would still coordinate leases of addresses."""

STRATEGIES = (ISOLATED, "hash", "geo", "rtt")
"""Names of `teia node --strategy`; the paper's are Isolado, DHT, GEO and RTT."""

SEEDS = 5
NEAR_IS_FAST, AS_IN_PAPER = "near is fast", "as in the paper"
"""Conditions of rounds: worlds and settings of the nodes (`CONDITIONS`)."""

SECONDS, COURTESY_S = 2_400.0, 60.0
BYTES_PER_S = 125_000.0
"""1 Mbit/s, table 1."""

MEDIAN_S, MEAN_S = 1.41, 1.95
"""Capture times of the isolated crawlers, table 2: the only ones that no strategy has changed."""

SPREAD = sqrt(2 * log(MEAN_S / MEDIAN_S))
NEAR = 1.83 / MEDIAN_S
"""Response times in the own region, where all requests of GEO go, as a multiple of those of all: medians of table 2."""

FASTER = 40.0
"""Speed of the real nodes' rounds with these times: a pause of 60 s is 1.5 s, a response of 1.41 s takes 35 ms."""

HOSTED = (0.85, 0.03, 0.04)
"""Share of the sites in each region; the rest is in countries without a crawler. The paper does not give it."""

MINIMUM_KB_S = 15.0
"""The response time strategy's minimum, which the paper does not give: a page of mean size in the mean time."""


@dataclass(frozen=True, slots=True)
class StudySize:
    """Number and length of the rounds, the size of their worlds, and the strategies that real nodes follow."""

    rounds: int
    seconds: float
    pages: int
    hosts: int
    strategies: tuple[str, ...] = STRATEGIES
    conditions: str = NEAR_IS_FAST

    @property
    def world(self) -> dict[str, Any]:
        return {**CONDITIONS[self.conditions][0], "pages": self.pages, "hosts": self.hosts}

    @property
    def crawl(self) -> dict[str, Any]:
        """Settings of the nodes."""
        return CONDITIONS[self.conditions][1]


FULL = StudySize(30, 30.0, 12_000, 240)
PAPERS = StudySize(30, SECONDS / FASTER, 9_000, 300, conditions=AS_IN_PAPER)
# A round starts three nodes, which takes longer than its four seconds.
QUICK = StudySize(1, 4.0, 1_200, 60, ("hash", "geo"))
WORLD: dict[str, Any] = {
    "time_factor": 0,
    "errors.scale": 0,
    "robots.present": 0,
    "sites.theta": 0.5,
    "sites.shared_address": 0,
    "sites.same_domain": 0,
    "sites.nxdomain": 0,
    "sites.unreachable": 0,
    "text.paragraphs": 30,
    "links.outside": 6,
    "regions.names": list(REGIONS),
    "regions.clients": [f"{address}/32={region}" for region, address in BOUND.items()],
    "regions.latency_s": [[0.03, 0.11, 0.14], [0.11, 0.03, 0.21], [0.14, 0.21, 0.03]],
    "regions.bytes_per_s": [[125_000, 40_000, 25_000], [40_000, 125_000, 20_000], [25_000, 20_000, 125_000]],
}
"""The world of a round.

125,000 bytes a second are the paper's 1 Mbit/s, for each answer; the other distances are made up.
"""

CRAWL: dict[str, Any] = {
    "collection.cells": 24,
    "scope.include": ["suffix:.test"],
    "fetch.allow_nets": ["127.77.0.0/16"],
    "fetch.at_once": 4,
    "courtesy.delay_s": 0.5,
    "courtesy.response_factor": 0,
    "courtesy.robots": False,
    # Between near (125 kB/s) and far (at most 40 kB/s), so that `rtt` moves sites that are far from their node.
    "placement.minimum_kb_s": 45,
    "placement.measured_pages": 1,
    "sites.aliases": False,
    "sites.probe_after_pages": 0,
    "parse.children": 1,
    "index.enabled": False,
    "limits.disk_free_bytes": 64 * 2**20,
}


PAPERS_REGIONS = (*REGIONS, "elsewhere")
PAPERS_WORLD: dict[str, Any] = {
    **WORLD,
    "sites.theta": 0.8,
    # 28 kB a page.
    "text.paragraphs": 106,
    "links.outside": 1,
    "regions.names": list(PAPERS_REGIONS),
    "regions.hosted": [*HOSTED, 1 - sum(HOSTED)],
    "regions.spread": SPREAD,
    "regions.latency_s": [
        [MEDIAN_S * (NEAR if client == server else 1.0) / FASTER for server in PAPERS_REGIONS]
        for client in PAPERS_REGIONS
    ],
    "regions.bytes_per_s": [[BYTES_PER_S * FASTER] * len(PAPERS_REGIONS) for _ in PAPERS_REGIONS],
}
"""The world of a round with the paper's conditions: most sites in one country, near servers no faster than others."""

PAPERS_CRAWL: dict[str, Any] = {
    **CRAWL,
    "fetch.at_once": 1,
    "courtesy.delay_s": COURTESY_S / FASTER,
    "placement.minimum_kb_s": MINIMUM_KB_S * FASTER,
}
CONDITIONS = {NEAR_IS_FAST: (WORLD, CRAWL), AS_IN_PAPER: (PAPERS_WORLD, PAPERS_CRAWL)}


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of three nodes in one round; pages are different URLs, `repeated` counts those fetched again."""

    strategy: str
    number: int
    pages: int
    domains: int
    kilobytes: float
    mean_kilobytes: float
    capture_s: float
    repeated: int
    study: str
    """Id of the settings of this round; rounds of other settings are not mixed with it."""


def study_id(size: StudySize, seed: int) -> str:
    """Return an id of all settings that make rounds comparable."""
    text = json.dumps([size.world, size.crawl, size.seconds, seed], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def round_world(seed: int, number: int, size: StudySize) -> dict[str, Any]:
    """Return the world of a round; every round has its own."""
    # Seeds of two studies have no world in common below 1,000 rounds.
    return {"seed": seed * 1_000 + number, **size.world}


class FinishedRounds:
    """Finished rounds, a file each."""

    def __init__(self, folder: Path, study: str) -> None:
        self._folder, self._study = folder / f"A12-rounds-{study}", study
        self._folder.mkdir(parents=True, exist_ok=True)

    def all(self) -> list[RoundResult]:
        """Return the rounds in the order of their numbers; an incomplete file counts as a missing round."""
        found = []
        for path in self._folder.glob("*.json"):
            try:
                found.append(RoundResult(**json.loads(path.read_text("utf-8"))))
            except (ValueError, TypeError):
                continue
        return sorted((each for each in found if each.study == self._study), key=lambda each: each.number)

    def save(self, result: RoundResult) -> None:
        path = self._folder / f"{result.number:03d}-{result.strategy}.json"
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(result), indent=1), encoding="utf-8")
        # A rename: an interruption leaves no half-written round behind.
        new.replace(path)


def run_round(strategy: str, number: int, size: StudySize, seed: int) -> RoundResult:
    """Let three nodes crawl the world of a round."""
    with TemporaryDirectory(prefix="teia-reproduce-") as name:
        folder = Path(name)
        spec, log = folder / "world.toml", folder / "requests.jsonl"
        spec.write_text(format_toml(round_world(seed, number, size)), encoding="utf-8")
        flags = ("--spec", str(spec), "--port", "0", "--dns-address", "127.77.255.53:0", "--log", str(log))
        with lab_process(*flags) as ready:
            world = World(WorldSpec.load(spec), epoch_s=0.0, port=ready["port"])
            countries = folder / "countries.csv"
            countries.write_text(format_countries(world.hosts, world.spec.regions.names), encoding="utf-8")
            seeds = [world.roots[host.name].decode() for host in world.hosts[:SEEDS]]
            settings = {**size.crawl, "collection.seeds": seeds, "fetch.dns": ready["dns"]}
            nodes = {region: node_flags(region, strategy, countries) for region in REGIONS}
            # The time of a round begins with its first request, because nodes take different times to join.
            has_started, isolated = (lambda: log.stat().st_size > 0), strategy == ISOLATED
            asyncio.run(run_nodes(folder, settings, nodes, WallClock(), size.seconds, has_started, isolated=isolated))
        return measure_round(strategy, number, folder, size.seconds, study_id(size, seed))


def node_flags(region: str, strategy: str, countries: Path) -> list[str]:
    return ["--region", region, "--bind", BOUND[region], "--strategy", strategy, "--countries", str(countries)]


Fetch = tuple[str, str, float, float, float]
"""(URL, its site, begin, end, bytes)."""


def measure_round(strategy: str, number: int, folder: Path, seconds: float, study: str) -> RoundResult:
    """Read the result of a round from the nodes' logs. A moved cell has its rows on both nodes; they count once."""
    fetches: set[Fetch] = set()
    for region in REGIONS:
        with open_source(open_root(folder / region), COLLECTION) as source:
            sql = f"SELECT url, site, epoch(started), epoch(ended), bytes FROM fetches WHERE {ANSWERED}"  # noqa: S608
            for url, site, start, end, size in source.log.query(sql).rows:
                fetches.add((str(url), str(site), float(start), float(end), float(size)))
    return RoundResult(strategy, number, **compute_measures(fetches, seconds), study=study)


def compute_measures(fetches: Collection[Fetch], seconds: float) -> Mapping[str, Any]:  # Any: fields of a Round
    """Return the paper's measures of the pages fetched within `seconds` of the first request.

    A page that several nodes fetched counts once, by its first fetch.
    """
    first_s = min((start for _, _, start, _, _ in fetches), default=0.0)
    # By end time: of several fetches of a page, the one that was complete first counts.
    in_time = sorted((each for each in fetches if each[3] <= first_s + seconds), key=lambda each: each[3])
    first: dict[str, Fetch] = {}
    for each in in_time:
        first.setdefault(each[0], each)
    pages, kilobytes = len(first), sum(each[4] for each in first.values()) / 1000
    return {
        "pages": pages,
        "domains": len({each[1] for each in first.values()}),
        "kilobytes": round(kilobytes, 3),
        "mean_kilobytes": round(kilobytes / max(1, pages), 4),
        "capture_s": round(sum(each[3] - each[2] for each in first.values()) / max(1, pages), 4),
        "repeated": len(in_time) - pages,
    }
