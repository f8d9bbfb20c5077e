"""Normalisation of text without the compiled loop (normal.py): on arrays, or plainly for text outside the tables."""

from __future__ import annotations

import unicodedata

import numpy as np
import numpy.typing as npt

from teia.parse.text.folding import ACCENT, ACCENTS, BLANK, FOLDED, KEPT, KINDS, MARK

Units = npt.NDArray[np.uint16]

_FOLDED = np.frombuffer(FOLDED, dtype=np.uint16)
_KINDS = np.frombuffer(KINDS, dtype=np.uint8)
_FOLDED_ASCII = bytes([*FOLDED[:0x80], *range(0x80, 0x100)])


def normalised_by_arrays(text: str) -> str:
    """Do the same as `normal.normalised`, without compiled code."""
    if text.isascii():
        octets = np.frombuffer(text.encode("ascii").translate(_FOLDED_ASCII), dtype=np.uint8)
        return _collapsed(octets).decode("ascii").strip(" ")
    # From the fastest way to the slowest: one look-up a unit, the same after NFKD, character by character.
    folded = _folded_units(text, ACCENT)
    if folded is None:
        text = unicodedata.normalize("NFKD", text)
        folded = _folded_units(text, MARK)
    if folded is None:
        return normalised_plainly(text)
    return _collapsed(folded).decode("utf-16-le", "surrogatepass").strip(" ")


def normalised_plainly(text: str) -> str:
    """Like `normalised_by_arrays`, without tables: for text outside of them, and to test the other ways."""
    text = ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return " ".join(text.casefold().split())


def _folded_units(text: str, worst: int) -> Units | None:
    """Return the text's units without accents and case; None if there are worse kinds of them than `worst`."""
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2")
    kinds = _KINDS[units]
    found = kinds.max()
    if found > worst:
        return None
    folded: Units = _FOLDED[units if found == KEPT else units[kinds != ACCENT]]
    return folded


def _collapsed(units: npt.NDArray[np.uint8] | Units) -> bytes:
    """Keep one blank of each run of blanks."""
    is_letter = units != BLANK
    # On a copy, because each character is judged by the original one before it, not by the changed one.
    is_kept = is_letter.copy()
    is_kept[1:] |= is_letter[:-1]
    kept: bytes = units[is_kept].tobytes()
    return kept
