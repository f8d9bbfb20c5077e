"""Languages in which a page can be read: more than one, where paragraphs were never translated.

The parser reports one language of a page; `lang:` and the facets use it. Ranking prefers pages that can be read in the
language of the query, and there a page that is half Portuguese must not pass for English. So function words are counted
in a few places of the text, and a language that has a good share of them counts too. (On 660 pages of documentation,
the parser's language alone lost more than it won: docs/search.md.)

The languages of a page are one number, a bit for each: the index stores it where it can be read quickly for many pages.
"""

from __future__ import annotations

PIECES, PIECE_CHARS = 4, 1_500
READ_CHARS = 65_536
MIN_WORDS = 8
"""Number of function words below which only the parser's language counts."""

GOOD_SHARE = 0.4

CODES = (
    "en", "pt", "es", "fr", "de", "it", "gl", "ca", "nl", "pl", "ru", "uk", "cs", "sv", "da", "no", "fi", "hu", "ro",
    "tr", "el", "ar", "he", "fa", "hi", "bn", "zh", "ja", "ko", "vi", "th", "id",
)  # fmt: skip
"""Languages with a bit of their own, which may never change place."""

OTHER = 1 << 62
"""The bit that all other languages share."""

_BITS = {code: 1 << position for position, code in enumerate(CODES)}

_ENGLISH = "the of and to in is that it with on are this be by from or an was which you not have can"
_PORTUGUESE = "de da dos das que não para com uma um os em na pelo pela mais como ao é são foi ou se você"
"""Frequent words of one language that are rare in the other."""

_FUNCTION_WORDS = {"en": frozenset(_ENGLISH.split()), "pt": frozenset(_PORTUGUESE.split())}
_ALL_FUNCTION_WORDS = frozenset[str]().union(*_FUNCTION_WORDS.values())


def language_bit(language: str) -> int:
    """Return the bit of a language; 0 for an unknown one."""
    return _BITS.get(language, OTHER) if language else 0


def detect_language_bits(text: str, language: str) -> int:
    """Return the bits of the languages in which a text can be read, the parser's among them; 0 if unknown."""
    words = "\n".join(_pieces(text[:READ_CHARS])).lower().split()
    function_words = list(filter(_ALL_FUNCTION_WORDS.__contains__, words))  # a fifth of the words, counted below
    counts = {code: sum(map(known.__contains__, function_words)) for code, known in _FUNCTION_WORDS.items()}
    total = sum(counts.values())
    bits = language_bit(language)
    if total >= MIN_WORDS:
        for code, count in counts.items():
            # Both languages may pass: a half-translated page can be read in both.
            bits |= _BITS[code] if count >= GOOD_SHARE * total else 0
    return bits


def _pieces(text: str) -> list[str]:
    step = len(text) // PIECES
    if step <= PIECE_CHARS:
        return [text]
    return [text[start : start + PIECE_CHARS] for start in range(0, step * PIECES, step)]
