"""Resolution of references in one document: its base, and shortcuts to a canonical URL.

Within a folder the same references recur page after page, so their URLs are cached. Most of the others are plain: a
path of letters, digits and a few signs, on the same host or another. Their canonical form is their base and
themselves, joined in a fifth of the time it takes to parse a URL, and a page has a hundred of them. References that
are not plain go to ada (`teia.urls.resolve`), which is the reference implementation: test_base.py compares the two.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache

from teia.urls import DEFAULT_RULES, MAX_REFERENCE_CHARS, NAMES_VISITOR, resolve

MAX_PLAIN_CHARS = 1_024
MAX_CACHED_CHARS = 256
MAX_FOLDERS = 32
MAX_CACHED = 2_048
"""Number of references cached for each of so many folders and origins: at most some 30 MB in a child."""

_CHARS = r"[\w~+,=@!-]"
_PATH = rf"\.?+{_CHARS}[\w.~+,=@!-]*+(?:/\.?+{_CHARS}[\w.~+,=@!-]*+)*+/?+"
"""Segments with a sign that is no dot: neither empty ones nor `.` and `..`. No colon, which might end a scheme."""

_LABEL = r"[a-z0-9]++(?:-[a-z0-9]++)*+"
_PLAIN = re.compile(
    rf"(?:(https?://(?:{_LABEL}\.)++[a-z]{{2,63}})?/|(?:\./)?+((?:\.\./)++|(?=\.?+{_CHARS})))"
    rf"({_PATH})?(\?[\w.~+,=@!&/:-]++)?",
    re.ASCII,
)
"""Groups: origin, steps up (None after a slash in front), path, query.

None is possessive as a whole: Python 3.11.2, as in Debian, loses such a group, and every link to another host
became one to the same host.
"""

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
        self._folders: dict[str | None, str] = {None: self._origin}
        """Prefixes of a plain path, by the steps up to it."""
        if _PLAIN_FOLDER.fullmatch(self._folder):
            self._folders[""] = self._folder

    def resolve(self, reference: str) -> str | None:
        """Return the canonical URL of a reference, or None if teia does not crawl it."""
        if len(reference) > MAX_REFERENCE_CHARS:
            return None
        reference = reference.partition("#")[0]
        if not reference:
            return self._own_url
        try:
            return self.known[reference]
        except KeyError:
            return self._look_up(reference)

    @cached_property
    def _own_url(self) -> str | None:
        """URL of `#top`, which a table of contents contains a hundred times."""
        return resolve("", self.url, self._rules)

    def _look_up(self, reference: str) -> str | None:
        """Return the URL of a reference without fragment, and cache it if it is the same on other pages."""
        if reference.startswith(_ABSOLUTE):
            on_origin = _cached_urls(self._origin, self._rules)
            url = on_origin[reference] if reference in on_origin else self._resolve_by_rules(reference)
            _cache_url(on_origin, reference, url)
        else:
            if reference[:7].lower() == "mailto:":
                self.mail_links.add(reference)
                return None
            url = self._resolve_by_rules(reference)
            if not _MEANS_THE_SAME.match(reference):
                return url
        _cache_url(self.known, reference, url)
        return url

    def _resolve_by_rules(self, reference: str) -> str | None:
        return self._build_url(reference) or resolve(reference, self.url, self._rules)

    def _build_url(self, reference: str) -> str:
        """Return the URL of a plain reference, an empty text for any other."""
        if not self._leaves_plain_alone or len(reference) > MAX_PLAIN_CHARS:
            return ""
        match = _PLAIN.fullmatch(reference)
        if match is None:
            return ""
        origin, up, path, query = match.groups("")
        # Session parameters are removed by the default rules, which only `resolve` applies.
        if query and NAMES_VISITOR.search(query) is not None:
            return ""
        folder = f"{origin}/" if origin else self._folders.get(match[2]) or self._parent_folder(up)
        return f"{folder}{path}{query}" if folder else ""

    def _parent_folder(self, up: str) -> str:
        """Return the folder so many steps up, or an empty text where folders are not plain."""
        folder = self._folders.get("", "")
        for _ in range(up.count("/") if folder else 0):
            # As in browsers, `..` at the root stays at the root.
            if folder != self._origin:
                folder = folder[: folder.rindex("/", 0, -1) + 1]
        if folder:
            self._folders[up] = folder
        return folder
