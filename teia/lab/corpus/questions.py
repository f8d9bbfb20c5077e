"""Queries of every kind for a collection, drawn from its words by frequency.

F11's table 26 has four kinds of queries and two of each (`PUBLISHED`, word for word). Measuring the time of a kind
takes more queries. So each kind is drawn many times, half in each language, with words that many, some and few pages
have. The words of a query occur on one page, as in real queries. Further kinds are those that the paper's search did
not have: filters, prefixes, typing errors, pasted text, the last results.

The same corpus and seed give the same queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np

from teia.index.entry import IndexEntry
from teia.lab.corpus.pages import Corpus
from teia.lab.corpus.vocabulary import HIGH, LOW, MEDIUM
from teia.search.query.tree import RESULT_WINDOW

BANDS = {"high": HIGH, "medium": MEDIUM, "low": LOW}
"""Rank ranges of words by frequency."""

EXAMPLES = 400
"""Number of pages that words and texts are taken from."""

PASTED_WORDS = 150


@dataclass(frozen=True, slots=True)
class SampleQuery:
    """One query. `words` describes the frequency of its words; `offset` is the index of the first wanted result."""

    kind: str
    words: str
    text: str
    offset: int = 0
    facets: bool = False


@dataclass(frozen=True, slots=True)
class PublishedQuery:
    """A query of F11's table 26, with the seconds that it took there at first and when repeated."""

    kind: str
    text: str
    first_s: float
    again_s: float


PUBLISHED = (
    PublishedQuery("any word", "café carro bolo", 0.1969, 0.0020),
    PublishedQuery("any word", "cachorro gato", 0.1900, 0.0019),
    PublishedQuery("all words", "+informatica +banco +dados", 0.2037, 0.0021),
    PublishedQuery("all words", "+aparelho +auditivo", 0.3235, 0.0019),
    PublishedQuery("one and not the other", "+navegador -firefox", 0.1052, 0.0019),
    PublishedQuery("one and not the other", "+celular -compra", 0.2185, 0.0019),
    PublishedQuery("phrase", '"sistema de busca"', 0.1076, 0.0021),
    # The slow phrase that F11 wants made small: two frequent words that seldom occur together.
    PublishedQuery("phrase", '"quero café"', 17.86, 0.0012),
)


@dataclass(frozen=True, slots=True)
class QueryTemplate:
    """Template of the queries of a kind. `a`, `b` and `c` are words of one page, `far` one of another."""

    kind: str
    text: str
    bands: tuple[str, ...] = ("high",)
    words: str = ""
    """Description of the words where it is not the band."""

    offset: int = 0
    facets: bool = False


TEMPLATES = (
    QueryTemplate("one word", "{a}", tuple(BANDS)),
    QueryTemplate("any word", "{a} {b} {c}", tuple(BANDS)),
    QueryTemplate("all words", "+{a} +{b}", tuple(BANDS)),
    QueryTemplate("one and not the other", "+{a} -{b}", tuple(BANDS)),
    QueryTemplate("phrase", '"{a} {far}"', words="high, seldom together"),
    QueryTemplate("lang:", "{a} {b} lang:{language}", tuple(BANDS)),
    QueryTemplate("date", "{a} {b} after:2005 before:2015", tuple(BANDS)),
    QueryTemplate("site:", "{a} {b} site:{host}"),
    QueryTemplate("site: alone", "site:{host}", words="none"),
    QueryTemplate("title:", "{a} title:{title}"),
    QueryTemplate("prefix", "{beginning}*"),
    QueryTemplate("either, grouped", "({a} OR {b}) AND {c}"),
    QueryTemplate("last results", "{a} {b} {c}", offset=RESULT_WINDOW - 10),
    QueryTemplate("with facets", "{a} {b}", facets=True),
    QueryTemplate("spelt exactly", '="{capital}"', ("medium",)),
    QueryTemplate("misspelt", "{slip}", ("medium",)),
    QueryTemplate("nothing found", "+{a} +{far}", ("low",)),
)


@dataclass(frozen=True, slots=True)
class SamplePage:
    """A page that words are taken from: those of each band, each once."""

    entry: IndexEntry
    words: dict[str, list[str]]


class QuerySampler:
    """Draws queries for one corpus."""

    def __init__(self, corpus: Corpus, seed: int = 1) -> None:
        self._random = np.random.default_rng((corpus.seed, seed, 26))
        ranks = {
            code: {word: rank for rank, word in enumerate(known.words)} for code, known in corpus.vocabularies.items()
        }
        numbers = self._random.integers(0, corpus.pages, EXAMPLES).tolist()
        entries = [corpus.indexable(number).entry for number in numbers]
        examples = [SamplePage(entry, _by_band(entry, ranks[entry.language])) for entry in entries]
        self._examples = {code: [each for each in examples if each.entry.language == code] for code in ranks}

    def sample(self, each: int) -> list[SampleQuery]:
        """Draw `each` queries of every kind, in random order, because users do not send all phrases first."""
        kinds = [
            *(self._from_template(template, band) for template in TEMPLATES for band in template.bands),
            self._quotations("as written, frequent", 3, of_grammar=True),
            self._quotations("as written, rare", 3, of_grammar=False),
            self._quotations("as written, long", 8, of_grammar=True),
            self._pasted_texts(),
        ]
        found = [query for kind in kinds for query in islice(kind, each)]
        return [found[index] for index in self._random.permutation(len(found)).tolist()]

    def _from_template(self, template: QueryTemplate, band: str) -> Iterator[SampleQuery]:
        """Yield queries of a template without end, alternating between languages."""
        for language in cycle(sorted(self._examples)):
            example, other = (self._example(language, band) for _ in range(2))
            a, b, c = self._random.choice(example.words[band], 3, replace=False).tolist()
            text = template.text.format(
                a=a,
                b=b,
                c=c,
                far=next((word for word in other.words[band] if word not in (a, b, c)), c),
                beginning=a[:4],
                capital=a.capitalize(),
                slip=_misspelt(a),
                language=language,
                host=example.entry.host,
                title=example.entry.title.split()[-1],
            )
            yield SampleQuery(template.kind, template.words or band, text, template.offset, template.facets)

    def _quotations(self, words: str, count: int, *, of_grammar: bool) -> Iterator[SampleQuery]:
        """Yield quotations of consecutive words: from the lab's own sentences, which recur, or from the rest."""
        for language in cycle(sorted(self._examples)):
            text = self._passage(language, count, of_grammar=of_grammar)
            yield SampleQuery("phrase", words, f'"{text}"')

    def _pasted_texts(self) -> Iterator[SampleQuery]:
        for language in cycle(sorted(self._examples)):
            yield SampleQuery("pasted text", f"{PASTED_WORDS} words", self._passage(language, PASTED_WORDS))

    def _passage(self, language: str, count: int, *, of_grammar: bool = False) -> str:
        while True:
            paragraphs = self._pick(self._examples[language]).entry.text.split("\n")
            # A page begins with one to three paragraphs of the lab's grammar, and ends with a line that has a number.
            part = paragraphs[0] if of_grammar else " ".join(paragraphs[3:-1])
            words = part.replace(".", "").replace(",", "").split()
            if len(words) >= count:
                start = int(self._random.integers(len(words) - count + 1))
                return " ".join(words[start : start + count])

    def _example(self, language: str, band: str) -> SamplePage:
        """Pick a page with enough words of a band."""
        # Three, because a template may need three different words.
        return self._pick([each for each in self._examples[language] if len(each.words[band]) >= 3])

    def _pick(self, examples: list[SamplePage]) -> SamplePage:
        return examples[int(self._random.integers(len(examples)))]


def _by_band(entry: IndexEntry, ranks: dict[str, int]) -> dict[str, list[str]]:
    words = dict.fromkeys(entry.text.lower().replace(".", " ").replace(",", " ").split())
    known = [(ranks[word], word) for word in words if word in ranks and word.isalpha()]
    return {band: [word for rank, word in known if low <= rank < high] for band, (low, high) in BANDS.items()}


def _misspelt(word: str) -> str:
    """Misspell a word: swap two letters in the middle; if they are the same, leave one out."""
    middle = len(word) // 2
    one, other = word[middle - 1], word[middle]
    return f"{word[: middle - 1]}{other}{'' if one == other else one}{word[middle + 1 :]}"


def list_kinds(queries: list[SampleQuery]) -> list[tuple[str, str]]:
    """Return every kind with the description of its words, in the order of `TEMPLATES`, frequent words first."""
    kind_order = {template.kind: index for index, template in enumerate(TEMPLATES)}
    band_order = {band: index for index, band in enumerate(BANDS)}
    found = {(query.kind, query.words) for query in queries}
    return sorted(
        found, key=lambda each: (kind_order.get(each[0], len(TEMPLATES)), band_order.get(each[1], len(BANDS)), each)
    )
