"""A page's directives to crawlers: meta robots and X-Robots-Tag (A7, C2), and what it reserves beyond a crawl.

Directives for all crawlers and those for teia add up; the stricter one counts. Unknown words are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_SPLIT = re.compile(r"[,\s]+")
_AGENT = re.compile(r"\s*([A-Za-z][\w.-]*)\s*:\s*(.*)", re.DOTALL)
_WITH_VALUE = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


NOARCHIVE, TDM = "noarchive", "tdm-reservation"
RESERVED = frozenset({NOARCHIVE, "nosnippet", "noai", "noimageai"})
"""Words that reserve uses of a page other than finding it; they are recorded."""


@dataclass(frozen=True, slots=True)
class Directives:
    """Directives of a page: not to be indexed, its links not to be followed, and the uses it reserves."""

    noindex: bool = False
    nofollow: bool = False
    reserved: frozenset[str] = frozenset()

    def __or__(self, other: Directives) -> Directives:
        return Directives(
            self.noindex or other.noindex, self.nofollow or other.nofollow, self.reserved | other.reserved
        )


def from_words(content: str) -> Directives:
    words = set(_SPLIT.split(content[:1_000].lower()))
    return Directives(
        bool(words & {"noindex", "none"}), bool(words & {"nofollow", "none"}), frozenset(words & RESERVED)
    )


def tdm_reserved(value: str) -> Directives:
    """Read a `tdm-reservation`, header or meta tag: 1 reserves text and data mining."""
    return Directives(reserved=frozenset({TDM})) if value.strip() == "1" else Directives()


def from_headers(values: Iterable[str], agent: str) -> Directives:
    """Read X-Robots-Tag headers; `otherbot: noindex` is for otherbot alone."""
    found = Directives()
    for value in values:
        match = _AGENT.match(value)
        # `max-snippet: 20` has the form of `agent: words` and is none.
        if match and match.group(1).lower() not in _WITH_VALUE:
            if match.group(1).lower() == agent.lower():
                found |= from_words(match.group(2))
        else:
            found |= from_words(value)
    return found
