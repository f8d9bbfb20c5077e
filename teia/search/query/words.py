"""Word boundaries as in the index, and text that must match in its exact spelling.

A word is a run of characters that have Unicode's property Alphabetic or are numbers, as in tantivy's simple
tokenizer (test_words.py compares the two). `str.isalnum` knows letters and numbers but not the vowel signs that are
part of words in Hindi, Thai or Arabic; those are listed here. Everything else separates: `e-mail` is two words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

MAX_WORD_BYTES = 39
"""Greatest length of a word in the index, in UTF-8; longer ones are tokens and checksums."""

MAX_MARKS = 30
"""Greatest number of accents kept on one letter. No script needs more, and Python sorts them in quadratic time."""

_ALPHABETIC_MARKS = """
    345 363-36F 5B0-5BD 5BF 5C1-5C2 5C4-5C5 5C7 610-61A 64B-657 659-65F 670 6D6-6DC 6E1-6E8 6ED 711-73F 7A6-7B0
    816-817 81B-82C 8D4-8DF 8E3-8E9 8F0-93B 93E-94C 94E-94F 955-963 981-983 9BE-9CC 9D7-9E3 A01-A03 A3E-A4C A51-A75
    A81-A83 ABE-ACC AE2-AE3 AFA-AFC B01-B03 B3E-B4C B56-B63 B82-BCC BD7 C00-C04 C3E-C4C C55-C63 C81-C83 CBE-CCC
    CD5-D03 D3E-D4C D57-D63 D81-D83 DCF-DF3 E31-E3A E4D EB1-EB9 EBB-EBC ECD F71-F83 F8D-FBC 102B-1036 1038 103B-103E
    1056-109D 1712-1713 1732-1733 1752-1773 17B6-17C8 1885-1938 1A17-1A1B 1A55-1A5E 1A61-1A74 1ABF-1AC0 1ACC-1B04
    1B35-1B43 1B80-1BA9 1BAC-1BAD 1BE7-1BF1 1C24-1C36 1DD3-1DF4 24B6-24E9 2DE0-2DFF A674-A67B A69E-A69F A802
    A80B-A827 A880-A8C3 A8C5 A8FF-A92A A947-A952 A980-A983 A9B4-A9BF A9E5-AA4D AA7B-AABE AAEB-AAEF AAF5 ABE3-ABEA
    FB1E 10376-1037A 10A01-10A0F 10D24-10EAC 11000-11045 11073-11074 11080-110B8 110C2 11100-11132 11145-11146
    11180-111BF 111CE-111CF 1122C-11234 11237 1123E 112DF-112E8 11300-11303 1133E-1134C 11357-11363 11435-11441
    11443-11445 114B0-114C1 115AF-115BE 115DC-1163E 11640 116AB-116B5 1171D-1172A 1182C-11838 11930-1193C
    11940-11942 119D1-119DF 119E4-11A0A 11A35-11A3E 11A51-11A97 11C2F-11C3E 11C92-11D41 11D43 11D47-11D96
    11EF3-11EF6 16F4F-16F92 16FF0-16FF1 1BC9E 1E000-1E02A 1E947 1F130-1F149 1F150-1F169 1F170-1F189
"""
"""Marks and circled letters with the property Other_Alphabetic; ranges may include letters and unassigned places."""


def _character_class(ranges: str) -> str:
    pairs = (each.split("-") for each in ranges.split())
    return "[" + "".join(f"{chr(int(pair[0], 16))}-{chr(int(pair[-1], 16))}" for pair in pairs) + "]"


_LETTER = r"[^\W_]"
_SIGN = _character_class(_ALPHABETIC_MARKS)
WORD = re.compile(rf"(?:{_LETTER}|{_SIGN})+")
_NOT_AFTER_A_LETTER = rf"(?<!{_LETTER})(?<!{_SIGN})"
# A combining accent behind a letter belongs to it, though it is no letter itself.
_NOT_BEFORE_A_LETTER = rf"(?!{_LETTER}|{_SIGN}|[\u0300-\u036f])"
_LETTERS_WITHOUT_ACCENTS = str.maketrans(
    {"æ": "ae", "ð": "d", "ø": "o", "þ": "th", "ß": "ss", "đ": "d", "ħ": "h", "ı": "i", "ĳ": "ij", "ł": "l", "ŋ": "n",
     "œ": "oe", "ŧ": "t"}
)  # fmt: skip


def words_of(text: str) -> tuple[str, ...]:
    """Return every word of a text, lower-case, accents kept, including those too long for the index."""
    return tuple(lowered(match.group()) for match in WORD.finditer(text))


def replace_words(text: str, replacements: Mapping[str, str]) -> str:
    """Return a text with other words for some of its words, which are given in lower case."""
    return WORD.sub(lambda match: replacements.get(lowered(match.group()), match.group()), text)


def is_indexed(word: str) -> bool:
    return len(word) <= MAX_WORD_BYTES and len(word.encode("utf-8", "replace")) <= MAX_WORD_BYTES


def lowered(word: str) -> str:
    """Return a word in lower case, one letter for one letter, so that it is still one word.

    The lower case of `İ` is two characters, the second of which would separate; it is left as it is.
    """
    if word.isascii():
        return word.lower()
    return unicodedata.normalize("NFC", "".join(c.lower() if len(c.lower()) == 1 else c for c in word))


def folded(word: str) -> str:
    """Return a word without case and accents, for lookups in our lists and for comparing typed words.

    The index folds by itself and knows more letters; they agree for European languages.
    """
    if word.isascii():
        return word.lower()
    return "".join(map(_folded_letter, lowered(word)))


def _folded_letter(letter: str) -> str:
    bare = letter.translate(_LETTERS_WITHOUT_ACCENTS)
    if bare == letter:
        bare = unicodedata.normalize("NFD", letter)[0]
    return bare if bare.isascii() else letter


def longest_indexed(words: Sequence[str]) -> tuple[str, ...]:
    """Return the longest run of words that are in the index: the searchable part of a phrase."""
    runs = (tuple(run) for indexed, run in groupby(words, is_indexed) if indexed)
    return max(runs, key=len, default=())


def composed(text: str) -> str:
    """Return any text in Unicode's composed form (NFC), in linear time."""
    if text.isascii():
        return text
    # Lone surrogates, as from bytes that were not UTF-8, cannot be stored or sent.
    text = text.encode("utf-8", "replace").decode("utf-8") if not _is_encodable(text) else text
    return unicodedata.normalize("NFC", "".join(_without_heaps(text)))


def _is_encodable(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _without_heaps(text: str) -> Iterator[str]:
    marks = 0
    for char in text:
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks <= MAX_MARKS:
            yield char


def exactly(text: str) -> re.Pattern[str]:
    """Return a pattern for a text in exactly this case, accents and punctuation, for `="…"`.

    `US` is not found in `USA`, and any blanks match any others. It must be searched in composed text.
    """
    text = text.strip()
    spelt = r"\s+".join(map(re.escape, text.split()))
    before = _NOT_AFTER_A_LETTER if WORD.match(text[:1]) else ""
    behind = _NOT_BEFORE_A_LETTER if WORD.match(text[-1:]) else ""
    return re.compile(before + spelt + behind)
