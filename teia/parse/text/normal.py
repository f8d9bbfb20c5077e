"""Text for comparison: one line, and the form in which two versions of a page are the same (F3).

Every page is normalised, so it is done by tables (folding.py), in a compiled loop (lib/_words.pyx): 15 kB of
Portuguese take 40 us instead of 540. The tables cover the plane in which nearly all text is written; text outside of
them, or with marks of Indic and Semitic scripts, takes the plain way. They are built when the first text is normalised:
not every crawl needs text.
"""

from __future__ import annotations

import unicodedata
from functools import cache

from teia.lib._words import Folder

MAX_ANCHOR_CHARS = 200


def one_line(text: str, max_chars: int) -> str:
    """Collapse blanks and cut. Only the beginning of a very long text is read."""
    if len(text) <= max_chars and text.isprintable() and "  " not in text:
        return text.strip(" ")  # true of most texts, and no other blank is printable
    return " ".join(text[: 8 * max_chars].split())[:max_chars]


def normalised(text: str) -> str:
    """Remove accents and case and collapse blanks; markup is already gone.

    Only marks that are accents are removed: the vowel signs of Indic and Semitic scripts carry meaning.
    """
    folded = _folder().fold(text)
    return folded.decode() if folded is not None else normalised_plainly(text)


def normal_octets(text: str) -> bytes:
    """Like `normalised`, as UTF-8 bytes, the form in which it is made."""
    folded = _folder().fold(text)
    return folded if folded is not None else normalised_plainly(text).encode("utf-8", "replace")


def normalised_plainly(text: str) -> str:
    """Like `normalised`, without tables: for text outside of them, and to test the tables."""
    from teia.parse.text.folding import ACCENTS

    text = ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return " ".join(text.casefold().split())


@cache
def _folder() -> Folder:
    from teia.parse.text.folding import EXPANDED, FOLDED, KINDS

    return Folder(FOLDED, KINDS, EXPANDED)
