"""Spelling suggestions (did you mean): existing words of similar spelling, offered and never searched by themselves.

An edit changes, drops, adds or swaps letters: distance 1 is one such edit, distance 2 two. All words at distance 1,
a few hundred, can be generated from a word and looked up. There are fewer where no word has the same beginning,
because a later edit cannot fix that. Words at distance 2 are searched among those of the same beginning, because
typing errors at the beginning are rare. All words with the same two letters would be too many, so they have three
in common, or two and an edit at the third.

Distance 2 takes longest, and is for words that no page has, not even nearly so. That is known only when all shards
have answered, so the two are two requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

MIN_CHARS, MAX_CHARS = 3, 24
"""Shorter words are near to everything; longer ones are rare enough to be copied."""

FAR_MIN_CHARS = 5
"""Least length for distance 2; a shorter word at distance 2 is another word."""

SAME_BEGINNING = 3
SURE_BEGINNING = 2
MAX_COMPARED = 2_000
"""Greatest number of words of the same beginning that are compared, the most frequent."""

MAX_SIMILAR = 10

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
