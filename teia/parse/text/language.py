"""The language of a text (T10's scope by language): detected if it shows one, otherwise as declared.

The detector compares letters with those of 54 languages. It takes code, tables and lists of names for Latin or Maltese,
and Portuguese for Galician. So, unless it confirms the declared language, the small words of the whole page are counted
first: code has none, and *não* is in no other language. Decision 64 has the reasons.
"""

from __future__ import annotations

import re
from collections import Counter

from resiliparse.parse.lang import detect_fast

ENOUGH_CHARS = 400
"""Shorter texts are mostly names and menu words; on 400 characters of prose it was right six times of seven."""

SAMPLE_CHARS = 2_000
CONFIRMING_CHARS = 1_000
"""Part of the sample used to confirm a declared language; time grows with length, and most declarations are right."""

SURE_RANK = 900
"""Out-of-place rank above which the detector is not trusted; running text has 250 to 550, chance above 1,200."""

CLOSE_RESULTS = 3
"""A declared language is accepted if it is among so many best results: Galician and Portuguese are similar."""

_LATIN = [
    "af", "az", "br", "ca", "cs", "cy", "da", "de", "en", "eo", "es", "et", "eu", "fi", "fo", "fr", "fy", "ga", "gd",
    "gl", "ha", "hr", "hu", "id", "io", "is", "it", "jv", "ku", "la", "lb", "lt", "lv", "mg", "mt", "nl", "no", "pl",
    "pt", "rm", "ro", "sc", "sk", "sl", "so", "sq", "sv", "sw", "tk", "tl", "tr", "uz", "vi", "vo",
]  # fmt: skip
"""The detector's languages that are written in Latin letters."""

_COMMON = ["de", "en", "es", "fr", "id", "it", "nl", "pl", "pt", "sv", "tr", "vi"]
"""Most pages in Latin letters are in one of these, and most that declare a language are in it."""

_TELLING_WORDS = {
    "ca": "amb aquest aquesta dels els més quan seva són també",
    "de": "aber auf dem eine für ist mit nicht oder sich sind von werden wird zu",
    "en": "and are have that the when which will you",
    "es": "así cuando desde fue hay las los muy pero según sin también y",
    "fr": "aux avec cette dans des est et pour sont une vous être",
    "gl": "ata cando coa dunha moi nunha pola polo tamén unha xa",
    "it": "alla anche che dei della delle di gli nel più questo sono",
    "nl": "aan bij deze door een het naar niet ook op van voor wordt zijn",
    "pt": "aos até com em então isso já não pela pelo seu sua são também uma você à às",
}
"""Frequent small words of one language that are no words of the others: 6 to 9 in a hundred words, in English 12.

Words of programming languages, such as *for* and *with*, are left out.
"""

_LANGUAGE_OF_WORD = {word: language for language, words in _TELLING_WORDS.items() for word in words.split()}
TELLING_CHARS, TELLING_PIECES = 1_500, 4
MIN_TELLING = 4
"""Number of telling words from which they decide, if no other language has half as many."""

_TAG = re.compile(r"\s*([A-Za-z]{2,3})(?:[-_,;\s]|\Z)")


def primary_subtag(tag: str) -> str:
    """Return `pt` for `pt-BR`, `PT_br` and `pt, en`; empty for a text that is no language tag."""
    match = _TAG.match(tag)
    return match.group(1).lower() if match else ""


def language_of(text: str, declared: str = "") -> str:
    """Return an ISO 639 code, or an empty text if the language is unknown."""
    declared_language = primary_subtag(declared)
    if len(text) < ENOUGH_CHARS:
        return declared_language or _language_of_words(_count_telling_words(text))
    # The beginning of a page is its menu; a quarter into it there are sentences.
    start = max(0, min(len(text) // 4, len(text) - SAMPLE_CHARS))
    sample = text[start : start + SAMPLE_CHARS]
    candidates = _candidates(sample)
    if (
        declared_language
        and candidates is _LATIN
        and _best(sample[:CONFIRMING_CHARS], list({declared_language, *_COMMON}))[0][:1] == [declared_language]
    ):
        return declared_language
    counts = _count_telling_words(text) if candidates is _LATIN else Counter[str]()
    if shown := _language_of_words(counts, declared_language):
        return shown
    results, rank = _best(sample, candidates)
    # Authors distinguish similar languages better than the detector does.
    if not results or declared_language in results:
        return declared_language
    if results[0] == "unknown" or rank > SURE_RANK:
        return declared_language
    # A language that has fewer of its own small words than another is not that of the text.
    best = max((results[0], *counts), key=counts.__getitem__)
    return best if counts[best] >= MIN_TELLING else results[0]


def _count_telling_words(text: str) -> Counter[str]:
    """Return the number of telling words of each language, in pieces from all over a text."""
    step = max(len(text) // TELLING_PIECES, TELLING_CHARS)
    pieces = (text[start : start + TELLING_CHARS] for start in range(0, step * TELLING_PIECES, step))
    words = (word for piece in pieces for word in piece.lower().split())
    counts = Counter(map(_LANGUAGE_OF_WORD.__getitem__, filter(_LANGUAGE_OF_WORD.__contains__, words)))
    counts["en"] = (counts["en"] + 1) // 2  # *the* and *and* alone are as frequent as all words of another language
    return counts


def _language_of_words(counts: Counter[str], declared: str = "") -> str:
    """Return the language that telling words show; empty if they do not.

    For the declared language half as many suffice as any other has: a page may quote English, or be half translated.
    """
    (best, count), (_, second) = [*counts.most_common(2), ("", 0), ("", 0)][:2]
    if counts[declared] and 2 * counts[declared] >= count:
        return declared
    return best if count >= MIN_TELLING and count >= 2 * second else ""


def _best(sample: str, candidates: list[str] | None) -> tuple[list[str], int]:
    """Return the best languages for a sample, and the rank of the first: smaller is surer."""
    results: list[tuple[str, int]] = detect_fast(sample, n_results=CLOSE_RESULTS, langs=candidates)
    return [language for language, _ in results], results[0][1] if results else 0


def _candidates(sample: str) -> list[str] | None:
    """Return the Latin-letter languages for a text in Latin letters: each profile costs a walk through cold memory."""
    latin = len(sample.encode("latin-1", "ignore"))
    return _LATIN if 4 * latin > 3 * len(sample) else None
