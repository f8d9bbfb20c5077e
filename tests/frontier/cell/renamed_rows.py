"""Rows in every table and column that had another name in version 3, and in some that kept theirs.

`version3.sql` and `version3.log` are what the teia of version 3 made of `write_renamed`: its file as SQL, and the
records of its two formats of changes.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from teia.frontier.cell import shorter_paths
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.histories import store_host_trust, store_page
from teia.frontier.cell.old_names import NEW_TABLES
from teia.frontier.cell.rows import CaptureLocation, FoundUrl, PageRow, SettledVisit
from teia.frontier.cell.schema import STATE_DONE
from teia.frontier.cell.site_statements import (
    StatementSource,
    mark_checked,
    note_source_read,
    statements_of_page,
    store_statements,
    store_trust,
)
from teia.frontier.traps.watch import TrapWatch
from teia.urls import key_of, site_of, slot_of

FILE = Path(__file__).with_name("version3.sql")
RECORDS = Path(__file__).with_name("version3.log")
HOST = "a.test"
SLOT = slot_of(site_of(HOST))


def write_renamed(cell: FrontierCell) -> None:
    """Write, change and delete rows of all renamed tables, in several transactions."""
    cell.watch = watch = TrapWatch(cell, 10)
    with cell.transaction():
        host_id = cell.host_id(HOST, 1000.0)
        watch.host(host_id, HOST)
        cell.add_links([_found(f"/shop/item-{n}?colour=red&size={n}") for n in range(12)], 1000.0)
        cell.add_links([_found("/a/b/a/b/a/b", via=1)], 1000.0)
    for now_s in (1100.0, 1200.0):
        with cell.transaction():
            for item in cell.next_urls(host_id, HOST, 5, (), now_s):
                page = PageRow(200, b"digest", b"the same", 5, "text/html", "en", "Título", '"e"')
                capture = CaptureLocation("a.warc.gz", int(now_s), 300)
                cell.settle(
                    SettledVisit(
                        host_id, item, "200", STATE_DONE, now_s, 0.0, page, capture, visit_result=3, changed=True
                    ),
                    HOST,
                )
                watch.count_visit(host_id, HOST, item, b"the same text"[: 8 + item.key % 2], 7)
            watch.evaluate()
    keys = [key for (key,) in cell.db.execute("SELECT key FROM pages ORDER BY key")]
    with cell.transaction():
        store_host_trust(cell, SLOT, host_id, b"trust", b"mask")
        store_page(cell, (SLOT, host_id, keys[0]), b"record", b"mask")
        store_statements(cell, SLOT, host_id, 1, 77, dict.fromkeys(keys, 900.0), 800.0)
        note_source_read(cell, SLOT, StatementSource(77, host_id, 1, 1000.0, len(keys)))
        store_trust(cell, SLOT, host_id, [(1, b"much"), (2, b"little")])
        shorter_paths.add(cell, [(SLOT, host_id, key) for key in keys[:3]])
    with cell.transaction():
        for key in keys[:2]:
            mark_checked(cell, (SLOT, host_id, key), statements_of_page(cell, (SLOT, host_id, key))[0], 850.0)
        store_statements(cell, SLOT, host_id, 1, 78, dict.fromkeys(keys[1:4], 1300.0), 1000.0)
        shorter_paths.remove(cell, shorter_paths.pending(cell, 1))


def _found(tail: str, via: int = 0) -> FoundUrl:
    return FoundUrl(HOST, key_of(f"http://{HOST}{tail}"), tail, 1, via=via)


def old_file(path: Path) -> Path:
    """Write the file of version 3."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(FILE.read_text("utf-8"))
        db.execute("PRAGMA user_version = 3")
    return path


def old_records() -> dict[int, list[bytes]]:
    """Return the records of version 3, by their format."""
    return msgspec.msgpack.decode(RECORDS.read_bytes(), type=dict[int, list[bytes]])


def contents(path: Path) -> dict[str, tuple[list[str], list[Any]]]:
    """Return the columns and sorted rows of each table, without the last record's number and what version 4 added."""
    with closing(sqlite3.connect(path)) as db:
        found = {}
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if table in NEW_TABLES:
                continue
            cursor = db.execute(f'SELECT * FROM "{table}"')
            rows = sorted((row for row in cursor if row[0] not in {"log_seq", "captures"}), key=repr)
            found[table] = [column[0] for column in cursor.description], rows
        return found
