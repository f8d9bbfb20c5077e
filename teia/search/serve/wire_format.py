"""Requests to shards on other machines and their answers, as bytes; both ends use these types.

Everything is MessagePack, checked against these types where it is read. No answer is larger than
`MAX_ANSWER_BYTES`: pages that do not fit are requested again, and the text of one that would not fit alone is cut.
With its best pages a shard sends their PageRank percentiles, and with pages the facts of its frontier, so that the
gateway needs no files of the collection.

A change here, or in plan.py, requires a new version of the cluster's messages (messages.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

import msgspec

from teia.errors import IndexFailure
from teia.index.elsewhere import Extent
from teia.index.entry import Entry, unpacked
from teia.search.query.tree import ExactText
from teia.search.rank.plan import Plan
from teia.search.rank.statistics import TermKey
from teia.search.serve.shards import Show

MAX_ANSWER_BYTES = 768 * 1024
MAX_AHEAD_BYTES = 256 * 1024
"""Greatest part of an answer for pages that were not requested by key."""

# ---- requests -------------------------------------------------------------------------------------------------------


class AskCounts(msgspec.Struct, frozen=True, tag="counts"):
    """Request of `Shard.counts`."""

    terms: tuple[TermKey, ...]
    prefixes: tuple[str, ...]
    words: tuple[str, ...]


class AskCandidates(msgspec.Struct, frozen=True, tag="candidates"):
    """Request of `Shard.candidates`; `whole` is the extent of all shards."""

    plan: Plan
    limit: int
    whole: Extent
    show: Show | None


class AskEntries(msgspec.Struct, frozen=True, tag="entries"):
    """Request of `Shard.entries`."""

    keys: tuple[int, ...]


class AskSpelt(msgspec.Struct, frozen=True, tag="spelt"):
    """Request of `Shard.spelt`."""

    keys: tuple[int, ...]
    texts: tuple[ExactText, ...]
    show: Show | None


class AskFacets(msgspec.Struct, frozen=True, tag="facets"):
    """Request of `Shard.facets`."""

    plan: Plan


class AskParts(msgspec.Struct, frozen=True, tag="parts"):
    """Request of `Shard.parts`."""

    plan: Plan
    keys: tuple[int, ...]


class AskWordsLike(msgspec.Struct, frozen=True, tag="words like"):
    """Request of `Shard.words_like`."""

    words: tuple[str, ...]
    slips: int


class AskAll(msgspec.Struct, frozen=True, tag="all"):
    """Several requests, to be answered in their order."""

    questions: tuple[msgspec.Raw, ...]


Question: TypeAlias = AskCounts | AskCandidates | AskEntries | AskSpelt | AskFacets | AskParts | AskWordsLike | AskAll


# ---- answers --------------------------------------------------------------------------------------------------------


class Counted(msgspec.Struct, frozen=True, array_like=True):
    """Counts in the order of the request, and the extent of the shard."""

    terms: list[int]
    prefixes: list[dict[str, int]]
    words: list[dict[str, int]]
    extent: Extent


class Pages(msgspec.Struct, frozen=True, array_like=True):
    """Packed entries by key; their facts, where known; the keys that did not fit."""

    entries: dict[int, bytes]
    facts: dict[int, tuple[float | None, int | None, float | None]]
    rest: list[int]


class Best(msgspec.Struct, frozen=True, array_like=True):
    """Candidates as the bytes of their rows; `percentiles` by PageRank of the first of them, as float32."""

    total: int
    rows: bytes
    percentiles: bytes
    pages: Pages | None


class SpeltSo(msgspec.Struct, frozen=True, array_like=True):
    """Keys of pages with the exact texts, and some of these pages."""

    keys: list[int]
    pages: Pages | None


class Answers(msgspec.Struct, frozen=True, array_like=True):
    """Answers to several requests; an empty one did not fit, and may be requested by itself."""

    each: list[bytes]


encode = msgspec.msgpack.Encoder().encode
read_question = msgspec.msgpack.Decoder(Question).decode
read_counted = msgspec.msgpack.Decoder(Counted).decode
read_best = msgspec.msgpack.Decoder(Best).decode
read_pages = msgspec.msgpack.Decoder(Pages).decode
read_answers = msgspec.msgpack.Decoder(Answers).decode
read_spelt = msgspec.msgpack.Decoder(SpeltSo).decode
read_facets = msgspec.msgpack.Decoder(dict[str, dict[str, int]]).decode
read_parts = msgspec.msgpack.Decoder(dict[int, list[float]]).decode
read_words_like = msgspec.msgpack.Decoder(dict[str, dict[str, int]]).decode

Value = TypeVar("Value")


def read(decode: Callable[[bytes], Value], octets: bytes) -> Value:
    """Decode an answer; raise IndexFailure if it is invalid."""
    try:
        return decode(octets)
    except msgspec.MsgspecError as error:
        raise IndexFailure(f"its answer cannot be read ({error}); run the same teia on all nodes") from error


def arrived(octets: bytes) -> Entry:
    """Decode a page that was sent; raise IndexFailure if it is invalid."""
    try:
        return unpacked(octets)
    except Exception as error:  # of two libraries, one of which does not document its exceptions
        raise IndexFailure("a page arrived damaged") from error
