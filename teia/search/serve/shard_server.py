"""The local shard as a server for other machines: bytes in, bytes out (wire_format.py), over any transport.

Scores of two machines can be compared when both include the pages of the other in their statistics
(index/elsewhere.py). A shard sends its extent with its counts, and a request for the best pages names the total
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
from teia.index.elsewhere import Extent, differ, total
from teia.index.entry import IndexEntry, packed
from teia.index.union import UnionReader
from teia.search.rank.formula import RERANKED, Candidates, Keys, PagePriors, Ranking
from teia.search.rank.near_duplicates import leaders_of
from teia.search.rank.statistics import EVERY_PAGE, PAGES, CountsDemand
from teia.search.serve.shards import LocalShard, Show
from teia.search.serve.wire_format import (
    MAX_AHEAD_BYTES,
    MAX_ANSWER_BYTES,
    BatchReply,
    BatchRequest,
    CandidatesReply,
    CandidatesRequest,
    CountsReply,
    CountsRequest,
    EntriesReply,
    EntriesRequest,
    ExactTextReply,
    ExactTextRequest,
    FacetsRequest,
    PartsRequest,
    Question,
    WordsLikeRequest,
    encode,
    read_question,
)
from teia.search.show.results import PageFacts

MAX_ONE_PAGE_CHARS = 150_000
"""Greatest text length of a page that is too large to be sent whole: six bytes a character would still fit."""

RENEW_S = 2.0
MUCH = 0.005
"""Difference of means above which they are updated after an eighth of `RENEW_S`; below it, after `RENEW_S`."""


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
        self._renewed_at = float("-inf")

    @property
    def left_out(self) -> Mapping[str, str]:
        return self._shard.left_out

    def warm(self) -> None:
        """Open the files, and compute the counts that the first request would wait for."""
        self._reader.extent()
        self._shard.counts(CountsDemand((PAGES,), (), (EVERY_PAGE,)))

    def answer(self, octets: bytes | msgspec.Raw) -> bytes:
        """Answer a request; any error in it raises an exception."""
        return self._answered(read_question(octets))

    def _answered(self, question: Question) -> bytes:
        match question:
            case CountsRequest() as asked:
                return self._counts(asked)
            case CandidatesRequest() as asked:
                return self._candidates(asked)
            case EntriesRequest(keys):
                return encode(self._pages(keys, MAX_ANSWER_BYTES, insist=True))
            case ExactTextRequest() as asked:
                return self._spelt(asked)
            case FacetsRequest(plan):
                return encode(self._shard.facets(plan))
            case PartsRequest(plan, keys):
                return encode({key: list(each) for key, each in self._shard.parts(plan, keys).items()})
            case WordsLikeRequest(words, slips):
                return encode(self._shard.words_like(words, slips))
            case BatchRequest(questions):
                return self._all(questions)
            case unknown:
                assert_never(unknown)

    def _all(self, questions: Sequence[msgspec.Raw]) -> bytes:
        """Answer several requests; answers that no longer fit are left out, to be requested again."""
        answers: list[bytes] = []
        room = MAX_ANSWER_BYTES
        for question in questions:
            answer = self.answer(question) if room > 0 else b""
            # The first answer is always sent: it fits by itself, and the caller must make progress.
            answers.append(answer if not answers or len(answer) <= room else b"")
            room -= len(answer)
        return encode(BatchReply(answers))

    def _counts(self, asked: CountsRequest) -> bytes:
        extent = self._reader.extent()
        counts = self._shard.counts(CountsDemand(asked.terms, asked.prefixes, asked.words))
        return encode(
            CountsReply(
                [counts.terms[term] for term in asked.terms],
                [counts.prefixes[prefix] for prefix in asked.prefixes],
                [counts.words[word] for word in asked.words],
                extent,
            )
        )

    # -- the best pages ------------------------------------------------------------------------------------

    def _candidates(self, asked: CandidatesRequest) -> bytes:
        self._reckon_with(asked.whole)
        found = self._shard.candidates(asked.plan, asked.limit)
        keys = np.ascontiguousarray(found.rows["key"][:RERANKED])
        # Percentiles travel with the rows: the gateway ranks without files of the collection.
        percentiles = np.asarray(self._priors.percentiles(keys), np.float32)
        pages = None
        if asked.show is not None and len(found.rows):
            is_ranked = asked.plan.scored is not None
            ahead = _likely(found, asked.show, percentiles if is_ranked else None)
            pages = self._pages(ahead, MAX_AHEAD_BYTES)
        return encode(CandidatesReply(found.total, found.rows.tobytes(), percentiles.tobytes(), pages))

    def _spelt(self, asked: ExactTextRequest) -> bytes:
        kept = frozenset(self._shard.spelt(asked.keys, asked.texts).keys)
        keys = [key for key in asked.keys if key in kept]
        show = asked.show
        pages = None if show is None else self._pages(keys[show.first : show.last], MAX_AHEAD_BYTES)
        return encode(ExactTextReply(keys, pages))

    def _reckon_with(self, whole: Extent) -> None:
        """Update the extent of the other machines, if it changed and the last update is old enough."""
        reader, now = self._reader, self._clock.ticks_s()
        here = reader.extent()
        wanted, current = whole.without(here), reader.elsewhere
        # No pages elsewhere: a gateway that has no counts yet sends an empty extent.
        if wanted == current or not wanted.pages:
            return
        by = differ(total([here, wanted]), total([here, current]))
        # An update makes a new view of the index, which drops cached page addresses: not at every change.
        if now - self._renewed_at >= (RENEW_S / 8 if by > MUCH else RENEW_S):
            self._renewed_at = now
            reader.include_elsewhere(wanted)

    def _pages(self, keys: Sequence[int], room: int, *, insist: bool = False) -> EntriesReply:
        """Return as many pages as fit, with their facts; with `insist`, at least one."""
        found = self._shard.packed(keys)
        sent: dict[int, bytes] = {}
        urls: dict[int, str] = {}
        for key in keys:
            if key not in found:
                continue
            octets = _fitting(*found[key])
            # With `insist` the first page is sent in any case; `_fitting` has cut it to fit an answer.
            if len(octets) > room and (sent or not insist):
                break
            sent[key], urls[key] = octets, found[key][0].url
            room -= len(octets)
        facts = self._facts.facts(urls)
        told = {key: (fact.last_visit_s, fact.backlinks, fact.fresh_probability) for key, fact in facts.items()}
        return EntriesReply(sent, told, [key for key in keys if key in found and key not in sent])


class _Given:
    """Priors that are already computed."""

    def __init__(self, percentiles: NDArray[np.float32]) -> None:
        self._percentiles = percentiles

    def percentiles(self, _: Keys, /) -> NDArray[Any]:
        return self._percentiles


def _likely(found: Candidates, show: Show, percentiles: NDArray[np.float32] | None) -> list[int]:
    """Return the keys of pages that are likely to be shown: a range of ours, ranked as the gateway ranks them."""
    rows = found.rows
    if percentiles is not None:
        rows = Ranking(priors=_Given(percentiles)).ranked(rows, show.languages, show.now_s)
    keys = rows["key"]
    if show.is_grouped:
        keys = keys[[place for place, leader in enumerate(leaders_of(rows)) if place == leader]]
    wanted: list[int] = keys[show.first : show.last].tolist()
    return wanted


def _fitting(entry: IndexEntry, octets: bytes) -> bytes:
    """Return a page packed to fit into an answer: as the index holds it, or with its text cut."""
    if len(octets) > MAX_ANSWER_BYTES:
        octets = packed(msgspec.structs.replace(entry, text=entry.text[:MAX_ONE_PAGE_CHARS], links=()))
    return octets
