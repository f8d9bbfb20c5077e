"""Cost of ranks: links written to the link files of several cells, PageRank over them cold and warm, scores read.

    python -m bench.pagerank [--pages 1000000] [--links 32] [--cells 4] [--news 0.01] [--urls 500000]
        [--write FILE.json]

The web is synthetic: sites of 4,000 URLs of which the first thousand are read. Seven of ten links of a page stay in its
site, half of them to nearby pages and half by a power law; the others go anywhere, sites and pages by a power law. So
three of four nodes are URLs that were found and not fetched, and about three of four links go to pages that were read.
Pages are appended as by the indexer, with a flush every thousand. `news` is the share of pages that changed, and of
pages that are new, before the warm run. The cold run after it ranks the same links without the earlier scores;
`warm_differs_by` is the total difference of its scores from those of the warm run. Then a frontier of `urls` queued
URLs, equally many of each site, is ranked by the scores of the first run and by those of the warm one, 50 ms at a time
as in a crawl; `longest_ms` is the longest of these steps, its transaction included.

`cpu` is processor time of the process, `s` wall time, which on a shared machine includes the work of others. The peak
of memory is that of the whole run. A million pages with 30 million links take about two minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from teia.crawler.pagerank_order import RANK_S
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.pagerank_scores import apply_scores, is_ranked_by
from teia.frontier.cell.rows import FoundUrl
from teia.frontier.queue.order import pagerank
from teia.graph.linkfile import LinkFile
from teia.graph.pagerank import Ranks
from teia.graph.rankfile import RankFile
from teia.graph.renewal import update_ranks

SITE_PAGES = 1_000
SITE_URLS = 4_000
FLUSH_PAGES = 1_000
LOOKED_UP = 1_000
ABSORBED_AT_ONCE = 5_000
META_ROWS = 4
"""Rows per transaction: three counters and the position. A URL that moves is two rows."""

NOW_S = 1_700_000_000.0

Numbers = NDArray[np.int64]
Result = TypeVar("Result")


def keys_of(numbers: Numbers) -> Numbers:
    """Return numbers as hashes (splitmix64): the same number has the same key."""
    mixed = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed ^ (mixed >> np.uint64(31))).view(np.int64)


class Web:
    """A web of sites. Pages that are read are numbered 0, 1, …; `_url` returns the site and URL of a number."""

    def __init__(self, pages: int, links: int, seed: int) -> None:
        self._sites = -(-pages // SITE_PAGES)
        self._links = links
        self._chance = np.random.default_rng(seed)

    def link_lists(self, first: int, last: int) -> Iterator[tuple[int, list[int]]]:
        """Yield (key, keys of targets) of some pages; at the next call a page has other links."""
        counts = self._chance.geometric(1 / self._links, last - first)
        numbers = np.arange(first, last)
        flat = keys_of(self._targets(np.repeat(numbers, counts))).tolist()
        ends = np.cumsum(counts)
        own = keys_of(self._url(numbers // SITE_PAGES, numbers % SITE_PAGES)).tolist()
        for key, start, end in zip(own, (ends - counts).tolist(), ends.tolist(), strict=True):
            yield key, flat[start:end]

    def _targets(self, sources: Numbers) -> Numbers:
        """Return the target of one link of each source."""
        site, page = sources // SITE_PAGES, sources % SITE_PAGES
        kind = self._chance.random(len(sources))
        steps = np.rint(self._chance.standard_normal(len(sources)) * 20).astype(np.int64)
        near = (page + steps) % SITE_PAGES
        popular = self._by_power_law(SITE_URLS, len(sources))
        to_site = np.where(kind < 0.7, site, self._by_power_law(self._sites, len(sources)))
        return self._url(to_site, np.where(kind < 0.35, near, popular))

    def _by_power_law(self, below: int, count: int) -> Numbers:
        return (below * self._chance.random(count) ** 3).astype(np.int64)

    @staticmethod
    def _url(site: Numbers, page: Numbers) -> Numbers:
        return site * SITE_URLS + page


def timed(work: Callable[[], Result]) -> tuple[Result, dict[str, float]]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, {"s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}


def append(web: Web, paths: list[Path], first: int, last: int) -> dict[str, float]:
    """Write pages, a site to a cell; return the seconds of the appending alone."""
    spent = {"s": 0.0, "cpu_s": 0.0}
    files = [LinkFile(path) for path in paths]

    def write(link_lists: list[tuple[int, list[int]]], file: LinkFile) -> None:
        for source, targets in link_lists:
            file.append(source, targets)
        file.flush()

    for start in range(first, last, FLUSH_PAGES):
        link_lists = list(web.link_lists(start, min(last, start + FLUSH_PAGES)))
        file = files[start // SITE_PAGES % len(files)]
        _, took = timed(lambda link_lists=link_lists, file=file: write(link_lists, file))  # type: ignore[misc]
        spent = {name: spent[name] + took[name] for name in spent}
    for file in files:
        file.close()
    return {
        "pages": last - first,
        "us_a_page": round(spent["cpu_s"] / (last - first) * 1e6, 1),
        "s": round(spent["s"], 1),
    }


def describe(ranks: Ranks, took: dict[str, float]) -> dict[str, float]:
    return {
        **{name: round(spent, 2) for name, spent in took.items()},
        "iterations": ranks.iterations,
        "nodes": len(ranks.keys),
        "links": int(ranks.in_links.sum()),
    }


def measure(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    paths, rank_file = [folder / f"{number}.bin" for number in range(options.cells)], folder / "ranks.bin"
    web = Web(options.pages, options.links, options.seed)
    news = int(options.pages * options.news)
    appended = append(web, paths, 0, options.pages - news)
    cold, cold_took = timed(lambda: update_ranks(paths, rank_file, NOW_S))
    result: dict[str, object] = {"appended": appended, "cold": describe(cold, cold_took)}
    del cold
    shutil.copy(rank_file, folder / "first.bin")
    append(web, paths, 0, news)
    append(web, paths, options.pages - news, options.pages)
    warm, warm_took = timed(lambda: update_ranks(paths, rank_file, NOW_S))
    again, again_took = timed(lambda: update_ranks(paths, folder / "cold.bin", NOW_S))
    result |= {
        "warm": describe(warm, warm_took),
        "cold_again": describe(again, again_took),
        "warm_differs_by": float(f"{np.abs(warm.scores - again.scores).sum():.2g}"),
        "link_file_bytes": sum(path.stat().st_size for path in paths),
        "rank_file_bytes": rank_file.stat().st_size,
    }
    file = RankFile.open(rank_file)
    sample = np.random.default_rng(options.seed).choice(warm.keys, LOOKED_UP)
    file.percentiles(sample)
    _, took = timed(lambda: [file.percentiles(sample) for _ in range(100)])
    result["lookup_us_for_1000_keys"] = round(took["cpu_s"] / 100 * 1e6, 1)
    result["frontier"] = measure_frontier(options, folder, [RankFile.open(folder / "first.bin"), file])
    result["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return result


def measure_frontier(options: argparse.Namespace, folder: Path, files: list[RankFile]) -> dict[str, object]:
    """Rank the URLs of one cell by one set of scores after the other."""
    sites = -(-options.pages // SITE_PAGES)
    with closing(FrontierCell(folder / "frontier.sqlite", pagerank)) as cell:
        for start in range(0, options.urls, ABSORBED_AT_ONCE):
            numbers = np.arange(start, min(options.urls, start + ABSORBED_AT_ONCE))
            site, page = numbers % sites, SITE_PAGES + numbers // sites
            each = zip(site.tolist(), page.tolist(), keys_of(site * SITE_URLS + page).tolist(), strict=True)
            with cell.transaction():
                cell.add_links([FoundUrl(f"site{s}.test", key, f"/pages/{p}.html", 2) for s, p, key in each], NOW_S)
        return {"urls": cell.queued, "first": rank_all(cell, files[0]), "again": rank_all(cell, files[1])}


def rank_all(cell: FrontierCell, file: RankFile) -> dict[str, float]:
    spent, changes = [], cell.db.total_changes
    while not is_ranked_by(cell, file):
        began = time.perf_counter()
        with cell.transaction():
            apply_scores(cell, file, lambda began=began: time.perf_counter() < began + RANK_S)  # type: ignore[misc]
        spent.append(time.perf_counter() - began)
    moved = (cell.db.total_changes - changes - META_ROWS * len(spent)) // 2
    return {"moved": moved, "s": round(sum(spent), 2), "longest_ms": round(max(spent) * 1e3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--links", type=int, default=32, help="links of a page on average, before repeats are dropped")
    parser.add_argument("--cells", type=int, default=4)
    parser.add_argument("--news", type=float, default=0.01)
    parser.add_argument("--urls", type=int, default=500_000, help="queued URLs in the frontier")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, default=None, help="write the result to a file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = {"command": f"python -m bench.pagerank --pages {options.pages} --links {options.links}"}
        result |= measure(options, Path(folder)) | {"load_average": round(os.getloadavg()[0], 1)}
    text = json.dumps(result, indent=1)
    print(text)
    if options.write is not None:
        options.write.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
