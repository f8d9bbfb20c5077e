"""Rules of a user's own, as `py:` names them in placement.rules."""

from __future__ import annotations


def is_odd(url: str) -> bool:
    return "odd" in url


def fails(url: str) -> bool:
    raise ValueError(url)
