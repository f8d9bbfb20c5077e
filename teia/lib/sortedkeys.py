"""Looking up many keys in a large sorted array by a compiled loop, made for keys that are hashes."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from teia.lib._sorted import look_up

Keys: TypeAlias = NDArray[np.int64]
Number = TypeVar("Number", np.float32, np.uint32)


def look_up_all(known: Keys, column: NDArray[Number], keys: Keys) -> NDArray[Number]:
    """Look up a column's value for each key among the sorted `known`; 0 for other keys."""
    found = np.empty(len(keys), column.dtype)
    look_up(known, column, np.ascontiguousarray(keys, np.int64), np.empty(len(keys), np.int64), found)
    return found
