"""A vocabulary with a realistic frequency distribution, which a grammar of some hundred words cannot provide.

The lab's sentences are made of few words, so every one of them is on thousands of pages. In a collection of real pages
there are a few words that all pages have and hundreds of thousands that hardly any has (Zipf's law, in Mandelbrot's
form: the word of rank r has a share of 1 / (r + 2.7)). A vocabulary has, in this order: function words, the lab's own
words of all topics, and made-up ones with the endings of the language, so that stemming applies to them. F11's words
have realistic ranks for Portuguese. Some entries are several words, because in real text some words occur together.

The same seed gives the same words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from math import log

import numpy as np
from numpy.typing import NDArray

from teia.lab.text.prose import LANGUAGES
from teia.lab.text.words import Language

SIZE = 300_000
"""Entries of a language; pages add words of their own.

RCV1's law of growth, 44 x tokens ^ 0.49, gives half a million for 600,000 pages in all languages.
"""

SHIFT = 2.7
"""Mandelbrot's constant: the first few words are less frequent than under Zipf's law alone."""

HIGH, MEDIUM, LOW = (100, 400), (1_500, 6_000), (20_000, 120_000)
"""Ranks of words that, with our lengths, one page in twelve, one in two hundred and one in five thousand has."""

_FUNCTION_WORDS = {
    "pt": """
        de a o que e do da em um para com não uma os no se na por mais as dos como mas ao ele das à seu sua ou quando
        muito nos já eu também só pelo pela até isso ela entre depois sem mesmo aos seus quem nas me esse eles você essa
        num nem suas meu às minha numa pelos elas qual nós lhe deles este dela pode ser são foi está tem há era ter
    """,
    "en": """
        the of and to a in is it that was for on are with as they at be this from have or by one had not but what all
        were when we there can an your which their said if do will each about how up out them then she many some so
        these would other into has more her two him could no than first been its who now my over did only may after
    """,
}
_SYLLABLES = {
    "pt": "ba ca da fa ga la ma na pa ra sa ta va be ce de fe ge le me ne pe re se te ve bi di fi li mi ni pi ri si ti"
    " vi bo co do fo lo mo no po ro so to vo bu cu du lu mu nu ru su tu bra cre dri flo gra pla tre",
    "en": "ba den fil gor han kel lan mer nor pal ras sel tan vor wen bri cro dal fen gan hol jas kin lor mon nel pos"
    " rin ster tol van wis al be co do fa gi ho ka lo mi no pe ri sa ti vu bar cal dor fer gul hem lin mar nes",
}
_ENDINGS = {
    "pt": "o os a as ar ando ado ção ções mente eiro ismo",
    "en": "e s ed ing er ion ions ness ly ment ist al",
}
_FIXED_RANKS = {
    "pt": {
        90: "sistema", 110: "dados", 160: "quero", 180: "banco", 220: "compra", 250: "carro", 350: "busca",
        400: "informática", 450: "banco de dados", 500: "celular", 600: "café", 700: "sistema de busca",
        800: "aparelho", 1_200: "cachorro", 1_300: "gato", 1_500: "bolo", 2_500: "navegador", 3_000: "firefox",
        5_000: "auditivo", 6_000: "aparelho auditivo", 100_000: "quero café",
    },
    "en": {120: "data", 300: "search engine", 500: "web page", 900: "file system"},
}  # fmt: skip
"""F11's words and a few companions by rank. F11's slow phrase is two frequent words that seldom occur together."""

STEMS_AT_ONCE = 20_000
NUMBER_EVERY = 12
"""One made-up stem in this many comes with a number, because real pages are full of numbers."""

_LETTERS = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of one language, the most frequent first."""

    language: str
    words: tuple[str, ...]

    def ranks(self, units: NDArray[np.float64]) -> NDArray[np.int64]:
        """Turn numbers in [0, 1) into ranks from 0 on, by the law of Zipf and Mandelbrot."""
        return zipf_ranks(units, len(self.words))


def zipf_ranks(units: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """Turn numbers in [0, 1) into ranks below `size`: the share of rank r is proportional to 1 / (r + SHIFT)."""
    # The inverse of the distribution function: the integral of 1 / (r + SHIFT) is a logarithm.
    found = np.exp(units * log((size + SHIFT) / SHIFT))
    return np.minimum((found - 1) * SHIFT, size - 1).astype(np.int64)


@lru_cache(maxsize=4)
def make_vocabulary(language: str, seed: int, size: int = SIZE) -> Vocabulary:
    """Make the words of a language; kept, because the maker of an index and those who search it need the same."""
    rest = _distinct([*_FUNCTION_WORDS[language].split(), *_lab_words(LANGUAGES[language])])
    fixed = {rank: word for rank, word in _FIXED_RANKS[language].items() if rank < size}
    used = {*rest, *fixed.values()}
    made_up = _make_words(language, seed, used)
    others = iter(word for word in rest if word not in fixed.values())
    # F11's words have fixed ranks; the other ranks are filled in order, from frequent to made-up words.
    words = [fixed.get(rank) or next(others, None) or next(made_up) for rank in range(size)]
    return Vocabulary(language, tuple(words))


def _lab_words(language: Language) -> Iterator[str]:
    """Yield every word of the lab's grammar, the shortest texts first, so that topics take turns."""
    texts = [text for topic in language.topics.values() for text in (*topic.things, *topic.subjects, *topic.deeds)]
    texts += [*language.circumstances, *language.twists, *language.subheadings, *language.proverbs]
    texts += language.advertisements
    for text in sorted(texts, key=len):
        yield from (word for word in _LETTERS.findall(text.lower()) if len(word) > 2)


def _distinct(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))


def _make_words(language: str, seed: int, used: set[str]) -> Iterator[str]:
    """Yield made-up words without end; each stem with two endings, and sometimes a number."""
    # The second number, 0 or 1, gives each language its own stream.
    random = np.random.default_rng((seed, language == "pt"))
    syllables, endings = _SYLLABLES[language].split(), _ENDINGS[language].split()
    for batch in count():
        parts = random.integers(0, len(syllables), (STEMS_AT_ONCE, 4)).tolist()
        # Later turns use one syllable more, because short stems run out.
        lengths = random.integers(2, 4, STEMS_AT_ONCE) + (batch > 0)
        endings_of = random.integers(0, len(endings), (STEMS_AT_ONCE, 2)).tolist()
        numbers = random.integers(0, 100_000 * (1 + batch), STEMS_AT_ONCE).tolist()
        for part, length, ending, number in zip(parts, lengths.tolist(), endings_of, numbers, strict=True):
            stem = "".join(syllables[each] for each in part[:length])
            words = [stem + endings[each] for each in ending]
            for word in (*words, str(number)) if number % NUMBER_EVERY == 0 else words:
                if word not in used:
                    used.add(word)
                    yield word
