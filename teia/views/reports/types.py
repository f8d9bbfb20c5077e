"""Media types x quantity x bytes (F9's first table, C5's table 4)."""

from __future__ import annotations

from dataclasses import dataclass

from teia.frontier.tables.counts import count_waiting, documents_by_type
from teia.lib.message import Message
from teia.views.reports.source import ANSWERED, Source, share_of


@dataclass(frozen=True, slots=True)
class TypeRow:
    """One media type: documents held now, and the answers that brought such, repeats included."""

    media_type: str
    documents: int
    share: float
    answers: int
    wire_bytes: int
    decoded_bytes: int
    mean_decoded_bytes: float


@dataclass(frozen=True, slots=True)
class Types:
    """All types, the most frequent first. `to_collect` are known URLs that were never visited."""

    documents: int
    to_collect: int
    wire_bytes: int
    decoded_bytes: int
    rows: tuple[TypeRow, ...]
    notes: tuple[str, ...] = (
        Message(
            "The type is detected from the content where it differs from the server's declaration. Received (wire)"
            " bytes include headers; decoded bytes are bodies after decompression."
        ),
        Message(
            "Answers that the collection refuses (their type, language or size) are archived, and are no documents."
        ),
    )


def types(source: Source, top: int = 0) -> Types:
    """Count documents and bytes by media type; all types if `top` is 0."""
    held = source.count(documents_by_type)
    sums = "count(*), coalesce(sum(bytes), 0), coalesce(sum(decoded_bytes), 0)"
    sql = f"SELECT coalesce(media_type, ''), {sums} FROM fetches WHERE {ANSWERED} GROUP BY 1"  # noqa: S608
    received = {row[0]: tuple(map(int, row[1:])) for row in source.log.query(sql).rows}
    rows = []
    for name in sorted({*held, *received}, key=lambda each: (-held[each], each)):
        answers, wire, decoded = received.get(name, (0, 0, 0))
        share = share_of(held[name], held.total())
        rows.append(TypeRow(name or "unknown", held[name], share, answers, wire, decoded, share_of(decoded, answers)))
    wire, decoded = sum(each.wire_bytes for each in rows), sum(each.decoded_bytes for each in rows)
    waiting = sum(map(count_waiting, source.frontiers))
    return Types(held.total(), waiting, wire, decoded, tuple(rows[: top or len(rows)]))
