"""PageRank: the share of time that a reader who follows links at random spends on each page.

At every step the reader follows one of the page's links with probability `damping`, and otherwise goes to any page.
From a page without links, or one that was never read, any page is next (Page, Brin, Motwani and Winograd, 1998).

Only pages that have links take part in the power iteration. The scores of the others follow from it in one step,
because they pass nothing on along links: their whole share goes into random jumps, which is one number (lumping; Ipsen
and Selee, 2007). In a crawl most nodes are such: URLs that were found and not fetched yet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from teia.graph.linkfile import Keys
from teia.graph.matrix import Graph

DAMPING = 0.85
TOLERANCE = 1e-6
"""Iteration ends when all scores together, whose sum is 1, change by less; the error is at most six times that."""

MAX_STEPS = 500

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ranks:
    """Scores of all nodes, in the order of their keys; their sum is 1.

    `in_links` counts the pages that link to each; `has_links` tells which have links of their own. A node without links
    to it has the score `alone`, and each link adds `per_link` on average, so the scores of nodes found later can be
    estimated.
    """

    keys: Keys
    scores: Vector
    in_links: NDArray[np.int64]
    has_links: NDArray[np.bool_]
    alone: float
    per_link: float
    iterations: int


def pagerank(
    graph: Graph,
    *,
    damping: float = DAMPING,
    teleport: Vector | None = None,
    dangling: Vector | None = None,
    start: Vector | None = None,
    tolerance: float = TOLERANCE,
) -> Ranks:
    """Return the scores of a graph's nodes. All vectors are in the order of `graph.keys`, and need no sum of 1.

    `teleport` is the distribution of a random jump, `dangling` that of the jump from pages without links (by default
    `teleport`); the default is uniform over all pages. `start` are scores to begin with, such as those of an hour ago,
    which saves iterations; nodes that have none (0) begin with the score of a page without links to it.
    """
    if not len(graph.keys):
        return Ranks(graph.keys, np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.bool_), 0.0, 0.0, 0)
    walk = _Walk(graph, damping, teleport, dangling)
    x, iterations = walk.iterate(_start(graph, start, walk.unlinked)[: graph.pages], tolerance)
    scores = np.concatenate((x, walk.remaining_scores(x)))
    scores /= scores.sum()
    return Ranks(
        graph.keys,
        scores[graph.rows],
        graph.in_links[graph.rows],
        graph.rows < graph.pages,
        alone=float((1 - damping + walk.dangling_share(x)) / len(graph.keys)),
        per_link=walk.per_link(x),
        iterations=iterations,
    )


class _Walk:
    """One step of the reader. Vectors are in the order of the graph's rows; pages that have links come first."""

    def __init__(self, graph: Graph, damping: float, teleport: Vector | None, dangling: Vector | None) -> None:
        self._graph, self._pages, self._nodes = graph, graph.pages, len(graph.keys)
        self._damping = damping
        self._dangling = _in_rows(graph, teleport if dangling is None else dangling)
        self._jump = (1 - damping) * _in_rows(graph, teleport)
        # The matrix has no links of a page to itself, so a page may have none left.
        out_links = graph.out_links
        self._has_links: NDArray[np.bool_] = out_links > 0
        self._share_per_link = np.divide(damping, out_links, out=np.zeros(self._pages), where=self._has_links)
        self.unlinked = (1 - damping) / self._nodes

    def iterate(self, x: Vector, tolerance: float) -> tuple[Vector, int]:
        """Walk until the scores of pages that have links stay as they are; returns them and the number of steps."""
        for steps in range(1, MAX_STEPS + 1):
            new_x = self._step(x, 0, self._pages)
            change, x = float(np.abs(new_x - x).sum()), new_x
            if change < tolerance:
                return x, steps
        return x, MAX_STEPS

    def remaining_scores(self, x: Vector) -> Vector:
        """Return the scores of nodes without links, given the scores `x` of those that have links."""
        return self._step(x, self._pages, self._nodes)

    def _step(self, x: Vector, first: int, last: int) -> Vector:
        """Return the new scores of the rows from `first` to before `last`."""
        received = self._graph.received(x * self._share_per_link, first, last)
        return received + self.dangling_share(x) * self._dangling[first:last] + self._jump[first:last]

    def dangling_share(self, x: Vector) -> float:
        """Return the share that goes from nodes without links to any."""
        # All scores add up to 1, so the share of the other nodes follows without computing them.
        return self._damping * float(1 - x[self._has_links].sum())

    def per_link(self, x: Vector) -> float:
        links = len(self._graph.columns)
        return self._damping * float(x[self._has_links].sum()) / links if links else 0.0


def _in_rows(graph: Graph, weights: Vector | None) -> Vector:
    """Return weights by row instead of by key, with the sum 1."""
    if weights is None:
        return np.full(len(graph.keys), 1 / len(graph.keys))
    if len(weights) != len(graph.keys) or not (weights >= 0).all() or not weights.sum() > 0:
        raise ValueError("weights: one per node is required, none negative and not all 0")
    by_row = np.empty(len(weights))
    by_row[graph.rows] = weights / weights.sum()
    return by_row


def _start(graph: Graph, start: Vector | None, unknown: float) -> Vector:
    if start is None or not (start > 0).any():
        return _in_rows(graph, None)
    return _in_rows(graph, np.where(start > 0, start, unknown))
