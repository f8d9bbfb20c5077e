"""C8: the growth of the collection rate with collectors (CoBWeb's figure 3), and the scheduler's time (table 1).

A collector of CoBWeb is a process that has one request in progress at a time and asks the scheduler for the next URL.
Ours is a slot for a request (`fetch.at_once`), so five collectors are a crawl with at most five requests in progress.
The lab's servers take as long for an answer as the paper's did, so a slot is nearly always waiting for its server.
Neither the processor nor politeness limits it: there are many servers, with a politeness delay of a second.

The scheduler's time is measured from the outside, as a collector would: from the end of a request until the next one in
the slot that became free. Most of it is the clock's tick, 10 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from teia.lab.reproduce.crawled import settings_lines, world_lines
from teia.lab.reproduce.nodes import format_toml
from teia.lab.reproduce.registry import ExperimentInput, Figure, PlotLine, ResultRow, Results, Table, experiment
from teia.lab.server.process import lab_process
from teia.lab.world.spec import WorldSpec
from teia.lab.world.world import World
from teia.lib.message import Message
from teia.store.root import Root, open_root
from teia.views.reports.source import open_source

COLLECTORS, QUICK_COLLECTORS = (5, 10, 15, 20, 25), (5, 25)
SECONDS, QUICK_SECONDS = 40.0, 12.0
LATENCY_S = 3.39
"""Mean of table 1."""

HTTP_S = {5: 3.42, 10: 3.40, 15: 3.36, 20: 3.39, 25: 3.42}
SCHEDULER_S = {5: 0.01, 10: 0.02, 15: 0.02, 20: 0.02, 25: 0.02}
"""Latencies of table 1, by the number of collectors."""

WORLD: dict[str, Any] = {
    "hosts": 120,
    "pages": 12_000,
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


def _world(run: ExperimentInput) -> dict[str, Any]:
    return {"seed": run.seed, **WORLD, "sites.slow_s": LATENCY_S}


def _input_lines(run: ExperimentInput) -> Iterator[str]:
    yield from settings_lines(CRAWL)
    yield from world_lines(_world(run))


@experiment(
    "C8",
    title="Collectors and the rate of collection",
    paper="the CoBWeb paper, section 4, figure 3 and table 1",
    input_lines=_input_lines,
)
def collectors(run: ExperimentInput) -> Results:
    """Crawl the same servers with 5 to 25 collectors, from the same URLs."""
    seconds = QUICK_SECONDS if run.quick else SECONDS
    with TemporaryDirectory(prefix="teia-reproduce-") as name:
        spec = Path(name) / "world.toml"
        spec.write_text(format_toml(_world(run)), encoding="utf-8")
        flags = ["--spec", str(spec), "--port", "0", "--dns-address", "127.77.255.53:0"]
        with lab_process(*flags) as ready:
            sessions = []
            for number in QUICK_COLLECTORS if run.quick else COLLECTORS:
                run.progress(f"C8: {number} collectors for {seconds:g} s")
                lab_settings = {"collection.seeds": _home_pages(spec, ready["port"]), "fetch.dns": ready["dns"]}
                sessions.append(_session(Path(name) / f"{number}", lab_settings, number, seconds, run.seed))
    yield rate_table(sessions)
    yield latency_table(sessions)
    yield rate_figure(sessions)


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
        sql = "SELECT epoch(started), epoch(ended), coalesce(status, 0) FROM fetches WHERE kind <> 'robots'"
        rows = [(float(start), float(end), int(status)) for start, end, status in source.log.query(sql).rows]
    return measure_session(number, rows)


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


def rate_table(sessions: Sequence[CollectorsResult]) -> Table:
    rows = [
        ResultRow((f"{each.collectors}", f"{each.requests}"), each.per_minute, implied_rate(each.collectors))
        for each in sessions
    ]
    slope, at_zero, r_squared = fit_line(sessions)
    note = (
        "Figure 3 is a picture, its numbers are not in the text; beside ours is the rate computed from table 1's"
        " latencies for collectors that are never idle, 60 · n / (HTTP + scheduler). A linear fit of ours has "
        f"{slope:.2f} documents per minute and collector, {at_zero:+.1f} at zero, and explains {r_squared:.4%} of"
        " the variance. The first responses of a session arrive one latency after its start, which affects short"
        " sessions."
    )
    title = "Documents a minute (figure 3)"
    return Table("rates", title, ("collectors", "requests"), tuple(rows), Message("from table 1"), note, varies=True)


def implied_rate(collectors: int) -> float:
    return 60 * collectors / (HTTP_S[collectors] + SCHEDULER_S[collectors])


def fit_line(sessions: Sequence[CollectorsResult]) -> tuple[float, float, float]:
    """Return the slope, the value at zero, and the share of variance that the line explains."""
    x = np.array([each.collectors for each in sessions], dtype=float)
    y = np.array([each.per_minute for each in sessions])
    slope, at_zero = (float(value) for value in np.polyfit(x, y, 1))
    residuals = y - slope * x - at_zero
    return slope, at_zero, 1 - float(residuals @ residuals) / float(((y - y.mean()) ** 2).sum())


def latency_table(sessions: Sequence[CollectorsResult]) -> Table:
    rows = []
    for each in sessions:
        rows += [
            ResultRow((f"{each.collectors}", "HTTP, s"), each.http_s, HTTP_S[each.collectors]),
            ResultRow((f"{each.collectors}", "scheduler, s"), each.scheduler_s, SCHEDULER_S[each.collectors]),
        ]
    note = (
        f"The lab's servers have a latency of {LATENCY_S} s, the mean of table 1. The scheduler's latency is the"
        " time from the end of a request to the start of the next one in its slot: the loop runs every 10 ms, and"
        " all other work of the crawler in between is included."
    )
    return Table("latencies", "Latencies (table 1)", ("collectors", "what"), tuple(rows), note=note, varies=True)


def rate_figure(sessions: Sequence[CollectorsResult]) -> Figure:
    x = [float(each.collectors) for each in sessions]
    series = (
        PlotLine("ours", x, [each.per_minute for each in sessions]),
        PlotLine(Message("from table 1"), x, [implied_rate(each.collectors) for each in sessions], ours=False),
    )
    axes = ("collectors", "documents a minute")
    return Figure("rates", "Rate of collection (figure 3)", *axes, series, varies=True)
