"""Text as it is compared: one line, and the form in which two versions of a page are the same (F3)."""

from __future__ import annotations

import re
import unicodedata

_ACCENTS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")


def one_line(text: str, max_chars: int) -> str:
    """Collapse blanks and cut. Only the beginning of a very long text is looked at."""
    return " ".join(text[: 8 * max_chars].split())[:max_chars]


def normalised(text: str) -> str:
    """Remove accents and case and collapse blanks; markup is already gone.

    Only marks that are accents go: the vowel signs of Indic and Semitic scripts carry meaning.
    """
    if not text.isascii():
        text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    if text.isascii():
        return b" ".join(text.encode("ascii").lower().split()).decode("ascii")
    return " ".join(text.casefold().split())
