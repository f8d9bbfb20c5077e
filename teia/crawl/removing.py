"""A collection taken away, with all its files.

The folder is renamed first, in one step, so that there is either a whole collection or none; then it is removed. What a
death leaves of it is removed by the next one who comes by.
"""

from __future__ import annotations

import shutil
import sqlite3
import time

from teia.clock import Clock
from teia.crawl.control import Control
from teia.crawl.orders import RELEASED, Orders
from teia.durable import disk_errors, sync_folder
from teia.errors import StoreError
from teia.frontier.database import sqlite_errors
from teia.store.root import Root

TRASH = ".removed-"
PATIENCE_S = 20.0
LOOK_S = 0.05
_TABLES = ("commands", "changes", "wishes", "runs", "series", "scheduled_runs", "orders")


def remove_collection(root: Root, name: str, clock: Clock) -> None:
    """Remove a collection; a crawler that has it open lets go of it first, or StoreError says who does not."""
    folder = root.collection(name)
    orders = Orders(root.path / "control.sqlite")
    try:
        orders.ask_removal(name)
        if not _is_free(root, name, orders, clock):
            orders.forget(name)
            raise StoreError(f"process {root.holder()} is crawling this folder; stop it first")
    finally:
        orders.close()
    place = root.path / f"{TRASH}{name}-{int(clock.now_s() * 1e6):x}"
    with disk_errors(folder.path, "removed"):
        folder.path.rename(place)
        sync_folder(root.path)
    _forget(root, name)
    remove_trash(root)


def _is_free(root: Root, name: str, orders: Orders, clock: Clock) -> bool:
    """Wait until nobody has the collection open; False if that takes too long."""
    until = clock.ticks_s() + PATIENCE_S
    while root.holder() is not None and orders.of(name).removal != RELEASED:
        if clock.ticks_s() > until:
            return False
        time.sleep(LOOK_S)
    return True


def _forget(root: Root, name: str) -> None:
    """Forget what was said and ordered of a collection; one of the same name would be another."""
    path = root.path / "control.sqlite"
    Control(path).close()
    with sqlite_errors(path):
        db = sqlite3.connect(path, isolation_level=None, timeout=5.0)
        try:
            there = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            for table in there.intersection(_TABLES):
                db.execute(f"DELETE FROM {table} WHERE collection = ?", (name,))  # noqa: S608  # our own names
        finally:
            db.close()


def remove_trash(root: Root) -> None:
    """Remove what is left of collections that were taken away."""
    for path in root.path.glob(f"{TRASH}*"):
        shutil.rmtree(path, ignore_errors=True)
