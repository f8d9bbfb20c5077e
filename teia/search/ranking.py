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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from teia.index.languages import bit_of
from teia.search.languages import Shares
from teia.search.planning import FieldWeights

RERANKED = 200
RAREST = 0.001
"""Pages above all but this share of the others get all of what authority gives."""

DAY_S = 86_400.0

Keys: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


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


CANDIDATE = np.dtype(
    [
        ("text", "<f8"), ("key", "<i8"), ("digest", "<i8"), ("simhash", "<i8"), ("date_s", "<i8"), ("languages", "<i8"),
        ("shard", "<i4"),
    ]
)  # fmt: skip
"""A page that matches: its text score, fields of the index, and the number of the shard, which the gateway gives."""

RANKED = np.dtype(
    [
        *CANDIDATE.descr,
        ("score", "<f8"),
        ("authority", "<f8"),
        ("news", "<f8"),
        ("readable", "<f8"),
        ("semantics", "<f8"),
    ]
)
"""The same with its final score, and what made it of the text score: factors, and what semantics added."""

Rows: TypeAlias = NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Pages that match, best text first, as rows of CANDIDATE. `total` counts all that match."""

    total: int
    rows: Rows


def merged(parts: Sequence[Candidates]) -> Candidates:
    """One list of several, best text first, and of equal ones that with the lower key."""
    rows = parts[0].rows if len(parts) == 1 else np.concatenate([np.empty(0, CANDIDATE), *(p.rows for p in parts)])
    text = np.ascontiguousarray(rows["text"])
    if not np.all(text[1:] < text[:-1]):
        rows = rows[np.lexsort((rows["key"], -text))]
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
        rows = self.unranked(found)
        first, rest = rows[:RERANKED], rows[RERANKED:]
        keys = np.ascontiguousarray(first["key"])
        first["authority"] = authority = 1 + self.weights.authority * self._eminence(keys)
        first["news"] = news = 1 + self._news(first["date_s"], now_s)
        first["readable"] = readable = 1 - self.weights.foreign * foreignness(first["languages"], languages)
        score = first["text"] * authority * news * readable
        if likeness is not None and len(first):
            first["semantics"] = semantics = self.weights.semantics * score.max() * likeness(keys)
            score += semantics
        first["score"] = score
        first[:] = first[np.lexsort((keys, -score))]
        if len(rest):
            # Scores never rise from one result to the next, though these were not given their priors.
            rest["score"] = np.minimum(rest["text"], first["score"][-1])
        return rows

    @staticmethod
    def unranked(found: Rows) -> Rows:
        """The same rows in the same order, with no more than their text scores."""
        rows = np.zeros(len(found), RANKED)
        for name in CANDIDATE.names or ():
            rows[name] = found[name]
        for name in ("authority", "news", "readable"):
            rows[name] = 1.0
        rows["score"] = rows["text"]
        return rows

    def _eminence(self, keys: Keys) -> Floats:
        """From 0 to 1, a third more for every power of ten of pages that a page is above."""
        if self.priors is None:
            return np.zeros(len(keys))
        below = np.minimum(np.maximum(np.asarray(self.priors.percentiles(keys), np.float64), 0.0), 1.0 - RAREST)
        eminence: Floats = np.log10(1 - below) / np.log10(RAREST)
        return eminence

    def _news(self, dates_s: NDArray[np.int64], now_s: float) -> Floats:
        ages_days = np.maximum(0.0, now_s - dates_s) / DAY_S
        news: Floats = self.weights.news * np.exp2(-ages_days / self.weights.news_half_life_days)
        return news


def foreignness(languages: NDArray[np.int64], likely: Shares) -> Floats:
    """From 0, for pages in a likely language or of an unknown one, to 1 for those that hardly anybody meant.

    A language half as likely as the likeliest is no foreign one: *backup* may be meant in any.
    """
    if not likely:
        return np.zeros(len(languages))
    found = np.where(languages == 0, 0.0, 1.0)
    for language, share in likely.items():
        reads = (languages & bit_of(language)) != 0
        found = np.where(reads, np.minimum(found, max(0.0, 1 - 2 * share)), found)
    return found
