"""Times of page changes: a renewal process per page, drawn from its number alone (P7, Wolf's mix).

A page's history is a sequence of gaps with mean 1, divided by its rate:

    poisson   exponential gaps: changes at independent instants
    pareto    Pareto gaps (shape 1.5): bursts, then long silences
    regular   gaps of one period, a little early or late; the first one begins anywhere in the period

The gaps come in blocks from SHAKE-128 over (seed, host, slot, block), so the state of any page at any instant can be
computed without computing an earlier one. Every change is meaningful (a paragraph is rewritten) or cosmetic.

Time here is *world days* since the epoch: calendar days times the world's time factor. A bounded cache of the progress
of pages makes long histories cheap; it never changes a result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from math import log
from struct import Struct
from typing import NamedTuple

from teia.lab.world.spec import ChangesSpec

POISSON, PARETO, REGULAR = range(3)
PROCESS_NAMES = ("poisson", "pareto", "regular")
# Of each 32-bit number the lower 24 bits give the gap; the upper 8 decide if the change is cosmetic.
_BLOCK = Struct("<8I")
# The first digest of a page also holds its process, rate and age, before the first eight gaps.
_TRAITS = Struct("<3I8I")
_REMEMBERED_PAGES = 65_536
_LONGEST_AGE_DAYS = 3_650.0


Progress = tuple[int, float, int, int, float, float]
"""Blocks used, elapsed time, meaningful and cosmetic changes, and the times of the last change and last rewrite.

Times are in units of the page's mean gap.
"""


class WorldPageState(NamedTuple):
    """The state of a page at an instant. Times are world days; negative ones lie before the epoch."""

    meaningful: int
    cosmetic: int
    changed: float
    rewritten: float

    @property
    def version(self) -> int:
        """Version number: 0 at the epoch, one more with every change."""
        return self.meaningful + self.cosmetic


class ChangeProcess(NamedTuple):
    """The change process of one page. `age` is the time of its last change before the epoch, in world days."""

    process: int
    rate_per_day: float
    age: float


class ChangeHistories:
    """The histories of all pages of a world."""

    def __init__(self, spec: ChangesSpec, seed: int, pages: int) -> None:
        total = spec.poisson + spec.pareto + spec.regular
        self._poisson_below = spec.poisson / total
        self._pareto_below = (spec.poisson + spec.pareto) / total
        self._cosmetic_below = round(spec.cosmetic * 256)
        self._exponent = -1.0 / spec.pareto_shape
        self._smallest = (spec.pareto_shape - 1.0) / spec.pareto_shape
        self._jitter = spec.jitter
        self._slowest, self._fastest = spec.slowest, spec.fastest
        self._spread, self._pace_of_host = spec.host_spread, dict[int, float]()
        self._theta = float(spec.rates.partition(":")[2] or 0)
        self._pages = pages
        self._seed = seed
        self._progress: dict[tuple[int, int], Progress] = {}

    def change_process(self, host: int, slot: int) -> ChangeProcess:
        """Return a page's process, mean rate and age."""
        process, rate, age_bits, _ = self._first_block(host, slot)
        return ChangeProcess(process, rate, _age(rate, age_bits))

    def state(self, host: int, slot: int, days: float) -> WorldPageState:
        """Return the numbers of changes of a page up to an instant, and the times of the last ones."""
        process, rate, age_bits, words = self._first_block(host, slot)
        until = days * rate
        known = self._progress.get((host, slot))
        # Progress beyond the instant is of no use: requests may go back in time.
        if known is None or known[1] > until:
            known = (0, 0.0, 0, 0, 0.0, 0.0)
        block, elapsed, meaningful, cosmetic, changed, rewritten = known
        while elapsed <= until:
            if block:
                words = self._block(host, slot, block)
            for word in words:
                elapsed += self._gap(process, word, elapsed == 0.0)
                if elapsed > until:
                    break
                changed = elapsed
                if word >> 24 >= self._cosmetic_below:
                    meaningful += 1
                    rewritten = elapsed
                else:
                    cosmetic += 1
            else:
                block += 1
                # Only whole blocks are remembered, so that the loop can continue with the next block.
                self._remember((host, slot), (block, elapsed, meaningful, cosmetic, changed, rewritten))
        if not meaningful:
            began = -_age(rate, age_bits)
            return WorldPageState(0, cosmetic, changed / rate if cosmetic else began, began)
        return WorldPageState(meaningful, cosmetic, changed / rate, rewritten / rate)

    def events(self, host: int, slot: int, days: float) -> Iterator[tuple[float, bool]]:
        """Yield every change up to an instant: its time, and True if it is meaningful."""
        process, rate, _, words = self._first_block(host, slot)
        elapsed, block = 0.0, 0
        while True:
            for word in words:
                elapsed += self._gap(process, word, elapsed == 0.0)
                if elapsed > days * rate:
                    return
                yield elapsed / rate, word >> 24 >= self._cosmetic_below
            block += 1
            words = self._block(host, slot, block)

    def _gap(self, process: int, word: int, is_first: bool) -> float:
        """Turn 24 bits into a gap of mean 1 by the inverse of its distribution."""
        chance = ((word & 0xFFFFFF) + 0.5) / 0x1000000
        if process == POISSON:
            return -log(chance)
        if process == PARETO:
            return float(self._smallest * chance**self._exponent)
        if is_first:
            return chance
        return 1.0 + self._jitter * (2.0 * chance - 1.0)

    def _first_block(self, host: int, slot: int) -> tuple[int, float, int, tuple[int, ...]]:
        """Return process, rate, the bits of the age, and the first gaps."""
        key = b"%d change %d %d 0" % (self._seed, host, slot)
        numbers = _TRAITS.unpack(hashlib.shake_128(key).digest(_TRAITS.size))
        chance = numbers[0] / 0x100000000
        process = POISSON if chance < self._poisson_below else PARETO if chance < self._pareto_below else REGULAR
        pace = numbers[1] / 0x100000000
        rate = self._zipf_rate(pace) if self._theta else self._slowest + (self._fastest - self._slowest) * pace
        return process, rate * self.host_pace(host) if self._spread > 1.0 else rate, numbers[2], numbers[3:]

    def host_pace(self, host: int) -> float:
        """Return the factor of a host's rates, drawn evenly on a logarithmic scale."""
        pace = self._pace_of_host.get(host)
        if pace is None:
            chance = int.from_bytes(hashlib.shake_128(b"%d pace %d" % (self._seed, host)).digest(4), "little") / 2**32
            pace = self._pace_of_host[host] = float(self._spread ** (2.0 * chance - 1.0))
        return pace

    def _block(self, host: int, slot: int, block: int) -> tuple[int, ...]:
        key = b"%d change %d %d %d" % (self._seed, host, slot, block)
        return _BLOCK.unpack(hashlib.shake_128(key).digest(_BLOCK.size))

    def _zipf_rate(self, chance: float) -> float:
        """Return a rate by Zipf's law over the ranks of all pages; the page's rank is drawn."""
        rank = 1.0 + chance * (self._pages - 1)
        return float(max(self._slowest, self._fastest * rank**-self._theta))

    def _remember(self, page: tuple[int, int], progress: Progress) -> None:
        if len(self._progress) >= _REMEMBERED_PAGES and page not in self._progress:
            self._progress.clear()
        self._progress[page] = progress


def _age(rate: float, bits: int) -> float:
    """Return the age of a page at the epoch in world days: the time since the last event of a Poisson process."""
    return min(_LONGEST_AGE_DAYS, -log((bits + 0.5) / 0x100000000) / rate) if rate > 0.0 else _LONGEST_AGE_DAYS
