"""The local shard as a server for other machines: bytes in, bytes out (wire_format.py), over any transport.

Scores of two machines can be compared when both include the pages of the other in their statistics
(index/remote_pages.py). A shard sends its extent with its counts, and a request for the best pages names the total
extent.

Some of the best pages are likely to be shown. The request names their number and order, and the shard sends them at
once, so that no second request is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import msgspec
import numpy as np
from numpy.typing import NDArray

from teia.clock import Clock
from teia.index.entry import IndexEntry, pack_entry
from teia.index.remote_pages import Extent, relative_difference, sum_extents
from teia.index.repeated import pack_lines
from teia.index.union import UnionReader
from teia.search.rank.formula import RERANKED, Candidates, Keys, PagePriors, Ranking
from teia.search.rank.near_duplicates import leaders_of
from teia.search.rank.statistics import EVERY_PAGE, PAGES, CountsDemand
from teia.search.serve import wire_format as wire
from teia.search.serve.shards import LocalShard, Show
from teia.search.show.results import PageFacts

MAX_ONE_PAGE_CHARS = 150_000
"""Greatest text length of a page that is too large to be sent whole: six bytes a character would still fit."""

UPDATE_S = 2.0
LARGE_DIFFERENCE = 0.005
"""Difference of means above which they are updated after an eighth of `UPDATE_S`; below it, after `UPDATE_S`."""


class ShardServer:
    """A shard that answers other machines; threads may share it."""

    def __init__(
        self, shard: LocalShard, reader: UnionReader, clock: Clock, priors: PagePriors, facts: PageFacts
    ) -> None:
        self._shard = shard
        self._reader = reader
        self._clock = clock
        self._priors = priors
        self._facts = facts
        self._updated_at = float("-inf")

    @property
    def omitted_cells(self) -> Mapping[str, str]:
        return self._shard.omitted_cells

    def warm(self) -> None:
        """Open the files, and compute the counts that the first request would wait for."""
        self._reader.extent()
        self._shard.counts(CountsDemand((PAGES,), (), (EVERY_PAGE,)))

    def answer(self, octets: bytes | msgspec.Raw) -> bytes:
        """Answer a request; any error in it raises an exception."""
        return self._dispatch(wire.decode_request(octets))

    def _dispatch(self, request: wire.ShardRequest) -> bytes:
        match request:
            case wire.CountsRequest():
                return self._answer_counts(request)
            case wire.CandidatesRequest():
                return self._answer_candidates(request)
            case wire.EntriesRequest(keys):
                return wire.encode(self._pages(keys, wire.MAX_ANSWER_BYTES, at_least_one=True))
            case wire.ExactTextRequest():
                return self._answer_exact_text(request)
            case wire.FacetsRequest(plan):
                return wire.encode(self._shard.facets(plan))
            case wire.PartsRequest(plan, keys):
                return wire.encode({key: list(each) for key, each in self._shard.leaf_scores(plan, keys).items()})
            case wire.WordsLikeRequest(words, distance):
                return wire.encode(self._shard.similar_words(words, distance))
            case wire.BatchRequest(requests):
                return self._answer_batch(requests)
            case unknown:
                assert_never(unknown)

    def _answer_batch(self, requests: Sequence[msgspec.Raw]) -> bytes:
        """Answer several requests; answers that no longer fit are left out, to be requested again."""
        answers: list[bytes] = []
        room = wire.MAX_ANSWER_BYTES
        for request in requests:
            answer = self.answer(request) if room > 0 else b""
            # The first answer is always sent: it fits by itself, and the caller must make progress.
            answers.append(answer if not answers or len(answer) <= room else b"")
            room -= len(answer)
        return wire.encode(wire.BatchReply(answers))

    def _answer_counts(self, request: wire.CountsRequest) -> bytes:
        extent = self._reader.extent()
        counts = self._shard.counts(CountsDemand(request.terms, request.prefixes, request.words))
        return wire.encode(
            wire.CountsReply(
                [counts.terms[term] for term in request.terms],
                [counts.prefixes[prefix] for prefix in request.prefixes],
                [counts.words[word] for word in request.words],
                extent,
            )
        )

    # -- the best pages ------------------------------------------------------------------------------------

    def _answer_candidates(self, request: wire.CandidatesRequest) -> bytes:
        self._update_elsewhere(request.whole)
        found = self._shard.candidates(request.plan, request.limit)
        keys = np.ascontiguousarray(found.rows["key"][:RERANKED])
        # Percentiles travel with the rows: the gateway ranks without files of the collection.
        percentiles = np.asarray(self._priors.percentiles(keys), np.float32)
        pages = None
        if request.show is not None and len(found.rows):
            is_ranked = request.plan.scored is not None
            prefetched = _likely_shown(found, request.show, percentiles if is_ranked else None)
            pages = self._pages(prefetched, wire.MAX_PREFETCH_BYTES)
        return wire.encode(wire.CandidatesReply(found.total, found.rows.tobytes(), percentiles.tobytes(), pages))

    def _answer_exact_text(self, request: wire.ExactTextRequest) -> bytes:
        matching = frozenset(self._shard.filter_exact(request.keys, request.texts).keys)
        keys = [key for key in request.keys if key in matching]
        show = request.show
        pages = None if show is None else self._pages(keys[show.first : show.last], wire.MAX_PREFETCH_BYTES)
        return wire.encode(wire.ExactTextReply(keys, pages))

    def _update_elsewhere(self, whole: Extent) -> None:
        """Update the extent of the other machines, if it changed and the last update is old enough."""
        reader, now = self._reader, self._clock.ticks_s()
        here = reader.extent()
        wanted, current = whole.without(here), reader.elsewhere
        # No pages elsewhere: a gateway that has no counts yet sends an empty extent.
        if wanted == current or not wanted.pages:
            return
        difference = relative_difference(sum_extents([here, wanted]), sum_extents([here, current]))
        # An update makes a new view of the index, which drops cached page addresses: not at every change.
        if now - self._updated_at >= (UPDATE_S / 8 if difference > LARGE_DIFFERENCE else UPDATE_S):
            self._updated_at = now
            reader.include_elsewhere(wanted)

    def _pages(self, keys: Sequence[int], room: int, *, at_least_one: bool = False) -> wire.EntriesReply:
        """Return as many pages as fit, with their facts; with `at_least_one`, at least one."""
        found = self._shard.packed_entries(keys)
        sent: dict[int, bytes] = {}
        urls: dict[int, str] = {}
        for key in keys:
            if key not in found:
                continue
            octets = _pack_to_fit(*found[key])
            # With `at_least_one` the first page is sent in any case; `_pack_to_fit` has cut it to fit an answer.
            if len(octets) > room and (sent or not at_least_one):
                break
            sent[key], urls[key] = octets, found[key][0].url
            room -= len(octets)
        facts = self._facts.facts(urls)
        fact_rows = {key: (fact.last_visit_s, fact.backlinks, fact.fresh_probability) for key, fact in facts.items()}
        rest = [key for key in keys if key in found and key not in sent]
        repeated = self._facts.repeated_lines({found[key][0].host for key in sent})
        lines = {host: pack_lines(each) for host, each in repeated.items() if each}
        return wire.EntriesReply(sent, fact_rows, rest, lines)


class _ComputedPriors:
    """Priors that are already computed."""

    def __init__(self, percentiles: NDArray[np.float32]) -> None:
        self._percentiles = percentiles

    def percentiles(self, _: Keys, /) -> NDArray[Any]:
        return self._percentiles


def _likely_shown(found: Candidates, show: Show, percentiles: NDArray[np.float32] | None) -> list[int]:
    """Return the keys of pages that are likely to be shown: a range of ours, ranked as the gateway ranks them."""
    rows = found.rows
    if percentiles is not None:
        rows = Ranking(priors=_ComputedPriors(percentiles)).rank(rows, show.languages, show.now_s)
    keys = rows["key"]
    if show.is_grouped:
        keys = keys[[place for place, leader in enumerate(leaders_of(rows)) if place == leader]]
    wanted: list[int] = keys[show.first : show.last].tolist()
    return wanted


def _pack_to_fit(entry: IndexEntry, octets: bytes) -> bytes:
    """Return a page packed to fit into an answer: as the index holds it, or with its text cut."""
    if len(octets) > wire.MAX_ANSWER_BYTES:
        octets = pack_entry(msgspec.structs.replace(entry, text=entry.text[:MAX_ONE_PAGE_CHARS], links=()))
    return octets
