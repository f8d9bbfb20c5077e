"""Hamming distance between two 64-bit fingerprints.

It is apart from lib/simhash.py, which makes them, because a caller that only compares needs none of its arrays.
"""

from __future__ import annotations


def distance(one: int, other: int) -> int:
    """Return in how many of the 64 bits two fingerprints differ."""
    return (one ^ other).bit_count()
