"""Who links here, asked of an index: one term instead of a look through the archive (F5)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tantivy import Query

from teia.index.reader import CellReader, entry_at, has_index


@dataclass(frozen=True, slots=True)
class Linking:
    """Pages that link to one: (URL, key) of some of them, and how many there are in all."""

    pages: tuple[tuple[str, int], ...]
    total: int


def linking_pages(folder: Path, key: int, at_most: int, opened: dict[Path, CellReader] | None = None) -> Linking | None:
    """The pages of a cell's index that link to a key; None where there is no index.

    Indexes are kept open in `opened`, for who asks more than once.
    """
    if not has_index(folder):
        return None
    reader = CellReader(folder) if opened is None else opened.setdefault(folder, CellReader(folder))
    searcher = reader.searcher()
    found = searcher.search(Query.term_query(reader.schema, "links", key), limit=at_most)
    entries = [entry_at(searcher, address) for _, address in found.hits]
    total: int = found.count  # type: ignore[attr-defined]  # it is there, and not in tantivy's stubs
    return Linking(tuple((entry.url, entry.key) for entry in entries), total)
