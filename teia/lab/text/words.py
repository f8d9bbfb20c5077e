r"""The structure of a language's vocabulary, by topic; `portuguese` and `english` fill it, `prose` makes sentences.

Every subject is singular and every deed is a verb phrase in the third person, so that any subject of a topic fits any
of its deeds. Only characters of ISO-8859-1 appear, and none that HTML would escape. \x01 stands for a place, \x02 for a
person; both are made up per page, so that every page has words that few others have.
"""

from __future__ import annotations

from dataclasses import dataclass

TOPICS = ("town", "science", "sport", "food", "travel", "computing")


@dataclass(frozen=True, slots=True)
class TopicWords:
    """The vocabulary of one topic. `things` begin titles, `subjects` and `deeds` make sentences."""

    things: tuple[str, ...]
    subjects: tuple[str, ...]
    deeds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Language:
    """The vocabulary of one language, with that of its topics."""

    code: str
    topics: dict[str, TopicWords]
    # `{when}` of a frame; a frame is a sentence with places for a subject, deeds and a circumstance.
    circumstances: tuple[str, ...]
    frames: tuple[str, ...]
    # A title is a thing and a twist (its head), then a tail word and a place (its tail).
    twists: tuple[str, ...]
    tail_words: tuple[str, ...]
    subheadings: tuple[str, ...]
    proverbs: tuple[str, ...]
    advertisements: tuple[str, ...]
    # A place, and a surname, is made of a start and an end, each drawn by itself.
    place_starts: tuple[str, ...]
    place_ends: tuple[str, ...]
    first_names: tuple[str, ...]
    surname_starts: tuple[str, ...]
    surname_ends: tuple[str, ...]
    # (part of a host name, word in the site's title)
    site_kinds: tuple[tuple[str, str], ...]
    subdomains: tuple[str, ...]
    # (folder of a path, title of its first page)
    sections: tuple[tuple[str, str], ...]
    # Fixed texts of pages and paths by name; every language has the same names.
    phrases: dict[str, str]
    months: tuple[str, ...]


def lines(text: str) -> tuple[str, ...]:
    """Split a text into lines."""
    return tuple(line.strip() for line in text.strip().splitlines())


def commas(text: str) -> tuple[str, ...]:
    """Split a text at commas."""
    return tuple(word.strip() for word in text.split(","))
