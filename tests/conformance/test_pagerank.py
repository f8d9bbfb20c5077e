"""The PageRank vectors of networkx's own tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from teia.graph.matrix import Graph
from teia.graph.pagerank import pagerank

TOLERANCE = 1e-6
"""Where a case names none: networkx, which made the vectors, ends when a node changes by less than this on average."""


def edges_of(case: dict[str, Any]) -> list[tuple[str, str]]:
    if "complete_graph" in case:
        edges = list(combinations(map(str, range(case["complete_graph"])), 2))
    else:
        edges = [(str(source), str(target)) for source, target in case["edges"]]
    both_ways = not case.get("directed", True)
    return [*edges, *((target, source) for source, target in edges)] if both_ways else edges


def build_graph(edges: list[tuple[str, str]], names: list[str]) -> Graph:
    """A graph in which repeated edges weigh more, as they do in networkx; link files hold each once."""
    sources = sorted({source for source, _ in edges})
    rows = {name: row for row, name in enumerate([*sources, *(name for name in names if name not in sources)])}
    links = sorted((rows[target], rows[source]) for source, target in edges)
    pointers = np.searchsorted([target for target, _ in links], np.arange(len(names) + 1))
    by_name = np.array([rows[name] for name in names], np.int32)
    return Graph(
        np.arange(len(names)), by_name, len(sources), np.array([column for _, column in links], np.int32), pointers
    )


def weights(case: dict[str, Any], name: str, names: list[str]) -> np.ndarray[Any, Any] | None:
    return np.array([float(case[name].get(each, 0)) for each in names]) if name in case else None


def test_every_vector_is_found(conformance_file: Callable[[str], Path]) -> None:
    cases = json.loads(conformance_file("pagerank/networkx_pagerank.json").read_text("utf-8"))["cases"]
    for case in cases:
        names = sorted(case["pagerank"])
        ranks = pagerank(
            build_graph(edges_of(case), names),
            damping=case.get("alpha", 0.85),
            teleport=weights(case, "personalization", names),
            dangling=weights(case, "dangling_weights", names),
            tolerance=1e-12,
        )
        expected = [case["pagerank"][name] for name in names]
        assert np.allclose(ranks.scores, expected, rtol=0, atol=case.get("tolerance", TOLERANCE)), case
    assert len(cases) == 6
