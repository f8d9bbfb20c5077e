"""Text from a small grammar, made once per language, topic and charset, and kept as bytes.

A page picks from these tables by number, so writing one costs look-ups and a join. The number of entries of each table
is a power of two, and all are distinct. So an odd step through a table visits every entry before any is repeated.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from teia.lab.text.english import ENGLISH
from teia.lab.text.portuguese import PORTUGUESE
from teia.lab.text.words import Language
from teia.lab.world.draws import below, pick

LANGUAGES: dict[str, Language] = {language.code: language for language in (PORTUGUESE, ENGLISH)}
PASSAGES = 256
NAMES = 256
TAILS = 256
ITEMS = 64
CODECS = {"utf-8": "utf-8", "iso-8859-1": "latin-1", "windows-1252": "latin-1"}
"""Codecs by charset. The words stay within ISO-8859-1, where it and windows-1252 are the same bytes."""


@dataclass(frozen=True, slots=True)
class Lexicon:
    r"""The tables of one language and topic in one encoding.

    A title is a head and a tail; `head_slugs` and `tail_slugs` are the same in the letters of a path. Passages hold
    \x01 and \x02 where the page's own place and person go.
    """

    language: Language
    topic: str
    codec: str
    passages: tuple[bytes, ...]  # two sentences each
    heads: tuple[bytes, ...]
    tails: tuple[bytes, ...]
    head_slugs: tuple[bytes, ...]
    tail_slugs: tuple[bytes, ...]
    items: tuple[bytes, ...]
    places: tuple[bytes, ...]
    people: tuple[bytes, ...]
    subheadings: tuple[bytes, ...]
    proverbs: tuple[bytes, ...]
    advertisements: tuple[bytes, ...]
    months: tuple[bytes, ...]
    phrases: Mapping[str, bytes]
    sections: tuple[bytes, ...]  # their folders, in the letters of a path
    section_titles: tuple[bytes, ...]
    path_starts: tuple[bytes, ...]  # how the paths of each section begin
    query_starts: tuple[bytes, ...]  # the same on hosts with query URLs
    escaped_query_starts: tuple[bytes, ...]  # and as HTML writes them


def slug(text: str) -> str:
    """Convert `A Rádio de Moimões` to `a-radio-de-moimoes`."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")


def place_name(language: Language, *key: object) -> str:
    """Make up a place."""
    return pick(language.place_starts, "start", *key) + pick(language.place_ends, "end", *key)


def person_name(language: Language, *key: object) -> str:
    """Make up a person."""
    surname = pick(language.surname_starts, "surname", *key) + pick(language.surname_ends, "ending", *key)
    return f"{pick(language.first_names, 'first', *key)} {surname}"


class Lexicons:
    """Makes the lexicons of a world, each once. Equal byte strings are one object in all of them.

    The tables of all languages, topics and encodings together do not fit into a processor's second-level cache, and
    pages pick from them at random, so every byte saved here saves time.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._lexicons: dict[tuple[str, str, str], Lexicon] = {}
        self._texts: dict[bytes, bytes] = {}

    def lexicon(self, code: str, topic: str, charset: str) -> Lexicon:
        """Return the tables of one language and topic; the charset changes only their encoding."""
        key = (code, topic, CODECS[charset])
        if key not in self._lexicons:
            self._lexicons[key] = self._write(*key)
        return self._lexicons[key]

    def _write(self, code: str, topic: str, codec: str) -> Lexicon:
        language = LANGUAGES[code]
        key = (self._seed, code)
        heads, tails = _heads(language, topic), _tails(language, key)
        sections = self._encoded((folder for folder, _ in language.sections), "ascii")
        query = language.phrases["page"].encode() + b"?s=%b%bid="
        passages = _distinct(PASSAGES, lambda n: _passage(language, topic, (*key, topic, "passage", n)))
        items = _distinct(ITEMS, lambda n: _item(language, topic, (*key, topic, "item", n)))
        return Lexicon(
            language=language,
            topic=topic,
            codec=codec,
            passages=self._encoded(passages, codec),
            heads=self._encoded(heads, codec),
            tails=self._encoded(tails, codec),
            head_slugs=self._encoded(map(slug, heads), "ascii"),
            tail_slugs=self._encoded(map(slug, tails), "ascii"),
            items=self._encoded(items, codec),
            places=self._encoded((place_name(language, *key, "place", n) for n in range(NAMES)), codec),
            people=self._encoded((person_name(language, *key, "person", n) for n in range(NAMES)), codec),
            subheadings=self._encoded(language.subheadings, codec),
            proverbs=self._encoded(language.proverbs, codec),
            advertisements=self._encoded(language.advertisements, codec),
            months=self._encoded(language.months, codec),
            phrases={name: text.encode(codec) for name, text in language.phrases.items()},
            sections=sections,
            section_titles=self._encoded((title for _, title in language.sections), codec),
            path_starts=tuple(section + b"/" for section in sections),
            query_starts=tuple(query % (section, b"&") for section in sections),
            escaped_query_starts=tuple(query % (section, b"&amp;") for section in sections),
        )

    def _encoded(self, texts: Iterable[str], codec: str) -> tuple[bytes, ...]:
        return tuple(self._texts.setdefault(each, each) for each in (text.encode(codec) for text in texts))


def _distinct(count: int, make: Callable[[int], str]) -> list[str]:
    found: dict[str, None] = {}
    number = 0
    while len(found) < count:
        found[make(number)] = None
        number += 1
    return list(found)


def _passage(language: Language, topic: str, key: tuple[object, ...]) -> str:
    return f"{_sentence(language, topic, (*key, 1))} {_sentence(language, topic, (*key, 2))}"


def _sentence(language: Language, topic: str, key: tuple[object, ...]) -> str:
    words = language.topics[topic]
    first = below(len(words.deeds), "deed", *key)
    # Never the same deed twice in a sentence: the offset is between 1 and the number of deeds less one.
    second = (first + 1 + below(len(words.deeds) - 1, "deed2", *key)) % len(words.deeds)
    subject = below(len(words.subjects), "subject", *key)
    other = (subject + 1 + below(len(words.subjects) - 1, "other", *key)) % len(words.subjects)
    text = pick(language.frames, "frame", *key).format(
        subject=words.subjects[subject],
        other=words.subjects[other],
        deed=words.deeds[first],
        deed2=words.deeds[second],
        when=pick(language.circumstances, "when", *key),
    )
    return _capital(text)


def _item(language: Language, topic: str, key: tuple[object, ...]) -> str:
    thing = pick(language.topics[topic].things, "thing", *key)
    return f"{thing}, {pick(language.circumstances, 'when', *key)}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _heads(language: Language, topic: str) -> list[str]:
    # 16 things and 16 twists give the 256 heads that eight bits choose from (tests/lab/text/test_prose.py).
    return [f"{thing} {twist}" for thing in language.topics[topic].things for twist in language.twists]


def _tails(language: Language, key: tuple[object, ...]) -> list[str]:
    # The number of tail words must divide TAILS: `urlspace` takes eight bits as an index into this table.
    per_word = TAILS // len(language.tail_words)
    places = _distinct(per_word, lambda n: place_name(language, *key, "tail", n))
    return [f"{word} {place}" for word in language.tail_words for place in places]
