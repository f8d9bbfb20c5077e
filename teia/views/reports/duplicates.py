"""Documents that several URLs have in common, and the space that the content-seen test saves (C6, A9)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from teia.frontier.tables.counts import documents_by_content
from teia.lib.message import Message
from teia.views.reports.source import Source, share_of

EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class DuplicateRow:
    """One content: its URLs, the stored bodies among them, and the first URLs in alphabetical order."""

    urls: int
    bodies: int
    media_type: str
    saved_bytes: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Documents, different contents among them, the share of documents that repeat another; the most frequent ones."""

    documents: int
    contents: int
    share: float
    bodies: int
    saved_bytes: int
    rows: tuple[DuplicateRow, ...]
    notes: tuple[str, ...] = (
        Message(
            "Documents with equal bytes are one content. Share: documents that repeat another one. Stored bodies:"
            " records with a body in the archive; the other URLs refer to them. Saved: the compressed size of bodies"
            " that are not stored again. Pages with nearly the same text are not counted; the search groups them."
        ),
    )


def duplicates(source: Source, top: int = 20) -> Duplicates:
    """Group the documents of all cells by content."""
    sorted_documents = heapq.merge(*map(documents_by_content, source.frontiers), key=itemgetter(0))
    documents = contents = bodies = saved = 0
    best: list[tuple[int, bytes, DuplicateRow]] = []
    for digest, group in groupby(sorted_documents, key=itemgetter(0)):
        row = _row(group)
        documents, contents, bodies = documents + row.urls, contents + 1, bodies + row.bodies
        saved += row.saved_bytes
        if row.urls > 1:
            # The digest breaks ties: the same collection gives the same report.
            push = heapq.heappush if len(best) < top else heapq.heappushpop
            push(best, (row.urls, digest, row))
    share = share_of(documents - contents, documents)
    rows = tuple(row for _, _, row in sorted(best, key=lambda each: (-each[0], each[1])))
    return Duplicates(documents, contents, share, bodies, saved, rows)


def _row(documents: Iterator[tuple[bytes, str, str, str, int, int]]) -> DuplicateRow:
    urls = saved = 0
    records: set[tuple[str, int]] = set()
    examples: list[str] = []
    media_type = ""
    for _, url, detected, file, offset, length in documents:
        urls, media_type = urls + 1, media_type or detected
        saved += length if (file, offset) in records else 0
        records.add((file, offset))
        examples = heapq.nsmallest(EXAMPLES, [*examples, url])
    return DuplicateRow(urls, len(records), media_type or "unknown", saved, tuple(examples))
