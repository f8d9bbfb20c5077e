"""Removal of a collection with all its files.

The folder is renamed first, atomically, so that there is either a whole collection or none; then it is deleted. The
next removal deletes what a death leaves of it.
"""

from __future__ import annotations

import shutil
import sqlite3
import time

from teia.clock import Clock
from teia.collections.commands import RELEASED, CommandTable
from teia.collections.inbox import ControlFile
from teia.durable import disk_errors, sync_folder
from teia.errors import StoreError
from teia.sqlite import sqlite_errors
from teia.store.root import Root

TRASH = ".removed-"
CLOSE_TIMEOUT_S = 20.0
POLL_S = 0.05
_TABLES = (
    "commands", "changes", "wishes", "deeds", "rereads", "dismissed", "runs", "series", "scheduled_runs", "orders",
)  # fmt: skip


def remove_collection(root: Root, name: str, clock: Clock) -> None:
    """Remove a collection; a crawler that has it open closes it first, or StoreError names it."""
    folder = root.collection(name)
    table = CommandTable(root.path / "control.sqlite")
    try:
        table.request_removal(name)
        # Nothing was touched yet: the request is withdrawn.
        if not _is_free(root, name, table, clock):
            table.forget(name)
            raise StoreError(f"process {root.lock_holder()} is crawling this folder; stop it first")
    finally:
        table.close()
    trash = root.path / f"{TRASH}{name}-{int(clock.now_s() * 1e6):x}"
    with disk_errors(folder.path, "removed"):
        # From here on the collection is gone; the rest is cleaning up.
        folder.path.rename(trash)
        sync_folder(root.path)
    _delete_rows(root, name)
    remove_trash(root)


def _is_free(root: Root, name: str, table: CommandTable, clock: Clock) -> bool:
    """Wait until no process has the collection open; return False if that takes too long."""
    until = clock.ticks_s() + CLOSE_TIMEOUT_S
    while root.lock_holder() is not None and table.get(name).removal != RELEASED:
        if clock.ticks_s() > until:
            return False
        time.sleep(POLL_S)
    return True


def _delete_rows(root: Root, name: str) -> None:
    """Delete the reports and commands of a collection, so that a new one of the same name does not inherit them."""
    path = root.path / "control.sqlite"
    ControlFile(path).close()
    with sqlite_errors(path):
        db = sqlite3.connect(path, isolation_level=None, timeout=5.0)
        try:
            tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            for table in tables.intersection(_TABLES):
                db.execute(f"DELETE FROM {table} WHERE collection = ?", (name,))  # noqa: S608  # our own names
        finally:
            db.close()


def remove_trash(root: Root) -> None:
    """Delete the remains of removed collections."""
    for path in root.path.glob(f"{TRASH}*"):
        shutil.rmtree(path, ignore_errors=True)
