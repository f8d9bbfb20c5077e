"""PageRank against the textbook's linear system, against what must hold for any web, and from a warm start."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.graph.linkfile import Chunk
from teia.graph.matrix import build_graph
from teia.graph.pagerank import TOLERANCE, Ranks, pagerank

from .webs import Web, dense_pagerank, graph, random_web, simple_edges

WEBS = st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 14), min_size=1, max_size=6), min_size=1, max_size=10)
EXACT = 1e-12


def by_key(ranks: Ranks) -> dict[int, float]:
    return dict(zip(ranks.keys.tolist(), ranks.scores.tolist(), strict=True))


@given(web=WEBS, damping=st.floats(0.05, 0.95), seed=st.integers(0, 5))
def test_scores_solve_the_linear_system(web: Web, damping: float, seed: int) -> None:
    one = graph(web)
    chance = np.random.default_rng(seed)
    jump, fall = chance.random(len(one.keys)) + 0.01, chance.random(len(one.keys)) + 0.01
    ranks = pagerank(one, damping=damping, teleport=jump, dangling=fall, tolerance=EXACT)
    solved = dense_pagerank(simple_edges(web), one.keys.tolist(), damping, jump.tolist(), fall.tolist())
    assert np.allclose(ranks.scores, solved, atol=1e-9)


@given(web=WEBS)
def test_scores_are_a_share_of_one_and_nobody_has_less_than_a_page_alone(web: Web) -> None:
    ranks = pagerank(graph(web), tolerance=EXACT)
    assert ranks.scores.sum() == pytest.approx(1)
    assert ranks.scores.min() >= ranks.alone * (1 - 1e-9)
    estimate = ranks.alone + ranks.per_link * ranks.in_links
    assert estimate.sum() == pytest.approx(1), "what pages have by the number of their links is right in all"


def test_what_was_never_fetched_is_ranked_by_who_links_to_it() -> None:
    """The frontier orders URLs it has not asked for yet (A6)."""
    hub, quiet, wanted, other = 1, 2, 10, 11
    web = {hub: [wanted], quiet: [other], **{page: [hub] for page in range(3, 9)}}
    scores = by_key(pagerank(graph(web)))
    assert scores[wanted] > 3 * scores[other]
    assert scores[other] > scores[quiet]


def test_a_page_cannot_vote_for_itself_nor_twice_for_another() -> None:
    honest = {1: [2, 3], 2: [3], 3: [1]}
    pushing = {1: [2, 3, 3, 3, 1], 2: [2, 2, 3], 3: [1]}
    assert by_key(pagerank(graph(honest))) == by_key(pagerank(graph(pushing)))


def test_a_page_that_links_only_to_itself_gives_as_one_without_links() -> None:
    with_page = pagerank(graph({1: [1], 2: [1, 3]}), tolerance=EXACT)
    without = pagerank(graph({2: [1, 3]}), tolerance=EXACT)
    assert np.allclose(with_page.scores, without.scores)


def test_in_links_count_the_pages_that_link() -> None:
    ranks = pagerank(graph({1: [2, 2, 3], 2: [3], 3: [3, 1]}))
    assert dict(zip(ranks.keys.tolist(), ranks.in_links.tolist(), strict=True)) == {1: 1, 2: 1, 3: 2}
    assert ranks.has_links.tolist() == [True, True, True]
    assert pagerank(graph({1: [2]})).has_links.tolist() == [True, False]


def test_nothing_has_no_scores() -> None:
    ranks = pagerank(graph({}))
    assert (len(ranks.scores), ranks.iterations) == (0, 0)


def test_weights_that_mean_nothing_are_refused() -> None:
    one = graph({1: [2]})
    for weights in ([1.0], [0.0, 0.0], [2.0, -1.0], [float("nan"), 1.0]):
        with pytest.raises(ValueError, match="weights: one per node is required"):
            pagerank(one, teleport=np.array(weights))


# ---- warm start -----------------------------------------------------------------------------------------------------


def sparse_web(pages: int, seed: int) -> dict[int, list[int]]:
    """Few links, most of them to neighbours: a web through which scores spread slowly, as through the real one."""
    chance = np.random.default_rng(seed)
    steps = np.rint(chance.standard_normal((pages, 3)) * 3).astype(int)
    return {page: [int(to) % pages for to in page + steps[page]] + [(page + 1) % pages] for page in range(pages)}


def test_a_warm_start_gives_the_same_scores_in_fewer_steps() -> None:
    web = sparse_web(3_000, seed=1)
    yesterday = pagerank(graph(web))
    web |= {page: [page // 2, page // 3] for page in range(3_000, 3_003)}
    today = graph(web)
    known = by_key(yesterday)
    start = np.array([known.get(key, 0.0) for key in today.keys.tolist()])
    cold, warm = pagerank(today), pagerank(today, start=start)
    assert warm.iterations < cold.iterations * 0.8
    assert np.abs(warm.scores - cold.scores).sum() < 12 * TOLERANCE
    again = pagerank(today, start=warm.scores)
    assert again.iterations <= 2


def test_a_start_that_knows_nobody_is_a_cold_one() -> None:
    one = graph(sparse_web(200, seed=2))
    cold, lost = pagerank(one), pagerank(one, start=np.zeros(len(one.keys)))
    assert (cold.scores == lost.scores).all()


def test_the_same_links_give_the_same_scores_in_whichever_cells_they_lie() -> None:
    """One cell or eight: search ranks alike (F8)."""
    web = random_web(400, 300, 8, seed=4)
    keys = list(web)
    chance = np.random.default_rng(9)
    chance.shuffle(keys)
    chunks = [Chunk(np.array([key]), np.array([len(web[key])]), np.array(web[key], np.int64)) for key in keys]
    spread = pagerank(build_graph([chunks[part::8] for part in range(8)]))
    assert by_key(spread) == by_key(pagerank(graph(web)))
