"""Pages of other machines that the scores of an index take into account, though it does not hold them.

BM25 compares a page's length with the mean length of all pages, and tantivy takes that from the segments of one index.
In a cluster each machine has its own segments, so the same page would score differently on each. tantivy adds up two
numbers of each segment: its pages, and their words in a field. So one more segment is listed, which claims the numbers
of all other machines together and holds nothing that any query could find. Then the means are those of the whole
cluster, and scores can be compared (search/rank/tantivy_query.py does the same for the rarity of words).

tantivy makes the segment from one page without a key. Its words are such that no analyser produces them. The number of
pages is in the list of segments. The number of words is in the first eight octets of each field in its file of postings
(`.idx`), which are overwritten. tests/index/test_remote_pages.py would notice another format.
"""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import tantivy
from tantivy import Query, TextAnalyzerBuilder, Tokenizer

from teia.errors import IndexFailure
from teia.index.schema import EXACT, ROOT, STEMS, make_schema

SCORED_FIELDS = ("all", "head", "anchor", "exact")
"""The fields whose lengths count."""

NO_WORD = "\x01"
"""A word that no analyser produces, so no query searches for it."""

_MARKS = (40_009, 40_013, 40_031, 40_037)
"""Word counts per field of the template page: numbers that can be found again in the file."""

_AVERAGE = "avgdl, average length of field"


class Extent(msgspec.Struct, frozen=True, array_like=True):
    """Size of a set of pages: their number, and the number of their words in each scored field."""

    pages: int = 0
    words: tuple[int, ...] = (0,) * len(SCORED_FIELDS)

    def mean(self, field: int) -> float:
        return self.words[field] / self.pages if self.pages else 0.0

    def without(self, other: Extent) -> Extent:
        """Return the remainder without a part; never negative."""
        words = tuple(max(0, mine - theirs) for mine, theirs in zip(self.words, other.words, strict=True))
        return Extent(max(0, self.pages - other.pages), words)


def sum_extents(parts: Iterable[Extent]) -> Extent:
    """Add up several extents."""
    some = list(parts)
    words = zip(*(part.words for part in some), strict=True)
    return Extent(sum(part.pages for part in some), tuple(map(sum, words))) if some else Extent()


def relative_difference(one: Extent, other: Extent) -> float:
    """Return the largest relative difference between the means of two extents, over the fields."""
    pairs = [(one.mean(at), other.mean(at)) for at in range(len(SCORED_FIELDS))]
    return max(abs(a - b) / max(a, b) if max(a, b) else 0.0 for a, b in pairs)


# ---- local pages ----------------------------------------------------------------------------------------------------


def extent_of(searcher: tantivy.Searcher, schema: tantivy.Schema, elsewhere: Extent) -> Extent:
    """Return the extent of a view's own pages; `elsewhere` is the extent it includes beside them.

    tantivy reports the mean length of a field where it explains a score, in single precision: exact to some
    ten-millionth of all words.
    """
    pages = searcher.doc_freq("within", ROOT)
    whole = pages + elsewhere.pages
    words = []
    for at, field in enumerate(SCORED_FIELDS):
        everywhere = round(_mean_length(searcher, schema, field) * whole)
        words.append(max(0, everywhere - elsewhere.words[at]))
    return Extent(pages, tuple(words))


def _mean_length(searcher: tantivy.Searcher, schema: tantivy.Schema, field: str) -> float:
    """Return the mean length of a field over all pages; 0 where no page has a word in it."""
    # Any word will do: the explanation of every score names the mean length of its field.
    for text, _ in searcher.terms_with_prefix(field, "", limit=8):
        if text == NO_WORD:
            continue
        query = Query.term_query(schema, field, text)
        hits = searcher.search(query, limit=1, count=False).hits
        if hits:
            return _find_average(json.loads(query.explain(searcher, hits[0][1]).to_json()))
    return 0.0


def _find_average(explanation: dict[str, Any]) -> float:
    if explanation.get("description") == _AVERAGE:
        return float(explanation["value"])
    return max((_find_average(each) for each in explanation.get("details") or []), default=0.0)


# ---- remote pages ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _make_template() -> tuple[dict[str, Any], dict[str, bytes]]:
    """Make a segment of one page that no query finds; return its entry in the segment list, and its files by suffix."""
    with tempfile.TemporaryDirectory(prefix="teia-elsewhere-") as name:
        folder = Path(name)
        index = tantivy.Index(make_schema(), path=name)
        for analyser in (STEMS, EXACT):
            # The whitespace tokenizer keeps NO_WORD, which the real analysers drop.
            index.register_tokenizer(analyser, TextAnalyzerBuilder(Tokenizer.whitespace()).build())
        writer = index.writer(heap_size=15_000_000, num_threads=1)
        document = tantivy.Document()
        for field, words in zip(SCORED_FIELDS, _MARKS, strict=True):
            document.add_text(field, " ".join([NO_WORD] * words))
        writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        (segment,) = json.loads((folder / "meta.json").read_bytes())["segments"]
        stem = segment["segment_id"].replace("-", "")
        files = {each.name.partition(".")[2]: each.read_bytes() for each in folder.glob(f"{stem}.*")}
    return segment, files


def write_segment(folder: Path, extent: Extent) -> tuple[dict[str, Any], list[Path]]:
    """Write a segment that represents pages elsewhere; return its entry in the segment list, and its files."""
    segment, files = _make_template()
    # tantivy takes the files of one segment id for unchanging, so every version gets a new id.
    name = secrets.token_hex(16)
    postings = bytearray(files["idx"])
    for at, words in zip(_word_count_offsets(files["idx"]), extent.words, strict=True):
        postings[at : at + 8] = words.to_bytes(8, "little")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    written = []
    for suffix, content in (files | {"idx": bytes(postings)}).items():
        written.append(folder / f"{name}.{suffix}")
        written[-1].write_bytes(content)
    uuid = "-".join((name[:8], name[8:12], name[12:16], name[16:20], name[20:]))
    # The segment holds one page, so it cannot claim fewer.
    return segment | {"segment_id": uuid, "max_doc": max(1, extent.pages)}, written


def _word_count_offsets(postings: bytes) -> list[int]:
    """Return the offsets in a file of postings that hold each field's number of words."""
    marks = [mark.to_bytes(8, "little") for mark in _MARKS]
    if any(postings.count(mark) != 1 for mark in marks):
        raise IndexFailure("word statistics of other machines cannot be used: tantivy has another format")
    return [postings.index(mark) for mark in marks]
