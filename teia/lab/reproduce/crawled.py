"""A real crawl of a lab world, for the experiments that show the papers' tables beside ours (C5, T8, F9).

The world does not change (`time_factor` 0) and runs in its own process. The crawl runs here, into a temporary folder,
and ends when no URL waits. The servers are ours, so the politeness delay is short.

The world depends on the seed alone. The result of a crawl does not quite: a host that fails twelve times in a row is
given up. Its remaining URLs get the outcome of its last failure, requested or not (`unrequested`), so documents and the
links on them are missing. With fast retries (0.02 s) that affected 1% of all URLs; with the settings below still half
of that in a full run, and it differs from run to run. So the table reports the number, all tables `vary`, and the
report shows the digest of the world (`world_input_lines`), which is the same in equal runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvloop

from teia.clock import WallClock
from teia.collections.account import Summary, summarize
from teia.collections.settings import configure
from teia.config.sections import Config
from teia.crawler.start import open_crawler
from teia.errors import LabError
from teia.frontier.tables.counts import urls_by_outcome
from teia.lab.reproduce.registry import ExperimentInput, InputLines
from teia.lab.server.process import lab_process
from teia.lab.world.spec import WorldSpec
from teia.lab.world.world import World
from teia.store.root import Root, open_root
from teia.views.reports.source import Source, open_source

COLLECTION = "world"
PAGES = 6_000
QUICK_PAGES = 240
PAGES_PER_HOST = 50
"""Number of pages per host, about T8's: 676,261 documents on 14,068 servers."""

WORLD: dict[str, Any] = {
    "time_factor": 0,
    # Both are beyond the limits of the crawl: `limits.fetch_s` and `limits.body_bytes`.
    "errors.silent_s": 10.0,
    "errors.large_bytes": 400_000,
    "robots.crawl_delay": 0.0,
}
CRAWL: dict[str, Any] = {
    "scope.include": ("suffix:.test",),
    "fetch.allow_nets": ("127.0.0.0/8",),
    "courtesy.delay_s": 0.01,
    "courtesy.response_factor": 0.0,
    "courtesy.retry_wait_s": 0.2,
    "limits.slow_s": 1.0,
    "limits.fetch_s": 2.0,
    "limits.body_bytes": 200_000,
    "limits.disk_free_bytes": 64 * 2**20,
    "limits.seconds": 900.0,
    "sites.aliases": False,
    "sites.probe_after_pages": 0,
}
"""Settings of the crawl.

200 KB is T8's limit of size; the rest makes a crawl of our own servers quick. `fetch_s` ends most answers that never
arrive: `slow_s`, which should end them sooner, often does not in a crawl. Aliases are recognised earlier or later
depending on the order of fetches, so their recognition is off here, and the documents stay those of the seed.
"""

INDEXABLE = (
    "text/html",
    "application/xhtml+xml",
    "text/plain",
    "application/pdf",
    "application/postscript",
    "text/xml",
    "application/xml",
    "application/rss+xml",
    "application/atom+xml",
)
"""Media types that C5 and T8 keep, and those of the sitemaps and feeds that lead to them."""


@dataclass(frozen=True, slots=True)
class CrawledWorld:
    """A world that was crawled to the end, open for queries."""

    root: Root
    source: Source
    summary: Summary

    @property
    def unrequested(self) -> int:
        """Number of URLs that count as failed though no request was sent, because their host had been given up."""
        (requested,) = self.source.log.query("SELECT count(DISTINCT url) FROM fetches WHERE kind <> 'robots'").rows[0]
        # A URL can have these outcomes without a request, for other reasons than a host that was given up.
        unsent = {"robots", "robots_unreachable", "dns"}
        counted = sum(map(urls_by_outcome, self.source.frontiers), Counter[str]())
        visited = sum(number for outcome, number in counted.items() if outcome not in unsent)
        return max(0, visited - int(requested))


@contextmanager
def crawled_world(
    run: ExperimentInput,
    *,
    types: Sequence[str] = (),
    world: Mapping[str, Any] | None = None,
    crawl: Mapping[str, Any] | None = None,
    stop_at: float = 1.0,
    pages_per_host: int = PAGES_PER_HOST,
) -> Iterator[CrawledWorld]:
    """Crawl the world of a run, keeping these media types, and open the result.

    With `stop_at` below 1 the crawl stops when it has that share of the world's URLs as documents, and URLs are left.
    """
    pages = QUICK_PAGES if run.quick else PAGES
    run.progress(f"crawling a world of {pages:,} URLs on {pages // pages_per_host} servers")
    with TemporaryDirectory(prefix="teia-reproduce-") as name:
        folder = Path(name)
        root = open_root(folder / "data", create=True)
        spec = folder / "world.toml"
        spec.write_text(_toml({**_values(run, pages_per_host), **(world or {})}), encoding="utf-8")
        flags = ["--spec", str(spec), "--port", "0", "--dns-address", "127.77.255.53:0"]
        with lab_process(*flags) as ready, root.locked():
            # One seed is enough: all hosts of a world are reachable from its first home page.
            lab_settings = {
                "collection.seeds": tuple(ready["seeds"][:1]),
                "fetch.dns": ready["dns"],
                "scope.types": types,
            }
            if stop_at < 1:
                lab_settings["limits.pages"] = int(stop_at * pages)
            config = configure(root, COLLECTION, None, {}, {**CRAWL, **lab_settings, **(crawl or {})}).config
            summary = uvloop.run(_crawl(root, config, run.seed))
        # Shares and totals of a crawl that was cut off would be wrong, so it is an error.
        if summary.urls_queued and stop_at == 1:
            raise LabError(f"{summary.urls_queued} URLs were still queued after {summary.seconds:.0f} s; try --quick")
        with open_source(root, COLLECTION) as source:
            yield CrawledWorld(root, source, summary)


def world_input_lines(
    *,
    world: Mapping[str, Any] | None = None,
    crawl: Mapping[str, Any] | None = None,
    types: Sequence[str] = (),
    pages_per_host: int = PAGES_PER_HOST,
) -> InputLines:
    """Return a function that describes the world crawled with the same arguments, for the digest."""

    def input_lines(run: ExperimentInput) -> Iterator[str]:
        yield from settings_lines({**CRAWL, **(crawl or {}), "scope.types": types})
        yield from world_lines({**_values(run, pages_per_host), **(world or {})})

    return input_lines


def settings_lines(values: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{key} = {values[key]}" for key in sorted(values))


def world_lines(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield a world as the seed decides it: its settings, its hosts, and every path with the kind of its answer."""
    yield from settings_lines(values)
    world = World(WorldSpec.from_values(values), epoch_s=0.0, port=80)
    for host in world.hosts:
        space = world.spaces[host.index]
        yield f"{host.name} {host.size}"
        yield from (f"{space.path(slot).decode()} {space.kind(slot).name}" for slot in range(host.size))


def _values(run: ExperimentInput, pages_per_host: int) -> dict[str, Any]:
    pages = QUICK_PAGES if run.quick else PAGES
    return {"seed": run.seed, "pages": pages, "hosts": pages // pages_per_host, **WORLD}


def _toml(values: Mapping[str, Any]) -> str:
    """Format values as TOML; dotted keys are valid TOML."""
    return "".join(f"{key} = {value}\n" for key, value in values.items())


async def _crawl(root: Root, config: Config, seed: int) -> Summary:
    clock = WallClock()
    started = clock.ticks_s()
    async with open_crawler(root, [config], clock, seed) as crawler:
        await crawler.run()
        return summarize(crawler.crawls[0], clock.ticks_s() - started)
