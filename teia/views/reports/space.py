"""Space in bytes: on the wire, decoded, and on disk, cell by cell and per page (F9's second table)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from teia.durable import disk_errors
from teia.frontier.tables.counts import documents_by_type
from teia.lib.message import Message
from teia.views.reports.source import OpenCell, Source, share_of


@dataclass(frozen=True, slots=True)
class CellSpace:
    """One cell's documents and bytes. `frontier_bytes` include the journal beside the database."""

    cell: int
    documents: int
    wire_bytes: int
    decoded_bytes: int
    warc_bytes: int
    cdxj_bytes: int
    frontier_bytes: int
    log_bytes: int
    index_bytes: int

    @property
    def disk_bytes(self) -> int:
        return self.warc_bytes + self.cdxj_bytes + self.frontier_bytes + self.log_bytes + self.index_bytes


@dataclass(frozen=True, slots=True)
class BytesRow:
    """One kind of bytes, over all cells."""

    what: str
    total_bytes: int
    per_document_bytes: float


@dataclass(frozen=True, slots=True)
class SpaceReport:
    """Bytes of a collection. `disk` is the sum of what is on disk."""

    documents: int
    total: tuple[BytesRow, ...]
    cells: tuple[CellSpace, ...]
    notes: tuple[str, ...] = (
        Message(
            "Received (wire): bytes of answers, including headers. Decoded: bodies after decompression. All other sizes"
            " are on disk now; recent rows of the fetch log are still part of the frontier."
        ),
    )


def space(source: Source, top: int = 0) -> SpaceReport:  # noqa: ARG001  # every cell is shown
    """Add up bytes by cell."""
    sql = "SELECT cell, sum(bytes), coalesce(sum(decoded_bytes), 0) FROM fetches GROUP BY cell"
    received = {cell: (int(wire), int(decoded)) for cell, wire, decoded in source.log.query(sql).rows}
    cells = tuple(_space_of(cell, *received.get(cell.number, (0, 0))) for cell in source.cells)
    documents = sum(cell.documents for cell in cells)
    kinds = [each.name for each in fields(CellSpace) if each.name.endswith("_bytes")] + ["disk_bytes"]
    total = []
    for kind in kinds:
        number = sum(getattr(cell, kind) for cell in cells)
        total.append(BytesRow(kind.removesuffix("_bytes"), number, share_of(number, documents)))
    return SpaceReport(documents, tuple(total), cells)


def _space_of(cell: OpenCell, wire: int, decoded: int) -> CellSpace:
    folder = cell.folder
    documents = documents_by_type(cell.frontier).total()
    return CellSpace(
        cell.number,
        documents,
        wire,
        decoded,
        _size(folder.archive, "*.warc.gz"),
        _size(folder.archive, "*.cdxj"),
        # With `-wal` and `-shm` beside the database.
        _size(folder.path, f"{folder.frontier.name}*"),
        _size(folder.log, "*.parquet"),
        _size(folder.index, "**/*"),
    )


def _size(folder: Path, pattern: str) -> int:
    with disk_errors(folder, "read"):
        return sum(_bytes_of(path) for path in folder.glob(pattern))


def _bytes_of(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:  # a running crawler may remove a journal between the two
        return 0
