"""Spelling: existing words that a misspelt word may mean, and how likely each is.

An edit changes, drops, adds or swaps letters: distance 1 is one such edit, distance 2 two. All words at distance 1,
a few hundred, can be generated from a word and looked up. There are fewer where no word has the same beginning,
because a later edit cannot fix that. Words at distance 2 are searched among those of the same beginning, because
typing errors at the beginning are rare. All words with the same two letters would be too many, so they have three
in common, or two and an edit at the third.

Distance 2 takes longest, and is for words that no page has, not even nearly so. That is known only when all shards
have answered, so the two are two requests.

A word is the more likely, the more pages have it and the more usual the slip is (`slip_cost`): letters that change
places and a letter that is doubled, or not, are more usual than one letter for another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from string import ascii_lowercase

MIN_CHARS, MAX_CHARS = 4, 24
"""Shorter words are near to everything; longer ones are rare enough to be copied."""

FAR_MIN_CHARS = 5
"""Least length for distance 2; a shorter word at distance 2 is another word."""

SAME_BEGINNING = 3
SURE_BEGINNING = 2
MAX_COMPARED = 2_000
"""Greatest number of words of the same beginning that are compared, the most frequent."""

MAX_SIMILAR = 10

LOST, ADDED, REPLACED, SWAPPED = 0.8, 0.9, 1.2, 0.6
"""Costs of slips: a letter left out, one too many, one for another, two that change places."""

DOUBLED, VOWEL, AT_START = 0.4, 0.7, 0.7
"""Costs of a letter that should be doubled or should not, of a vowel for a vowel; added cost at the first letter."""

FREQUENCY_WORTH = 2.5
"""Cost that weighs as much as pages that are more numerous by a factor of e to this power."""

_VOWELS = frozenset("aeiouy")
_ENDINGS = frozenset(
    {
        "", "s", "es", "d", "ed", "r", "er", "rs", "ers", "ing", "ings", "ly", "y", "ies", "ied", "e", "n", "en", "a",
        "o", "as", "os", "m", "am", "em", "ns", "ao", "oes", "mente", "al", "ally",
    }
)  # fmt: skip
"""Ends of words in which forms of one word differ; Portuguese ones without accents."""

Count = Callable[[str], int]
Beginning = Callable[[str], Sequence[tuple[str, int]]]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Another spelling of a query's word; `query` is the whole query with it, `pages` its number of pages."""

    word: str
    instead: str
    pages: int
    query: str


def words_at_distance_1(word: str, count: Count, beginning: Beginning) -> dict[str, int]:
    """Return words at distance 1 with their numbers of pages, the most frequent first; then the word itself."""
    if not may_be_misspelt(word):
        return {}
    # The longest beginning that some word has: an error must be within it or right behind it.
    known = next((size for size in range(len(word), SAME_BEGINNING, -1) if beginning(word[:size])), SAME_BEGINNING)
    near = _most_frequent((other, pages) for other in edits(word, known) if (pages := count(other)))
    return near | ({word: pages} if (pages := count(word)) else {})


def words_at_distance_2(word: str, beginning: Beginning) -> dict[str, int]:
    """Return words at distance 2, for a word for which `words_at_distance_1` finds nothing on any shard."""
    if not may_be_misspelt(word, FAR_MIN_CHARS):
        return {}
    return _most_frequent(
        _filter_at_distance_2(word, (each for start in _beginnings(word) for each in beginning(start)))
    )


def most_likely(typed: str, others: Mapping[str, int]) -> tuple[str, int] | None:
    """Return the word that was most likely meant, by its number of pages and by the slip; None if there is none."""

    def cost(each: tuple[str, int]) -> float:
        return FREQUENCY_WORTH * slip_cost(typed, each[0]) - log(max(1, each[1]))

    return min(others.items(), key=lambda each: (cost(each), each[0]), default=None)


def slip_cost(typed: str, meant: str) -> float:
    """Return the cost of the cheapest slips that make one word of another."""
    # The usual table of edit distances with swaps, two rows back, with costs instead of ones.
    before: list[float] = []
    row = [0.0]
    for at, letter in enumerate(meant):
        row.append(row[-1] + _lost(meant, at, letter))
    for at, letter in enumerate(typed):
        last, row = row, [row[0] + _added(typed, at, letter)]
        for place, wanted in enumerate(meant):
            is_start = AT_START if at == 0 or place == 0 else 0.0
            swap = VOWEL if letter in _VOWELS and wanted in _VOWELS else REPLACED
            best = min(
                last[place] + (0.0 if letter == wanted else swap + is_start),
                row[place] + _lost(meant, place, wanted),
                last[place + 1] + _added(typed, at, letter),
            )
            if at and place and letter == meant[place - 1] and typed[at - 1] == wanted:
                best = min(best, before[place - 1] + SWAPPED + (AT_START if at == 1 or place == 1 else 0.0))
            row.append(best)
        before = last
    return row[-1]


def _lost(word: str, at: int, letter: str) -> float:
    return DOUBLED if at and word[at - 1] == letter else LOST + (0.0 if at else AT_START)


def _added(word: str, at: int, letter: str) -> float:
    return DOUBLED if at and word[at - 1] == letter else ADDED + (0.0 if at else AT_START)


def is_other_form(one: str, other: str) -> bool:
    """Tell whether two words of one stem differ only in their endings: both are spelt well."""
    same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[same:] in _ENDINGS and other[same:] in _ENDINGS


def may_be_misspelt(word: str, least_chars: int = MIN_CHARS) -> bool:
    """Tell whether other spellings of a word are searched at all."""
    return least_chars <= len(word) <= MAX_CHARS and word.isalpha()


def _most_frequent(words: Iterable[tuple[str, int]]) -> dict[str, int]:
    return dict(sorted(words, key=lambda each: (-each[1], each[0]))[:MAX_SIMILAR])


def _beginnings(word: str) -> list[str]:
    """Return the beginnings of the words at distance 2 that are compared; none is a prefix of another."""
    sure, same = word[:SURE_BEGINNING], word[:SAME_BEGINNING]
    edited = {each[: SAME_BEGINNING + 1] for each in edits(word[: SAME_BEGINNING + 2])}
    return [same, *sorted(each for each in edited if each.startswith(sure) and not each.startswith(same))]


def edits(word: str, first: int | None = None) -> set[str]:
    """Return every text at distance 1, in the letters that folding leaves of European languages.

    With `first`, only texts that differ within so many letters.
    """
    splits = [(word[:at], word[at:]) for at in range((len(word) if first is None else first) + 1)]
    found = {left + right[1:] for left, right in splits if right}
    found |= {left + right[1] + right[0] + right[2:] for left, right in splits if len(right) > 1}
    found |= {left + letter + right[1:] for left, right in splits if right for letter in ascii_lowercase}
    found |= {left + letter + right for left, right in splits for letter in ascii_lowercase}
    return found - {word, ""}


def _filter_at_distance_2(word: str, words: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    from rapidfuzz.distance import OSA  # takes longer to import than most searches take

    letters = set(word)
    for other, pages in words:
        # Two edits change at most four letters of the set: cheap tests before the distance.
        if (
            abs(len(other) - len(word)) <= 2
            and len(letters ^ set(other)) <= 4
            and OSA.distance(word, other, score_cutoff=2) == 2
        ):
            yield other, pages
