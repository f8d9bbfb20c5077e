"""Text as it is compared: one line, and the form in which two versions of a page are the same (F3).

Every page is normalised, so it is done on arrays: 15 kB of English take 20 us instead of 100, of Portuguese 180
instead of 540. The tables cover the plane in which nearly all text is written; for the rest there is the plain way.
"""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import numpy.typing as npt

_ACCENT_RANGES = ((0x0300, 0x036F), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x20D0, 0x20FF), (0xFE20, 0xFE2F))
_ACCENTS = re.compile(f"[{''.join(f'{chr(first)}-{chr(last)}' for first, last in _ACCENT_RANGES)}]+")
_BLANK = ord(" ")
_KEPT, _ACCENT, _OTHER = range(3)
Units = npt.NDArray[np.uint16]


def one_line(text: str, max_chars: int) -> str:
    """Collapse blanks and cut. Only the beginning of a very long text is looked at."""
    return " ".join(text[: 8 * max_chars].split())[:max_chars]


def normalised(text: str) -> str:
    """Remove accents and case and collapse blanks; markup is already gone.

    Only marks that are accents go: the vowel signs of Indic and Semitic scripts carry meaning.
    """
    if text.isascii():
        octets = np.frombuffer(text.encode("ascii").translate(_FOLDED_ASCII), dtype=np.uint8)
        return _collapsed(octets).decode("ascii").strip(" ")
    text = unicodedata.normalize("NFKD", text)
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2")
    kinds = _KINDS[units]
    if kinds.max() == _OTHER:
        return normalised_plainly(text)
    folded: Units = _FOLDED[units[kinds == _KEPT]]
    return _collapsed(folded).decode("utf-16-le", "surrogatepass").strip(" ")


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
    folded = char.casefold()
    return ord(folded) if len(folded) == 1 else 0


def _kinds_of(folded: Units) -> npt.NDArray[np.uint8]:
    kinds = np.full(folded.size, _KEPT, dtype=np.uint8)
    kinds[folded == 0] = _OTHER
    # Letters with case lie behind these halves of a pair; those that hold signs, pictures and Chinese have none.
    kinds[0xD800:0xE000] = _KEPT
    kinds[[0xD801, 0xD803, 0xD806, 0xD81B, 0xD83A]] = _OTHER
    for first, last in _ACCENT_RANGES:
        kinds[first : last + 1] = _ACCENT
    return kinds


_FOLDED: Units = np.fromiter(map(_folded, range(0x10000)), dtype=np.uint16, count=0x10000)
_KINDS = _kinds_of(_FOLDED)
_FOLDED_ASCII = bytes([*_FOLDED[:0x80].tolist(), *range(0x80, 0x100)])
