import numpy as np
from numpy.typing import NDArray

def times(
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    dense: NDArray[np.float32],
    product: NDArray[np.float32],
) -> None: ...
def transposed_times(
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    dense: NDArray[np.float32],
    product: NDArray[np.float32],
) -> None: ...
