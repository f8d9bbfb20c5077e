"""Aliases and soft 404s of a lab web, judged by the lab's truth and the lab's log (A7, RELIABILITY 27)."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from teia.lab.server.requestlog import RequestLogEntry
from teia.lab.server.witness import early_requests
from teia.lab.world.spec import WorldSpec
from teia.lab.world.world import World
from teia.store.root import open_root
from teia.transfer.read_all import audit_archives, known_urls
from teia.urls import split
from teia.views.reports.hosts import hosts
from teia.views.reports.source import open_source
from tests.waiting import until

from .labs import IMPATIENT, Lab, crawl, crawling, kill_group, running_lab

pytestmark = pytest.mark.timeout(360)
SPEC = """
seed = 3
hosts = 10
pages = 500

[sites]
theta = 0.1
aliases = 1.0
mirrors = 0
shared_address = 0
nxdomain = 0
unreachable = 0
soft_404 = 0.6

[errors]
scale = 2.5
silent_s = 0.02
large_bytes = 400_000

[links]
orphans = 0
outside = 6

[changes]
slowest = 0.0001
fastest = 0.0001

[robots]
present = 0.8
excluded = 0
nofollow = 0
noindex = 0
crawl_delay = 0

[sitemaps]
honest = 0
lying = 0
bare = 0
"""
DELAY_S = 0.05
FLAGS = ("--delay", str(DELAY_S), "--cells", "3")
HASTY = {**IMPATIENT, "TEIA_COURTESY_RESPONSE_FACTOR": "5", "TEIA_LIMITS_BODY_BYTES": "200000"}
"""On a busy machine answers come late, and who answers late is left alone for longer: no more is asked meanwhile."""

KILLS = 4
ENOUGH = 12
"""Requests to an alias: robots.txt, three pages, what fails or redirects meanwhile, and what was under way. A death
repeats what was under way."""


@dataclass(frozen=True)
class Crawled:
    """A finished crawl and everything the lab knows about it."""

    data: Path
    entries: list[RequestLogEntry]
    truth: dict[str, dict[str, Any]]

    @property
    def known(self) -> dict[str, dict[str, Any]]:
        return {each["url"]: each for each in known_urls(open_root(self.data), "main")}

    def copies(self) -> dict[str, list[str]]:
        """The URLs of each page, by the one the lab calls the original."""
        found = defaultdict(list)
        for url, line in self.truth.items():
            found[line["same_as"] or url].append(url)
        return found


def soft_hosts(crawled: Crawled, folder: Path) -> set[str]:
    """Names of the hosts that have a page for everything, as the world was drawn."""
    world = World(WorldSpec.load(folder / "world.toml"), epoch_s=0.0)
    return {name for host in world.hosts if host.soft_404 for name in (host.name, *host.aliases)}


def killed(lab: Lab, data: Path, chance: random.Random) -> None:
    """Start a crawl and kill it while it is at work, a few times."""
    for _ in range(KILLS):
        before = lab.requests()
        with crawling(lab, data, *FLAGS) as process:
            until(lambda: lab.requests() >= before + 30 or process.poll() is not None, "the crawl goes on")  # noqa: B023
            time.sleep(chance.uniform(0.0, 0.4))  # it dies at any moment
            kill_group(process)


@pytest.fixture(scope="module", params=["calm", pytest.param("killed", marks=pytest.mark.slow)])
def crawled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    folder = tmp_path_factory.mktemp(request.param)
    with running_lab(folder, SPEC, 96, truth=True) as lab:
        if request.param == "killed":
            killed(lab, folder / "data", random.Random(7))
        summary = crawl(lab, folder / "data", *FLAGS, environ=HASTY)
        assert summary["state"] == "finished"
        return Crawled(folder / "data", lab.settled_entries(), lab.truth())


def test_every_alias_is_recognised_and_gets_few_requests(crawled: Crawled) -> None:
    asked = Counter(entry.host for entry in crawled.entries)
    little = ENOUGH + (3 * KILLS if "killed" in str(crawled.data) else 0)
    pairs = {tuple(sorted({split(url).host for url in urls})) for urls in crawled.copies().values()}
    aliases = [pair for pair in pairs if len(pair) == 2]
    assert len(aliases) == 5
    assert all(min(asked[one], asked[other]) <= little < max(asked[one], asked[other]) for one, other in aliases), asked
    with open_source(open_root(crawled.data), "main") as source:
        found = hosts(source, top=100)
    assert {frozenset((row.host, row.alias_of)) for row in found.rows if row.alias_of} == set(map(frozenset, aliases))


def test_no_page_is_lost_to_an_alias(crawled: Crawled) -> None:
    """Whatever a reachable page links to was fetched under one of its names."""
    copies = crawled.copies()
    original = {url: first for first, urls in copies.items() for url in urls}
    reached, waiting = set(), [next(iter(crawled.truth))]
    while waiting:
        url = original.get(waiting.pop())
        if url is None or url in reached:
            continue
        reached.add(url)
        line = crawled.truth[url]
        waiting += [link for link in line["links"] if link not in line["nofollow"]]
        waiting += [line["location"]] if line["location"] else []
    fetched = {url for url, each in crawled.known.items() if each["outcome"] == "200"}
    pages = {url for url in reached if crawled.truth[url]["versions"]}
    assert len(pages) > 250
    assert {url for url in pages if not fetched & set(copies[url])} == set()


def test_soft_404s_are_those_of_the_truth(crawled: Crawled) -> None:
    soft = soft_hosts(crawled, crawled.data.parent)
    said = {url: each["outcome"] for url, each in crawled.known.items() if url in crawled.truth}
    marked = {url for url, outcome in said.items() if outcome == "soft_404"}
    assert {crawled.truth[url]["kind"] for url in marked} == {"404"}
    missing = {
        url
        for url, outcome in said.items()
        if crawled.truth[url]["kind"] == "404"
        and split(url).host in soft
        and outcome not in {"soft_404", "alias", None}
    }
    assert len(marked) >= 10
    assert missing == set()


def test_every_host_is_probed_once_at_most(crawled: Crawled) -> None:
    probed = Counter(entry.host for entry in crawled.entries if "/teia-probe-" in entry.path)
    again = KILLS if "killed" in str(crawled.data) else 0
    assert len(probed) >= 5
    assert max(probed.values()) <= 1 + again, "only one that was under way at a death is sent again"


def test_nothing_of_it_was_impolite(crawled: Crawled) -> None:
    assert early_requests(crawled.entries, DELAY_S, lambda entry: entry.host) == []
    assert early_requests(crawled.entries, DELAY_S, lambda entry: entry.address) == []
    audit = audit_archives(open_root(crawled.data), "main")
    assert audit.violations == 0, audit.details
