"""A rule of a user's own, as `py:` names it in placement.rules."""

from __future__ import annotations


def is_odd(url: str) -> bool:
    return "odd" in url
