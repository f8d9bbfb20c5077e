"""The syntax tree of a query, and its meaning for an index.

    Query        clauses, exact, filters, expand, notes
    Clauses      must, should, must_not: tuples of nodes. The top of a query, and each parenthesis in it
    node         Word | Prefix | Phrase | Clauses

`parser.parse` makes it from any text. Nothing has to be checked before it is compiled: every limit below holds,
every word is one that the index may hold, no tuple has the same node twice, parentheses nest at most eight deep.

**Clauses** mean what tantivy's boolean query means. Each of `must` matches and scores; none of `must_not` matches;
where `must` is empty at least one of `should` matches, otherwise `should` only scores. `must` and `should` are
never both empty inside of a query: only the top may be (see `Query.is_answerable`).

    imposto renda                 should imposto, renda         any word: alternatives, the more the better (F7)
    +imposto +renda               must imposto, renda           all words; also imposto AND renda
    +navegador -firefox           must …, must_not …            one and not another; also navegador NOT firefox
    "quero café"                  must Phrase                   a quoted phrase is meant, so it is required …
    "quero café" OR "bom dia"     should Phrase, Phrase         … unless OR makes it an alternative
    a AND b OR c                  should Clauses(must a, b), c
    e-mail                        should Phrase(joined)         joined words are neighbours in the index

**Word.** Lower-case and composed (NFC), accents kept, one token of the simple tokenizer: run it through the
analyser of each field. An analyser of a stemmed field may leave nothing (stop words: `de`); then search the `exact`
field alone, which keeps them. `times` is the number of times a plain word was typed; it multiplies the weight, and
is 1 outside of `should`. A word is searched in several fields, stemmed and not, title and all; that sum is one
clause of the word's kind.

**Prefix.** Words of the `exact` field that begin so once folded, the 50 most frequent. **Phrase.** Its words in
this order, next to each other, on `exact`; stop words are words here, and one word is a phrase too: not stemmed. A
joined phrase in `should` at the top is a plain word to the user who typed it: `rewrite.drop_weak_words` may drop it,
and it does not forbid expansion. Pages must be composed before they are indexed, or `e` and an accent are two words
there.

**Before compiling** check `is_answerable`: a query that is not answerable has no results, and its notes say why.
Then call `rewrite.drop_weak_words(query, worth)`, worth being the idf of a node over all cells: it drops question
words, and keeps the 32 best of many. Where `clauses` has neither `must` nor `should`, all pages that pass the filters
match.

**filters** restrict and never score. All kinds must hold; of one kind, any of `any_of` and none of `none_of`.

    site    a name without a dot before it: this host and all below it, so `br` is every host that ends in .br
    host    exactly this host, in canonical form          lang    ISO 639 code, `pt` for pt-BR
    type    a name of `filters.TYPES` or a media type: `filters.media_types` returns its media types
    link    a canonical URL: pages that link to it        title   words separated by blanks: a phrase of the title
    after   `starts_s(after, now_s) <= time`              before  `time < starts_s(before, now_s)`

**exact** (`="…"`): text that must, or with `excluded` must not, be in the stored text exactly as it is spelt. For
each that is not excluded, `ExactText.phrase` is one more `must` where it is not None; then of the first 1,000
results those stay for which `words.exactly(text).search(stored_text)` matches.

**expand**: True, False, or None where the query does not say. Only `is_plain` queries are expanded.

A compiler is one function over nodes and a loop over filters:

    def compiled(node, occur) -> tantivy.Query: ...          # Clauses recurse, leaves search their fields
    def compile(query: Query, index, statistics, now_s: float) -> tantivy.Query: ...
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, time
from typing import TypeAlias, TypeGuard

from teia.lib.message import Message
from teia.search.query.words import longest_indexed, words_of

MAX_CHARS = 65_536
"""Greatest length of a query; only the beginning of a longer text is read."""

MAX_TERMS = 32
"""Greatest number of plain words searched in the index: the best, by their rarity in the index."""

MAX_CANDIDATES = 1_024
"""Greatest number of different plain words from which the best are chosen."""

MAX_CONDITIONS = 32
"""Greatest number of conditions: filters, `+` or `-`, quoted phrases, and each word in parentheses."""

MAX_DEPTH = 8
MAX_PHRASE_WORDS = 16
MAX_PREFIXES = 8
MIN_PREFIX_CHARS = 2
MAX_SPELT = 4
"""Greatest number of texts with signs that are compared as they are spelt."""

MAX_VALUE_CHARS = 2_048
"""Greatest length of a filter's value, as typed and in canonical form."""

RESULT_WINDOW = 1_000
"""Greatest depth of results shown, and number of results checked for exact texts."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word, and the number of times it was typed."""

    text: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class Prefix:
    """Words with a common beginning: `word*`."""

    text: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """Consecutive words: quoted, or joined like `e-mail` and `12:30`; then `typed` is the original text."""

    words: tuple[str, ...]
    joined: bool = False
    typed: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Clauses:
    """Nodes that must, should and must not match."""

    must: tuple[Node, ...] = ()
    should: tuple[Node, ...] = ()
    must_not: tuple[Node, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.must or self.should or self.must_not)


Leaf: TypeAlias = Word | Prefix | Phrase
Node: TypeAlias = Leaf | Clauses


@dataclass(frozen=True, slots=True)
class ExactText:
    """Text that is, or is not, in the page in exactly this spelling."""

    text: str
    excluded: bool = False

    @property
    def phrase(self) -> Phrase | None:
        """The phrase to search in the index first: the same words, without regard to case and accents."""
        words = longest_indexed(words_of(self.text))
        return Phrase(words) if words else None


@dataclass(frozen=True, slots=True)
class Ago:
    """A time that moves with the clock: some hours ago."""

    hours: int


Moment: TypeAlias = date | Ago


def starts_s(moment: Moment, now_s: float) -> float:
    """Return the beginning of a moment, in Unix seconds; a day begins at midnight in UTC."""
    if isinstance(moment, Ago):
        return now_s - moment.hours * 3600.0
    return datetime.combine(moment, time(tzinfo=UTC)).timestamp()


@dataclass(frozen=True, slots=True)
class FilterChoice:
    """Values of one filter: any of these, none of those."""

    any_of: tuple[str, ...] = ()
    none_of: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.any_of or self.none_of)


@dataclass(frozen=True, slots=True)
class Filters:
    """Restrictions of the results that do not score."""

    site: FilterChoice = FilterChoice()
    host: FilterChoice = FilterChoice()
    lang: FilterChoice = FilterChoice()
    type: FilterChoice = FilterChoice()
    link: FilterChoice = FilterChoice()
    title: FilterChoice = FilterChoice()
    after: Moment | None = None
    before: Moment | None = None

    def choices(self) -> Iterator[tuple[str, FilterChoice]]:
        """Yield each filter that has values, by name, in a fixed order."""
        for name in _CHOICES:
            value: FilterChoice = getattr(self, name)
            if value:
                yield name, value

    @property
    def are_positive(self) -> bool:
        """True if the filters select pages without any word: the pages of a site, of a day."""
        # An exclusion alone selects nearly the whole index, so it does not count.
        dated = self.after is not None or self.before is not None
        return dated or any(choice.any_of for _, choice in self.choices())


_CHOICES = tuple(each.name for each in fields(Filters) if isinstance(each.default, FilterChoice))


@dataclass(frozen=True, slots=True)
class Query:
    """A user's query. Two queries are equal if they mean the same; their notes are not compared."""

    clauses: Clauses = Clauses()
    exact: tuple[ExactText, ...] = ()
    filters: Filters = Filters()
    expand: bool | None = None
    notes: tuple[Message, ...] = field(default=(), compare=False)
    spelt: tuple[str, ...] = field(default=(), compare=False)
    """Texts with signs that the index does not have, as they were typed: `c++`, `node.js`, `/etc/fstab`."""

    @property
    def is_answerable(self) -> bool:
        """False if there is nothing to search for, or only exclusions: no results, and a note says so."""
        wanted = self.clauses.must or self.clauses.should or self.filters.are_positive
        return bool(wanted) or any(each.phrase for each in self.exact if not each.excluded)

    @property
    def is_plain(self) -> bool:
        """True for plain words only, perhaps filtered: no `+`, `-`, quotes or `*`. These may be expanded (F7)."""
        simple = not (self.clauses.must or self.clauses.must_not or self.exact)
        return simple and bool(self.clauses.should) and all(map(is_plain, self.clauses.should))


def is_plain(node: Node) -> TypeGuard[Word | Phrase]:
    """Tell whether a node of the top's `should` is a word for the user."""
    return isinstance(node, Word) or (isinstance(node, Phrase) and node.joined)


def times_of(node: Node) -> int:
    """Return how often a node was typed."""
    return node.times if isinstance(node, Word) else 1


def leaves(node: Node) -> Iterator[Leaf]:
    """Yield every leaf below a node, excluded ones too, in the order of the canonical text."""
    if not isinstance(node, Clauses):
        yield node
        return
    for below in (*node.must, *node.must_not, *node.should):
        yield from leaves(below)


def wanted_words(query: Query) -> tuple[str, ...]:
    """Return the words by which a result may be found, each once: for highlighting and spelling suggestions."""
    found = dict.fromkeys(word for leaf in _wanted_leaves(query.clauses) for word in _words_in(leaf))
    for each in query.exact:
        if not each.excluded and each.phrase:
            found |= dict.fromkeys(each.phrase.words)
    return tuple(found)


def _wanted_leaves(clauses: Clauses) -> Iterator[Leaf]:
    for node in (*clauses.must, *clauses.should):
        if isinstance(node, Clauses):
            yield from _wanted_leaves(node)
        else:
            yield node


def _words_in(leaf: Leaf) -> tuple[str, ...]:
    match leaf:
        case Word(text):
            return (text,)
        case Phrase(words):
            return words
        case _:
            return ()
