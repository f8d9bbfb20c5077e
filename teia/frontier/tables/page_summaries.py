"""Pages in few words, for search results. Reads only, and imports little: `teia search` waits for it."""

from __future__ import annotations

from pathlib import Path

from teia.frontier.cell.connection import CellConnection
from teia.frontier.cell.schema import SCHEMA
from teia.sqlite import open_to_read
from teia.urls import site_of, slot_of


def open_summaries(frontier: Path) -> CellConnection:
    """Open the frontier of a cell read-only."""
    return CellConnection(frontier, open_to_read(frontier, SCHEMA))


def summarize_page(cell: CellConnection, host: str, key: int) -> tuple[int, int, int, float] | None:
    """Return (host id, in-links, visits, last visit) of a page in one query; None if it was not visited here."""
    sql = """
        SELECT h.host_id, u.in_links, p.visits, p.last_visit_s FROM hosts AS h
        JOIN urls AS u ON u.slot = ?2 AND u.host_id = h.host_id AND u.key = ?3
        JOIN pages AS p ON p.slot = ?2 AND p.host_id = h.host_id AND p.key = ?3
        WHERE h.name = ?1
    """
    row: tuple[int, int, int, float] | None = cell.row(sql, host, slot_of(site_of(host)), key)
    return row
