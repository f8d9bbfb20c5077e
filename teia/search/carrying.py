"""A shard on another machine: its questions and answers as octets, whatever carries them.

    CarriedShard  --question-->  answered(shard, question)
                  <---answer---

Everything is MessagePack, checked against these types where it is read. No answer is larger than `MAX_ANSWER_BYTES`:
pages that do not fit are asked for again, and the text of one that would not fit alone is cut. With its best pages a
shard sends their places by PageRank, and with pages what its frontier knows of them, so that whoever asks needs no
files of the collection.

Scores of two machines can be compared when both reckon with the pages of the other (index/elsewhere.py). With its
counts a shard says how much it holds, and whoever asks for the best pages says how much there is in all.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, assert_never, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from teia.clock import Clock
from teia.errors import IndexFailure
from teia.index.elsewhere import Extent, differ, total
from teia.index.entry import Entry, packed, unpacked
from teia.index.union import UnionReader
from teia.search.gateway import Pending
from teia.search.plan import Plan
from teia.search.query import ExactText
from teia.search.ranking import RERANKED, Candidates, Keys, Priors
from teia.search.results import Facts, PageFacts
from teia.search.rows import CANDIDATE
from teia.search.shards import FacetCounts, LocalShard, Shard
from teia.search.statistics import EVERY_PAGE, PAGES, Counts, Demand, TermKey

MAX_ANSWER_BYTES = 768 * 1024
MAX_ONE_PAGE_CHARS = 150_000
"""The text of a page that is too large to be sent is cut to this: six octets a character would still fit."""

MAX_KEPT = 20_000
"""Pages of which it is kept what was told of them."""

RENEW_S = 2.0
MUCH = 0.005
"""Means that differ by more are put right before a search; by less, not more often than every `RENEW_S`."""

Column: TypeAlias = NDArray[Any]


# ---- questions and answers ------------------------------------------------------------------------------------------


class AskCounts(msgspec.Struct, frozen=True, tag="counts"):
    """`Shard.counts`."""

    terms: tuple[TermKey, ...]
    prefixes: tuple[str, ...]
    words: tuple[str, ...]


class AskCandidates(msgspec.Struct, frozen=True, tag="candidates"):
    """`Shard.candidates`; `whole` is how much all shards hold."""

    plan: Plan
    limit: int
    whole: Extent


class AskEntries(msgspec.Struct, frozen=True, tag="entries"):
    """`Shard.entries`."""

    keys: tuple[int, ...]


class AskSpelt(msgspec.Struct, frozen=True, tag="spelt"):
    """`Shard.spelt`."""

    keys: tuple[int, ...]
    texts: tuple[ExactText, ...]


class AskFacets(msgspec.Struct, frozen=True, tag="facets"):
    """`Shard.facets`."""

    plan: Plan


class AskParts(msgspec.Struct, frozen=True, tag="parts"):
    """`Shard.parts`."""

    plan: Plan
    keys: tuple[int, ...]


class AskWordsLike(msgspec.Struct, frozen=True, tag="words like"):
    """`Shard.words_like`."""

    words: tuple[str, ...]
    slips: int


Question: TypeAlias = AskCounts | AskCandidates | AskEntries | AskSpelt | AskFacets | AskParts | AskWordsLike


class Counted(msgspec.Struct, frozen=True, array_like=True):
    """Counts in the order of the question, and how much the shard holds."""

    terms: list[int]
    prefixes: list[dict[str, int]]
    words: list[dict[str, int]]
    extent: Extent


class Best(msgspec.Struct, frozen=True, array_like=True):
    """Candidates as the octets of their rows; `percentiles` by PageRank of the first of them, as float32."""

    total: int
    rows: bytes
    percentiles: bytes


class Pages(msgspec.Struct, frozen=True, array_like=True):
    """Packed entries; facts of those of which some are known, by key; what did not fit."""

    entries: list[bytes]
    facts: dict[int, tuple[float | None, int | None, float | None]]
    rest: list[int]


_encode = msgspec.msgpack.Encoder().encode
_question = msgspec.msgpack.Decoder(Question).decode
_counted = msgspec.msgpack.Decoder(Counted).decode
_best = msgspec.msgpack.Decoder(Best).decode
_pages = msgspec.msgpack.Decoder(Pages).decode
_numbers = msgspec.msgpack.Decoder(list[int]).decode
_facets = msgspec.msgpack.Decoder(dict[str, dict[str, int]]).decode
_parts = msgspec.msgpack.Decoder(dict[int, list[float]]).decode
_words_like = msgspec.msgpack.Decoder(dict[str, dict[str, int]]).decode


# ---- the answering end ----------------------------------------------------------------------------------------------


class Answering:
    """A shard of this machine, to be asked by others; threads may share it."""

    def __init__(self, shard: LocalShard, reader: UnionReader, clock: Clock, priors: Priors, facts: PageFacts) -> None:
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
        """Open the files, and count what the first question would wait for."""
        self._reader.extent()
        self._shard.counts(Demand((PAGES,), (), (EVERY_PAGE,)))

    def answer(self, octets: bytes) -> bytes:
        """Answer a question; whatever is wrong with it is an exception."""
        match _question(octets):
            case AskCounts() as asked:
                return self._counts(asked)
            case AskCandidates() as asked:
                return self._candidates(asked)
            case AskEntries(keys):
                return self._entries(keys)
            case AskSpelt(keys, texts):
                return _encode(list(self._shard.spelt(keys, texts)))
            case AskFacets(plan):
                return _encode(self._shard.facets(plan))
            case AskParts(plan, keys):
                return _encode({key: list(each) for key, each in self._shard.parts(plan, keys).items()})
            case AskWordsLike(words, slips):
                return _encode(self._shard.words_like(words, slips))
            case unknown:
                assert_never(unknown)

    def _counts(self, asked: AskCounts) -> bytes:
        extent = self._reader.extent()
        counts = self._shard.counts(Demand(asked.terms, asked.prefixes, asked.words))
        return _encode(
            Counted(
                [counts.terms[term] for term in asked.terms],
                [counts.prefixes[prefix] for prefix in asked.prefixes],
                [counts.words[word] for word in asked.words],
                extent,
            )
        )

    def _candidates(self, asked: AskCandidates) -> bytes:
        self._reckon_with(asked.whole)
        found = self._shard.candidates(asked.plan, asked.limit)
        keys = np.ascontiguousarray(found.rows["key"][:RERANKED])
        percentiles = np.asarray(self._priors.percentiles(keys), np.float32)
        return _encode(Best(found.total, found.rows.tobytes(), percentiles.tobytes()))

    def _reckon_with(self, whole: Extent) -> None:
        """Take up how much there is elsewhere, if it is another than before and it is time to."""
        reader, now = self._reader, self._clock.ticks_s()
        here = reader.extent()
        wanted, current = whole.without(here), reader.elsewhere
        if wanted == current or not wanted.pages:
            return
        by = differ(total([here, wanted]), total([here, current]))
        if now - self._renewed_at >= (RENEW_S / 8 if by > MUCH else RENEW_S):
            self._renewed_at = now
            reader.reckon_with(wanted)

    def _entries(self, keys: Sequence[int]) -> bytes:
        found = self._shard.packed(keys)
        sent: list[Entry] = []
        octets: list[bytes] = []
        room = MAX_ANSWER_BYTES
        for key in keys:
            if key not in found:
                continue
            each = _fitting(*found[key])
            if octets and len(each) > room:
                break
            sent.append(found[key][0])
            octets.append(each)
            room -= len(each)
        done = {entry.key for entry in sent}
        facts = self._facts.facts({entry.key: entry.url for entry in sent})
        told = {key: (fact.last_visit_s, fact.backlinks, fact.fresh_probability) for key, fact in facts.items()}
        return _encode(Pages(octets, told, [key for key in keys if key in found and key not in done]))


def _fitting(entry: Entry, octets: bytes) -> bytes:
    """A page packed so that it fits into an answer: as the index has it, or with its text cut."""
    if len(octets) > MAX_ANSWER_BYTES:
        octets = packed(msgspec.structs.replace(entry, text=entry.text[:MAX_ONE_PAGE_CHARS], links=()))
    return octets


# ---- the asking end -------------------------------------------------------------------------------------------------

Value = TypeVar("Value")


class _Kept(Generic[Value]):
    """What was told of pages last, by key; the oldest go when there are too many."""

    def __init__(self) -> None:
        self._values: OrderedDict[int, Value] = OrderedDict()
        self._lock = Lock()

    def keep(self, values: Iterable[tuple[int, Value]]) -> None:
        with self._lock:
            for key, value in values:
                self._values[key] = value
                self._values.move_to_end(key)
            while len(self._values) > MAX_KEPT:
                self._values.popitem(last=False)

    def get(self, key: int, default: Value) -> Value:
        return self._values.get(key, default)


@dataclass(slots=True)
class Told:
    """What shards told beside what they were asked: their extents, and of pages their ranks and facts."""

    extents: dict[str, Extent] = field(default_factory=dict)
    ranks: _Kept[float] = field(default_factory=_Kept)
    known: _Kept[Facts] = field(default_factory=_Kept)

    def whole(self) -> Extent:
        """How much all shards hold together."""
        return total(list(self.extents.values()))

    def percentiles(self, keys: Keys, /) -> Column:
        """`Priors` of ranking.py."""
        return np.array([self.ranks.get(key, 0.0) for key in keys.tolist()])

    def facts(self, urls: Mapping[int, str], /) -> Mapping[int, Facts]:
        """`PageFacts` of results.py."""
        return {key: self.known.get(key, _NO_FACTS) for key in urls}


_NO_FACTS = Facts()


class Carrier(Protocol):
    """Who brings questions to a shard; the answer comes when it comes, or IndexFailure where none does."""

    def __call__(self, question: bytes, /) -> Future[bytes]: ...


class Begun:
    """A shard somewhere else that is only asked: each method returns at once with what is still to come.

    So a gateway need not keep a thread waiting for each of many shards (gateway.py).
    """

    def __init__(self, shard: CarriedShard) -> None:
        self._shard = shard

    def __getattr__(self, name: str) -> Callable[..., Pending[Any]]:  # Any: what the method of that name answers
        question, read = self._shard.forms[name]

        def ask(*words: Any) -> Pending[Any]:
            return Pending(self._shard.carry(_encode(question(*words))), partial(read, *words))

        return ask


class CarriedShard(Shard):
    """A shard somewhere else, as the gateway asks it."""

    def __init__(self, name: str, cells: int, carry: Carrier, told: Told) -> None:
        self._name = name
        self._cells = cells
        self.carry = carry
        self._told = told
        self.silent_cells: dict[str, str] = {}
        """By name: cells that were asked for and are not searched there."""
        self.forms: dict[str, tuple[Callable[..., Question], Callable[..., Any]]] = {
            "counts": (_ask_counts, self._read_counts),
            "candidates": (self._ask_candidates, self._read_candidates),
            "entries": (_ask_entries, self._read_entries),
            "spelt": (_ask_spelt, _reading(_numbers)),
            "facets": (AskFacets, _reading(_facets)),
            "parts": (_ask_parts, _reading(_parts)),
            "words_like": (_ask_words_like, _reading(_words_like)),
        }
        """By method: how its question is put, and how its answer is read."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def cells(self) -> int:
        return self._cells

    @property
    def left_out(self) -> Mapping[str, str]:
        return self.silent_cells

    def begun(self) -> Shard:
        """The same shard, only asked."""
        return cast("Shard", Begun(self))

    def _ask(self, name: str, *words: Any) -> Any:  # Any: as in `Begun`
        pending: Pending[Any] = getattr(Begun(self), name)(*words)
        return pending.finish(pending.future.result())

    def counts(self, demand: Demand) -> Counts:
        return cast("Counts", self._ask("counts", demand))

    def _read_counts(self, demand: Demand, octets: bytes) -> Counts:
        found = _read(_counted, octets)
        self._told.extents[self._name] = found.extent
        return Counts(
            dict(zip(demand.terms, found.terms, strict=True)),
            dict(zip(demand.prefixes, found.prefixes, strict=True)),
            dict(zip(demand.words, found.words, strict=True)),
        )

    def candidates(self, plan: Plan, limit: int) -> Candidates:
        return cast("Candidates", self._ask("candidates", plan, limit))

    def _ask_candidates(self, plan: Plan, limit: int) -> AskCandidates:
        return AskCandidates(plan, limit, self._told.whole())

    def _read_candidates(self, _: Plan, __: int, octets: bytes) -> Candidates:
        found = _read(_best, octets)
        rows = np.frombuffer(bytearray(found.rows), CANDIDATE)
        ranks = np.frombuffer(found.percentiles, np.float32).tolist()
        self._told.ranks.keep(zip(rows["key"][: len(ranks)].tolist(), ranks, strict=True))
        return Candidates(found.total, rows)

    def entries(self, keys: Sequence[int]) -> Mapping[int, Entry]:
        return cast("Mapping[int, Entry]", self._ask("entries", keys))

    def _read_entries(self, keys: Sequence[int], octets: bytes) -> Mapping[int, Entry]:
        answer = _read(_pages, octets)
        found = {entry.key: entry for entry in map(_unpacked, answer.entries)}
        self._told.known.keep((key, Facts(*facts)) for key, facts in answer.facts.items())
        if len(answer.rest) >= len(keys):
            raise IndexFailure("it sends no pages")
        return found | dict(self.entries(answer.rest)) if answer.rest else found

    def spelt(self, keys: Sequence[int], texts: Sequence[ExactText]) -> Sequence[int]:
        return cast("Sequence[int]", self._ask("spelt", keys, texts))

    def facets(self, plan: Plan) -> FacetCounts:
        return cast("FacetCounts", self._ask("facets", plan))

    def parts(self, plan: Plan, keys: Sequence[int]) -> Mapping[int, Sequence[float]]:
        return cast("Mapping[int, Sequence[float]]", self._ask("parts", plan, keys))

    def words_like(self, words: Sequence[str], slips: int) -> Mapping[str, Mapping[str, int]]:
        return cast("Mapping[str, Mapping[str, int]]", self._ask("words_like", words, slips))


def _ask_counts(demand: Demand) -> AskCounts:
    return AskCounts(demand.terms, demand.prefixes, demand.words)


def _ask_entries(keys: Sequence[int]) -> AskEntries:
    return AskEntries(tuple(keys))


def _ask_spelt(keys: Sequence[int], texts: Sequence[ExactText]) -> AskSpelt:
    return AskSpelt(tuple(keys), tuple(texts))


def _ask_parts(plan: Plan, keys: Sequence[int]) -> AskParts:
    return AskParts(plan, tuple(keys))


def _ask_words_like(words: Sequence[str], slips: int) -> AskWordsLike:
    return AskWordsLike(tuple(words), slips)


def _reading(decode: Callable[[bytes], Value]) -> Callable[..., Value]:
    """Read an answer that says all by itself, whatever was asked."""

    def read(*words_and_octets: Any) -> Value:
        return _read(decode, words_and_octets[-1])

    return read


def _read(decode: Callable[[bytes], Value], octets: bytes) -> Value:
    try:
        return decode(octets)
    except msgspec.MsgspecError as error:
        raise IndexFailure(f"its answer cannot be read ({error}); run the same teia on all nodes") from error


def _unpacked(octets: bytes) -> Entry:
    try:
        return unpacked(octets)
    except Exception as error:  # of two libraries, one of which does not say what it raises
        raise IndexFailure("a page arrived damaged") from error
