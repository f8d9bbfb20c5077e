"""Measures of a parallel crawl, as Cho & Garcia-Molina (2002) define them.

N pages were fetched, I different ones, of U that exist. *Coverage* is I / U; *overlap* (N - I) / I; *communication* the
URLs sent to other processes per different page; *quality* the share of the U' most linked pages that are among the
first U' fetched.
"""

from __future__ import annotations

import numpy as np

from teia.lab.parallel.crawl import ParallelCrawlResult
from teia.lab.parallel.web import WebGraph


def coverage(done: ParallelCrawlResult, web: WebGraph) -> float:
    return len(set(done.fetched)) / len(web)


def overlap(done: ParallelCrawlResult) -> float:
    different = len(set(done.fetched))
    return (len(done.fetched) - different) / different if different else 0.0


def communication(done: ParallelCrawlResult) -> float:
    different = len(set(done.fetched))
    return done.told / different if different else 0.0


def quality(done: ParallelCrawlResult, web: WebGraph, most_linked: int) -> float:
    """Return the quality. `most_linked` is U'; pages with as many links as the last of them count as equally good."""
    count = web.in_links()
    least = np.sort(count)[-most_linked]
    different = list(dict.fromkeys(done.fetched))[:most_linked]
    # Pages with exactly `least` links are ties: as many of them count as the better pages leave places.
    surely = int(np.sum(count > least))
    found_surely = int(np.sum(count[different] > least))
    found_just = int(np.sum(count[different] == least))
    return (found_surely + min(found_just, most_linked - surely)) / most_linked


def overlap_over_coverage(done: ParallelCrawlResult, web: WebGraph, looks: int) -> tuple[list[float], list[float]]:
    """Return the growth of coverage and overlap, sampled after equal numbers of new pages."""
    x, y, different = [], [], set[int]()
    every = max(1, len(web) // looks)
    for fetched, page in enumerate(done.fetched, 1):
        if page not in different:
            different.add(page)
            if len(different) % every == 0:
                x.append(len(different) / len(web))
                y.append((fetched - len(different)) / len(different))
    return x, y
