"""A real crawl of a lab world, for the experiments that show the papers' tables beside ours (C5, T8, F9).

The world stands still (`time_factor` 0) and runs in a process of its own; the crawl runs here, into a folder that is
gone afterwards, and is over when no URL waits. Its servers are ours, so they rest only a moment.

The documents that are found depend on the seed alone. The failures do not quite: a host that fails twelve times in a
row is given up, and what is left of it gets the name of its last failure, asked for or not (`unasked`). With hasty
retries (0.02 s) that befell 1% of all URLs, with those below still half of that in a full run, and it differs from run
to run; so the table says how many, and tables that count failures `vary`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvloop

from teia.clock import WallClock
from teia.config import Config
from teia.crawl.collections import configure
from teia.crawl.opening import open_crawler
from teia.crawl.reports.source import Source, looking
from teia.crawl.summary import Summary, summarize
from teia.errors import LabError
from teia.lab.process import lab_process
from teia.lab.reproduce.registry import Run
from teia.store.root import Root, open_root

PAGES = 6_000
QUICK_PAGES = 800
PAGES_PER_HOST = 50
"""About T8's: 676,261 documents on 14,068 servers."""

WORLD: dict[str, Any] = {
    "time_factor": 0,
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
"""200 KB is T8's limit of size; the rest makes a crawl of our own servers quick. `fetch_s` is what ends most answers
that never come: `slow_s`, which should end them sooner, often does not in a crawl. Aliases are recognised sooner or
later depending on what is fetched first, so here they are not, and the documents stay those of the seed."""

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
"""What C5 and T8 keep, and the sitemaps and feeds that lead to it."""


@dataclass(frozen=True, slots=True)
class Crawled:
    """A world that was crawled to the end, open to be looked at."""

    source: Source
    summary: Summary

    @property
    def unasked(self) -> int:
        """URLs that count as failed though no request was sent: their host had been given up before."""
        (asked,) = self.source.log.query("SELECT count(DISTINCT url) FROM fetches WHERE kind <> 'robots'").rows[0]
        sql = "SELECT count(*) FROM urls WHERE outcome NOT IN ('', 'robots', 'robots_unreachable', 'dns')"
        visited = sum(int(number) for (number,) in self.source.rows(sql))
        return max(0, visited - int(asked))


@contextmanager
def crawled_world(
    run: Run,
    *,
    types: Sequence[str] = (),
    world: Mapping[str, Any] | None = None,
    crawl: Mapping[str, Any] | None = None,
) -> Iterator[Crawled]:
    """Crawl the world of a run, keeping these media types, and open what came of it."""
    pages = QUICK_PAGES if run.quick else PAGES
    run.progress(f"crawling a world of {pages:,} URLs on {pages // PAGES_PER_HOST} servers")
    with TemporaryDirectory(prefix="teia-reproduce-") as name:
        folder = Path(name)
        root = open_root(folder / "data", create=True)
        spec = folder / "world.toml"
        values = {"seed": run.seed, "pages": pages, "hosts": pages // PAGES_PER_HOST, **WORLD, **(world or {})}
        spec.write_text(_toml(values), encoding="utf-8")
        flags = ["--spec", str(spec), "--port", "0", "--dns-address", "127.77.255.53:0"]
        with lab_process(*flags) as ready, root.locked():
            of_lab = {"collection.seeds": tuple(ready["seeds"][:1]), "fetch.dns": ready["dns"], "scope.types": types}
            config = configure(root, "world", None, {}, {**CRAWL, **of_lab, **(crawl or {})}).config
            summary = uvloop.run(_crawl(root, config, run.seed))
        if summary.urls_queued:
            raise LabError(f"{summary.urls_queued} URLs were left after {summary.seconds:.0f} s; try --quick")
        with looking(root, "world") as source:
            yield Crawled(source, summary)


def _toml(values: Mapping[str, Any]) -> str:
    """Dotted keys are TOML as they are."""
    return "".join(f"{key} = {value}\n" for key, value in values.items())


async def _crawl(root: Root, config: Config, seed: int) -> Summary:
    clock = WallClock()
    began = clock.ticks_s()
    async with open_crawler(root, [config], clock, seed) as crawler:
        await crawler.run()
        return summarize(crawler.crawls[0], clock.ticks_s() - began)
