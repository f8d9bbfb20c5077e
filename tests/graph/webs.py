"""Small webs for the tests of the graph: links between numbered pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from teia.graph.linkfile import Chunk
from teia.graph.matrix import Graph, build_graph

Web = Mapping[int, Iterable[int]]


def chunk_of(web: Web) -> Chunk:
    """A web as a link file would hold it, with whatever repeats it has."""
    targets = [list(each) for each in web.values()]
    counts = np.array([len(each) for each in targets], np.int64)
    flat = np.array([target for each in targets for target in each], np.int64)
    return Chunk(np.array(list(web), np.int64), counts, flat)


def graph(web: Web) -> Graph:
    return build_graph([[chunk_of(web)]] if web else [])


def random_web(pages: int, others: int, links: int, seed: int) -> dict[int, list[int]]:
    """Pages that link to each other and to URLs that nobody has fetched; keys as hashes are: anything."""
    chance = np.random.default_rng(seed)
    keys = chance.integers(-(2**63), 2**63 - 1, pages + others).tolist()
    return {keys[page]: [keys[at] for at in chance.integers(0, len(keys), links)] for page in range(pages)}


def split_web(web: Web, parts: int) -> list[dict[int, Iterable[int]]]:
    """The same web in several cells."""
    return [{key: web[key] for key in list(web)[part::parts]} for part in range(parts)]


def edges_of(one: Graph) -> set[tuple[int, int]]:
    """Every (source, target) of a graph, by key."""
    by_row = np.empty(len(one.keys), np.int64)
    by_row[one.rows] = one.keys
    targets = np.repeat(by_row, one.in_links)
    return set(zip(by_row[one.columns].tolist(), targets.tolist(), strict=True))


def simple_edges(web: Web) -> set[tuple[int, int]]:
    return {(source, target) for source, targets in web.items() for target in targets if source != target}


def dense_pagerank(
    edges: Iterable[tuple[int, int]], keys: Sequence[int], damping: float, jump: Sequence[float], fall: Sequence[float]
) -> list[float]:
    """PageRank as the textbook says it: the solution of a linear system."""
    place = {key: number for number, key in enumerate(keys)}
    follow = np.zeros((len(keys), len(keys)))
    for source, target in edges:
        follow[place[target], place[source]] += 1
    out = follow.sum(axis=0)
    follow[:, out == 0] = np.array(fall)[:, None] / np.sum(fall)
    follow[:, out > 0] /= out[out > 0]
    solved = np.linalg.solve(np.eye(len(keys)) - damping * follow, (1 - damping) * np.array(jump) / np.sum(jump))
    return [float(each) for each in solved]
