"""Titles in comparable form: without case, accents, blanks and the page's own address.

The code that normalises text is loaded with the first pair of pages that needs it; most crawls have none.
"""

from __future__ import annotations


def plain_title(title: str, url: str) -> str:
    from teia.parse.text.fingerprint import without_address
    from teia.parse.text.normal import normalised

    return " ".join(without_address(normalised(title), url).split())
