"""A page's directives to crawlers: meta robots and X-Robots-Tag (A7, C2).

Directives for all crawlers and those for teia add up; the stricter one counts. Unknown words are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_SPLIT = re.compile(r"[,\s]+")
_AGENT = re.compile(r"\s*([A-Za-z][\w.-]*)\s*:\s*(.*)", re.DOTALL)
_WITH_VALUE = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


@dataclass(frozen=True, slots=True)
class Directives:
    """Directives of a page: not to be indexed, and its links not to be followed."""

    noindex: bool = False
    nofollow: bool = False

    def __or__(self, other: Directives) -> Directives:
        return Directives(self.noindex or other.noindex, self.nofollow or other.nofollow)


def from_words(content: str) -> Directives:
    words = set(_SPLIT.split(content[:1_000].lower()))
    return Directives(bool(words & {"noindex", "none"}), bool(words & {"nofollow", "none"}))


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
