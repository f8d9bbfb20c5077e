"""Chance as a function: repeatable, uniform enough, different for different keys."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean
from struct import Struct

from teia.lab.world.draws import below, pick, scramble, uint16s, unit


def test_the_same_key_gives_the_same_number() -> None:
    assert unit(1, "host", 2) == unit(1, "host", 2)
    assert unit(1, "host", 2) != unit(1, "host", 3) != unit(2, "host", 3)
    assert uint16s(Struct("<5H"), b"1 2 3") == uint16s(Struct("<40H"), b"1 2 3")[:5]


def test_numbers_are_spread_evenly() -> None:
    assert abs(fmean(unit("x", number) for number in range(10_000)) - 0.5) < 0.02
    counts = [0] * 16
    for slot in range(16_000):
        counts[scramble(slot, 0x1234567890ABCDEF) >> 60] += 1
    assert max(counts) - min(counts) < 250
    assert {below(3, number) for number in range(50)} == {0, 1, 2}
    assert {pick("ab", number) for number in range(50)} == {"a", "b"}


def test_neighbouring_slots_are_unrelated() -> None:
    bits = [scramble(slot, 77) >> 40 for slot in range(20_000)]
    low = [first < 2**23 for first in bits]
    together = sum(first and second for first, second in pairwise(low))
    assert abs(together / 20_000 - 0.25) < 0.02
