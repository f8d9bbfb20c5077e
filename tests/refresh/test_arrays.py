"""The libraries of arrays: the same results from numpy and, where it is installed, torch."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.errors import UsageError
from teia.refresh.arrays import ROW, Arrays, NumpyArrays, TorchArrays, open_arrays
from tests.conventions.tree import ROOT

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed (teia[gpu])")


@pytest.fixture(scope="module", params=["numpy", pytest.param("torch", marks=needs_torch)])
def arrays(request: pytest.FixtureRequest) -> Arrays:
    return NumpyArrays() if request.param == "numpy" else TorchArrays("cpu")


def test_what_differs_between_the_libraries_has_one_meaning(arrays: Arrays) -> None:
    values = arrays.array(np.array([3, 1, 3, 2]))
    times = arrays.array(np.array([2, 0, 1, 1]))
    assert arrays.to_numpy(arrays.repeat(values, times)).tolist() == [3, 3, 3, 2]
    assert arrays.to_numpy(arrays.places(values > 1)).tolist() == [0, 2, 3]
    tie = arrays.array(np.array([1.0, 0.0, 0.0, 0.0]))
    assert arrays.to_numpy(arrays.order((tie, values))).tolist() == [1, 3, 2, 0]
    assert arrays.to_numpy(arrays.cast(values / 2, arrays.xp.int16)).tolist() == [1, 0, 1, 1]
    assert arrays.to_numpy(arrays.full(2, 1.5, arrays.xp.float64)).tolist() == [1.5, 1.5]
    assert arrays.to_numpy(arrays.fuse(lambda x: x * 2, 3)(arrays.arange(3))).tolist() == [0, 2, 4]


class RunningSums(TorchArrays):
    """numpy with the sums of torch, which has no `np.add.reduceat`."""

    def __init__(self) -> None:
        self.xp = np

    def array(self, values: object) -> np.ndarray:
        return np.asarray(values)

    def full(self, length: int, value: float, dtype: object) -> np.ndarray:
        return np.full(length, value, dtype=dtype)

    def to_numpy(self, array: np.ndarray) -> np.ndarray:
        return array


@settings(max_examples=50)
@given(st.lists(st.sampled_from([0, 1, 2, 7, ROW - 1, ROW, 2 * ROW + 3]), min_size=1, max_size=9), st.data())
def test_small_stretches_behind_large_ones_keep_their_digits(lengths: list[int], data: st.DataObject) -> None:
    """Some stretches are empty, some lie over several rows of a running sum."""
    scale = data.draw(st.lists(st.sampled_from([1.0, 100.0]), min_size=len(lengths), max_size=len(lengths)))
    chance = np.random.default_rng(len(lengths))
    column = chance.random(sum(lengths)) * np.repeat(scale, lengths)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    expected = [float(part.sum()) for part in np.split(column, starts[1:-1])]
    for library in (NumpyArrays(), RunningSums(), *([TorchArrays("cpu")] if HAS_TORCH else [])):
        if len(column):
            found = library.to_numpy(library.stretch_sums(library.array(column), library.array(starts)))
            assert found == pytest.approx(expected, rel=1e-9)


def test_a_gpu_that_is_not_there_is_an_error_with_its_remedy() -> None:
    assert isinstance(open_arrays("cpu"), NumpyArrays)
    if HAS_TORCH:
        import torch

        if torch.cuda.is_available():
            pytest.skip("this machine has a GPU")
    with pytest.raises(UsageError, match="finds no CUDA device" if HAS_TORCH else r"pip install 'teia\[gpu\]'"):
        open_arrays("cuda")


REFUSE = """
import importlib.abc, pkgutil, sys

class OnlyNumpyAndTorch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top, last = name.split(".")[0], name.split(".")[-1]
        known = {*sys.stdlib_module_names, "numpy", "torch", "teia", "bench"}
        if top not in known or (top == "teia" and last in COMPILED):
            raise ModuleNotFoundError(f"this machine has no {name}")
        return None

sys.meta_path.insert(0, OnlyNumpyAndTorch())
import teia.refresh
for module in pkgutil.iter_modules(teia.refresh.__path__, "teia.refresh."):
    __import__(module.name)
import bench.plan_scale
found = bench.plan_scale.measure(
    "cpu", 400, 3, theta=1.0, unit="day", octets=8, visits=2.0, rounds=1, seed=1
)
assert found["visits"]["counts"] == 800, found
print("planned with", sorted({"numpy", "torch", "scipy", "xxhash"} & set(sys.modules)))
"""


def test_planning_needs_numpy_and_torch_alone() -> None:
    """A machine with a GPU may have nothing else, and none of teia's compiled parts."""
    compiled = {path.stem for path in (ROOT / "teia").rglob("*.pyx")}
    assert compiled
    code = REFUSE.replace("COMPILED", repr(compiled))
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "planned with ['numpy']", done.stderr
