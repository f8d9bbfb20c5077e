"""Links to a page, from an index: one term query instead of a scan of the archive (F5)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tantivy import Query

from teia.index.position import has_index
from teia.index.reader import CellReader, entry_at


@dataclass(frozen=True, slots=True)
class LinkingPages:
    """Pages that link to one: (URL, key) of some of them, and how many there are in all."""

    pages: tuple[tuple[str, int], ...]
    total: int


def linking_pages(
    folder: Path, key: int, at_most: int, opened: dict[Path, CellReader] | None = None
) -> LinkingPages | None:
    """Return the pages of a cell's index that link to a key; None where there is no index.

    Indexes stay open in `opened`, for callers with several queries.
    """
    if not has_index(folder):
        return None
    reader = CellReader(folder) if opened is None else opened.setdefault(folder, CellReader(folder))
    searcher = reader.searcher()
    found = searcher.search(Query.term_query(reader.schema, "links", key), limit=at_most)
    entries = [entry_at(searcher, address) for _, address in found.hits]
    total: int = found.count  # type: ignore[attr-defined]  # it is there, and not in tantivy's stubs
    return LinkingPages(tuple((entry.url, entry.key) for entry in entries), total)
