"""Rows of candidates, compiled: what numpy gives; rows that another node sent may have any bits."""

from __future__ import annotations

import numpy as np

from teia.search.rank import _rows as compiled
from teia.search.rank.rows import CANDIDATE, COLUMNS, RANKED, Rows
from tests.fuzz.pieces import Pieces
from tests.search.rank import plain_rows as plain

SEEDS = (
    b"\x00" + b"".join(np.array([(1.5, n, n % 3, n % 2, 10**9, 1, 0)], CANDIDATE).tobytes() for n in range(6)),
    b"\x03",
)


def fuzz_one(data: bytes) -> None:
    pieces = Pieces(data)
    first = pieces.number()
    raw = pieces.rest()
    rows = np.frombuffer(bytearray(raw[: len(raw) // CANDIDATE.itemsize * CANDIDATE.itemsize]), CANDIDATE)
    # No order is promised for what is no number; nothing may break for all that.
    wild = rows.copy()
    compiled.order_by_text(wild)
    assert sorted(wild["key"].tolist()) == sorted(rows["key"].tolist())
    assert compiled.leaders_of(rows) == plain.leaders_by_numpy(rows)
    rows["text"] = np.where(np.isfinite(rows["text"]), np.clip(rows["text"], -1e30, 1e30), 1.0)
    _ordered(rows)
    _scored(rows, min(first, len(rows)))


def _ordered(rows: Rows) -> None:
    one, other = rows.copy(), rows.copy()
    compiled.order_by_text(one)
    plain.order_by_text(other)
    assert one[["text", "key", "shard"]].tolist() == other[["text", "key", "shard"]].tolist()
    hits = [(text, None) for text in rows["text"].tolist()]
    columns = [rows[name].tolist() for name in COLUMNS]
    assert compiled.packed_rows(hits, *columns) == plain.packed_rows(hits, *columns)


def _scored(rows: Rows, first: int) -> None:
    made = []
    eminence = np.linspace(0, 1, first)
    for way in (compiled, plain):
        recency, ranked = np.empty(first), np.empty(len(rows), RANKED)
        way.exponents(rows, recency, 1.7e9, 365.0)
        way.score_rows(rows, ranked, eminence, np.exp2(recency), [(1, 0.0), (2, 0.25)], 0.05, 0.05, 0.5)
        way.order_by_score(ranked, first)
        made.append(ranked)
    assert made[0]["score"].tolist() == made[1]["score"].tolist()
