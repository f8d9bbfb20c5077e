"""Pages that match as rows of an array, and what is done with all of them at once.

There are some hundred for a query. Where there is a compiler _rows.pyx does the same in a fifth of the time; these are
what is used where there is none, and what those are compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

CANDIDATE = np.dtype(
    [
        ("text", "<f8"), ("key", "<i8"), ("digest", "<i8"), ("simhash", "<i8"), ("date_s", "<i8"), ("languages", "<i8"),
        ("shard", "<i4"),
    ]
)  # fmt: skip
"""A page that matches: its text score, fields of the index, and the number of the shard, which the gateway gives."""

COLUMNS = ("key", "digest", "simhash", "date_s", "languages")
"""Those that are fields of the index."""

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

DAY_S = 86_400.0

Rows: TypeAlias = NDArray[np.void]
Floats: TypeAlias = NDArray[np.float64]
Column: TypeAlias = list[int]
Hits: TypeAlias = Sequence[tuple[float, object]]
Likely: TypeAlias = list[tuple[int, float]]
"""The bits of likely languages, with how foreign at most a page is that has one."""


def packed_rows(
    hits: Hits, keys: Column, digests: Column, simhashes: Column, dates_s: Column, languages: Column
) -> bytearray:
    """The octets of candidates for hits, which are pairs of a score and something else; of no shard yet."""
    rows = np.zeros(len(hits), CANDIDATE)
    rows["text"] = [score for score, _ in hits]
    for name, values in zip(COLUMNS, (keys, digests, simhashes, dates_s, languages), strict=True):
        rows[name] = values
    return bytearray(rows.tobytes())


def order_by_text(rows: Rows) -> None:
    """Put candidates into order: the best text first, and of equal ones that with the lower key."""
    text = rows["text"]
    if not np.all(text[1:] < text[:-1]):
        rows[:] = rows[np.lexsort((rows["shard"], rows["key"], -text))]


def order_by_score(rows: Rows, first: int) -> None:
    """Put the first of ranked rows into order: the best first. None of the others has a better score than these."""
    best, rest = rows[:first], rows[first:]
    best[:] = best[np.lexsort((best["shard"], best["key"], -best["score"]))]
    if len(best) and len(rest):
        rest["score"] = np.minimum(rest["text"], best["score"][-1])


def exponents(rows: Rows, found: Floats, now_s: float, days_a_half: float) -> None:
    """Write for the first candidates how often they became half as new, as a negative number."""
    ages_days = np.maximum(0.0, now_s - rows["date_s"][: len(found)]) / DAY_S
    found[:] = -ages_days / days_a_half


def score_rows(
    rows: Rows,
    ranked: Rows,
    eminence: Floats,
    recency: Floats,
    likely: Likely,
    authority: float,
    news: float,
    foreign: float,
) -> None:
    """Make ranked rows of candidates: the first with their factors (ranking.py), the others with the text's score."""
    for name in CANDIDATE.names or ():
        ranked[name] = rows[name]
    ranked["score"], ranked["semantics"] = rows["text"], 0.0
    for name in ("authority", "news", "readable"):
        ranked[name] = 1.0
    first = ranked[: len(eminence)]
    first["authority"] = 1 + authority * eminence
    first["news"] = 1 + news * recency
    first["readable"] = 1 - foreign * _foreignness(first["languages"], likely)
    first["score"] = first["text"] * first["authority"] * first["news"] * first["readable"]


def _foreignness(languages: NDArray[np.int64], likely: Likely) -> Floats:
    found = np.where(languages == 0, 0.0, 1.0) if likely else np.zeros(len(languages))
    for bit, least in likely:
        found = np.where((languages & bit) != 0, np.minimum(found, least), found)
    return found
