"""Tables of the first 65,536 characters without accent and case (normal.py).

FOLDED maps each UTF-16 unit to its folded one, and KINDS tells its kind. EXPANDED holds, in UTF-8, the replacements
of characters that become several.
"""

from __future__ import annotations

import re
import unicodedata
from array import array

PLANE = 0x10000
_ACCENT_RANGES = ((0x0300, 0x036F), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x20D0, 0x20FF), (0xFE20, 0xFE2F))
ACCENTS = re.compile(f"[{''.join(f'{chr(first)}-{chr(last)}' for first, last in _ACCENT_RANGES)}]+")
BLANK = ord(" ")
_WITH_CASE_OR_PARTS = ((0, 0x33FF), (0xA000, 0xABFF), (0xF900, 0xFFFF))
"""Ranges of letters that have case or decompose; between lie Chinese, Korean, surrogates and private characters."""

_KOREAN = range(0xAC00, 0xD7A4)
"""Syllables, which decompose by a rule."""

KEPT, ACCENT, MARK, OTHER = range(4)
"""Kinds of UTF-16 units: folded; dropped; kept, though marks may have to be reordered; unknown here."""


def _folded(unit: int) -> int:
    """Return the folded unit of a UTF-16 unit; 0 where that is not one unit."""
    char = chr(unit)
    if char.isspace():
        return BLANK
    if unicodedata.decomposition(char):
        char = ACCENTS.sub("", unicodedata.normalize("NFKD", char))
    folded = char.casefold()
    return ord(folded) if len(folded) == 1 and folded <= "\uffff" else 0


def _all_folded() -> array[int]:
    units = array("H", range(PLANE))
    for first, last in _WITH_CASE_OR_PARTS:
        units[first : last + 1] = array("H", [_folded(unit) for unit in range(first, last + 1)])
    # 0 marks units that the table cannot fold; `_kinds_of` makes OTHER of them.
    units[_KOREAN.start : _KOREAN.stop] = array("H", [0]) * len(_KOREAN)
    return units


def _kinds_of(folded: array[int]) -> bytearray:
    kinds = bytearray(OTHER if unit == 0 else KEPT for unit in folded)
    for first, last in _WITH_CASE_OR_PARTS:
        for unit in range(first, last + 1):
            if unicodedata.combining(chr(unit)):
                kinds[unit] = MARK
    # Surrogates: their decomposition is not known here. Letters with case lie behind the five.
    kinds[0xD800:0xE000] = bytes([MARK]) * 0x800
    for unit in (0xD801, 0xD803, 0xD806, 0xD81B, 0xD83A):
        kinds[unit] = OTHER
    for first, last in _ACCENT_RANGES:
        kinds[first : last + 1] = bytes([ACCENT]) * (last + 1 - first)
    return kinds


def _expanded(folded: array[int], kinds: bytearray) -> dict[int, bytes]:
    """Return the replacements of characters that become several plain ones: `…`, `ß`, `½`.

    Those with blanks among them are left out, and those that become longer than three times themselves.
    """
    found: dict[int, bytes] = {}
    for first, last in _WITH_CASE_OR_PARTS:
        for code in range(max(first, 0x80), last + 1):
            if kinds[code] != OTHER:
                continue
            text = ACCENTS.sub("", unicodedata.normalize("NFKD", chr(code))).casefold()
            codes, octets = list(map(ord, text)), text.encode("utf-8", "replace")
            is_plain = " " not in text and all(each < PLANE and kinds[each] == KEPT for each in codes)
            if is_plain and len(octets) <= 3 * len(chr(code).encode()) and all(folded[each] == each for each in codes):
                found[code] = octets
    return found


FOLDED = _all_folded()
KINDS = _kinds_of(FOLDED)
EXPANDED = _expanded(FOLDED, KINDS)
