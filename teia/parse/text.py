"""Text as it is compared: one line, and the form in which two versions of a page are the same (F3).

Every page is normalised, so it is done by tables, in a compiled loop (lib/_words.pyx) or on arrays: 15 kB of Portuguese
take 40 us or 180 instead of 540. The tables cover the plane in which nearly all text is written; for the rest there is
the plain way.
"""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import numpy.typing as npt

try:
    from teia.lib._words import Folder
except ImportError:
    Folder = None  # type: ignore[assignment,misc]

_ACCENT_RANGES = ((0x0300, 0x036F), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x20D0, 0x20FF), (0xFE20, 0xFE2F))
_ACCENTS = re.compile(f"[{''.join(f'{chr(first)}-{chr(last)}' for first, last in _ACCENT_RANGES)}]+")
_BLANK = ord(" ")
_WITH_CASE_OR_PARTS = ((0, 0x33FF), (0xA000, 0xABFF), (0xF900, 0xFFFF))
"""Where letters have case or come apart; between lie Chinese, Korean, halves of pairs and what is private."""

_KEPT, _ACCENT, _MARK, _OTHER = range(4)
"""A UTF-16 unit is folded; dropped; kept, though its place among other marks may have to be settled; unknown here."""

Units = npt.NDArray[np.uint16]


def one_line(text: str, max_chars: int) -> str:
    """Collapse blanks and cut. Only the beginning of a very long text is looked at."""
    if len(text) <= max_chars and text.isprintable() and "  " not in text:
        return text.strip(" ")  # so it is with most, and no other blank can be printed
    return " ".join(text[: 8 * max_chars].split())[:max_chars]


def normalised(text: str) -> str:
    """Remove accents and case and collapse blanks; markup is already gone.

    Only marks that are accents go: the vowel signs of Indic and Semitic scripts carry meaning.
    """
    folded = _FOLDER.fold(text) if _FOLDER is not None else None
    return folded.decode() if folded is not None else normalised_by_arrays(text)


def normal_octets(text: str) -> bytes:
    """Return the same as UTF-8, in which form it is made."""
    folded = _FOLDER.fold(text) if _FOLDER is not None else None
    return folded if folded is not None else normalised_by_arrays(text).encode("utf-8", "replace")


def normalised_by_arrays(text: str) -> str:
    """Do the same without compiled code."""
    if text.isascii():
        octets = np.frombuffer(text.encode("ascii").translate(_FOLDED_ASCII), dtype=np.uint8)
        return _collapsed(octets).decode("ascii").strip(" ")
    folded = _folded_units(text, _ACCENT)
    if folded is None:
        text = unicodedata.normalize("NFKD", text)
        folded = _folded_units(text, _MARK)
    if folded is None:
        return normalised_plainly(text)
    return _collapsed(folded).decode("utf-16-le", "surrogatepass").strip(" ")


def _folded_units(text: str, worst: int) -> Units | None:
    """Return the text's units without accents and case; None if there are worse kinds of them than `worst`."""
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2")
    kinds = _KINDS[units]
    found = kinds.max()
    if found > worst:
        return None
    folded: Units = _FOLDED[units if found == _KEPT else units[kinds != _ACCENT]]
    return folded


def normalised_plainly(text: str) -> str:
    """Do the same without arrays: for what lies outside of the tables, and to test the other way against."""
    text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return " ".join(text.casefold().split())


def _collapsed(units: npt.NDArray[np.uint8] | Units) -> bytes:
    """Leave one blank of each run of them."""
    is_letter = units != _BLANK
    # On a copy, because each sign is judged by the one before it as that was, not as it has become.
    is_kept = is_letter.copy()
    is_kept[1:] |= is_letter[:-1]
    kept: bytes = units[is_kept].tobytes()
    return kept


# ---- tables ---------------------------------------------------------------------------------------------------------


def _folded(unit: int) -> int:
    """Return what a UTF-16 unit becomes by itself; 0 where that is not one unit."""
    char = chr(unit)
    if char.isspace():
        return _BLANK
    if unicodedata.decomposition(char):
        char = _ACCENTS.sub("", unicodedata.normalize("NFKD", char))
    folded = char.casefold()
    return ord(folded) if len(folded) == 1 and folded <= "\uffff" else 0


def _all_folded() -> Units:
    units = np.arange(0x10000, dtype=np.uint16)
    for first, last in _WITH_CASE_OR_PARTS:
        units[first : last + 1] = [_folded(unit) for unit in range(first, last + 1)]
    units[0xAC00:0xD7A4] = 0  # Korean syllables come apart by a rule
    return units


def _kinds_of(folded: Units) -> npt.NDArray[np.uint8]:
    kinds = np.full(folded.size, _KEPT, dtype=np.uint8)
    kinds[folded == 0] = _OTHER
    for first, last in _WITH_CASE_OR_PARTS:
        kinds[[unit for unit in range(first, last + 1) if unicodedata.combining(chr(unit))]] = _MARK
    # Halves of a pair: what it decomposes to is not known here. Letters with case lie behind the five.
    kinds[0xD800:0xE000] = _MARK
    kinds[[0xD801, 0xD803, 0xD806, 0xD81B, 0xD83A]] = _OTHER
    for first, last in _ACCENT_RANGES:
        kinds[first : last + 1] = _ACCENT
    return kinds


def _expanded(folded: Units, kinds: npt.NDArray[np.uint8]) -> dict[int, bytes]:
    """Return what becomes of characters that turn into several plain ones, in UTF-8: `…`, `ß`, `½`.

    Not of those with blanks among them, and of none that gets longer than three times itself.
    """
    found: dict[int, bytes] = {}
    for code in map(int, np.flatnonzero(kinds == _OTHER)):
        if code < 0x80 or 0xAC00 <= code < 0xE000:
            continue
        text = _ACCENTS.sub("", unicodedata.normalize("NFKD", chr(code))).casefold()
        codes, octets = list(map(ord, text)), text.encode("utf-8", "replace")
        is_plain = " " not in text and all(each < 0x10000 and kinds[each] == _KEPT for each in codes)
        if is_plain and len(octets) <= 3 * len(chr(code).encode()) and all(folded[each] == each for each in codes):
            found[code] = octets
    return found


_FOLDED = _all_folded()
_KINDS = _kinds_of(_FOLDED)
_FOLDER = None if Folder is None else Folder(_FOLDED, _KINDS, _expanded(_FOLDED, _KINDS))
_FOLDED_ASCII = bytes([*_FOLDED[:0x80].tolist(), *range(0x80, 0x100)])
