"""Matching pages as rows of an array: their types. _rows.pyx has the operations on all of them at once.

There are some hundred for a query. tests/search/rank/plain_rows.py says the same in numpy, at a fifth of the speed.
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
        ("passages", "<f8"),
    ]
)
"""The same with its final score, and its parts: the factors, and the semantic addition."""

Rows: TypeAlias = NDArray[np.void]
Floats: TypeAlias = NDArray[np.float64]
Column: TypeAlias = list[int]
Hits: TypeAlias = Sequence[tuple[float, object]]
Likely: TypeAlias = list[tuple[int, float]]
"""Bits of likely languages, with the greatest foreignness of a page that has one."""
