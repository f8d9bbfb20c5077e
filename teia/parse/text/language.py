"""The language of a text (T10's scope by language): detected if the text is long enough, otherwise as declared."""

from __future__ import annotations

import re

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

_TAG = re.compile(r"\s*([A-Za-z]{2,3})(?:[-_,;\s]|\Z)")


def primary_subtag(tag: str) -> str:
    """Return `pt` for `pt-BR`, `PT_br` and `pt, en`; empty for a text that is no language tag."""
    match = _TAG.match(tag)
    return match.group(1).lower() if match else ""


def language_of(text: str, declared: str = "") -> str:
    """Return an ISO 639 code, or an empty text if the language is unknown."""
    declared_language = primary_subtag(declared)
    if len(text) < ENOUGH_CHARS:
        return declared_language
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
    results, rank = _best(sample, candidates)
    # Authors distinguish similar languages better than the detector does.
    if not results or declared_language in results:
        return declared_language
    return declared_language if results[0] == "unknown" or rank > SURE_RANK else results[0]


def _best(sample: str, candidates: list[str] | None) -> tuple[list[str], int]:
    """Return the best languages for a sample, and the rank of the first: smaller is surer."""
    results: list[tuple[str, int]] = detect_fast(sample, n_results=CLOSE_RESULTS, langs=candidates)
    return [language for language, _ in results], results[0][1] if results else 0


def _candidates(sample: str) -> list[str] | None:
    """Return the Latin-letter languages for a text in Latin letters: each profile costs a walk through cold memory."""
    latin = len(sample.encode("latin-1", "ignore"))
    return _LATIN if 4 * latin > 3 * len(sample) else None
