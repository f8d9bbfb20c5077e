"""Style sheets of archived pages, in which every reference is ours or removed.

A browser reads exactly the text returned here, so no way of naming a URL may be left in it: escapes of letters are
written as the letters they mean, comments are dropped, `url(` and `@import` are filled or disabled, and functions
that take a URL as a plain string are disabled.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from teia.parse.html.references import CSS_COMMENT, CSS_STRING, css_unescaped

MAX_CSS_CHARS = 2_000_000

_ESCAPED_LETTER = re.compile(r"\\0{0,4}(2[Dd]|[46][1-9A-Fa-f]|[57][0-9Aa])(?![0-9A-Fa-f])\s?|\\([G-Zg-z-])")
_MAX_ROUNDS = 16
_URL = rf"""url\(\s*+(?:{CSS_STRING}|([^()"'\\\s<>]*+))\s*+\)"""
_NAMED = re.compile(
    rf"(@import)\s*+(?:{_URL}|{CSS_STRING})|{_URL}|(@import|url\(|src\(|image\(|image-set\(|@namespace|@charset)",
    re.IGNORECASE,
)
_FOREIGN = re.compile(r"url\((?!\"(?:teia-hole:\d+;|#[^\"]*)\"\))|@import(?! url\(\"teia-hole:)", re.IGNORECASE)
_BREAKS_OUT = re.compile(r"[\"'()\\<>\s]")


def clean_style(css: str, hole: Callable[[str, bool], str]) -> str:
    """Clean a style sheet; `hole(reference, is_sheet)` returns the replacement of a reference."""
    # 1. Comments and escapes go, so that `u\72l(` cannot hide. 2. Every reference becomes a hole or nothing.
    plain = _plain(CSS_COMMENT.sub(" ", css[:MAX_CSS_CHARS]))

    def made(match: re.Match[str]) -> str:
        groups = match.groups()
        is_import = bool(groups[0])
        written = next((group for group in groups[1:9] if group), "")
        reference = css_unescaped(written)
        if not is_import and reference.startswith("#") and not _BREAKS_OUT.search(reference):
            return f'url("{reference}")'
        ours = hole(reference, is_import) if reference else ""
        if not ours:
            # A bare `url(` with unreadable contents: its name is changed, so the rest is an unknown function.
            return "none(" if (groups[9] or "").endswith("(") else "@none " if is_import or groups[9] else "none"
        return f'{"@import " if is_import else ""}url("{ours}")'

    return _NAMED.sub(made, plain)


def _plain(css: str) -> str:
    """Write escaped letters as letters, repeatedly: nested escapes occur only in attacks."""
    for _ in range(_MAX_ROUNDS):
        once_more = _ESCAPED_LETTER.sub(_letter, css)
        if once_more == css:
            return css
        css = once_more
    return ""


def _letter(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else match[2]


def is_foreign(css: str) -> bool:
    """Tell whether a cleaned style sheet still references anything that is not ours."""
    return _FOREIGN.search(css) is not None
