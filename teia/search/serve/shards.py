"""A shard: a part of the pages that can be searched by itself. The interface, and the shard on this machine.

Arguments and results are data (plans, counts, arrays, entries), so that they can be sent to a shard on another
machine. A page is identified by its key, never by its position in the index: there may be a commit between two
requests. The best pages are searched in the newest view of the index, everything else in the one last used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, Protocol, TypeVar, cast

import msgspec
import tantivy
from tantivy import Occur
from tantivy import Query as IndexQuery

from teia.index.entry import IndexEntry, decode_entry
from teia.index.reader import Addresses, DamagedIndex, IndexReader, name_panics
from teia.index.union import UnionReader
from teia.search.query.analysis import folded_of
from teia.search.query.tree import ExactText
from teia.search.query.words import composed, exactly
from teia.search.rank.formula import Candidates, make_candidates
from teia.search.rank.plan import Plan, leaves, matching
from teia.search.rank.statistics import EVERY_PAGE, MAX_COMPLETIONS, CountsDemand, TermCounts
from teia.search.rank.tantivy_query import NO_SCORE, Compiler, every_page
from teia.search.show.spelling import MAX_COMPARED, words_at_distance_1, words_at_distance_2

FACET_VALUES = 20
FACETS = {"host": "host", "lang": "lang", "type": "type", "year": "year"}
"""Field of the index, by facet."""

MAX_LANGUAGES = 64
MAX_CACHED_SEARCHES = 8
"""Number of searches whose page addresses are cached: as many as may run between finding and showing."""

FacetCounts = dict[str, dict[str, int]]
"""Number of pages of each of a facet's most frequent values, by facet."""


class Show(msgspec.Struct, frozen=True, array_like=True):
    """Results that are likely to be shown, from `first` to before `last`, and the data that decides their order.

    They are those of all shards together, unless `is_of_each`.
    """

    first: int
    last: int
    languages: dict[str, float] = {}
    now_s: float = 0.0
    is_grouped: bool = False
    is_of_each: bool = False


@dataclass(frozen=True, slots=True)
class ExactMatches:
    """Keys of pages that contain the exact texts; `pages` are some of them, like those of `Candidates`."""

    keys: Sequence[int]
    pages: Mapping[int, bytes] = field(default_factory=dict)


class Shard(Protocol):
    """Interface of a shard. Any method may raise or take long; then the gateway leaves this shard out."""

    @property
    def name(self) -> str:
        """Name of the shard in messages."""

    @property
    def cells(self) -> int:
        """Number of its cells."""

    @property
    def omitted_cells(self) -> Mapping[str, str]:
        """Reasons why some of its cells cannot be searched, by name."""

    def counts(self, demand: CountsDemand) -> TermCounts:
        """Count its pages."""

    def candidates(self, plan: Plan, limit: int, show: Show | None = None) -> Candidates:
        """Return its best pages by text. A remote shard sends those along that are likely to be shown."""

    def entries(self, keys: Sequence[int]) -> Mapping[int, IndexEntry]:
        """Return pages as they were indexed, without those it does not have."""

    def filter_exact(self, keys: Sequence[int], texts: Sequence[ExactText], show: Show | None = None) -> ExactMatches:
        """Return those of these pages that have all required texts and no excluded one; `show` as above."""

    def facets(self, plan: Plan) -> FacetCounts:
        """Return the facet counts of the matching pages."""

    def leaf_scores(self, plan: Plan, keys: Sequence[int]) -> Mapping[int, Sequence[float]]:
        """Return the part of each leaf of a plan in each page's text score, in the order of `plan.leaves`."""

    def similar_words(self, words: Sequence[str], distance: int) -> Mapping[str, Mapping[str, int]]:
        """Return the words at edit distance 1 or 2 from each word, and their numbers of pages; all folded."""


Call = TypeVar("Call", bound=Callable[..., Any])


def around_damage(method: Call) -> Call:
    """Decorate a method of a local shard: where it meets a damaged file, it runs again without the cells that have one.

    Files are checked only then: reading all of them takes longer than a query.
    """

    @wraps(method)
    def call(shard: LocalShard, *arguments: Any) -> Any:
        try:
            with name_panics():
                return method(shard, *arguments)
        except DamagedIndex:
            if not shard.reader.leave_damaged_out():
                raise
            return method(shard, *arguments)

    return cast("Call", call)


class LocalShard:
    """The cells of this machine; threads may share it.

    With `captured_until_s` it has only the pages whose indexed version was captured up to that second.
    """

    def __init__(self, name: str, reader: IndexReader, captured_until_s: int | None = None) -> None:
        self._name = name
        self._captured_until_s = captured_until_s
        self.reader = reader
        self._schema = reader.schema
        # Replaced as a whole and never changed in place: threads read it without a lock.
        self._recent_searches: tuple[tuple[tantivy.Searcher, list[int], list[tantivy.DocAddress]], ...] = ()

    @property
    def name(self) -> str:
        return self._name

    @property
    def cells(self) -> int:
        return self.reader.cells if isinstance(self.reader, UnionReader) else 1

    @property
    def omitted_cells(self) -> Mapping[str, str]:
        return dict(self.reader.omitted_cells) if isinstance(self.reader, UnionReader) else {}

    @around_damage
    def counts(self, demand: CountsDemand) -> TermCounts:
        searcher = self.reader.last_searcher()
        return TermCounts(
            {term: searcher.doc_freq(*term) for term in demand.terms},
            {prefix: self._completions(searcher, prefix) for prefix in demand.prefixes},
            {word: self._languages(searcher, word) for word in demand.words},
        )

    @staticmethod
    def _completions(searcher: tantivy.Searcher, prefix: str) -> dict[str, int]:
        """Return some more completions than are used, because a word frequent here may be rare elsewhere."""
        return dict(searcher.terms_with_prefix("exact", prefix, limit=4 * MAX_COMPLETIONS))

    def _languages(self, searcher: tantivy.Searcher, word: str) -> dict[str, int]:
        """Return the number of pages of each language that have a word."""
        having = every_page(self._schema)
        if word != EVERY_PAGE:
            having = IndexQuery.term_query(self._schema, "exact", folded_of(word))
        return _aggregate(searcher, having, {"lang": "lang"}, MAX_LANGUAGES)["lang"]

    @around_damage
    def candidates(self, plan: Plan, limit: int, _: Show | None = None) -> Candidates:
        searcher = self.reader.searcher()
        query = self._compiler(searcher).query(plan)
        # Filters without words give no score: the newest pages come first.
        by_date = "date_s" if plan.scored is None else None
        result = searcher.search(query, limit=limit, order_by_field=by_date)
        hits = result.hits
        addresses = [address for _, address in hits]
        columns: Any = [searcher.fast_field_values(field, addresses) for field in _COLUMNS]
        self._cache_addresses(searcher, columns[0], addresses)
        total: int = result.count  # type: ignore[attr-defined]  # it is there; tantivy's stub forgets it
        return make_candidates(total, hits, *columns)

    def _compiler(self, searcher: tantivy.Searcher) -> Compiler:
        elsewhere = self.reader.elsewhere.pages if isinstance(self.reader, UnionReader) else 0
        return Compiler(self._schema, searcher, elsewhere, self._captured_until_s)

    def _cache_addresses(
        self, searcher: tantivy.Searcher, keys: list[int], addresses: list[tantivy.DocAddress]
    ) -> None:
        """Cache the addresses of found pages, because some of them are shown next."""
        # Addresses are valid in the view that gave them only; after a commit they may be other pages'.
        earlier = [each for each in self._recent_searches[: MAX_CACHED_SEARCHES - 1] if each[0] is searcher]
        self._recent_searches = ((searcher, keys, addresses), *earlier)

    def _cached_addresses(self, searcher: tantivy.Searcher, keys: Sequence[int]) -> Addresses:
        """Return the cached addresses of pages."""
        found: dict[int, tantivy.DocAddress] = {}
        wanted = frozenset(keys)
        for view, known, addresses in self._recent_searches:
            if view is searcher and len(found) < len(wanted):
                found |= {key: address for key, address in zip(known, addresses, strict=True) if key in wanted}
        return found

    @around_damage
    def entries(self, keys: Sequence[int]) -> Mapping[int, IndexEntry]:
        searcher = self.reader.last_searcher()
        return self.reader.entries(searcher, keys, self._cached_addresses(searcher, keys))

    @around_damage
    def packed_entries(self, keys: Sequence[int]) -> Mapping[int, tuple[IndexEntry, bytes]]:
        """Like `entries`, each with its bytes as the index holds them."""
        searcher = self.reader.last_searcher()
        found = self.reader.packed_entries(searcher, keys, self._cached_addresses(searcher, keys))
        return {each.entry.key: (each.entry, each.packed) for each in found}

    @around_damage
    def filter_exact(self, keys: Sequence[int], texts: Sequence[ExactText], _: Show | None = None) -> ExactMatches:
        wanted = [ExactSpelling(each.text) for each in texts if not each.excluded]
        unwanted = [ExactSpelling(each.text) for each in texts if each.excluded]
        first_words = [each.octets for each in wanted]
        found: list[int] = []
        searcher = self.reader.last_searcher()
        for octets in self.reader.encoded_entries(searcher, keys, self._cached_addresses(searcher, keys)):
            if not all(word in octets for word in first_words):  # as with most pages, which need not be decoded
                continue
            entry = decode_entry(octets)
            text = searchable_text(entry)
            if all(each.is_in(text) for each in wanted) and not any(each.is_in(text) for each in unwanted):
                found.append(entry.key)
        return ExactMatches(found)

    @around_damage
    def facets(self, plan: Plan) -> FacetCounts:
        searcher = self.reader.last_searcher()
        return _aggregate(searcher, self._compiler(searcher).query(matching(plan)), FACETS, FACET_VALUES)

    @around_damage
    def leaf_scores(self, plan: Plan, keys: Sequence[int]) -> Mapping[int, Sequence[float]]:
        searcher = self.reader.last_searcher()
        compiler = self._compiler(searcher)
        queries = [compiler.leaf(leaf) for leaf in leaves(plan.scored)] if plan.scored is not None else []
        return {key: [self._score(searcher, key, query) for query in queries] for key in keys}

    def _score(self, searcher: tantivy.Searcher, key: int, query: IndexQuery | None) -> float:
        if query is None:
            return 0.0
        # The key selects the page and adds nothing: the hit's score is that of the leaf.
        this = IndexQuery.const_score_query(IndexQuery.term_query(self._schema, "key", key), NO_SCORE)
        hits = searcher.search(IndexQuery.boolean_query([(Occur.Must, this), (Occur.Must, query)]), limit=1).hits
        return float(hits[0][0]) if hits else 0.0

    @around_damage
    def similar_words(self, words: Sequence[str], distance: int) -> Mapping[str, Mapping[str, int]]:
        searcher = self.reader.last_searcher()
        count = partial(searcher.doc_freq, "exact")
        beginning = partial(searcher.terms_with_prefix, "exact", limit=MAX_COMPARED)
        return {
            word: words_at_distance_1(word, count, beginning) if distance == 1 else words_at_distance_2(word, beginning)
            for word in words
        }


class ExactSpelling:
    """A text in its exact spelling. Its first word is searched first, which is fast, and the rest only there."""

    def __init__(self, text: str) -> None:
        self._pattern = exactly(composed(text))
        self._first = next(iter(composed(text).split()), "")
        self.octets = self._first.encode("utf-8")
        """Bytes that an encoded page must contain if the text is in it."""

    def is_in(self, text: str) -> bool:
        at = text.find(self._first)
        while at >= 0:
            # `match` at a place found by `find` is faster than a search with the pattern.
            if self._pattern.match(text, at):
                return True
            at = text.find(self._first, at + 1)
        return False


_COLUMNS = ("key", "text_digest", "simhash", "date_s", "languages")
"""Fields of the index that a candidate has, in its order."""


def searchable_text(entry: IndexEntry) -> str:
    """Return all searchable text of a page, as it is written."""
    return "\n".join((entry.title, *entry.headings, entry.text))


def _aggregate(
    searcher: tantivy.Searcher, query: IndexQuery, fields: Mapping[str, str], most: int
) -> dict[str, dict[str, int]]:
    wanted = {name: {"terms": {"field": field, "size": most}} for name, field in fields.items()}
    found: Mapping[str, Any] = searcher.aggregate(query, wanted)
    return {
        name: {_value_text(bucket["key"]): int(bucket["doc_count"]) for bucket in found[name]["buckets"]}
        for name in fields
    }


def _value_text(value: object) -> str:
    """Return a value as text; numbers come as floats, which a year must not be."""
    return str(int(value)) if isinstance(value, float) else str(value)
