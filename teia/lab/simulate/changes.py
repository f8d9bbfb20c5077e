"""Randomly drawn modifications of documents: the processes of `lab.world.change`, for millions of pages.

A gap is a function of the seed, the page and the gap's number, so that the compiled loop and the one in Python draw the
same gaps, in any order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from teia.lab.world.spec import ChangesSpec
from teia.refresh.model import RefreshWorld

ProcessName = Literal["poisson", "mix"]

STILL, POISSON, PARETO, REGULAR = range(4)
"""Change processes. Pages that never change, or always do, are STILL: no modifications are drawn for them."""

MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Modifications:
    """The process of each page, and the copies that are stale at first; gaps are a lab world's (ChangesSpec)."""

    process: NDArray[np.uint8]
    stale: NDArray[np.bool_]
    seed: int
    smallest: float
    exponent: float
    jitter: float

    @classmethod
    def draw(cls, world: RefreshWorld, name: ProcessName, chance: np.random.Generator) -> Modifications:
        """Draw the process of each page, and the stale copies.

        A copy with an age is stale with the probability that a Poisson page has changed.
        """
        spec = ChangesSpec()
        # Drawn for `poisson` too, so that the draws that follow, and the stale copies, are the same in both cases.
        drawn = chance.random(len(world)) * (spec.poisson + spec.pareto + spec.regular)
        process = np.full(len(world), POISSON, dtype=np.uint8)
        if name == "mix":
            process[drawn >= spec.poisson] = PARETO
            process[drawn >= spec.poisson + spec.pareto] = REGULAR
        process[(world.rate == 0) | np.isinf(world.rate)] = STILL
        with np.errstate(invalid="ignore", over="ignore"):
            changed = np.where(world.rate == 0, 0.0, -np.expm1(-world.rate * world.age_s))
        # A page that always changes (infinite rate) never has a fresh copy.
        stale = (chance.random(len(world)) < np.nan_to_num(changed)) | np.isinf(world.rate)
        shape = spec.pareto_shape
        return cls(process, stale, int(chance.integers(1 << 62)), (shape - 1.0) / shape, -1.0 / shape, spec.jitter)

    def gap(self, page: int, number: int) -> float:
        """Return gap `number` (from 1 on) of a page, in units of its mean gap."""
        # One round of splitmix64 for the page and one for the gap's number; `_loop.pyx` must compute the same bits.
        bits = _mix(self.seed + (page + 1) * 0x9E3779B97F4A7C15)
        bits = _mix(bits + number * 0xD1B54A32D192ED03)
        # 53 bits, and a half (2^53 = 9007199254740992): strictly between 0 and 1, so that the logarithm is finite.
        chance = ((bits >> 11) + 0.5) / 9007199254740992.0
        if self.process[page] == POISSON:
            return -math.log(chance)
        if self.process[page] == PARETO:
            return float(self.smallest * chance**self.exponent)
        # The first change of a regular page falls anywhere within its period.
        if number == 1:
            return chance
        return 1.0 + self.jitter * (2.0 * chance - 1.0)


def _mix(bits: int) -> int:
    """Mix bits so that all bits of the result depend on all bits of the input (splitmix64)."""
    bits &= MASK
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & MASK
    return bits ^ (bits >> 31)
