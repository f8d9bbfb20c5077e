r"""What the words of a language are, by topic. `portuguese` and `english` hold them; `prose` makes sentences of them.

Every subject is singular and every deed is a verb phrase in the third person, so that any subject of a topic goes with
any of its deeds. Only signs of ISO-8859-1 appear, and none that HTML would escape. \x01 stands for a place, \x02 for a
person; both are made up per page, so that every page has words that few others have.
"""

from __future__ import annotations

from dataclasses import dataclass

TOPICS = ("town", "science", "sport", "food", "travel", "computing")


@dataclass(frozen=True, slots=True)
class Topic:
    """What one topic talks about. `things` begin titles, `subjects` and `deeds` make sentences."""

    things: tuple[str, ...]
    subjects: tuple[str, ...]
    deeds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Language:
    """Everything of one language that is not of a topic."""

    code: str
    topics: dict[str, Topic]
    circumstances: tuple[str, ...]
    frames: tuple[str, ...]
    twists: tuple[str, ...]
    tail_words: tuple[str, ...]
    subheadings: tuple[str, ...]
    proverbs: tuple[str, ...]
    advertisements: tuple[str, ...]
    place_starts: tuple[str, ...]
    place_ends: tuple[str, ...]
    first_names: tuple[str, ...]
    surname_starts: tuple[str, ...]
    surname_ends: tuple[str, ...]
    site_kinds: tuple[tuple[str, str], ...]
    subdomains: tuple[str, ...]
    sections: tuple[tuple[str, str], ...]
    phrases: dict[str, str]
    months: tuple[str, ...]


def lines(text: str) -> tuple[str, ...]:
    """One item a line."""
    return tuple(line.strip() for line in text.strip().splitlines())


def commas(text: str) -> tuple[str, ...]:
    """Items between commas."""
    return tuple(word.strip() for word in text.split(","))
