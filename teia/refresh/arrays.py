"""The libraries of arrays that plans of very many pages are computed with: numpy, or torch on a GPU.

Functions that both libraries have under one name and with one meaning (`where`, `exp`, `cumsum`, …) are called on the
library's module, `xp`. What differs is a method here. torch is imported only where a plan asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np

from teia.errors import UsageError
from teia.refresh.model import Device
from teia.refresh.segments import Segments

Array = Any
"""An array of the library in use; neither library's type fits the other."""

ROW: Final = 1024
"""Number of values in a running sum of `TorchArrays.stretch_sums`."""

FUSE_FROM: Final = 1 << 24
"""Number of pages from which a plan takes longer than to compile its kernels, which takes torch a minute."""

MOST_KERNELS: Final = 64
"""Number of kernels that torch may compile from one function of ours; beyond it, torch would compile none."""


class Arrays(Protocol):
    """A library of arrays on one device."""

    xp: Any
    pages_at_once: int

    @property
    def is_fused(self) -> bool:
        """True if `fuse` compiles."""

    def array(self, values: Any) -> Array:
        """Return values as an array on the device, without copying those that are there."""

    def to_numpy(self, array: Array) -> Any: ...

    def full(self, length: int, value: float, dtype: Any) -> Array: ...

    def arange(self, length: int, of: Array | None = None) -> Array: ...

    def cast(self, array: Array, dtype: Any) -> Array: ...

    def repeat(self, values: Array, times: Array) -> Array: ...

    def places(self, flags: Array) -> Array:
        """Return the indexes of the flags that are set."""

    def order(self, keys: Sequence[Array]) -> Array:
        """Return the stable order by the last key, then by the one before it, as `np.lexsort` does."""

    def stretch_sums(self, column: Array, starts: Array) -> Array:
        """Return the sum of each of consecutive stretches of a column, from `starts[s]` to `starts[s + 1]`."""

    def fuse(self, function: Callable[..., Any], pages: int) -> Callable[..., Any]:
        """Return the function compiled into as few passes over memory as the library can, if so many pages pay it."""


class NumpyArrays:
    """numpy, on one core."""

    xp: Any = np
    pages_at_once = 1 << 14
    is_fused = False

    def array(self, values: Any) -> Array:
        return np.asarray(values)

    def to_numpy(self, array: Array) -> Any:
        return array

    def full(self, length: int, value: float, dtype: Any) -> Array:
        return np.full(length, value, dtype=dtype)

    def arange(self, length: int, of: Array | None = None) -> Array:  # noqa: ARG002  # there is one device
        return np.arange(length)

    def cast(self, array: Array, dtype: Any) -> Array:
        return array.astype(dtype, copy=False)

    def repeat(self, values: Array, times: Array) -> Array:
        return np.repeat(values, times)

    def places(self, flags: Array) -> Array:
        return np.flatnonzero(flags)

    def order(self, keys: Sequence[Array]) -> Array:
        return np.lexsort(tuple(keys))

    def stretch_sums(self, column: Array, starts: Array) -> Array:
        return Segments(starts).sums(column)

    def fuse(self, function: Callable[..., Any], pages: int) -> Callable[..., Any]:  # noqa: ARG002  # numpy compiles none
        def quiet(*arguments: Any) -> Any:
            with np.errstate(all="ignore"):
                return function(*arguments)

        return quiet


class TorchArrays:
    """torch, on a GPU. Kernels are compiled by torch; where it cannot, they run operation by operation."""

    def __init__(self, device: str) -> None:
        try:
            import torch
            import torch._dynamo
        except ImportError as error:
            raise UsageError(f"--device {device} needs torch: pip install 'teia[gpu]'") from error
        if device == "cuda" and not torch.cuda.is_available():
            raise UsageError("--device cuda: torch finds no CUDA device on this machine")
        self.xp: Any = torch
        self.device = torch.device(device)
        self.pages_at_once = 1 << 25
        self.fuse_from = FUSE_FROM
        for name in ("recompile_limit", "cache_size_limit"):  # of newer and of older versions
            if hasattr(torch._dynamo.config, name):
                setattr(torch._dynamo.config, name, MOST_KERNELS)

    def array(self, values: Any) -> Array:
        return self.xp.as_tensor(values, device=self.device)

    def to_numpy(self, array: Array) -> Any:
        return array.cpu().numpy()

    def full(self, length: int, value: float, dtype: Any) -> Array:
        return self.xp.full((length,), value, dtype=dtype, device=self.device)

    def arange(self, length: int, of: Array | None = None) -> Array:
        # The compiler wants the device of an argument, not that of this object.
        return self.xp.arange(length, device=self.device if of is None else of.device)

    def cast(self, array: Array, dtype: Any) -> Array:
        return array.to(dtype)

    def repeat(self, values: Array, times: Array) -> Array:
        return self.xp.repeat_interleave(values, times)

    def places(self, flags: Array) -> Array:
        return self.xp.nonzero(flags).flatten()

    def order(self, keys: Sequence[Array]) -> Array:
        found = self.xp.argsort(keys[0], stable=True)
        for key in keys[1:]:
            found = found[self.xp.argsort(key[found], stable=True)]
        return found

    def stretch_sums(self, column: Array, starts: Array) -> Array:
        return self._sums_between(column, starts[:-1], starts[1:])

    def _sums_between(self, column: Array, begin: Array, end: Array) -> Array:
        """Return sums of stretches by running sums over rows of `ROW` values, and by sums of whole rows.

        One running sum over all values would lose the digits of small stretches behind large ones.
        """
        xp = self.xp
        rows = len(column) // ROW + 1
        padded = self.full(rows * ROW, 0.0, column.dtype)
        padded[: len(column)] = column
        running = xp.cumsum(padded.reshape(rows, ROW), 1)
        before = [xp.where(at % ROW > 0, running.reshape(-1)[xp.clip(at - 1, min=0)], 0.0) for at in (begin, end)]
        first, last = begin // ROW, end // ROW
        if rows == 1:
            return before[1] - before[0]
        totals = running[:, -1]
        whole = self._sums_between(totals, xp.minimum(first + 1, last), last)
        rest = xp.where(first < last, totals[first], 0.0)
        return rest - before[0] + whole + before[1]

    def fuse(self, function: Callable[..., Any], pages: int) -> Callable[..., Any]:
        return self.xp.compile(function, dynamic=True) if pages >= self.fuse_from and self.is_fused else function

    @cached_property
    def is_fused(self) -> bool:
        """True if torch compiles; it needs Triton and a C compiler. Small plans do not try, which takes seconds."""
        try:
            self.xp.compile(self.xp.exp)(self.full(64, 0.0, self.xp.float64))
        except Exception:  # noqa: BLE001  # the compiler fails in many ways, and the plan does without it
            return False
        return True


def open_arrays(device: Device) -> Arrays:
    """Return the library for a device: numpy for the processor, torch for a GPU."""
    return NumpyArrays() if device == "cpu" else TorchArrays(device)
