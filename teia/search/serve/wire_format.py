"""Requests to shards on other machines and their answers, as bytes; both ends use these types.

Everything is MessagePack, checked against these types where it is read. No answer is larger than
`MAX_ANSWER_BYTES`: pages that do not fit are requested again, and the text of one that would not fit alone is cut.
With its best pages a shard sends their PageRank percentiles, and with pages the facts of its frontier, so that the
gateway needs no files of the collection. The lines that their hosts repeat (index/repeated.py) come with them.

A change here, or in plan.py, requires a new version of the cluster's messages (messages.py).
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar

import msgspec

from teia.errors import IndexFailure
from teia.index.entry import IndexEntry, unpack_entry
from teia.index.remote_pages import Extent
from teia.lib.undecodable import UNDECODABLE
from teia.search.query.tree import ExactText
from teia.search.rank.plan import Plan
from teia.search.rank.statistics import TermKey
from teia.search.serve.shards import Show

MAX_ANSWER_BYTES = 768 * 1024
MAX_PREFETCH_BYTES = 256 * 1024
"""Greatest part of an answer for pages that were not requested by key."""

# ---- requests -------------------------------------------------------------------------------------------------------


class CountsRequest(msgspec.Struct, frozen=True, tag="counts"):
    """Request of `Shard.counts`."""

    terms: tuple[TermKey, ...]
    prefixes: tuple[str, ...]
    words: tuple[str, ...]


class CandidatesRequest(msgspec.Struct, frozen=True, tag="candidates"):
    """Request of `Shard.candidates`; `whole` is the extent of all shards."""

    plan: Plan
    limit: int
    whole: Extent
    show: Show | None


class EntriesRequest(msgspec.Struct, frozen=True, tag="entries"):
    """Request of `Shard.entries`."""

    keys: tuple[int, ...]


class ExactTextRequest(msgspec.Struct, frozen=True, tag="spelt"):
    """Request of `Shard.filter_exact`."""

    keys: tuple[int, ...]
    texts: tuple[ExactText, ...]
    show: Show | None


class FacetsRequest(msgspec.Struct, frozen=True, tag="facets"):
    """Request of `Shard.facets`."""

    plan: Plan


class PartsRequest(msgspec.Struct, frozen=True, tag="parts"):
    """Request of `Shard.leaf_scores`."""

    plan: Plan
    keys: tuple[int, ...]


class WordsLikeRequest(msgspec.Struct, frozen=True, tag="words like"):
    """Request of `Shard.similar_words`."""

    words: tuple[str, ...]
    distance: int = msgspec.field(name="slips")


class BatchRequest(msgspec.Struct, frozen=True, tag="all"):
    """Several requests, to be answered in their order."""

    requests: tuple[msgspec.Raw, ...] = msgspec.field(name="questions")


ShardRequest: TypeAlias = (
    CountsRequest
    | CandidatesRequest
    | EntriesRequest
    | ExactTextRequest
    | FacetsRequest
    | PartsRequest
    | WordsLikeRequest
    | BatchRequest
)


# ---- answers --------------------------------------------------------------------------------------------------------


class CountsReply(msgspec.Struct, frozen=True, array_like=True):
    """Counts in the order of the request, and the extent of the shard."""

    terms: list[int]
    prefixes: list[dict[str, int]]
    words: list[dict[str, int]]
    extent: Extent


class EntriesReply(msgspec.Struct, frozen=True, array_like=True):
    """Packed entries by key; their facts, where known; the keys that did not fit; the lines that hosts repeat."""

    entries: dict[int, bytes]
    facts: dict[int, tuple[float | None, int | None, float | None]]
    rest: list[int]
    repeated: dict[str, bytes]


class CandidatesReply(msgspec.Struct, frozen=True, array_like=True):
    """Candidates as the bytes of their rows; `percentiles` by PageRank of the first of them, as float32."""

    total: int
    rows: bytes
    percentiles: bytes
    pages: EntriesReply | None


class ExactTextReply(msgspec.Struct, frozen=True, array_like=True):
    """Keys of pages with the exact texts, and some of these pages."""

    keys: list[int]
    pages: EntriesReply | None


class BatchReply(msgspec.Struct, frozen=True, array_like=True):
    """Answers to several requests; an empty one did not fit, and may be requested by itself."""

    replies: list[bytes]


encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(ShardRequest).decode

Value = TypeVar("Value")


def decode_reply(kind: type[Value], octets: bytes) -> Value:
    """Decode an answer of a type; raise IndexFailure if it is invalid."""
    try:
        return msgspec.msgpack.decode(octets, type=kind)
    except UNDECODABLE as error:
        raise IndexFailure(
            f"its response cannot be read ({error}); run the same version of teia on all nodes"
        ) from error


def unpack_received(octets: bytes) -> IndexEntry:
    """Decode a page that was sent; raise IndexFailure if it is invalid."""
    try:
        return unpack_entry(octets)
    except Exception as error:  # of two libraries, one of which does not document its exceptions
        raise IndexFailure("a page arrived damaged") from error
