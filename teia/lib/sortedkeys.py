"""Looking up many keys in a large sorted array: by a compiled loop, made for keys that are hashes, or by halving."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Keys: TypeAlias = NDArray[np.int64]
Numbers: TypeAlias = NDArray[Any]
Number = TypeVar("Number", np.float32, np.uint32)


def look_up_by_halving(known: Keys, column: Numbers, keys: Keys, places: Keys, found: Numbers) -> None:
    """Write a column's value for each key of the sorted `known`, and 0 for other keys; `places` is scratch space."""
    found[:] = 0
    if len(known):
        # A key above the last one would point behind the array; the comparison below shows that it is unknown.
        places[:] = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        np.copyto(found, column[places], where=known[places] == keys)


try:
    from teia.lib._sorted import look_up
except ImportError:
    look_up = look_up_by_halving


def look_up_all(known: Keys, column: NDArray[Number], keys: Keys) -> NDArray[Number]:
    """Look up a column's value for each key among the sorted `known`; 0 for other keys."""
    found = np.empty(len(keys), column.dtype)
    look_up(known, column, np.ascontiguousarray(keys, np.int64), np.empty(len(keys), np.int64), found)
    return found
