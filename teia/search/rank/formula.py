"""The ranking formula, with its weights as data.

    score = (text x (1 + authority) x (1 + news) x readable + semantics) x passages

    text        BM25 over fields, with neighbours (make_plan.py), computed by tantivy
    authority   0.05 for the first in a thousand by PageRank, two thirds of it in a hundred, one third in ten
    news        0.05 for a page of today, half of it for one a year old, and so on
    readable    1 for a page that can be read in a likely language of the query, down to 0.5
    semantics   similarity of the page to the query and to other good pages (semantic.py) x the best score; only
                where a model exists
    passages    from 0.7 to 1.9 for the first 20: do the words stand together? (passages.py)

The first 200 by text are put into this order; those behind keep the order of their text. So an answer does not
depend on the number of results requested. Equal scores are ordered by the key of the URL, so that runs repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from teia.index.languages import language_bit
from teia.search.query.query_language import Shares
from teia.search.rank._rows import exponents, order_by_score, order_by_text, packed_rows, score_rows
from teia.search.rank.make_plan import FieldWeights
from teia.search.rank.passages import PassageWeights
from teia.search.rank.rows import CANDIDATE, RANKED, Column, Floats, Hits, Rows

RERANKED = 200
RAREST = 0.001
"""Pages above all but this share of the others get the full authority weight."""

_LOG_RAREST = np.log10(RAREST)

Keys: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights that decide the order and are a matter of choice."""

    fields: FieldWeights = field(default_factory=FieldWeights)
    authority: float = 0.05
    news: float = 0.05
    news_half_life_days: float = 365.0
    foreign: float = 0.5
    semantics: float = 0.4
    feedback: float = 1.0
    neighbours: float = 0.15
    passages: PassageWeights = field(default_factory=PassageWeights)


class PagePriors(Protocol):
    """Properties of pages that do not depend on a query: their rank in the link graph."""

    def percentiles(self, keys: Keys, /) -> NDArray[Any]:
        """Return the share of pages with a lower rank, from 0 to 1; 0 for unknown pages."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Matching pages, best text first, as rows of CANDIDATE. `total` counts all that match.

    `pages` are some of them as the index holds them, by key, packed (index/entry.py): those that the shard sent
    along.
    """

    total: int
    rows: Rows
    pages: Mapping[int, bytes] = field(default_factory=dict)


def make_candidates(total: int, hits: Hits, *columns: Column) -> Candidates:
    """Return candidates made from scores and other fields, column by column."""
    return Candidates(total, np.frombuffer(packed_rows(hits, *columns), CANDIDATE))


def merge_candidates(parts: Sequence[Candidates]) -> Candidates:
    """Merge several lists, best text first, and among equal ones the lower key first."""
    rows = parts[0].rows if len(parts) == 1 else np.empty(sum(len(part.rows) for part in parts), CANDIDATE)
    if len(parts) > 1:  # numpy's own concatenation checks the type of records field by field, which is slow
        ends = accumulate(len(part.rows) for part in parts)
        for part, end in zip(parts, ends, strict=True):
            rows[end - len(part.rows) : end] = part.rows
    order_by_text(rows)
    return Candidates(sum(part.total for part in parts), rows)


Meaning: TypeAlias = Callable[[Keys, Floats], Floats]
"""Addition to the scores of pages: from their keys and scores, both in shares of the best score."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The formula; see the module's docstring."""

    weights: Weights = field(default_factory=Weights)
    priors: PagePriors | None = None

    def rank(self, found: Rows, languages: Shares, now_s: float, meaning: Meaning | None = None) -> Rows:
        """Put the first candidates into their final order; the others follow unchanged. Return rows of RANKED."""
        weights, first = self.weights, min(len(found), RERANKED)
        # 1. Factors of the first candidates: authority, news, language.
        keys = np.ascontiguousarray(found["key"][:first])
        recency = np.empty(first)
        exponents(found, recency, now_s, weights.news_half_life_days)
        np.exp2(recency, recency)
        likely = [(language_bit(language), language_penalty(share)) for language, share in languages.items()]
        rows = np.empty(len(found), RANKED)
        score_rows(
            found, rows, self._authority(keys), recency, likely, weights.authority, weights.news, weights.foreign
        )
        # 2. Semantics are added in proportion to the best score, so they weigh the same for every query.
        if meaning is not None and first and (most := float(rows["score"][:first].max())) > 0:
            best = rows[:first]
            best["semantics"] = semantics = most * meaning(keys, best["score"] / most)
            best["score"] += semantics
        # Scores never rise from one result to the next, though the results behind the first have no priors.
        order_by_score(rows, first)
        return rows

    @staticmethod
    def keep_order(found: Rows) -> Rows:
        """Return the same rows in the same order, with their text scores only."""
        rows, none = np.empty(len(found), RANKED), np.empty(0)
        score_rows(found, rows, none, none, [], 0.0, 0.0, 0.0)
        return rows

    def _authority(self, keys: Keys) -> Floats:
        """Return a value from 0 to 1, a third more for every power of ten of pages that a page is above."""
        if self.priors is None:
            return np.zeros(len(keys))
        # The upper limit keeps the logarithm finite for the first page of all.
        below = np.minimum(np.maximum(np.asarray(self.priors.percentiles(keys), np.float64), 0.0), 1.0 - RAREST)
        eminence: Floats = np.log10(1 - below) / _LOG_RAREST
        return eminence


def language_penalty(share: float) -> float:
    """Return the foreignness of a page in a language with this likelihood: from 0 to 1 for an unlikely one.

    A language half as likely as the likeliest is not foreign: *backup* may be meant in any.
    """
    return max(0.0, 1 - 2 * share)
