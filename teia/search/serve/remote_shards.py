"""Shards on other machines, as a gateway requests them (wire_format.py), over any transport.

    RemoteShard  --request-->  ShardServer (shard_server.py)
                 <---reply---

Requests to a shard that are started together travel as one batch: a message costs as much as many requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from math import ceil, floor, sqrt
from threading import Lock
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from teia.errors import IndexFailure
from teia.index.entry import IndexEntry
from teia.index.remote_pages import Extent, sum_extents
from teia.index.repeated import Lines, unpack_lines
from teia.search.query.tree import ExactText
from teia.search.rank.formula import Candidates, Keys
from teia.search.rank.plan import Plan
from teia.search.rank.rows import CANDIDATE
from teia.search.rank.statistics import CountsDemand, TermCounts
from teia.search.serve import wire_format as wire
from teia.search.serve.gateway import PendingAnswer
from teia.search.serve.shards import ExactMatches, FacetCounts, Show
from teia.search.show.results import Facts

MAX_CACHED = 20_000
"""Number of pages whose data is cached; up to twice as many."""

MAX_CACHED_HOSTS = 2_000

MARGIN_DEVIATIONS = 2.0
"""Standard deviations by which the number of pages a shard sends along exceeds its share of all pages."""

Column: TypeAlias = NDArray[Any]
Value = TypeVar("Value")


# ---- data sent along ------------------------------------------------------------------------------------------------


class _PageCache(Generic[Value]):
    """The last data received about pages, by key: the newer ones, and as many older ones."""

    def __init__(self) -> None:
        self._new: dict[int, Value] = {}
        self._old: dict[int, Value] = {}
        self._lock = Lock()

    def store(self, values: Iterable[tuple[int, Value]]) -> None:
        with self._lock:
            if len(self._new) > MAX_CACHED:
                self._old = self._new  # first: a concurrent reader then finds them twice, not nowhere
                self._new = {}
            self._new.update(values)

    def get_all(self, keys: Iterable[int], default: Value) -> list[Value]:
        new, old = self._new, self._old
        # Two generations instead of an LRU: reading needs no lock and no bookkeeping.
        return [new[key] if key in new else old.get(key, default) for key in keys]


@dataclass(slots=True)
class ReceivedFacts:
    """Data that shards sent along with their answers: their extents, ranks and facts of pages, lines of hosts."""

    extents: dict[str, Extent] = field(default_factory=dict)
    ranks: _PageCache[float] = field(default_factory=_PageCache)
    page_facts: _PageCache[Facts] = field(default_factory=_PageCache)
    host_lines: dict[str, Lines] = field(default_factory=dict)

    def total_extent(self) -> Extent:
        """Return the extent of all shards together."""
        return sum_extents(list(self.extents.values()))

    def percentiles(self, keys: Keys, /) -> Column:
        """Implement `PagePriors` of search/rank/formula.py."""
        return np.array(self.ranks.get_all(keys.tolist(), 0.0))

    def facts(self, urls: Mapping[int, str], /) -> Mapping[int, Facts]:
        """Implement `PageFacts` of search/show/results.py."""
        return dict(zip(urls, self.page_facts.get_all(urls, _NO_FACTS), strict=True))

    def repeated_lines(self, hosts: Iterable[str], /) -> Mapping[str, Lines]:
        """Implement `PageFacts` of search/show/results.py."""
        # The dictionary is replaced and never emptied, so that other threads may store meanwhile.
        known = self.host_lines
        return {host: known[host] for host in hosts if host in known}

    def store_lines(self, received: Mapping[str, bytes]) -> None:
        if len(self.host_lines) > MAX_CACHED_HOSTS:
            self.host_lines = {}
        self.host_lines.update({host: unpack_lines(lines) for host, lines in received.items()})


_NO_FACTS = Facts()


# ---- batches --------------------------------------------------------------------------------------------------------

RemainingTime: TypeAlias = Callable[[], float | None]
"""Function that returns the time a query has left; None: as long as the transport waits."""


class ShardTransport(Protocol):
    """Transport of requests to a shard; the answer comes later, or IndexFailure if there is none."""

    def __call__(self, request: bytes, /) -> Future[bytes]: ...


class RequestBatch:
    """Requests to a shard that travel together. It has the methods of a shard; each only adds its request.

    So a gateway need not keep a thread waiting for each of many shards (gateway.py). Data that did not fit into an
    answer is requested again when the answer is read, within the time the query has left.
    """

    def __init__(self, shard: RemoteShard) -> None:
        self._shard = shard
        self._requests: list[bytes] = []
        self._pending: list[PendingAnswer[Any]] = []
        self._answers: list[bytes] = []
        self._left_s: RemainingTime = lambda: None

    def __getattr__(self, name: str) -> Callable[..., PendingAnswer[Any]]:  # Any: the answer of the method of that name
        # The gateway calls a batch like a shard: `batch.counts(demand)` adds the request and returns a `PendingAnswer`.
        make_request, decode_answer = self._shard.codecs[name]

        def add_request(*arguments: Any) -> PendingAnswer[Any]:
            self._requests.append(wire.encode(make_request(*arguments)))
            self._pending.append(
                PendingAnswer(
                    partial(self._decode_answer, len(self._pending), partial(decode_answer, self, *arguments))
                )
            )
            return self._pending[-1]

        return add_request

    def send(self, left_s: RemainingTime) -> None:
        self._left_s = left_s
        requests = self._requests
        octets = (
            requests[0] if len(requests) == 1 else wire.encode(wire.BatchRequest(tuple(map(msgspec.Raw, requests))))
        )
        sent = self._shard.transport(octets)
        for pending in self._pending:
            pending.future = sent

    def _decode_answer(self, number: int, decode_answer: Callable[[bytes], Any], octets: bytes) -> Any:
        """Return one of the answers."""
        if len(self._requests) == 1:
            return decode_answer(octets)
        # One message holds all answers: the first reader unpacks it for the others.
        if not self._answers:
            self._answers = wire.decode_reply(wire.BatchReply, octets).replies
        if len(self._answers) != len(self._requests):
            raise IndexFailure("its response does not match the request")
        # An empty answer did not fit into the message, and is requested by itself.
        return decode_answer(self._answers[number] or self._wait_for(self._shard.transport(self._requests[number])))

    def request_again(self, name: str, *arguments: Any) -> Any:  # Any: as above
        """Request the data that was left out of an answer."""
        batch = self._shard.start_batch()
        pending: PendingAnswer[Any] = getattr(batch, name)(*arguments)
        batch.send(self._left_s)
        return pending.decode(self._wait_for(pending.future))

    def _wait_for(self, pending: Future[bytes]) -> bytes:
        try:
            return pending.result(self._left_s())
        except TimeoutError:
            pending.cancel()
            raise IndexFailure("no response in time") from None


# ---- shards ---------------------------------------------------------------------------------------------------------


def _send_and_wait(name: str) -> Callable[..., Any]:  # Any: as in `RequestBatch`
    """Return a method of a shard that sends its request in a batch of its own, and waits for the answer."""

    def method(shard: RemoteShard, *arguments: Any) -> Any:
        return shard.start_batch().request_again(name, *arguments)

    return method


class RemoteShard:
    """A `Shard` on another machine, as the gateway uses it."""

    counts = _send_and_wait("counts")
    candidates = _send_and_wait("candidates")
    entries = _send_and_wait("entries")
    filter_exact = _send_and_wait("filter_exact")
    facets = _send_and_wait("facets")
    leaf_scores = _send_and_wait("leaf_scores")
    similar_words = _send_and_wait("similar_words")

    def __init__(self, name: str, cells: int, transport: ShardTransport, received: ReceivedFacts) -> None:
        self.name = name
        self.cells = cells
        self.transport = transport
        self._received = received
        self.omitted_cells: Mapping[str, str] = {}
        """Cells, by name, that were requested and are not searched there."""
        self.codecs: dict[str, tuple[Callable[..., wire.ShardRequest], Callable[..., Any]]] = {
            "counts": (
                lambda demand: wire.CountsRequest(demand.terms, demand.prefixes, demand.words),
                self._read_counts,
            ),
            "candidates": (self._candidates_request, self._read_candidates),
            "entries": (lambda keys: wire.EntriesRequest(tuple(keys)), self._read_entries),
            "filter_exact": (self._exact_text_request, self._read_exact_text),
            "facets": (wire.FacetsRequest, _make_decoder(FacetCounts)),
            "leaf_scores": (
                lambda plan, keys: wire.PartsRequest(plan, tuple(keys)),
                _make_decoder(dict[int, list[float]]),
            ),
            "similar_words": (
                lambda words, distance: wire.WordsLikeRequest(tuple(words), distance),
                _make_decoder(dict[str, dict[str, int]]),
            ),
        }
        """The encoder of the request and the decoder of the answer, by method."""

    def start_batch(self) -> RequestBatch:
        """Start a batch of requests to this shard (`gateway.BatchingShard`)."""
        return RequestBatch(self)

    def _read_counts(self, _: RequestBatch, demand: CountsDemand, octets: bytes) -> TermCounts:
        found = wire.decode_reply(wire.CountsReply, octets)
        self._received.extents[self.name] = found.extent
        return TermCounts(
            dict(zip(demand.terms, found.terms, strict=True)),
            dict(zip(demand.prefixes, found.prefixes, strict=True)),
            dict(zip(demand.words, found.words, strict=True)),
        )

    def _candidates_request(self, plan: Plan, limit: int, show: Show | None = None) -> wire.CandidatesRequest:
        total_extent = self._received.total_extent()
        return wire.CandidatesRequest(plan, limit, total_extent, self._likely_range(show, total_extent))

    def _likely_range(self, show: Show | None, total_extent: Extent) -> Show | None:
        """Return the part of the shown results that is likely to be on this shard."""
        here = self._received.extents.get(self.name)
        # Until the first counts have arrived the extent is unknown, and the shard sends the whole range.
        if show is None or show.is_of_each or here is None or not total_extent.pages:
            return show
        return narrow_range(show, here.pages / total_extent.pages)

    def _read_candidates(self, *arguments_and_octets: Any) -> Candidates:
        found = wire.decode_reply(wire.CandidatesReply, arguments_and_octets[-1])
        # A bytearray, because the gateway writes the shard's number into the rows.
        rows = np.frombuffer(bytearray(found.rows), CANDIDATE)
        ranks = np.frombuffer(found.percentiles, np.float32).tolist()
        self._received.ranks.store(zip(rows["key"][: len(ranks)].tolist(), ranks, strict=True))
        return Candidates(found.total, rows, self._accept_pages(found.pages))

    def _accept_pages(self, pages: wire.EntriesReply | None) -> Mapping[int, bytes]:
        """Return pages that were sent along; their facts are cached."""
        if pages is None:
            return {}
        self._received.page_facts.store((key, Facts(*facts)) for key, facts in pages.facts.items())
        self._received.store_lines(pages.repeated)
        return pages.entries

    def _read_entries(self, batch: RequestBatch, keys: Sequence[int], octets: bytes) -> Mapping[int, IndexEntry]:
        answer = wire.decode_reply(wire.EntriesReply, octets)
        found = {entry.key: entry for entry in map(wire.unpack_received, answer.entries.values())}
        self._accept_pages(answer)
        # Without progress, requesting the rest again would never end.
        if len(answer.rest) >= len(keys):
            raise IndexFailure("it sends no pages")
        return found | batch.request_again("entries", answer.rest) if answer.rest else found

    def _exact_text_request(
        self, keys: Sequence[int], texts: Sequence[ExactText], show: Show | None = None
    ) -> wire.ExactTextRequest:
        return wire.ExactTextRequest(tuple(keys), tuple(texts), self._likely_range(show, self._received.total_extent()))

    def _read_exact_text(self, *arguments_and_octets: Any) -> ExactMatches:
        found = wire.decode_reply(wire.ExactTextReply, arguments_and_octets[-1])
        return ExactMatches(found.keys, self._accept_pages(found.pages))


def narrow_range(show: Show, share: float) -> Show:
    """Return the part of the shown results that a shard with this share of all pages is likely to have.

    If pages are spread at random, its number among the first n results is binomial. Missing pages are requested.
    """

    def before(results: int, deviations: float) -> float:
        return results * share + deviations * sqrt(results * share * (1 - share))

    first, last = floor(before(show.first, -MARGIN_DEVIATIONS)), ceil(before(show.last, MARGIN_DEVIATIONS))
    return msgspec.structs.replace(show, first=max(0, first), last=min(show.last, last))


def _make_decoder(kind: type[Value]) -> Callable[..., Value]:
    """Return a reader for answers that do not depend on the request."""
    return lambda *arguments_and_octets: wire.decode_reply(kind, arguments_and_octets[-1])
