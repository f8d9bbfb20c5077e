"""Limits on markup before it is parsed.

An HTML parser follows the standard, and the standard has no limits: lexbor needs 12 s for 100,000 `<div>` inside
each other, 17 s for 100,000 attributes on one tag and 500 MB for a million tags. Such pages are cut here, so that
their text and links are still found up to the limit; ordinary pages only cost two counts over their characters.
"""

from __future__ import annotations

import re

MAX_DEPTH = 512
MAX_TAGS = 200_000
MAX_ATTRIBUTES = 1_000
SUSPICIOUS_TAGS = 20_000
"""With fewer tags than this, even the worst nesting costs less than half a second."""

LONG_TAG_CHARS = 32_768
_LONG_TAG = re.compile(rf"<[A-Za-z][^>]{{{LONG_TAG_CHARS}}}")
_ATTRIBUTE = re.compile(r"""[^\s>=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))?|=|\s++""")
_TAG = re.compile(r"<!--|<(/?)([A-Za-z][A-Za-z0-9]*+)")
_RAW_TEXT_END = {
    name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style", "textarea", "title", "xmp", "iframe")
}
_NEVER_NEST = frozenset({
    "a", "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
    "p", "li", "dt", "dd", "td", "th", "tr", "tbody", "thead", "tfoot", "option", "optgroup", "html", "head", "body",
})  # fmt: skip
"""Tags that hold nothing or that the parser closes by itself."""


def limit_markup(markup: str) -> tuple[str, tuple[str, ...]]:
    """Return markup that any parser can take, and the names of lost parts: `attributes`, `depth`, `tags`."""
    lost: tuple[str, ...] = ()
    if _LONG_TAG.search(markup):
        fewer = _limit_attributes(markup)
        lost = ("attributes",) if len(fewer) != len(markup) else ()
        markup = fewer
    if markup.count("<") > SUSPICIOUS_TAGS:
        markup, more = _flatten(markup)
        lost += more
    return markup, lost


def _limit_attributes(markup: str) -> str:
    pieces: list[str] = []
    copied_to = position = 0
    while (tag := _LONG_TAG.search(markup, position)) is not None:
        position, count, cut_at = tag.start() + 1, 0, -1
        while (attribute := _ATTRIBUTE.match(markup, position)) is not None:
            count += 1
            if count == 2 * MAX_ATTRIBUTES:  # blanks count too
                cut_at = position
            position = attribute.end()
        if cut_at >= 0:
            pieces.append(markup[copied_to:cut_at])
            copied_to = position
    return "".join((*pieces, markup[copied_to:]))


def _flatten(markup: str) -> tuple[str, tuple[str, ...]]:
    """Drop the tags (never the text) that lie deeper than `MAX_DEPTH`, and all that follows `MAX_TAGS`."""
    pieces: list[str] = []
    copied_to = skip_to = depth = tags = 0
    lost: set[str] = set()
    for tag in _TAG.finditer(markup):
        start = tag.start()
        if start < skip_to:
            continue
        tags += 1
        if tags > MAX_TAGS:
            markup = markup[:start]
            lost.add("tags")
            break
        closing, name = tag.group(1), (tag.group(2) or "").lower()
        # Tags inside comments, scripts and styles are text.
        if not name or (not closing and name in _RAW_TEXT_END):
            skip_to = _end_of_raw(markup, tag.end(), name)
        elif name not in _NEVER_NEST:
            depth += 0 if closing else 1
            if depth > MAX_DEPTH:
                # A blank in place of the tag keeps the words around it apart.
                pieces.append(markup[copied_to:start] + " ")
                copied_to = skip_to = (markup.find(">", start) + 1) or len(markup)
                lost.add("depth")
            depth = max(0, depth - 1) if closing else depth
    return "".join((*pieces, markup[copied_to:])), tuple(sorted(lost))


def _end_of_raw(markup: str, position: int, name: str) -> int:
    """Return the end of a comment or of an element whose content is not markup."""
    if not name:
        end = markup.find("-->", position)
        return end + 3 if end >= 0 else len(markup)
    match = _RAW_TEXT_END[name].search(markup, position)
    return match.start() if match else len(markup)
