"""The state of a cell's index as its files tell it: the position it has reached, and its number of pages.

Read without tantivy, which a crawler does not load: its indexer is another process.
"""

from __future__ import annotations

import json
from pathlib import Path

from teia.durable import write_atomically

SCHEMA_VERSION = 4
"""An index of another version is thrown away and made again."""

POSITION_FILE = "position.json"
META_FILE = "meta.json"


def read_position(folder: Path) -> int | None:
    """Return the position up to which an index is complete; None if there is none, or one of another version."""
    try:
        stored = json.loads((folder / POSITION_FILE).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    is_ours = isinstance(stored, dict) and stored.get("version") == SCHEMA_VERSION
    position = stored.get("position") if is_ours else None
    return position if isinstance(position, int) else None


def write_position(folder: Path, position: int) -> None:
    content = json.dumps({"version": SCHEMA_VERSION, "position": position}).encode()
    write_atomically(folder / POSITION_FILE, content)


def documents_in(folder: Path) -> int:
    """Count the pages of an index as of its last commit; 0 where there is none, or one of another version."""
    if read_position(folder) is None:
        return 0
    try:
        segments = json.loads((folder / META_FILE).read_bytes())["segments"]
        return sum(each["max_doc"] - (each["deletes"] or {}).get("num_deleted_docs", 0) for each in segments)
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def remove_unfinished(folder: Path) -> None:
    """Remove lists of deleted pages that a crash has left before their commit: tantivy does not write over them.

    Only the writer of an index may call this, before it opens the index.
    """
    try:
        segments = json.loads((folder / META_FILE).read_bytes())["segments"]
        committed = {
            f"{each['segment_id'].replace('-', '')}.{each['deletes']['opstamp']}.del"
            for each in segments
            if each["deletes"]
        }
    except (OSError, ValueError, KeyError, TypeError):
        return  # there is no index here, or one that cannot be opened
    for path in folder.glob("*.del"):
        if path.name not in committed:
            path.unlink(missing_ok=True)


def has_index(folder: Path) -> bool:
    """Tell whether there is an index here that can be searched, even an empty one."""
    return read_position(folder) is not None and (folder / META_FILE).exists()
