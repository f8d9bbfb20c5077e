"""A removed collection leaves nothing that a new one of its name would inherit."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from teia.clock import WallClock
from teia.collections.control_file import ControlFile
from teia.collections.remove import remove_collection
from teia.store.root import open_root


def test_no_table_of_the_control_file_keeps_a_row_of_a_removed_collection(tmp_path: Path) -> None:
    root = open_root(tmp_path / "data", create=True)
    root.collection("main").path.mkdir()
    path = root.path / "control.sqlite"
    ControlFile(path).close()
    tables = fill(path)
    assert {"requests", "dismissed", "standing_commands", "scheduled_runs"} <= set(tables)
    remove_collection(root, "main", WallClock())
    with sqlite3.connect(path) as db:
        left = {table: [row[0] for row in db.execute(f"SELECT collection FROM {table}")] for table in tables}
    assert left == {table: ["other"] for table in tables}


def fill(path: Path) -> list[str]:
    """Put a row of two collections into every table that has a column of that name; return these tables."""
    with sqlite3.connect(path) as db:
        named = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        columns = {table: db.execute(f"PRAGMA table_info({table})").fetchall() for table in named}
        tables = [table for table in named if "collection" in [column[1] for column in columns[table]]]
        for number, collection in enumerate(("main", "other"), 1):
            for table in tables:
                row = [collection if column[1] == "collection" else number for column in columns[table]]
                marks = ", ".join("?" * len(row))
                db.execute(f"INSERT INTO {table} VALUES ({marks})", row)  # our own names
    return tables
