"""The order of results: one formula, its weights as data.

    score = text x (1 + authority) x (1 + news) x readable, and then + semantics

    text        BM25 over fields, with neighbours (planning.py): what tantivy computes
    authority   0.05 for the first in a thousand by PageRank, two thirds of it in a hundred, one third in ten
    news        0.05 for a page of today, half of it for one a year old, and so on
    readable    1 for a page that can be read in a likely language of the query, down to 0.5
    semantics   0.2 x how alike query and page are in meaning (semantic.py) x the best score; only where a model is

The first 200 by text are put into this order; those behind keep the order of their text. So an answer does not depend
on how many results were asked for. Equal scores are ordered by the key of the URL, so that runs repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from teia.index.languages import bit_of
from teia.search.languages import Shares
from teia.search.planning import FieldWeights
from teia.search.rows import CANDIDATE, RANKED, Column, Floats, Hits, Rows

try:
    from teia.search._rows import exponents, order_by_score, order_by_text, packed_rows, score_rows
except ImportError:
    from teia.search.rows import exponents, order_by_score, order_by_text, packed_rows, score_rows

RERANKED = 200
RAREST = 0.001
"""Pages above all but this share of the others get all of what authority gives."""

_LOG_RAREST = np.log10(RAREST)

Keys: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Weights:
    """Everything that decides the order and is a matter of choice."""

    fields: FieldWeights = field(default_factory=FieldWeights)
    authority: float = 0.05
    news: float = 0.05
    news_half_life_days: float = 365.0
    foreign: float = 0.5
    semantics: float = 0.2


class Priors(Protocol):
    """What is known of pages before any query: their rank in the link graph."""

    def percentiles(self, keys: Keys, /) -> NDArray[Any]:
        """The share of pages with a lower rank, from 0 to 1; 0 for unknown pages."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Pages that match, best text first, as rows of CANDIDATE. `total` counts all that match.

    `pages` are some of them as the index has them, by key, packed (index/entry.py): those that were sent along.
    """

    total: int
    rows: Rows
    pages: Mapping[int, bytes] = field(default_factory=dict)


def candidates_of(total: int, hits: Hits, *columns: Column) -> Candidates:
    """Candidates of scores and what else there is of them, column by column."""
    return Candidates(total, np.frombuffer(packed_rows(hits, *columns), CANDIDATE))


def merged(parts: Sequence[Candidates]) -> Candidates:
    """One list of several, best text first, and of equal ones that with the lower key."""
    rows = parts[0].rows if len(parts) == 1 else np.empty(sum(len(part.rows) for part in parts), CANDIDATE)
    if len(parts) > 1:  # numpy's own joining looks at the type of records field by field
        ends = accumulate(len(part.rows) for part in parts)
        for part, end in zip(parts, ends, strict=True):
            rows[end - len(part.rows) : end] = part.rows
    order_by_text(rows)
    return Candidates(sum(part.total for part in parts), rows)


Likeness: TypeAlias = Callable[[Keys], Floats]
"""How alike pages and the query are in meaning, from -1 to 1."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The formula; see the module's text."""

    weights: Weights = field(default_factory=Weights)
    priors: Priors | None = None

    def ranked(self, found: Rows, languages: Shares, now_s: float, likeness: Likeness | None = None) -> Rows:
        """Put the first of what was found into their final order; the rest follow as they are. Rows of RANKED."""
        weights, first = self.weights, min(len(found), RERANKED)
        keys = np.ascontiguousarray(found["key"][:first])
        recency = np.empty(first)
        exponents(found, recency, now_s, weights.news_half_life_days)
        np.exp2(recency, recency)
        likely = [(bit_of(language), foreignness(share)) for language, share in languages.items()]
        rows = np.empty(len(found), RANKED)
        score_rows(found, rows, self._eminence(keys), recency, likely, weights.authority, weights.news, weights.foreign)
        if likeness is not None and first:
            best = rows[:first]
            best["semantics"] = semantics = weights.semantics * best["score"].max() * likeness(keys)
            best["score"] += semantics
        # Scores never rise from one result to the next, though those behind the first were not given their priors.
        order_by_score(rows, first)
        return rows

    @staticmethod
    def unranked(found: Rows) -> Rows:
        """The same rows in the same order, with no more than their text scores."""
        rows, none = np.empty(len(found), RANKED), np.empty(0)
        score_rows(found, rows, none, none, [], 0.0, 0.0, 0.0)
        return rows

    def _eminence(self, keys: Keys) -> Floats:
        """From 0 to 1, a third more for every power of ten of pages that a page is above."""
        if self.priors is None:
            return np.zeros(len(keys))
        below = np.minimum(np.maximum(np.asarray(self.priors.percentiles(keys), np.float64), 0.0), 1.0 - RAREST)
        eminence: Floats = np.log10(1 - below) / _LOG_RAREST
        return eminence


def foreignness(share: float) -> float:
    """How foreign a page is in a language of which this is the share: from 0 to 1, where hardly anybody meant it.

    A language half as likely as the likeliest is no foreign one: *backup* may be meant in any.
    """
    return max(0.0, 1 - 2 * share)
