"""Titles as they are compared where pages may be the same: without case, accents, blanks and the page's own address.

What normalises text is loaded with the first pair of pages that needs it; most crawls have none.
"""

from __future__ import annotations


def plain_title(title: str, url: str) -> str:
    from teia.parse.fingerprint import without_address
    from teia.parse.text import normalised

    return " ".join(without_address(normalised(title), url).split())
