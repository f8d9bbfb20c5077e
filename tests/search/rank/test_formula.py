"""The order of results: one formula."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.index.languages import language_bit
from teia.search.rank.formula import RERANKED, Candidates, Keys, Ranking, Weights, merge_candidates
from teia.search.rank.rows import CANDIDATE, Rows

NOW_S = 1_700_000_000.0
DAY_S = 86_400
LONG_AGO_S = int(NOW_S) - 100 * 365 * DAY_S


def rows(*pages: tuple[float, int], date_s: int = LONG_AGO_S, languages: int = 0) -> Rows:
    """Candidates from text scores and keys."""
    found = np.zeros(len(pages), CANDIDATE)
    found["text"], found["key"] = zip(*pages, strict=True) if pages else ((), ())
    found["date_s"], found["languages"] = date_s, languages
    return found


class Authority:
    def __init__(self, percentiles: dict[int, float]) -> None:
        self._percentiles = percentiles

    def percentiles(self, keys: Keys, /) -> np.ndarray:
        return np.array([self._percentiles.get(int(key), 0.0) for key in keys])


def keys(found: Rows) -> list[int]:
    return [int(key) for key in found["key"]]


def test_without_priors_the_text_decides() -> None:
    assert keys(Ranking().rank(rows((3.0, 1), (2.0, 2), (1.0, 3)), {}, NOW_S)) == [1, 2, 3]


def test_equal_scores_are_ordered_by_key_so_that_runs_repeat() -> None:
    assert keys(Ranking().rank(rows((2.0, 9), (2.0, -4), (2.0, 5)), {}, NOW_S)) == [-4, 5, 9]


def test_authority_lifts_a_page_over_one_that_is_hardly_better() -> None:
    ranking = Ranking(priors=Authority({2: 0.999}))
    ranked = ranking.rank(rows((10.2, 1), (10.0, 2), (9.0, 3)), {}, NOW_S)
    assert keys(ranked) == [2, 1, 3]
    assert ranked["authority"].tolist() == pytest.approx([1.05, 1.0, 1.0])


@pytest.mark.parametrize(("percentile", "share"), [(0.0, 0.0), (0.9, 1 / 3), (0.99, 2 / 3), (0.999, 1.0), (1.0, 1.0)])
def test_authority_grows_with_every_power_of_ten(percentile: float, share: float) -> None:
    ranked = Ranking(Weights(authority=1.0), Authority({1: percentile})).rank(rows((1.0, 1)), {}, NOW_S)
    assert ranked["authority"][0] == pytest.approx(1 + share)


def test_news_fade_by_half_each_year() -> None:
    for years, expected in ((0, 0.05), (1, 0.025), (2, 0.0125)):
        ranked = Ranking().rank(rows((1.0, 1), date_s=int(NOW_S) - years * 365 * DAY_S), {}, NOW_S)
        assert ranked["news"][0] == pytest.approx(1 + expected)


def test_a_date_in_the_future_is_not_better_than_today() -> None:
    assert Ranking().rank(rows((1.0, 1), date_s=int(NOW_S) + 10**9), {}, NOW_S)["news"][0] == pytest.approx(1.05)


def test_foreign_pages_come_later_and_are_not_hidden() -> None:
    found = rows((10.0, 1), (8.0, 2), (4.0, 3))
    found["languages"] = [language_bit("en"), language_bit("pt"), language_bit("en")]
    assert keys(Ranking().rank(found, {"pt": 1.0, "en": 0.001}, NOW_S)) == [2, 1, 3]


@pytest.mark.parametrize(
    ("likely", "expected"),
    [
        ({"pt": 1.0, "en": 0.1}, [0.0, 0.8, 0.0, 1.0, 0.0]),
        ({"pt": 1.0, "en": 0.6}, [0.0, 0.0, 0.0, 1.0, 0.0]),
        ({}, [0.0] * 5),
    ],
)
def test_a_page_is_foreign_by_how_unlikely_its_likeliest_language_is(
    likely: dict[str, float], expected: list[float]
) -> None:
    found = rows(*((10.0 - n, n) for n in range(5)))
    found["languages"] = [
        language_bit("pt"),
        language_bit("en"),
        language_bit("pt") | language_bit("en"),
        language_bit("fr"),
        0,
    ]
    ranked = Ranking(Weights(foreign=0.001)).rank(found, likely, NOW_S)
    assert ((1 - ranked["readable"]) / 0.001).tolist() == pytest.approx(expected)


def test_meaning_is_added_in_the_measure_of_the_best_score() -> None:
    ranked = Ranking().rank(
        rows((10.0, 1), (9.0, 2)), {}, NOW_S, lambda found, scores: 0.2 * (found == 2) * (scores < 1)
    )
    assert keys(ranked) == [2, 1]
    assert ranked["semantics"].tolist() == pytest.approx([2.0, 0.0])


def test_only_the_first_are_put_into_another_order_and_scores_never_rise() -> None:
    pages = [(1000.0 - n, n) for n in range(RERANKED + 50)]
    percentiles = {RERANKED + 10: 0.999, RERANKED - 1: 0.999}
    ranked = Ranking(Weights(authority=5.0), Authority(percentiles)).rank(rows(*pages), {}, NOW_S)
    assert keys(ranked)[0] == RERANKED - 1
    assert keys(ranked)[RERANKED:] == list(range(RERANKED, RERANKED + 50))
    assert (np.diff(ranked["score"]) <= 0).all()


def test_nothing_is_ranked_as_nothing() -> None:
    assert len(Ranking().rank(rows(), {"pt": 1.0}, NOW_S, lambda found, _: np.zeros(len(found)))) == 0
    assert merge_candidates([]).total == 0


@given(st.lists(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 50)), max_size=20), max_size=4))
def test_merging_keeps_every_row_best_first(parts: list[list[tuple[float, int]]]) -> None:
    found = merge_candidates([Candidates(len(part), rows(*part)) for part in parts])
    assert found.total == len(found.rows) == sum(map(len, parts))
    pairs = list(zip(found.rows["text"].tolist(), keys(found.rows), strict=True))
    assert pairs == sorted(pairs, key=lambda pair: (-pair[0], pair[1]))
