"""The operations on rows of pages in numpy: the readable form of search/rank/_rows.pyx, which tests compare with it."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from teia.search.rank.near_duplicates import MAX_BITS
from teia.search.rank.rows import CANDIDATE, COLUMNS, Column, Floats, Hits, Likely, Rows

DAY_S = 86_400.0
PARTS = MAX_BITS + 1

# Bits of a part: its position from 48 up, 16 bits of the simhash (32 of the digest) from 16 up, the row below.
_COLUMN = np.arange(PARTS + 1, dtype=np.uint64)[:, None] << np.uint64(48)
_LOW = np.uint64(0xFFFF)


def leaders_by_numpy(rows: Rows) -> list[int]:
    """Return for each row its representative: itself, or the first representative that is like it."""
    found = list(range(len(rows)))
    simhashes, digests = np.ascontiguousarray(rows["simhash"]).view(np.uint64), rows["digest"]
    parts = _parts(simhashes, digests)
    # Representatives by part. A row is compared with these alone, so groups do not chain from page to page.
    representatives: dict[int, list[int]] = defaultdict(list)
    for row in _rows_sharing_parts(parts):
        simhash, digest = int(simhashes[row]), int(digests[row])
        if not simhash:
            continue
        mine = parts[:, row].tolist()
        # Sorted: the first representative wins, as in the compiled version.
        for other in sorted({other for part in mine for other in representatives[part]}):
            differ = (simhash ^ int(simhashes[other])).bit_count()
            if differ <= MAX_BITS or digest == int(digests[other]):
                found[row] = other
                break
        else:
            for part in mine:
                representatives[part].append(row)
    return found


def _parts(simhashes: NDArray[np.uint64], digests: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the parts of which two alike rows share at least one, a column for each row.

    Parts of different positions are never equal. The lowest sixteen bits are free.
    """
    parts = np.empty((PARTS + 1, len(simhashes)), np.uint64)
    parts[:PARTS] = simhashes.view(np.uint16).reshape(-1, PARTS).T
    parts[PARTS] = digests & 0xFFFFFFFF
    parts <<= np.uint64(16)
    parts |= _COLUMN
    return parts


def _rows_sharing_parts(parts: NDArray[np.uint64]) -> list[int]:
    """Return the rows that share a part with another, in their order; usually there are few.

    A part and the number of its row are sorted as one: there are never 65,536 rows.
    """
    numbers = (parts | np.arange(parts.shape[1], dtype=np.uint64)).ravel()
    numbers.sort()
    # Neighbours that differ in the row number alone have the same part.
    differ = numbers[1:] ^ numbers[:-1]
    repeats = np.flatnonzero(differ <= _LOW)
    return sorted({number & 0xFFFF for number in (*numbers[repeats].tolist(), *numbers[repeats + 1].tolist())})


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
    for name in ("authority", "news", "readable", "passages"):
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
