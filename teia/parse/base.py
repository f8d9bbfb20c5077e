"""What references mean in one document: its base, and the short ways to a canonical URL.

Most references are plain: a path of letters, digits and a few signs, on the same host or another. Their canonical form
is the place they are relative to and themselves, put together in a fifth of the time it takes to parse a URL, and a
page has a hundred of them. Whatever is not plain goes to ada (`teia.urls.resolve`), and what that says is the truth:
tests/parse/test_base.py compares the two.
"""

from __future__ import annotations

import re
from functools import lru_cache

from teia.urls import DEFAULT_RULES, NAMES_VISITOR, resolve

MAX_PLAIN_CHARS = 1_024
MAX_KNOWN_CHARS = 256
MAX_ORIGINS = 64
MAX_KNOWN = 512
"""References remembered for each of so many origins: at most some 15 MB in a child."""

_CHARS = r"[\w~+,=@!-]"
_PATH = rf"\.?+{_CHARS}[\w.~+,=@!-]*+(?:/\.?+{_CHARS}[\w.~+,=@!-]*+)*+/?+"
"""Segments with a sign that is no dot: neither empty ones nor `.` and `..`. No colon, lest it be a scheme."""

_LABEL = r"[a-z0-9]++(?:-[a-z0-9]++)*+"
_PLAIN = re.compile(
    rf"(?:(https?://(?:{_LABEL}\.)++[a-z]{{2,63}})?+/|((?:\.\./)++|(?=\.?+{_CHARS})))"
    rf"({_PATH})?+(\?[\w.~+,=@!&/:-]++)?+(?:#[!-~]*+)?+",
    re.ASCII,
)
"""Groups: origin, steps up (None after a slash in front), path, query."""

_PLAIN_FOLDER = re.compile(rf"https?://[^/]++/(?:{_PATH})?+", re.ASCII)

_ABSOLUTE = ("/", "http://", "https://")
"""References that begin so mean the same on every page of an origin."""


@lru_cache(maxsize=MAX_ORIGINS)
def _known_on(_origin: str, _rules: tuple[str, ...]) -> dict[str, str]:
    """Return what is known of an origin's references, to be added to: the pages of a site repeat their menus."""
    return {}


class Base:
    """The URL that references are relative to, which is canonical, and the rules of the collection."""

    def __init__(self, url: str, rules: tuple[str, ...] = DEFAULT_RULES) -> None:
        self.url = url
        self._rules = rules
        # A canonical URL has a slash after its host, at the earliest at 8: "http://a/".
        self._origin = url[: url.find("/", 8) + 1] or url
        self._folder = url.partition("?")[0].rpartition("/")[0] + "/"
        self._known = _known_on(self._origin, rules)
        self._leaves_plain_alone = set(rules) <= set(DEFAULT_RULES)
        self._places: dict[str | None, str] = {None: self._origin}
        """What stands before a plain path, by the steps up to it."""
        if _PLAIN_FOLDER.fullmatch(self._folder):
            self._places[""] = self._folder

    def resolve(self, reference: str) -> str | None:
        """Return the canonical URL a reference means here, or None if it is not one we crawl."""
        url = self._known.get(reference)
        if url is not None:
            return url
        url = self._put_together(reference) or resolve(reference, self.url, self._rules)
        if url is not None and reference.startswith(_ABSOLUTE) and len(reference) <= MAX_KNOWN_CHARS:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[reference] = url
        return url

    def _put_together(self, reference: str) -> str:
        """Return the URL of a plain reference, an empty text for any other."""
        if not self._leaves_plain_alone or len(reference) > MAX_PLAIN_CHARS:
            return ""
        match = _PLAIN.fullmatch(reference)
        if match is None:
            return ""
        origin, up, path, query = match.groups("")
        if query and NAMES_VISITOR.search(query) is not None:
            return ""
        place = f"{origin}/" if origin else self._places.get(match[2]) or self._place_above(up)
        return f"{place}{path}{query}" if place else ""

    def _place_above(self, up: str) -> str:
        """Return the folder so many steps up, or an empty text where folders are not plain."""
        place = self._places.get("", "")
        for _ in range(up.count("/") if place else 0):
            if place != self._origin:
                place = place[: place.rindex("/", 0, -1) + 1]
        if place:
            self._places[up] = place
        return place
