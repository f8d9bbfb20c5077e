"""C8: the growth of the collection rate with collectors (CoBWeb's figure 3), and the scheduler's time (table 1).

A collector of CoBWeb is a process that has one request in progress at a time and asks the scheduler for the next URL.
Ours is a slot for a request (`fetch.at_once`), so five collectors are a crawl with at most five requests in progress.
The lab's servers take as long for an answer as the paper's did, so a slot is nearly always waiting for its server.
Neither the processor nor politeness limits it: there are many servers, with a politeness delay of a second.

The paper also spreads its collectors over machines. So nodes of a cluster (`teia node`, each a process of its own)
crawl the same servers, with five collectors each: a scheduler on every node, links sent between them.

The scheduler's time is measured from the outside, as a collector would: from the end of a request until the next one in
the slot that became free. Most of it is the clock's tick, 10 ms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import uvloop

from teia.clock import WallClock
from teia.collections.settings import configure
from teia.config.sections import Config
from teia.crawler.start import open_crawler
from teia.errors import LabError
from teia.lab.reproduce.crawled import settings_lines, world_lines
from teia.lab.reproduce.nodes import COLLECTION as STUDY
from teia.lab.reproduce.nodes import format_toml, run_nodes
from teia.lab.reproduce.registry import ExperimentInput, Figure, PlotLine, ResultRow, Results, Table, experiment
from teia.lab.server.process import lab_process
from teia.lab.server.requestlog import read_log
from teia.lab.world.spec import WorldSpec
from teia.lab.world.world import World
from teia.lib.message import Message
from teia.store.root import Root, open_root
from teia.views.reports.source import open_source

PER_NODE = 5
"""Number of collectors of a node."""

CELLS = 32
"""Number of cells in a session of nodes, so that each of them gets about as many servers."""

LATENCY_S = 3.39
"""Mean of table 1."""


@dataclass(frozen=True, slots=True)
class CollectorsSize:
    """The sessions of a run: their collectors, their nodes, and the seconds that are measured.

    `join_s` is the time in which the nodes, all of which have sent a request, share the servers. Servers answer
    `faster` than the paper's by this factor.
    """

    collectors: tuple[int, ...]
    nodes: tuple[int, ...]
    seconds: float
    join_s: float
    hosts: int
    pages: int
    faster: float = 1.0

    @property
    def latency_s(self) -> float:
        return LATENCY_S / self.faster


FULL = CollectorsSize((5, 10, 15, 20, 25), (1, 2, 4), 40.0, 40.0, 120, 12_000)
QUICK = CollectorsSize((5, 25), (1, 2), 4.0, 2.0, 60, 1_200, faster=5.0)

HTTP_S = {5: 3.42, 10: 3.40, 15: 3.36, 20: 3.39, 25: 3.42}
SCHEDULER_S = {5: 0.01, 10: 0.02, 15: 0.02, 20: 0.02, 25: 0.02}
"""Latencies of table 1, by the number of collectors."""

COLUMNS, SENT = "epoch(started), epoch(ended), coalesce(status, 0)", "kind <> 'robots'"
WORLD: dict[str, Any] = {
    "time_factor": 0,
    "errors.scale": 0,
    "robots.present": 0,
    # Servers of equal size, so that none runs out of pages during a session.
    "sites.theta": 0.0,
    "sites.slow": 1.0,
    "sites.shared_address": 0,
    "sites.nxdomain": 0,
    "sites.unreachable": 0,
}
CRAWL: dict[str, Any] = {
    "scope.include": ("suffix:.test",),
    "fetch.allow_nets": ("127.0.0.0/8",),
    "courtesy.delay_s": 1.0,
    "courtesy.response_factor": 0.0,
    "courtesy.robots": False,
    "sites.aliases": False,
    "sites.probe_after_pages": 0,
    "index.enabled": False,
    "parse.children": 1,
    "limits.disk_free_bytes": 64 * 2**20,
}


@dataclass(frozen=True, slots=True)
class CollectorsResult:
    """The result of a crawl with a number of collectors: documents a minute, mean answer time, mean wait of a slot."""

    collectors: int
    per_minute: float
    http_s: float
    scheduler_s: float
    requests: int


@dataclass(frozen=True, slots=True)
class NodesResult:
    """The result of a crawl with several nodes: documents a minute, and the answers that were counted."""

    nodes: int
    per_minute: float
    answers: int


def _world(seed: int, size: CollectorsSize) -> dict[str, Any]:
    return {"seed": seed, "hosts": size.hosts, "pages": size.pages, **WORLD, "sites.slow_s": size.latency_s}


def _input_lines(run: ExperimentInput) -> Iterator[str]:
    yield from settings_lines(CRAWL)
    yield from world_lines(_world(run.seed, QUICK if run.quick else FULL))


@experiment(
    "C8",
    title="Collectors and the rate of collection",
    paper="the CoBWeb paper, section 4, figure 3 and table 1",
    input_lines=_input_lines,
)
def collectors(run: ExperimentInput) -> Results:
    """Crawl the same servers with 5 to 25 collectors, from the same URLs."""
    size = QUICK if run.quick else FULL
    with TemporaryDirectory(prefix="teia-reproduce-") as name:
        spec, log = Path(name) / "world.toml", Path(name) / "requests.jsonl"
        spec.write_text(format_toml(_world(run.seed, size)), encoding="utf-8")
        flags = ["--spec", str(spec), "--port", "0", "--dns-address", "127.77.255.53:0", "--log", str(log)]
        with lab_process(*flags) as ready:
            lab_settings = {"collection.seeds": _home_pages(spec, ready["port"]), "fetch.dns": ready["dns"]}
            sessions, of_nodes = [], []
            for number in size.collectors:
                run.progress(f"C8: {number} collectors for {size.seconds:g} s")
                sessions.append(_session(Path(name) / f"{number}", lab_settings, number, size.seconds, run.seed))
            for number in size.nodes:
                run.progress(f"C8: {number} nodes with {PER_NODE} collectors each for {size.seconds:g} s")
                folder = Path(name) / f"nodes-{number}"
                of_nodes.append(run_node_session(folder, lab_settings, number, size, log))
    yield rate_table(sessions, size)
    yield node_table(of_nodes)
    yield latency_table(sessions, size)
    yield rate_figure(sessions, size)


def _home_pages(spec: Path, port: int) -> tuple[str, ...]:
    """Return the home pages of all servers, from which every session begins."""
    world = World(WorldSpec.load(spec), epoch_s=0.0, port=port)
    return tuple(world.roots[host.name].decode() for host in world.hosts)


def _session(folder: Path, lab_settings: dict[str, Any], number: int, seconds: float, seed: int) -> CollectorsResult:
    """Crawl with `number` collectors for `seconds`."""
    root = open_root(folder, create=True)
    with root.locked():
        flags = {**CRAWL, **lab_settings, "fetch.at_once": number, "limits.seconds": seconds}
        config = configure(root, "world", None, {}, flags).config
        uvloop.run(_crawl(root, config, seed))
    with open_source(root, "world") as source:
        sql = f"SELECT {COLUMNS} FROM fetches WHERE {SENT}"  # noqa: S608  # our own text
        rows = [(float(start), float(end), int(status)) for start, end, status in source.log.query(sql).rows]
    return measure_session(number, rows)


def run_node_session(
    folder: Path, lab_settings: Mapping[str, Any], number: int, size: CollectorsSize, log: Path
) -> NodesResult:
    """Crawl with nodes of a cluster, each with `PER_NODE` collectors; `log` is the lab's log of requests."""
    folder.mkdir()
    settings = {**CRAWL, **lab_settings, "fetch.at_once": PER_NODE, "collection.cells": CELLS}
    names = [f"node-{each}" for each in range(1, number + 1)]
    # Each node sends its requests from an address of its own: `number` of a session, and the node's.
    bound = {name: f"127.8{number}.0.{each}" for each, name in enumerate(names, 1)}
    nodes = {name: ["--bind", address] for name, address in bound.items()}
    have_requested = lambda: set(bound.values()) <= {entry.peer for entry in read_log(log)}  # noqa: E731
    seconds = size.join_s + size.seconds
    asyncio.run(run_nodes(folder, settings, nodes, WallClock(), seconds, have_requested))
    rows: set[tuple[str, float, float, int]] = set()
    for name in names:
        # A cell that moved has its rows on both nodes; they count once.
        with open_source(open_root(folder / name), STUDY) as source:
            sql = f"SELECT url, {COLUMNS} FROM fetches WHERE {SENT}"  # noqa: S608  # our own text
            for url, start, end, status in source.log.query(sql).rows:
                rows.add((str(url), float(start), float(end), int(status)))
    return measure_nodes(number, [row[1:] for row in rows], size.seconds)


def measure_nodes(number: int, fetches: Sequence[tuple[float, float, int]], seconds: float) -> NodesResult:
    """Count the documents of the `seconds` before the last request began, when all nodes had joined."""
    last_s = max((start for start, _, _ in fetches), default=0.0)
    ended = [status for _, end, status in fetches if last_s - seconds < end <= last_s]
    if len(ended) < number * PER_NODE:
        raise LabError(f"the nodes got {len(ended)} answers in {seconds:g} s; there is too little to measure")
    return NodesResult(number, 60 * ended.count(200) / seconds, len(ended))


async def _crawl(root: Root, config: Config, seed: int) -> None:
    async with open_crawler(root, [config], WallClock(), seed) as crawler:
        await crawler.run()


def measure_session(number: int, fetches: Sequence[tuple[float, float, int]]) -> CollectorsResult:
    """Return the result of a session from its fetch log: the begin, end and status of each request.

    Documents are counted until the last request begins: from then on slots are empty. A slot that becomes free takes
    the next request that begins, so the waits are the gaps between the ends and the beginnings that follow them.
    """
    starts = np.sort([start for start, _, _ in fetches])
    ends = np.sort([end for _, end, _ in fetches])
    documents = sum(status == 200 and end <= starts[-1] for _, end, status in fetches)
    # The first `number` requests find empty slots. After them, request n + number uses the slot that end n freed.
    waits = starts[number:] - ends[: len(starts) - number]
    return CollectorsResult(
        number,
        60 * documents / float(starts[-1] - starts[0]),
        float(np.mean([end - start for start, end, _ in fetches])),
        float(np.mean(waits)),
        len(fetches),
    )


def rate_table(sessions: Sequence[CollectorsResult], size: CollectorsSize) -> Table:
    rows = [
        ResultRow((f"{each.collectors}", f"{each.requests}"), each.per_minute, implied_rate(each.collectors, size))
        for each in sessions
    ]
    slope, at_zero, r_squared = fit_line(sessions)
    note = (
        "Figure 3 is a picture, its numbers are not in the text; beside ours is the rate computed from table 1's"
        f" latencies for collectors that are never idle, 60 · n / (HTTP + scheduler){_how_fast(size)}. A linear fit of"
        " ours has "
        f"{slope:.2f} documents per minute and collector, {at_zero:+.1f} at zero, and explains {r_squared:.4%} of"
        " the variance. The first responses of a session arrive one latency after its start, which affects short"
        " sessions."
    )
    title = "Documents a minute (figure 3)"
    return Table("rates", title, ("collectors", "requests"), tuple(rows), Message("from table 1"), note, varies=True)


def node_table(sessions: Sequence[NodesResult]) -> Table:
    """Compare the rate of several nodes with that of one: it should be as many times as high."""
    alone = sessions[0].per_minute / sessions[0].nodes
    rows = [
        ResultRow((f"{each.nodes}", f"{PER_NODE * each.nodes}", f"{each.answers}"), each.per_minute, alone * each.nodes)
        for each in sessions
    ]
    note = (
        f"Each node is a process with {PER_NODE} collectors and a scheduler for its part of the servers; beside ours is"
        " the rate of one node, multiplied. CoBWeb ran on two machines and prints no rates for one. Measured in the"
        " last part of a session, when all nodes have their share of the servers. Cluster, lab and measurement share"
        " this machine."
    )
    columns = ("nodes", "collectors", "answers")
    title = "Documents a minute with several nodes"
    return Table("nodes", title, columns, tuple(rows), Message("theory"), note, varies=True)


def implied_rate(collectors: int, size: CollectorsSize) -> float:
    return 60 * collectors / (HTTP_S[collectors] / size.faster + SCHEDULER_S[collectors])


def _how_fast(size: CollectorsSize) -> str:
    """Say how fast the servers are, if they are not as slow as the paper's."""
    return "" if size.faster == 1 else f", with HTTP {size.faster:g} times as fast, as the servers here are"


def fit_line(sessions: Sequence[CollectorsResult]) -> tuple[float, float, float]:
    """Return the slope, the value at zero, and the share of variance that the line explains."""
    x = np.array([each.collectors for each in sessions], dtype=float)
    y = np.array([each.per_minute for each in sessions])
    slope, at_zero = (float(value) for value in np.polyfit(x, y, 1))
    residuals = y - slope * x - at_zero
    return slope, at_zero, 1 - float(residuals @ residuals) / float(((y - y.mean()) ** 2).sum())


def latency_table(sessions: Sequence[CollectorsResult], size: CollectorsSize) -> Table:
    rows = []
    for each in sessions:
        # Servers that are faster than the paper's have nothing to be compared with.
        published_s = HTTP_S[each.collectors] if size.faster == 1 else None
        rows += [
            ResultRow((f"{each.collectors}", "HTTP, s"), each.http_s, published_s),
            ResultRow((f"{each.collectors}", "scheduler, s"), each.scheduler_s, SCHEDULER_S[each.collectors]),
        ]
    note = (
        f"The lab's servers have a latency of {size.latency_s:.3g} s; the mean of table 1 is {LATENCY_S} s. The"
        " scheduler's latency is the"
        " time from the end of a request to the start of the next one in its slot: the loop runs every 10 ms, and"
        " all other work of the crawler in between is included."
    )
    return Table("latencies", "Latencies (table 1)", ("collectors", "what"), tuple(rows), note=note, varies=True)


def rate_figure(sessions: Sequence[CollectorsResult], size: CollectorsSize) -> Figure:
    x = [float(each.collectors) for each in sessions]
    series = (
        PlotLine("ours", x, [each.per_minute for each in sessions]),
        PlotLine(Message("from table 1"), x, [implied_rate(each.collectors, size) for each in sessions], ours=False),
    )
    axes = ("collectors", "documents a minute")
    return Figure("rates", "Rate of collection (figure 3)", *axes, series, varies=True)
