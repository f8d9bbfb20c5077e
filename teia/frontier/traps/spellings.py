"""Other spellings of one URL: URLs that probably name the same page.

Canonical form (urls.py) changes only what cannot matter. Some servers accept more: any letter case, `index.html` or
its folder, parameters in any order and number, any session id. Others do not, so nothing is assumed. A URL that
differs from a known one only in its spelling waits behind all others of its host. A few of them are read, and only
if their pages all equal the known ones are the others left out (detector.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from teia.frontier.traps.patterns import is_token

_LONG_RUN = re.compile(r"[0-9A-Za-z]{16}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-")
_INDEX_FILE = re.compile(r"/(?:index|default)\.(?:html?|php|aspx?|jsp)$", re.IGNORECASE)
_CAPITALS = re.compile(r"%[0-9A-F]{2}|[A-Z]+")
MAX_PARAMETERS = 64


@dataclass(frozen=True, slots=True)
class UrlSpelling:
    """The plainest spelling of a URL's tail, and the differences of the given one from it.

    `bare` also lacks the segment before a token: /s/TOKEN/page is /s/page, or /page.
    """

    plain: str
    differs_in: str
    bare: str = ""


def plain_of(tail: str) -> UrlSpelling | None:
    """Return the plainest spelling of a tail; None if it is already plain."""
    if _is_plain(tail):
        return None
    path, mark, query = tail.partition("?")
    bare, without_tokens = _bare(path), _without_tokens(path)
    parameters = query.split("&", MAX_PARAMETERS) if mark else []
    # A value that is a token is taken for a session id.
    kept = [each for each in parameters if not is_token(each.partition("=")[2])]
    differences = []
    if without_tokens != path or len(kept) != len(parameters):
        differences.append("session")
    path, ordered = without_tokens, sorted(dict.fromkeys(kept))
    if ordered != kept:
        differences.append("order of parameters")
    folder = _INDEX_FILE.sub("/", path)
    if folder != path:
        differences.append("index file")
    # Percent escapes keep their capitals, as canonical form writes them.
    small = _CAPITALS.sub(lambda match: match[0] if match[0][0] == "%" else match[0].lower(), folder)
    if small != folder:
        differences.append("letter case")
    if not differences:
        return None
    ending = f"?{'&'.join(ordered)}" if ordered else ""
    return UrlSpelling(small + ending, ", ".join(differences), bare + ending if bare else "")


def _is_plain(tail: str) -> bool:
    """Tell whether no plainer spelling exists; true of most tails, and decided in a microsecond."""
    small = tail.lower()
    if small != tail or "&" in tail or "index." in small or "default." in small:
        return False
    return _LONG_RUN.search(tail) is None and (tail.count("-") < 4 or _UUID.search(tail) is None)


def _bare(path: str) -> str:
    """Remove the first token and the segment before it; return "" if there is no token."""
    segments = path.split("/")
    at = next((n for n, each in enumerate(segments[:-1]) if is_token(each)), 0)
    return "/".join([*segments[: at - 1], *segments[at + 1 :]]) if at > 1 else ""


def _without_tokens(path: str) -> str:
    """Remove segments that are tokens, except the last, which names the page."""
    *folders, name = path.split("/")
    return "/".join([*(each for each in folders if not is_token(each)), name])
