"""Rows of candidates, compiled and plain, are the same to the last bit; what they are is in test_formula.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.index.languages import OTHER
from teia.search.rank import _rows as compiled
from teia.search.rank.rows import CANDIDATE, COLUMNS, RANKED, Rows
from tests.search.rank import plain_rows as plain

NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
SCORES = st.one_of(st.sampled_from([1.0, 2.0, 3.5]), st.floats(0.01, 100))


@st.composite
def candidates(draw: st.DrawFn) -> Rows:
    pages = draw(st.lists(st.tuples(SCORES, NUMBERS, st.integers(0, 3)), max_size=40))
    found = np.zeros(len(pages), CANDIDATE)
    for place, (text, key, shard) in enumerate(pages):
        bits = draw(st.sampled_from([0, 1, 2, 3, OTHER, OTHER | 1]))
        simhash = draw(st.sampled_from([0, 1, 3, 7, 15, -1, 1 << 62])) ^ draw(st.sampled_from([0, 1 << 17, 1 << 40]))
        digest, date_s = draw(st.sampled_from([7, 7 | 1 << 40, key])), draw(st.integers(0, 1 << 33))
        found[place] = (text, key, digest, simhash, date_s, bits, shard)
    return found


@given(candidates())
def test_rows_are_made_of_lists(found: Rows) -> None:
    found["shard"] = 0
    hits = [(text, None) for text in found["text"].tolist()]
    columns = [found[name].tolist() for name in COLUMNS]
    assert compiled.packed_rows(hits, *columns) == plain.packed_rows(hits, *columns) == found.tobytes()


@given(candidates())
def test_the_order_by_text_is_the_same(found: Rows) -> None:
    one, other = found.copy(), found.copy()
    compiled.order_by_text(one)
    plain.order_by_text(other)
    assert one["text"].tolist() == other["text"].tolist() == sorted(found["text"].tolist(), reverse=True)
    assert one[["text", "key", "shard"]].tolist() == other[["text", "key", "shard"]].tolist()


@given(candidates(), st.integers(0, 50), st.booleans())
def test_scores_and_their_order_are_the_same(found: Rows, first: int, languages_are_known: bool) -> None:
    first = min(first, len(found))
    chance = np.random.default_rng(first)
    eminence, recencies = chance.random(first), []
    likely = [(1, 0.0), (2, 0.25), (OTHER, 0.9)] if languages_are_known else []
    made = []
    for way in (compiled, plain):
        recency, ranked = np.empty(first), np.empty(len(found), RANKED)
        way.exponents(found, recency, 1.7e9, 365.0)
        recencies.append(recency.copy())
        way.score_rows(found, ranked, eminence, np.exp2(recency), likely, 0.05, 0.05, 0.5)
        made.append(ranked)
    assert recencies[0].tobytes() == recencies[1].tobytes()
    assert made[0].tobytes() == made[1].tobytes()
    compiled.order_by_score(made[0], first)
    plain.order_by_score(made[1], first)
    names = ["score", "key", "shard"]
    assert made[0][names].tolist() == made[1][names].tolist()


@given(candidates())
def test_groups_are_the_same(found: Rows) -> None:
    ranked = np.zeros(len(found), RANKED)
    for name in CANDIDATE.names or ():
        ranked[name] = found[name]
    assert compiled.leaders_of(found) == compiled.leaders_of(ranked) == plain.leaders_by_numpy(found)


def test_rows_of_another_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="another kind"):
        compiled.order_by_score(np.zeros(3, CANDIDATE), 3)
    with pytest.raises(ValueError, match="another kind"):
        compiled.leaders_of(np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="one length"):
        compiled.packed_rows([(1.0, None)], [1], [], [1], [1], [1])
    with pytest.raises(ValueError, match="one of each"):
        compiled.score_rows(np.zeros(1, CANDIDATE), np.zeros(1, RANKED), np.zeros(2), np.zeros(2), [], 0.0, 0.0, 0.0)
