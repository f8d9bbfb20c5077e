"""What shards on other machines are asked and answer, as octets; both ends read these (carrying.py, serving.py).

Everything is MessagePack, checked against these types where it is read. No answer is larger than `MAX_ANSWER_BYTES`:
pages that do not fit are asked for again, and the text of one that would not fit alone is cut. With its best pages a
shard sends their places by PageRank, and with pages what its frontier knows of them, so that whoever asks needs no
files of the collection.

Whoever changes anything here, or in plan.py, gives the cluster's messages another version (cluster/searchwire.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

import msgspec

from teia.errors import IndexFailure
from teia.index.elsewhere import Extent
from teia.index.entry import Entry, unpacked
from teia.search.plan import Plan
from teia.search.query import ExactText
from teia.search.shards import Show
from teia.search.statistics import TermKey

MAX_ANSWER_BYTES = 768 * 1024
MAX_AHEAD_BYTES = 256 * 1024
"""Pages that were not asked for by name take no more of an answer than this."""

# ---- questions ------------------------------------------------------------------------------------------------------


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
    show: Show | None


class AskEntries(msgspec.Struct, frozen=True, tag="entries"):
    """`Shard.entries`."""

    keys: tuple[int, ...]


class AskSpelt(msgspec.Struct, frozen=True, tag="spelt"):
    """`Shard.spelt`."""

    keys: tuple[int, ...]
    texts: tuple[ExactText, ...]
    show: Show | None


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


class AskAll(msgspec.Struct, frozen=True, tag="all"):
    """Several questions, to be answered in their order."""

    questions: tuple[msgspec.Raw, ...]


Question: TypeAlias = AskCounts | AskCandidates | AskEntries | AskSpelt | AskFacets | AskParts | AskWordsLike | AskAll


# ---- answers --------------------------------------------------------------------------------------------------------


class Counted(msgspec.Struct, frozen=True, array_like=True):
    """Counts in the order of the question, and how much the shard holds."""

    terms: list[int]
    prefixes: list[dict[str, int]]
    words: list[dict[str, int]]
    extent: Extent


class Pages(msgspec.Struct, frozen=True, array_like=True):
    """Packed entries by key; facts of those of which some are known; what did not fit."""

    entries: dict[int, bytes]
    facts: dict[int, tuple[float | None, int | None, float | None]]
    rest: list[int]


class Best(msgspec.Struct, frozen=True, array_like=True):
    """Candidates as the octets of their rows; `percentiles` by PageRank of the first of them, as float32."""

    total: int
    rows: bytes
    percentiles: bytes
    pages: Pages | None


class SpeltSo(msgspec.Struct, frozen=True, array_like=True):
    """Keys of those that are spelt so, and some of them."""

    keys: list[int]
    pages: Pages | None


class Answers(msgspec.Struct, frozen=True, array_like=True):
    """Answers to several questions; one without octets did not fit, and may be asked for by itself."""

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
    """Read an answer; IndexFailure where it is none."""
    try:
        return decode(octets)
    except msgspec.MsgspecError as error:
        raise IndexFailure(f"its answer cannot be read ({error}); run the same teia on all nodes") from error


def arrived(octets: bytes) -> Entry:
    """A page that was sent; IndexFailure where it is none."""
    try:
        return unpacked(octets)
    except Exception as error:  # of two libraries, one of which does not say what it raises
        raise IndexFailure("a page arrived damaged") from error
