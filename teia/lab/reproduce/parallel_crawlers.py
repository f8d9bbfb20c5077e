"""A16: Cho's modes of parallel crawlers compared, by a model on a lab world's links and by real nodes.

The paper names modes and splits and the results of Cho & Garcia-Molina. Firewall covers much as long as processes are
few and begin in different places. Cross-over covers more and overlaps. Exchange does neither and costs messages, fewer
when sites are kept together and links sent in batches. The paper prints no numbers, so ours stand beside those of one
process. As in Cho & Garcia-Molina, the seeds are random pages, whose number is varied, and each goes to the process
that owns it. Every mode is measured after as many fetches as there are pages, or when nothing is left. Three real nodes
crawl a smaller world, to check the model's result for exchange by site.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from teia.clock import WallClock
from teia.lab.parallel.crawl import Mode, ParallelCrawlResult, crawl
from teia.lab.parallel.measures import communication, coverage, coverage_and_overlap, overlap, quality
from teia.lab.parallel.split import SPLITS
from teia.lab.parallel.web import WebGraph, read_graph
from teia.lab.reproduce.nodes import format_toml, run_nodes
from teia.lab.reproduce.registry import ExperimentInput, Figure, PlotLine, ResultRow, Results, Table, experiment
from teia.lab.server.process import lab_process
from teia.lab.server.requestlog import read_log
from teia.lab.world.spec import WorldSpec
from teia.lab.world.world import World
from teia.lib.message import Message

PAGES, QUICK_PAGES = 20_000, 1_000
REAL_PAGES, QUICK_REAL_PAGES = 1_500, 100
PAGES_PER_HOST = 50
PROCESSES, QUICK_PROCESSES = (1, 2, 4, 8, 16, 32, 64), (1, 2, 4, 8)
SHOWN, QUICK_SHOWN = (4, 16, 64), (4,)
SEEDS, QUICK_SEEDS = 64, 8
"""Number of seeds of all processes together: Cho & Garcia-Molina's smallest set."""

SEED_COUNTS, QUICK_SEED_COUNTS = (64, 256, 1_024, 4_096), (8, 64)

BATCH = 100
BATCHES = (1, 10, 100, 1_000, 10_000)
BEST = 0.1
"""Share of pages that count as the best, for quality."""

LONGEST = 4
"""Fetches in cross-over, as a multiple of the pages; in the end every process would fetch everything."""

QUIET: dict[str, Any] = {
    "time_factor": 0,
    "errors.scale": 0,
    "robots.present": 0,
    "links.orphans": 0,
    "urls.sessions": 0,
    "sites.aliases": 0,
    "sites.mirrors": 0,
    "sites.nxdomain": 0,
    "sites.unreachable": 0,
    "text.pdfs": 0,
    "text.paragraphs": 2,
    "sitemaps.honest": 0,
    "sitemaps.lying": 0,
    "sitemaps.bare": 0,
    "feeds.rss": 0,
    "feeds.atom": 0,
}
"""A world in which every URL is a page with links to it, so that every missing page is due to the mode."""

CRAWL: dict[str, Any] = {
    "collection.cells": 16,
    "scope.include": ["suffix:.test"],
    "fetch.allow_nets": ["127.77.0.0/16"],
    "courtesy.delay_s": 0.02,
    "courtesy.response_factor": 0,
    "courtesy.robots": False,
    "sites.aliases": False,
    "sites.probe_after_pages": 0,
    "parse.children": 1,
    "index.enabled": False,
    "limits.disk_free_bytes": 64 * 2**20,
}
NODES = ("a", "b", "c")


def world_spec(run: ExperimentInput, pages: int) -> dict[str, Any]:
    return {"seed": run.seed, "pages": pages, "hosts": max(2, pages // PAGES_PER_HOST), **QUIET}


@dataclass
class Study:
    """A world's web and the results of its crawls, each run once."""

    run: ExperimentInput
    web: WebGraph
    _results: dict[tuple[Mode, str, int, bool, int, int], ParallelCrawlResult] = field(default_factory=dict)
    _single: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)

    def crawl_result(
        self, mode: Mode, split: str, processes: int, *, by_links: bool = False, batch: int = BATCH, seeds: int = 0
    ) -> ParallelCrawlResult:
        key = (mode, split, processes, by_links, batch, seeds)
        if key not in self._results:
            web = self.web
            owners = SPLITS[split](web, processes)
            # Quality needs the first pages only.
            enough = round(len(web) * BEST) if by_links else 0
            most = LONGEST * len(web) if mode is Mode.CROSS_OVER else 0
            parts = self._seeds(owners, processes, seeds)
            self._results[key] = crawl(
                web, owners, parts, mode, by_links=by_links, batch=batch, enough=enough, most_fetched=most
            )
        return self._results[key]

    def quality(self, mode: Mode, split: str, processes: int, batch: int = BATCH) -> float:
        """Return the share of the best pages that come first, if each process orders pages by the links it knows of."""
        best = round(len(self.web) * BEST)
        return quality(self.crawl_result(mode, split, processes, by_links=True, batch=batch), self.web, best)

    def single_process(self, split: str, processes: int) -> dict[str, float]:
        """Return the measures of one process that begins with the seeds of all."""
        key = (split, processes)
        if key not in self._single:
            web = self.web
            seeds = [self._drawn(0)]
            best = round(len(web) * BEST)
            by_links = crawl(web, [0] * len(web), seeds, Mode.EXCHANGE, by_links=True, enough=best)
            result = crawl(web, [0] * len(web), seeds, Mode.EXCHANGE)
            # One process fetches no page twice and sends no links.
            nothing = dict.fromkeys(("overlap", "overlap, longer", "URLs sent per page", "messages per page"), 0.0)
            reached = dict.fromkeys(("coverage", "coverage, longer"), coverage(result, web))
            self._single[key] = {**reached, "quality": quality(by_links, web, best), **nothing}
        return self._single[key]

    def measures(self, mode: Mode, split: str, processes: int) -> Iterator[tuple[str, float]]:
        """Yield the measures of a mode; a firewall sends no links and fetches no page twice."""
        whole = self.crawl_result(mode, split, processes)
        # The same cost for all modes, which decides neither coverage nor overlap.
        result = replace(whole, fetched=whole.fetched[: len(self.web)])
        yield "coverage", coverage(result, self.web)
        if mode is not Mode.FIREWALL:
            yield "overlap", overlap(result)
        if mode is Mode.CROSS_OVER:
            yield "coverage, longer", coverage(whole, self.web)
            yield "overlap, longer", coverage_and_overlap(whole, self.web, len(self.web))[1][-1]
        if mode is Mode.EXCHANGE:
            yield "URLs sent per page", communication(result)
            yield "messages per page", result.messages / len(set(result.fetched))
        yield "quality", self.quality(mode, split, processes)

    def _drawn(self, count: int) -> list[int]:
        # The same pages for all modes, splits and numbers of processes, so that they differ in nothing else.
        count = count or (QUICK_SEEDS if self.run.quick else SEEDS)
        return [int(page) for page in self.run.random(16).permutation(len(self.web))[:count]]

    def _seeds(self, owners: list[int], processes: int, count: int) -> list[list[int]]:
        drawn = self._drawn(count)
        return [[page for page in drawn if owners[page] == number] for number in range(processes)]


@experiment(
    "A16",
    title="Parallel crawlers: firewall, cross-over, exchange",
    paper="the collaborative peer-to-peer crawler (COPPE/UFRJ), section 2.3.1, after Cho & Garcia-Molina (2002)",
)
def parallel_crawlers(run: ExperimentInput) -> Results:
    """Measure coverage, overlap, communication and quality of each mode and split, and of three real nodes."""
    pages = QUICK_PAGES if run.quick else PAGES
    run.progress(f"A16: the links of {pages:,} pages")
    study = Study(run, read_graph(World(WorldSpec.from_values(world_spec(run, pages)), epoch_s=0.0)))
    yield modes_table(study)
    numbers = QUICK_PROCESSES if run.quick else PROCESSES
    yield seeds_table(study)
    yield coverage_figure(study, numbers)
    yield overlap_figure(study, numbers)
    yield communication_figure(study, numbers)
    yield quality_figure(study, max(QUICK_SHOWN if run.quick else SHOWN[:2]))
    yield nodes_table(run)


def modes_table(study: Study) -> Table:
    rows = []
    for processes in QUICK_SHOWN if study.run.quick else SHOWN:
        for split in SPLITS:
            for mode in Mode:
                study.run.progress(f"A16: {mode.value}, {processes} processes, by {split}")
                rows += [
                    ResultRow(
                        (mode.value, split, f"{processes}", name), value, study.single_process(split, processes)[name]
                    )
                    for name, value in study.measures(mode, split, processes)
                ]
    note = (
        f"{len(study.web):,} pages; {QUICK_SEEDS if study.run.quick else SEEDS} random pages are seeds, each of the"
        " process that owns it. Every mode is measured after as many fetches as there are pages, or when nothing is"
        f" left; longer: at the last new page within {LONGEST} times as many. Overlap is pages fetched again per"
        " different page. Each process"
        f" sends a link once, {BATCH} at a time. Quality: the share of the {BEST:.0%} of pages"
        " with most incoming links among the same number of pages fetched first, where processes order URLs by the"
        " links they know. One process starts with the seeds of all. By hierarchy is by topic here; name-length is"
        " Tarântula's split (T4), which has as many parts as names have lengths: the other processes are idle."
    )
    columns = ("mode", "split", "processes", "measure")
    return Table("modes", "Modes and splits", columns, tuple(rows), Message("one process"), note)


def seeds_table(study: Study) -> Table:
    """Vary the number of seeds with a firewall, by site."""
    quick, rows = study.run.quick, []
    for seeds in QUICK_SEED_COUNTS if quick else SEED_COUNTS:
        for number in QUICK_PROCESSES if quick else PROCESSES:
            found = coverage(study.crawl_result(Mode.FIREWALL, "site", number, seeds=seeds), study.web)
            rows.append(ResultRow((f"{seeds}", f"{number}"), found))
    note = (
        "The share of the pages that are reached. Cho & Garcia-Molina found the same on 40 million pages: coverage"
        " falls with the number of processes, and a large set of seeds makes up for it. Our web is small: with 4,096"
        " seeds every fifth page is one. The paper prints no numbers."
    )
    return Table("seeds", "Firewall, by site: number of seeds", ("seeds", "processes"), tuple(rows), note=note)


def coverage_figure(study: Study, numbers: tuple[int, ...]) -> Figure:
    series = _lines(numbers, lambda split, n: coverage(study.crawl_result(Mode.FIREWALL, split, n), study.web))
    title = "Pages reached with a firewall"
    return Figure("coverage", title, "processes", "coverage", series, log_x=True)


def _lines(numbers: tuple[int, ...], measured: Callable[[str, int], float]) -> tuple[PlotLine, ...]:
    """Return a line for each split, over the number of processes."""
    x = [float(number) for number in numbers]
    return tuple(PlotLine(split, x, [measured(split, number) for number in numbers]) for split in SPLITS)


def overlap_figure(study: Study, numbers: tuple[int, ...]) -> Figure:
    """Draw the cost of the last pages in cross-over by site."""
    series = []
    for number in numbers[1:]:
        x, y = coverage_and_overlap(study.crawl_result(Mode.CROSS_OVER, "site", number), study.web, 100)
        series.append(PlotLine(f"{number} processes", x, y))
    return Figure("overlap", "Cross-over, by site", "coverage", "overlap", tuple(series))


def communication_figure(study: Study, numbers: tuple[int, ...]) -> Figure:
    series = _lines(numbers, lambda split, n: communication(study.crawl_result(Mode.EXCHANGE, split, n)))
    return Figure("told", "Exchange: messages sent", "processes", "URLs sent per page", series, log_x=True)


def quality_figure(study: Study, processes: int) -> Figure:
    """Draw quality over the size of batches: small enough batches are as good as one process."""
    x = [float(batch) for batch in BATCHES]
    series = [
        PlotLine(split, x, [study.quality(Mode.EXCHANGE, split, processes, batch) for batch in BATCHES])
        for split in SPLITS
    ]
    series.append(
        PlotLine(Message("one process"), x, [study.single_process("site", processes)["quality"]] * len(x), ours=False)
    )
    title = f"Exchange: quality, {processes} processes"
    return Figure("quality", title, "links per message", "quality", tuple(series), log_x=True)


# -- real nodes --------------------------------------------------------------------------------------------------------


def nodes_table(run: ExperimentInput) -> Table:
    """Crawl a world to its end with three nodes; the lab's own log records their requests."""
    pages = QUICK_REAL_PAGES if run.quick else REAL_PAGES
    run.progress(f"A16: three nodes crawl {pages:,} pages")
    web = read_graph(World(WorldSpec.from_values(world_spec(run, pages)), epoch_s=0.0))
    with TemporaryDirectory(prefix="teia-reproduce-") as name:
        folder = Path(name)
        (folder / "world.toml").write_text(format_toml(world_spec(run, pages)), encoding="utf-8")
        log = folder / "requests.jsonl"
        flags = ("--spec", str(folder / "world.toml"), "--port", "0", "--dns-address", "127.77.255.53:0")
        with lab_process(*flags, "--log", str(log)) as ready:
            settings = {**CRAWL, "collection.seeds": ready["seeds"][:1], "fetch.dns": ready["dns"]}
            reports = asyncio.run(run_nodes(folder, settings, dict.fromkeys(NODES, ()), WallClock(), None))
        fetched = Counter(f"{entry.host}{entry.path}" for entry in read_log(log) if entry.status == 200)
    distinct, total = len(fetched), sum(fetched.values())
    owners = SPLITS["site"](web, len(NODES))
    # The model begins as the nodes do: one seed, at the process that owns it.
    model = crawl(web, owners, [[web.homes[0]] if owners[web.homes[0]] == n else [] for n in range(3)], Mode.EXCHANGE)
    busiest = max(each["pages"] for each in reports.values())
    rows = (
        ResultRow(("coverage",), distinct / len(web), coverage(model, web)),
        ResultRow(("overlap",), (total - distinct) / distinct, overlap(model)),
        ResultRow(("pages of the busiest node, in fair shares",), busiest * len(NODES) / distinct),
        ResultRow(("messages to NATS per page",), sum(each["messages"] for each in reports.values()) / distinct),
        ResultRow(("kB to NATS per page",), sum(each["sent_bytes"] for each in reports.values()) / distinct / 1000),
    )
    note = (
        f"{len(web):,} pages, one seed, {CRAWL['collection.cells']} cells, from the lab's own request log. Messages"
        " are links for other cells, including those of the same node, and the records of all commits; the model"
        " does not include those."
    )
    title = "Three real nodes: exchange by site"
    return Table("nodes", title, ("measure",), rows, Message("model"), note, varies=True)
