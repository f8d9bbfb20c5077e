"""Measures of a parallel crawl, as Cho & Garcia-Molina (2002) define them.

N pages were fetched, I different ones, of U that exist. *Coverage* is I / U; *overlap* (N - I) / I; *communication* the
URLs sent to other processes per different page; *quality* the share of the U' most linked pages that are among the
first U' fetched.
"""

from __future__ import annotations

import numpy as np

from teia.lab.parallel.crawl import ParallelCrawlResult
from teia.lab.parallel.web import WebGraph


def coverage(result: ParallelCrawlResult, web: WebGraph) -> float:
    return len(set(result.fetched)) / len(web)


def overlap(result: ParallelCrawlResult) -> float:
    distinct = len(set(result.fetched))
    return (len(result.fetched) - distinct) / distinct if distinct else 0.0


def communication(result: ParallelCrawlResult) -> float:
    distinct = len(set(result.fetched))
    return result.sent / distinct if distinct else 0.0


def quality(result: ParallelCrawlResult, web: WebGraph, most_linked: int) -> float:
    """Return the quality. `most_linked` is U'; pages with as many links as the last of them count as equally good."""
    count = web.in_links()
    least = np.sort(count)[-most_linked]
    distinct = list(dict.fromkeys(result.fetched))[:most_linked]
    # Pages with exactly `least` links are ties: as many of them count as the better pages leave places.
    surely = int(np.sum(count > least))
    found_surely = int(np.sum(count[distinct] > least))
    found_just = int(np.sum(count[distinct] == least))
    return (found_surely + min(found_just, most_linked - surely)) / most_linked


def coverage_and_overlap(result: ParallelCrawlResult, web: WebGraph, samples: int) -> tuple[list[float], list[float]]:
    """Return the growth of coverage and overlap, sampled after equal numbers of new pages."""
    x, y, distinct = [], [], set[int]()
    every = max(1, len(web) // samples)
    for fetched, page in enumerate(result.fetched, 1):
        if page not in distinct:
            distinct.add(page)
            if len(distinct) % every == 0:
                x.append(len(distinct) / len(web))
                y.append((fetched - len(distinct)) / len(distinct))
    return x, y
