"""Patterns: the shapes that many URLs share.

A server makes its URLs from a few templates, and a trap is a template that never ends. So teia learns about traps
by *pattern* (detector.py). A pattern stands for all URLs that differ only in numbers, words and values:

    /noticias/a-ponte-velha-1234.html     /noticias/w0.html
    /agenda/2026/11  /agenda/2026-11      /agenda/0/0  /agenda/d
    /maze/amber/lantern/river             /maze/w            words in a row are one: a path that grows is one pattern
    /shop?colour=red&size=m               /shop?colour&size  parameters by name, sorted
    /noticias/a-ponte-velha-1234?ref=x    *?ref              parameters of pages are one pattern for all pages

The first segment is kept as it is, because it names the part of the site, unless it ends the URL or holds digits. A
host that has too many patterns of one family (`wider`) uses names as values; then the family is one pattern.
"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_NAME_CHARS = 32
MAX_PARAMETERS = 12
MIN_TOKEN_CHARS = 16

_DIGIT = re.compile(r"[0-9]")
_TOKEN = re.compile(
    r"[0-9a-f]{16,}|(?=[^0-9]*[0-9])(?=[^A-Z]*[A-Z])(?=[^a-z]*[a-z])[0-9A-Za-z]{16,}|[0-9A-F]{16,}"
    r"|[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
)
"""Hexadecimal, a UUID, or letters of both cases and digits without a separator."""

MAX_ENDING_CHARS = 5

NUMBERING = frozenset(
    ("page", "pg", "paged", "pagina", "pagenum", "page_no", "pageno", "start", "offset", "from", "skip", "cursor")
)
"""Parameters that number the pages of a list."""

DATES = frozenset(("date", "day", "month", "year", "week", "cal", "calendar", "data", "dia", "mes", "ano", "semana"))
"""Parameters that name a day, a month or a year."""

FAR = " far"
"""Suffix of a pattern for those of its URLs whose date is many years away."""

_DATE = re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])(?:-[0-3][0-9])?")
_DATE_IN_PATH = re.compile(r"/(?:0/0(?:/0)?|d)$")
REPEATS = re.compile(r"((?:/[^/?0-9]+){1,3})\1(?:/|\?|$)")
"""One to three path segments that stand twice in a row."""

_YEAR = re.compile(r"(?<![0-9])([0-9]{4})(?=[/-](?:0[1-9]|1[0-2])(?![0-9]))|(?:year|ano)=([0-9]{4})(?![0-9])")


def pattern_of(tail: str) -> str:
    """Return the pattern of a URL's tail, as the frontier stores it (rows.tail_of): the part after its host."""
    path, mark, query = tail.partition("?")
    if mark:
        return f"{_script(path) or '*'}{_names(query)}"
    folders, _, last = path.rpartition("/")
    folder, shape = _folder(folders), _segment(last)
    # A last word continues the words before it: a path that grows stays one pattern.
    if shape in ("w", "") and folder.endswith("/w"):
        return folder
    return f"{folder}/{shape}"


@lru_cache(maxsize=4_096)
def _script(path: str) -> str:
    """Return a path that names one program rather than a page: `/shop`, `/forum/`, `/forum/show.php`; else ""."""
    # Without the `s` of https, and without the port.
    path = path[path.index("/") :]
    folders, _, last = path.rpartition("/")
    depth = folders.count("/")
    is_one = depth == 0 or (depth == 1 and (not last or "." in last))
    return path if is_one and _is_name(path) else ""


@lru_cache(maxsize=4_096)
def _folder(folders: str) -> str:
    """Return the pattern of all segments but the last; "" if there are none. A page's links share few of these."""
    first, *more = folders[folders.index("/") + 1 :].split("/") if "/" in folders else [""]
    parts = [first if _is_name(first) else _segment(first)]
    for segment in more:
        shape = _segment(segment)
        # Words in a row are one, except behind the first segment, which names a part of the site.
        if shape != "w" or parts[-1] != "w" or len(parts) == 1:
            parts.append(shape)
    return f"/{'/'.join(parts)}" if "/" in folders else ""


def _is_name(segment: str) -> bool:
    return len(segment) <= MAX_NAME_CHARS and _DIGIT.search(segment) is None


def _segment(segment: str) -> str:
    """Return `0` for digits, `w` for a word, `w0` for both, `d` for a date, `*` for a token; an ending stays."""
    dot = segment.rfind(".")
    ending = ""
    if dot > 0 and len(segment) - dot <= MAX_ENDING_CHARS + 1 and segment[dot + 1 : dot + 2].isalpha():
        segment, ending = segment[:dot], segment[dot:]
    if not segment:
        return ""
    if segment.isdigit():
        return f"0{ending}"
    if _DIGIT.search(segment) is None:
        return f"w{ending}"
    if len(segment) >= MIN_TOKEN_CHARS and is_token(segment):
        return f"*{ending}"
    return f"d{ending}" if _DATE.fullmatch(segment) else f"w0{ending}"


@lru_cache(maxsize=4_096)
def _names(query: str) -> str:
    # MAX_PARAMETERS is far below 64: further names cannot change the result.
    names = sorted({parameter.partition("=")[0][:MAX_NAME_CHARS] for parameter in query.split("&", 64)[:64]})
    return f"?{'&'.join(names)}" if len(names) <= MAX_PARAMETERS else "?*"


def is_token(text: str) -> bool:
    """Tell whether a text looks random rather than written."""
    return _TOKEN.fullmatch(text) is not None


def wider(pattern: str) -> str:
    """Return the family of a pattern: any parameters; or, without parameters, any first segment."""
    path, mark, _ = pattern.partition("?")
    if mark:
        return f"{path}?*"
    if not pattern.startswith("/"):
        return pattern
    first, slash, rest = path[1:].partition("/")
    shape = _segment(first)
    # Two words in a row are one, as in `_folder`.
    if shape == "w" and (rest == "w" or rest.startswith("w/")):
        return f"/{rest}"
    return f"/{shape}{slash}{rest}"


def is_list(pattern: str) -> bool:
    """Tell whether such pages exist to lead to others: numbered lists, calendars, combinations of parameters."""
    path, mark, query = pattern.removesuffix(FAR).partition("?")
    if query == "*":
        return True
    names = set(query.lower().split("&")) if mark else set()
    return bool(names & NUMBERING or names & DATES) or _DATE_IN_PATH.search(path) is not None


def is_variant(pattern: str) -> bool:
    """Tell whether such URLs are pages with an addition: a token in the path, or parameters."""
    return "/*/" in pattern or pattern.startswith("*?")


def years_away(tail: str, year: int) -> int:
    """Return the distance in years of the date in a URL from `year`; 0 if there is none."""
    match = _YEAR.search(tail)
    return 0 if match is None else abs(int(match[1] or match[2]) - year)
