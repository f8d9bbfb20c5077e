from typing import Any

from numpy import int64
from numpy.typing import NDArray

def look_up(
    known: NDArray[int64], column: NDArray[Any], keys: NDArray[int64], places: NDArray[int64], found: NDArray[Any]
) -> None: ...
