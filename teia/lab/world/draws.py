"""Randomness as a function: the same key always gives the same number.

A world keeps no generator and no state. Everything random about it is a hash of a key: the seed, the host, the slot,
the trait. So nothing depends on the order of requests, and changing one share of a spec leaves all other draws
unchanged. Three tools, from slow and general to fast and narrow:

    unit, below, pick   a float, an index, an item from any key; used while a world is built
    uint16s             many small numbers at once from SHAKE-128; one call per page served
    scramble            64 bits from a slot and a host's salt by arithmetic alone; one call per link served
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from struct import Struct
from typing import TypeVar

import xxhash

Item = TypeVar("Item")
# GOLDEN and MIX are constants of splitmix64.
MASK64 = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
MIX = 0xBF58476D1CE4E5B9


def bits64(*key: object) -> int:
    """Return the 64 random bits that belong to this key."""
    number: int = xxhash.xxh3_64_intdigest("/".join(map(str, key)).encode("utf-8", "replace"))
    return number


def unit(*key: object) -> float:
    """Return the number in [0, 1) that belongs to this key."""
    # A float holds 53 bits exactly; 64 could round up to 1.0.
    return (bits64(*key) >> 11) / (1 << 53)


def below(count: int, *key: object) -> int:
    """Return the whole number in [0, count) that belongs to this key."""
    return int(unit(*key) * count)


def pick(items: Sequence[Item], *key: object) -> Item:
    """Return the item that belongs to this key."""
    return items[below(len(items), *key)]


def uint16s(layout: Struct, key: bytes) -> tuple[int, ...]:
    """Return as many numbers in [0, 65536) as the layout (`Struct("<40H")`) has room for."""
    return layout.unpack(hashlib.shake_128(key).digest(layout.size))


def scramble(slot: int, salt: int) -> int:
    """Return 64 random bits of one slot of a host, the upper ones best (two multiplications, as in splitmix64)."""
    bits = (slot ^ salt) * MIX & MASK64
    return (bits ^ bits >> 32) * GOLDEN & MASK64
