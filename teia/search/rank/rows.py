"""Matching pages as rows of an array, and the operations on all of them at once.

There are some hundred for a query. Where there is a compiler, _rows.pyx does the same in a fifth of the time. These
functions are used where there is none, and tests compare the compiled ones with them.
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
"""A matching page: its text score, fields of the index, and the number of the shard, which the gateway assigns."""

COLUMNS = ("key", "digest", "simhash", "date_s", "languages")
"""The columns that are fields of the index."""

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
"""The same with its final score, and its parts: the factors, and the semantic addition."""

DAY_S = 86_400.0

Rows: TypeAlias = NDArray[np.void]
Floats: TypeAlias = NDArray[np.float64]
Column: TypeAlias = list[int]
Hits: TypeAlias = Sequence[tuple[float, object]]
Likely: TypeAlias = list[tuple[int, float]]
"""Bits of likely languages, with the greatest foreignness of a page that has one."""


def packed_rows(
    hits: Hits, keys: Column, digests: Column, simhashes: Column, dates_s: Column, languages: Column
) -> bytearray:
    """Return the bytes of candidates for hits, pairs of a score and another value; without a shard yet."""
    rows = np.zeros(len(hits), CANDIDATE)
    rows["text"] = [score for score, _ in hits]
    for name, values in zip(COLUMNS, (keys, digests, simhashes, dates_s, languages), strict=True):
        rows[name] = values
    return bytearray(rows.tobytes())


def order_by_text(rows: Rows) -> None:
    """Sort candidates: the best text first, and among equal ones the lower key first."""
    text = rows["text"]
    # One shard's rows arrive sorted; only ties and merged lists need the sort.
    if not np.all(text[1:] < text[:-1]):
        rows[:] = rows[np.lexsort((rows["shard"], rows["key"], -text))]


def order_by_score(rows: Rows, first: int) -> None:
    """Sort the first of ranked rows, the best first. The others get no better score than these."""
    best, rest = rows[:first], rows[first:]
    best[:] = best[np.lexsort((best["shard"], best["key"], -best["score"]))]
    if len(best) and len(rest):
        # Factors may have lowered the last of the first; the list must still fall.
        rest["score"] = np.minimum(rest["text"], best["score"][-1])


def exponents(rows: Rows, found: Floats, now_s: float, days_a_half: float) -> None:
    """Write the age of the first candidates in half-lives, as a negative number."""
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
    """Fill ranked rows from candidates: the first with their factors (formula.py), the others with the text score."""
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
    # A page of unknown language is not foreign.
    found = np.where(languages == 0, 0.0, 1.0) if likely else np.zeros(len(languages))
    for bit, least in likely:
        found = np.where((languages & bit) != 0, np.minimum(found, least), found)
    return found
