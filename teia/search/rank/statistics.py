"""Document frequencies of terms over all shards, which make one index of many.

The gateway requests the counts that a query needs and that are not cached, all at once. Counts are cached for some
seconds: in that time a term's share of the pages hardly changes, and one query in two shares its words with
another. The language of a word changes even less.

A shard that does not answer is left out of the sums, as it is left out of the results.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeAlias, TypeVar

from teia.clock import Clock
from teia.index.schema import ROOT
from teia.search.rank.tantivy_query import idf

EXPIRY_S = 5.0
LANGUAGES_EXPIRY_S = 600.0
MAX_CACHED = 100_000
MAX_COMPLETIONS = 50
"""Greatest number of words that `word*` stands for: the most frequent."""

TermKey: TypeAlias = tuple[str, str]
"""(field, text)"""

PAGES: TermKey = ("within", ROOT)
"""The term that every page has."""

EVERY_PAGE = ""
"""The word that stands for pages with any word."""


@dataclass(frozen=True, slots=True)
class CountsDemand:
    """Counts to request: pages with a term; words with a beginning; pages of each language that have a word."""

    terms: tuple[TermKey, ...] = ()
    prefixes: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.terms or self.prefixes or self.words)


@dataclass(slots=True)
class TermCounts:
    """The answer to a demand: of one shard, or the sum over shards."""

    terms: dict[TermKey, int] = field(default_factory=dict)
    prefixes: dict[str, dict[str, int]] = field(default_factory=dict)
    words: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def pages(self) -> int:
        return self.terms.get(PAGES, 0)

    def pages_with(self, of_field: str, text: str) -> int:
        return self.terms.get((of_field, text), 0)

    def idf(self, of_field: str, text: str) -> float:
        """Return the idf of a term; a term that was not counted has that of a term on no page."""
        pages = self.pages
        return idf(min(self.pages_with(of_field, text), pages), pages)

    def completions(self, prefix: str) -> dict[str, int]:
        """Return the most frequent words with this beginning, and their numbers of pages; most frequent first."""
        found = sorted(self.prefixes.get(prefix, {}).items(), key=lambda each: (-each[1], each[0]))
        return dict(found[:MAX_COMPLETIONS])


FetchCounts: TypeAlias = Callable[[CountsDemand], Sequence[TermCounts]]


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class _ExpiringCache(Generic[Key, Value]):
    """Cached answers with their expiry times; the oldest are dropped when there are too many.

    Empty answers are not cached: a word just added to the index would be reported missing.
    """

    def __init__(self, expiry_s: float) -> None:
        self._expiry_s = expiry_s
        self._values: OrderedDict[Key, tuple[float, Value]] = OrderedDict()

    def cached(self, wanted: Iterable[Key], now_s: float) -> dict[Key, Value]:
        entries = ((each, self._values.get(each)) for each in wanted)
        return {each: entry[1] for each, entry in entries if entry is not None and entry[0] > now_s}

    def store(self, values: Mapping[Key, Value], now_s: float) -> None:
        for key, value in values.items():
            self._values.pop(key, None)
            if value:
                self._values[key] = now_s + self._expiry_s, value
        while len(self._values) > MAX_CACHED:
            self._values.popitem(last=False)

    def clear(self) -> None:
        self._values.clear()


class Statistics:
    """Cache of term counts; threads may share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._terms = _ExpiringCache[TermKey, int](EXPIRY_S)
        self._prefixes = _ExpiringCache[str, dict[str, int]](EXPIRY_S)
        self._words = _ExpiringCache[str, dict[str, int]](LANGUAGES_EXPIRY_S)

    def counts(self, demand: CountsDemand, fetch: FetchCounts) -> TermCounts:
        """Return all counts a query needs; `fetch` requests those that are not cached from all shards."""
        now_s = self._clock.ticks_s()
        # The number of pages belongs to every count: an idf needs both.
        wanted = CountsDemand((PAGES, *demand.terms), demand.prefixes, demand.words and (EVERY_PAGE, *demand.words))
        with self._lock:
            cached = TermCounts(
                self._terms.cached(wanted.terms, now_s),
                self._prefixes.cached(wanted.prefixes, now_s),
                self._words.cached(wanted.words, now_s),
            )
        missing = CountsDemand(
            tuple(each for each in dict.fromkeys(wanted.terms) if each not in cached.terms),
            tuple(each for each in dict.fromkeys(wanted.prefixes) if each not in cached.prefixes),
            tuple(each for each in dict.fromkeys(wanted.words) if each not in cached.words),
        )
        # Outside the lock: shards may take a second. Two threads may request the same counts, which does no harm.
        if missing:
            self._store_counts(missing, fetch(missing), cached, now_s)
        return cached

    def _store_counts(
        self, missing: CountsDemand, answers: Sequence[TermCounts], cached: TermCounts, now_s: float
    ) -> None:
        new = TermCounts(
            {each: sum(answer.terms.get(each, 0) for answer in answers) for each in missing.terms},
            {each: _sum_counts(answer.prefixes.get(each, {}) for answer in answers) for each in missing.prefixes},
            {each: _sum_counts(answer.words.get(each, {}) for answer in answers) for each in missing.words},
        )
        cached.terms.update(new.terms)
        cached.prefixes.update(new.prefixes)
        cached.words.update(new.words)
        with self._lock:
            self._terms.store(new.terms, now_s)
            self._prefixes.store(new.prefixes, now_s)
            self._words.store(new.words, now_s)

    def clear(self) -> None:
        """Clear the counts, because a shard was added or removed."""
        with self._lock:
            for cache in (self._terms, self._prefixes, self._words):
                cache.clear()


def _sum_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total
