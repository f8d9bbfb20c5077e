"""Resolution of references in one document: its base, and shortcuts to a canonical URL.

Within a folder the same references recur page after page, so their URLs are cached. Most of the others are plain: a
path of letters, digits and a few signs, on the same host or another. Their canonical form is their base and
themselves, joined by a compiled loop (_plain.pyx), and a page has a hundred of them. References that are not plain go
to ada (`teia.urls.resolve`), which is the reference implementation: test_base.py compares the two.

A plain reference has segments with a sign that is no dot: neither empty ones nor `.` and `..`, but for `./` and `../`
in front. It has no colon, which might end a scheme, other than in its origin or its query.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache

from teia.parse.html._plain import Folders
from teia.urls import DEFAULT_RULES, MAX_REFERENCE_CHARS, NAMES_VISITOR, resolve

MAX_PLAIN_CHARS = 1_024
MAX_CACHED_CHARS = 256
MAX_FOLDERS = 32
MAX_CACHED = 2_048
"""Number of references cached for each of so many folders and origins: at most some 30 MB in a child."""

_CHARS = r"[\w~+,=@!-]"
_PATH = rf"\.?+{_CHARS}[\w.~+,=@!-]*+(?:/\.?+{_CHARS}[\w.~+,=@!-]*+)*+/?+"
"""Segments with a sign that is no dot: neither empty ones nor `.` and `..`. No colon, which might end a scheme."""

_PLAIN_FOLDER = re.compile(rf"https?://[^/]++/(?:{_PATH})?+", re.ASCII)

_ABSOLUTE = ("/", "http://", "https://")
"""Beginnings of references that mean the same on every page of an origin."""

_MEANS_THE_SAME = re.compile(r"[^\0- ?:][^:]*+\Z|(?:javascript|tel|data):")
"""Relative references that do not depend on the page of a folder, as `?q=1` or an empty one would."""

Known = dict[str, str | None]


@lru_cache(maxsize=2 * MAX_FOLDERS)
def _cached_urls(_folder: str, _rules: tuple[str, ...]) -> Known:
    """Return the cached references of a folder or an origin, to be added to: a site repeats its menus."""
    return {}


def _cache_url(known: Known, reference: str, url: str | None) -> None:
    if len(reference) > MAX_CACHED_CHARS:
        return
    # Cleared as a whole: cheaper than an LRU, and the next page fills it with the same menu.
    if len(known) >= MAX_CACHED:
        known.clear()
    known[reference] = url


class Base:
    """The canonical URL that references are relative to, and the rules of the collection."""

    def __init__(self, url: str, rules: tuple[str, ...] = DEFAULT_RULES) -> None:
        self.url = url
        self._rules = rules
        # A canonical URL has a slash after its host, at the earliest at 8: "http://a/".
        self._origin = url[: url.find("/", 8) + 1] or url
        self._folder = url.partition("?")[0].rpartition("/")[0] + "/"
        self.known = _cached_urls(self._folder, rules)
        # Other rules may rewrite any path or query, so the shortcut must not be taken.
        self._leaves_plain_alone = set(rules) <= set(DEFAULT_RULES)
        self.mail_links: set[str] = set()
        """References to e-mail addresses. They are not cached, so that each page counts its own (C5)."""
        self._folders = Folders(self._origin, self._folder if _PLAIN_FOLDER.fullmatch(self._folder) else None)

    def resolve(self, reference: str) -> str | None:
        """Return the canonical URL of a reference, or None if teia does not crawl it."""
        if len(reference) > MAX_REFERENCE_CHARS:
            return None
        reference = reference.partition("#")[0]
        if not reference:
            return self._own_url
        return self.known[reference] if reference in self.known else self.look_up(reference)

    @cached_property
    def _own_url(self) -> str | None:
        """URL of `#top`, which a table of contents contains a hundred times."""
        return resolve("", self.url, self._rules)

    def look_up(self, reference: str) -> str | None:
        """Return the URL of a reference that is not in `known` and has no fragment; cache it if it is one for all.

        A relative reference is one for all pages of a folder, an absolute one for all of an origin.
        """
        if reference.startswith(_ABSOLUTE):
            on_origin = _cached_urls(self._origin, self._rules)
            url = on_origin[reference] if reference in on_origin else self._join(reference) or self._resolve(reference)
            _cache_url(on_origin, reference, url)
        else:
            url = self._join(reference)
            if not url:
                if reference[:7].lower() == "mailto:":
                    self.mail_links.add(reference)
                    return None
                url = self._resolve(reference)
                if not _MEANS_THE_SAME.match(reference):
                    return url
        _cache_url(self.known, reference, url)
        return url

    def _resolve(self, reference: str) -> str | None:
        return resolve(reference, self.url, self._rules)

    def _join(self, reference: str) -> str:
        """Return the URL of a plain reference, an empty text for any other."""
        if not self._leaves_plain_alone or len(reference) > MAX_PLAIN_CHARS:
            return ""
        # Session parameters are removed by the default rules, which only `resolve` applies.
        if "?" in reference and NAMES_VISITOR.search(reference) is not None:
            return ""
        return self._folders.join(reference)
