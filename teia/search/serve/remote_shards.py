"""Shards on other machines, as a gateway requests them (wire_format.py), over any transport.

    CarriedShard  --question-->  Serving (shard_server.py)
                  <---answer---

Requests to a shard that are started together travel as one letter: a message costs as much as many requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from math import ceil, floor, sqrt
from threading import Lock
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from teia.errors import IndexFailure
from teia.index.elsewhere import Extent, total
from teia.index.entry import IndexEntry
from teia.search.query.tree import ExactText
from teia.search.rank.formula import Candidates, Keys
from teia.search.rank.plan import Plan
from teia.search.rank.rows import CANDIDATE
from teia.search.rank.statistics import CountsDemand, TermCounts
from teia.search.serve.gateway import PendingAnswer
from teia.search.serve.shards import ExactMatches, FacetCounts, Shard, Show
from teia.search.serve.wire_format import (
    BatchRequest,
    CandidatesRequest,
    CountsRequest,
    EntriesReply,
    EntriesRequest,
    ExactTextRequest,
    FacetsRequest,
    PartsRequest,
    Question,
    WordsLikeRequest,
    arrived,
    encode,
    read,
    read_answers,
    read_best,
    read_counted,
    read_facets,
    read_pages,
    read_parts,
    read_spelt,
    read_words_like,
)
from teia.search.show.results import Facts

MAX_KEPT = 20_000
"""Number of pages whose data is cached; up to twice as many."""

SPREAD = 2.0
"""Standard deviations by which the number of pages a shard sends along exceeds its share of all pages."""

Column: TypeAlias = NDArray[Any]
Value = TypeVar("Value")


# ---- data sent along ------------------------------------------------------------------------------------------------


class _Kept(Generic[Value]):
    """The last data received about pages, by key: the newer ones, and as many older ones."""

    def __init__(self) -> None:
        self._new: dict[int, Value] = {}
        self._old: dict[int, Value] = {}
        self._lock = Lock()

    def keep(self, values: Iterable[tuple[int, Value]]) -> None:
        with self._lock:
            if len(self._new) > MAX_KEPT:
                self._old = self._new  # first: a concurrent reader then finds them twice, not nowhere
                self._new = {}
            self._new.update(values)

    def get_all(self, keys: Iterable[int], default: Value) -> list[Value]:
        new, old = self._new, self._old
        # Two generations instead of an LRU: reading needs no lock and no bookkeeping.
        return [new[key] if key in new else old.get(key, default) for key in keys]


@dataclass(slots=True)
class ReceivedFacts:
    """Data that shards sent along with their answers: their extents, and the ranks and facts of pages."""

    extents: dict[str, Extent] = field(default_factory=dict)
    ranks: _Kept[float] = field(default_factory=_Kept)
    known: _Kept[Facts] = field(default_factory=_Kept)

    def whole(self) -> Extent:
        """Return the extent of all shards together."""
        return total(list(self.extents.values()))

    def percentiles(self, keys: Keys, /) -> Column:
        """Implement `PagePriors` of search/rank/formula.py."""
        return np.array(self.ranks.get_all(keys.tolist(), 0.0))

    def facts(self, urls: Mapping[int, str], /) -> Mapping[int, Facts]:
        """Implement `PageFacts` of search/show/results.py."""
        return dict(zip(urls, self.known.get_all(urls, _NO_FACTS), strict=True))


_NO_FACTS = Facts()


# ---- letters --------------------------------------------------------------------------------------------------------

LeftS: TypeAlias = Callable[[], float | None]
"""Function that returns the time a query has left; None: as long as the carrier waits."""


def _any_time() -> None:
    return None


class ShardTransport(Protocol):
    """Transport of requests to a shard; the answer comes later, or IndexFailure if there is none."""

    def __call__(self, question: bytes, /) -> Future[bytes]: ...


class RequestBatch:
    """Requests to a shard that travel together. It has the methods of a shard; each only adds its request.

    So a gateway need not keep a thread waiting for each of many shards (gateway.py). Data that did not fit into an
    answer is requested again when the answer is read, within the time the query has left.
    """

    def __init__(self, shard: RemoteShard) -> None:
        self._shard = shard
        self._questions: list[bytes] = []
        self._pending: list[PendingAnswer[Any]] = []
        self._answers: list[bytes] = []
        self._left_s: LeftS = _any_time

    def __getattr__(self, name: str) -> Callable[..., PendingAnswer[Any]]:  # Any: the answer of the method of that name
        # The gateway calls a letter like a shard: `letter.counts(demand)` adds the request and returns a Pending.
        put, take = self._shard.forms[name]

        def ask(*words: Any) -> PendingAnswer[Any]:
            self._questions.append(encode(put(*words)))
            self._pending.append(PendingAnswer(partial(self._taken, len(self._pending), partial(take, self, *words))))
            return self._pending[-1]

        return ask

    def send(self, left_s: LeftS) -> None:
        self._left_s = left_s
        questions = self._questions
        octets = questions[0] if len(questions) == 1 else encode(BatchRequest(tuple(map(msgspec.Raw, questions))))
        sent = self._shard.carry(octets)
        for pending in self._pending:
            pending.future = sent

    def _taken(self, number: int, take: Callable[[bytes], Any], octets: bytes) -> Any:
        """Return one of the answers."""
        if len(self._questions) == 1:
            return take(octets)
        # One message holds all answers: the first reader unpacks it for the others.
        if not self._answers:
            self._answers = read(read_answers, octets).each
        if len(self._answers) != len(self._questions):
            raise IndexFailure("its response does not match the request")
        # An empty answer did not fit into the message, and is requested by itself.
        return take(self._answers[number] or self._waited_for(self._shard.carry(self._questions[number])))

    def again(self, name: str, *words: Any) -> Any:  # Any: as above
        """Request the data that was left out of an answer."""
        letter = self._shard.letter()
        pending: PendingAnswer[Any] = getattr(letter, name)(*words)
        letter.send(self._left_s)
        return pending.finish(self._waited_for(pending.future))

    def _waited_for(self, asked: Future[bytes]) -> bytes:
        try:
            return asked.result(self._left_s())
        except TimeoutError:
            asked.cancel()
            raise IndexFailure("no response in time") from None


# ---- shards ---------------------------------------------------------------------------------------------------------


class RemoteShard(Shard):
    """A shard on another machine, as the gateway uses it."""

    def __init__(self, name: str, cells: int, carry: ShardTransport, told: ReceivedFacts) -> None:
        self._name = name
        self._cells = cells
        self.carry = carry
        self._told = told
        self.silent_cells: dict[str, str] = {}
        """Cells, by name, that were requested and are not searched there."""
        self.forms: dict[str, tuple[Callable[..., Question], Callable[..., Any]]] = {
            "counts": (_ask_counts, self._read_counts),
            "candidates": (self._ask_candidates, self._read_candidates),
            "entries": (_ask_entries, self._read_entries),
            "spelt": (self._ask_spelt, self._read_spelt),
            "facets": (FacetsRequest, _reading(read_facets)),
            "parts": (_ask_parts, _reading(read_parts)),
            "words_like": (_ask_words_like, _reading(read_words_like)),
        }
        """The encoder of the request and the decoder of the answer, by method."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def cells(self) -> int:
        return self._cells

    @property
    def left_out(self) -> Mapping[str, str]:
        return self.silent_cells

    def letter(self) -> RequestBatch:
        """Return a letter to this shard (`gateway.BatchingShard`)."""
        return RequestBatch(self)

    def _ask(self, name: str, *words: Any) -> Any:  # Any: as in `RequestBatch`
        return self.letter().again(name, *words)

    def counts(self, demand: CountsDemand) -> TermCounts:
        return cast("TermCounts", self._ask("counts", demand))

    def _read_counts(self, _: RequestBatch, demand: CountsDemand, octets: bytes) -> TermCounts:
        found = read(read_counted, octets)
        self._told.extents[self._name] = found.extent
        return TermCounts(
            dict(zip(demand.terms, found.terms, strict=True)),
            dict(zip(demand.prefixes, found.prefixes, strict=True)),
            dict(zip(demand.words, found.words, strict=True)),
        )

    def candidates(self, plan: Plan, limit: int, show: Show | None = None) -> Candidates:
        return cast("Candidates", self._ask("candidates", plan, limit, show))

    def _ask_candidates(self, plan: Plan, limit: int, show: Show | None = None) -> CandidatesRequest:
        whole = self._told.whole()
        return CandidatesRequest(plan, limit, whole, self._narrowed(show, whole))

    def _narrowed(self, show: Show | None, whole: Extent) -> Show | None:
        """Return the part of the shown results that is likely to be on this shard."""
        here = self._told.extents.get(self._name)
        # Until the first counts have arrived the extent is unknown, and the shard sends the whole range.
        if show is None or show.is_of_each or here is None or not whole.pages:
            return show
        return narrowed(show, here.pages / whole.pages)

    def _read_candidates(self, *words_and_octets: Any) -> Candidates:
        found = read(read_best, words_and_octets[-1])
        # A bytearray, because the gateway writes the shard's number into the rows.
        rows = np.frombuffer(bytearray(found.rows), CANDIDATE)
        ranks = np.frombuffer(found.percentiles, np.float32).tolist()
        self._told.ranks.keep(zip(rows["key"][: len(ranks)].tolist(), ranks, strict=True))
        return Candidates(found.total, rows, self._known(found.pages))

    def _known(self, pages: EntriesReply | None) -> Mapping[int, bytes]:
        """Return pages that were sent along; their facts are cached."""
        if pages is None:
            return {}
        self._told.known.keep((key, Facts(*facts)) for key, facts in pages.facts.items())
        return pages.entries

    def entries(self, keys: Sequence[int]) -> Mapping[int, IndexEntry]:
        return cast("Mapping[int, IndexEntry]", self._ask("entries", keys))

    def _read_entries(self, letter: RequestBatch, keys: Sequence[int], octets: bytes) -> Mapping[int, IndexEntry]:
        answer = read(read_pages, octets)
        found = {entry.key: entry for entry in map(arrived, answer.entries.values())}
        self._known(answer)
        # Without progress, requesting the rest again would never end.
        if len(answer.rest) >= len(keys):
            raise IndexFailure("it sends no pages")
        return found | letter.again("entries", answer.rest) if answer.rest else found

    def spelt(self, keys: Sequence[int], texts: Sequence[ExactText], show: Show | None = None) -> ExactMatches:
        return cast("ExactMatches", self._ask("spelt", keys, texts, show))

    def _ask_spelt(self, keys: Sequence[int], texts: Sequence[ExactText], show: Show | None = None) -> ExactTextRequest:
        return ExactTextRequest(tuple(keys), tuple(texts), self._narrowed(show, self._told.whole()))

    def _read_spelt(self, *words_and_octets: Any) -> ExactMatches:
        found = read(read_spelt, words_and_octets[-1])
        return ExactMatches(found.keys, self._known(found.pages))

    def facets(self, plan: Plan) -> FacetCounts:
        return cast("FacetCounts", self._ask("facets", plan))

    def parts(self, plan: Plan, keys: Sequence[int]) -> Mapping[int, Sequence[float]]:
        return cast("Mapping[int, Sequence[float]]", self._ask("parts", plan, keys))

    def words_like(self, words: Sequence[str], slips: int) -> Mapping[str, Mapping[str, int]]:
        return cast("Mapping[str, Mapping[str, int]]", self._ask("words_like", words, slips))


def narrowed(show: Show, share: float) -> Show:
    """Return the part of the shown results that a shard with this share of all pages is likely to have.

    If pages are spread at random, its number among the first n results is binomial. Missing pages are requested.
    """

    def before(results: int, deviations: float) -> float:
        return results * share + deviations * sqrt(results * share * (1 - share))

    first, last = floor(before(show.first, -SPREAD)), ceil(before(show.last, SPREAD))
    return msgspec.structs.replace(show, first=max(0, first), last=min(show.last, last))


def _ask_counts(demand: CountsDemand) -> CountsRequest:
    return CountsRequest(demand.terms, demand.prefixes, demand.words)


def _ask_entries(keys: Sequence[int]) -> EntriesRequest:
    return EntriesRequest(tuple(keys))


def _ask_parts(plan: Plan, keys: Sequence[int]) -> PartsRequest:
    return PartsRequest(plan, tuple(keys))


def _ask_words_like(words: Sequence[str], slips: int) -> WordsLikeRequest:
    return WordsLikeRequest(tuple(words), slips)


def _reading(decode: Callable[[bytes], Value]) -> Callable[..., Value]:
    """Return a reader for answers that do not depend on the request."""

    def take(*words_and_octets: Any) -> Value:
        return read(decode, words_and_octets[-1])

    return take
