"""The small languages in which a page names other URLs: refresh values, srcset, Link headers, CSS.

Each function takes the text of one attribute, header or style sheet and returns the references in it as they are
written; links.py resolves them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

_BLANKS = "\t\n\x0c\r "

# ---- meta refresh ---------------------------------------------------------------------------------------------------

_REFRESH = re.compile(
    r"[\t\n\x0c\r ]*+(?:(\d+)[\d.]*+|(?=\.)[\d.]++)(?=[\t\n\x0c\r ;,]|\Z)[\t\n\x0c\r ]*+[;,]?[\t\n\x0c\r ]*+"
)
_REFRESH_URL = re.compile(r"url[\t\n\x0c\r ]*+=[\t\n\x0c\r ]*+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MetaRefresh:
    """A refresh: its delay in seconds, and its target; None is the page itself."""

    seconds: int
    reference: str | None


def parse_refresh(value: str) -> MetaRefresh | None:
    """Read the value of `<meta http-equiv=refresh>` or of a Refresh header as browsers do (HTML standard, 4.2.5.3)."""
    match = _REFRESH.match(value)
    if match is None:
        return None
    seconds = int((match.group(1) or "0")[:9])
    rest = value[match.end() :]
    if not rest:
        return MetaRefresh(seconds, None)
    url = _REFRESH_URL.match(rest)
    if url:
        rest = rest[url.end() :]
    if rest[:1] in {'"', "'"}:
        rest = rest[1:].partition(rest[0])[0]
    return MetaRefresh(seconds, rest.rstrip(_BLANKS))


# ---- srcset ---------------------------------------------------------------------------------------------------------

MAX_SRCSET_CHARS = 65_536
_INTEGER = re.compile(r"\d+")
_FLOAT = re.compile(r"-?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One image of a srcset; `width` in pixels (0: not given), `density` in pixels per pixel."""

    reference: str
    width: int
    density: float


def parse_srcset(value: str, max_candidates: int = 1_000) -> list[Candidate]:
    """Return the valid candidates, in order (HTML standard, 4.8.4.2.6)."""
    value = value[:MAX_SRCSET_CHARS]
    candidates: list[Candidate] = []
    position = 0
    while len(candidates) < max_candidates:
        while position < len(value) and value[position] in _BLANKS + ",":
            position += 1
        if position >= len(value):
            break
        start = position
        while position < len(value) and value[position] not in _BLANKS:
            position += 1
        reference = value[start:position]
        descriptors: list[str] = []
        # A comma at the end of a URL ends the candidate, by the standard; one inside belongs to the URL.
        if reference.endswith(","):
            reference = reference.rstrip(",")
        else:
            descriptors, position = _descriptors(value, position)
        described = _described(reference, descriptors)
        if described:
            candidates.append(described)
    return candidates


def _descriptors(value: str, position: int) -> tuple[list[str], int]:
    """Split up to the comma that ends a candidate; a comma inside parentheses does not."""
    found: list[str] = []
    current = ""
    inside = False
    while position < len(value):
        char = value[position]
        position += 1
        if inside:
            current += char
            inside = char != ")"
        elif char in _BLANKS:
            if current:
                found.append(current)
            current = ""
        elif char == ",":
            break
        else:
            current += char
            inside = char == "("
    if current:
        found.append(current)
    return found, position


def _described(reference: str, descriptors: list[str]) -> Candidate | None:
    width: int | None = None
    density: float | None = None
    height: int | None = None
    for descriptor in descriptors:
        number, unit = descriptor[:-1], descriptor[-1]
        if unit == "w" and _INTEGER.fullmatch(number) and width is density is None and int(number[:9]) > 0:
            width = int(number[:9])
        elif unit == "x" and _FLOAT.fullmatch(number) and width is density is height is None and float(number) >= 0:
            density = float(number)
        elif unit == "h" and _INTEGER.fullmatch(number) and height is density is None and int(number[:9]) > 0:
            height = int(number[:9])
        else:
            return None
    if height is not None and width is None:
        return None
    return Candidate(reference, width or 0, 1.0 if density is None else density)


def chosen_at_density_1(candidates: list[Candidate], shown_px: float) -> str | None:
    """Return the candidate a browser takes on a plain screen for an image shown `shown_px` wide."""
    by_density: dict[float, str] = {}
    for each in candidates:
        density = each.width / shown_px if each.width else each.density
        by_density.setdefault(density, each.reference)
    enough = [density for density in by_density if density >= 1]
    if not by_density:
        return None
    return by_density[min(enough) if enough else max(by_density)]


# ---- Link headers ---------------------------------------------------------------------------------------------------

_LINK_VALUE = re.compile(r"[\s,]*+<([^<>]*+)>((?:[^,\"]|\"(?:[^\"\\]|\\.)*+\"?)*+)")
_LINK_PARAMETER = re.compile(
    r";\s*+([!#$%&'*+\-.^_`|~A-Za-z0-9]++)\s*+(?:=\s*+(?:\"((?:[^\"\\]|\\.)*+)\"|([^\s;,\"]*+)))?"
)


@dataclass(frozen=True, slots=True)
class HeaderLink:
    """One value of a Link header (RFC 8288); relations and parameter names in lower case."""

    reference: str
    relations: frozenset[str]
    parameters: dict[str, str]


def parse_link_header(value: str) -> Iterator[HeaderLink]:
    """Yield the links of one header, up to the first unreadable part."""
    position = 0
    while (match := _LINK_VALUE.match(value, position)) is not None:
        position = match.end()
        parameters: dict[str, str] = {}
        for name, quoted, bare in _LINK_PARAMETER.findall(match.group(2)):
            parameters.setdefault(name.lower(), quoted or bare)
        relations = frozenset(parameters.get("rel", "").lower().split())
        yield HeaderLink(match.group(1).strip(), relations, parameters)


# ---- CSS ------------------------------------------------------------------------------------------------------------

CSS_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
CSS_STRING = r"""(?:"((?:[^"\\\n]|\\.)*+)"|'((?:[^'\\\n]|\\.)*+)')"""
_CSS_REFERENCE = re.compile(
    rf"(@import\s*+)?\burl\(\s*+(?:{CSS_STRING}|((?:[^()\"'\\\s]|\\(?:[0-9A-Fa-f]{{1,6}}\s?|.))*+))\s*+\)|@import\s*+{CSS_STRING}",
    re.IGNORECASE | re.DOTALL,
)
_CSS_ESCAPE = re.compile(r"\\(?:([0-9A-Fa-f]{1,6})\s?|(.))", re.DOTALL)
_FONT_FILE = re.compile(r"\.(?:woff2?|ttf|otf|eot)(?:[?#]|\Z)", re.IGNORECASE)


class StyleUse(Enum):
    """Use of a reference in a style sheet."""

    SHEET = "sheet"
    IMAGE = "image"
    FONT = "font"


def css_references(css: str) -> Iterator[tuple[str, StyleUse]]:
    """Yield every `url(...)` and `@import` of a style sheet, a style element or a style attribute."""
    # Comments first: a commented-out `url(` is no reference, and a comment may stand inside one.
    for match in _CSS_REFERENCE.finditer(CSS_COMMENT.sub(" ", css)):
        imported = match.group(1) is not None or match.group(5) is not None or match.group(6) is not None
        written = next((group for group in match.groups()[1:] if group), "")
        reference = css_unescaped(written)
        if not reference or reference.startswith("#"):
            continue
        font = _FONT_FILE.search(reference)
        yield reference, StyleUse.SHEET if imported else StyleUse.FONT if font else StyleUse.IMAGE


def css_unescaped(text: str) -> str:
    """Return a text of a style sheet with its escapes undone."""
    return _CSS_ESCAPE.sub(_css_character, text)


def _css_character(match: re.Match[str]) -> str:
    if match.group(2) is not None:
        return match.group(2).replace("\n", "")
    code = int(match.group(1), 16)
    return chr(code) if 0 < code < 0xD800 or 0xDFFF < code <= 0x10FFFF else "\ufffd"
