"""Removal of a collection with all its files.

The folder is renamed first, atomically, so that there is either a whole collection or none; then it is deleted. The
next removal deletes what a death leaves of it.
"""

from __future__ import annotations

import shutil
import time

from teia.clock import Clock
from teia.collections.commands import RELEASED, CommandTable
from teia.durable import disk_errors, sync_folder
from teia.errors import StoreError
from teia.lib.message import Message
from teia.store.root import Root

TRASH = ".removed-"
CLOSE_TIMEOUT_S = 20.0
POLL_S = 0.05


def remove_collection(root: Root, name: str, clock: Clock) -> None:
    """Remove a collection; a crawler that has it open closes it first, or StoreError names it."""
    folder = root.collection(name)
    with CommandTable(root.control) as table:
        table.request_removal(name)
        # Nothing was touched yet: the request is withdrawn.
        if not _is_free(root, name, table, clock):
            table.forget(name)
            raise StoreError(Message("process {pid} is crawling this folder; stop it first", pid=root.lock_holder()))
    trash = root.path / f"{TRASH}{name}-{int(clock.now_s() * 1e6):x}"
    with disk_errors(folder.path, "removed"):
        # From here on the collection is gone; the rest is cleaning up.
        folder.path.rename(trash)
        sync_folder(root.path)
    with CommandTable(root.control) as table:
        table.forget_collection(name)
    remove_trash(root)


def _is_free(root: Root, name: str, table: CommandTable, clock: Clock) -> bool:
    """Wait until no process has the collection open; return False if that takes too long."""
    until = clock.ticks_s() + CLOSE_TIMEOUT_S
    while root.lock_holder() is not None and table.get(name).removal != RELEASED:
        if clock.ticks_s() > until:
            return False
        time.sleep(POLL_S)
    return True


def remove_trash(root: Root) -> None:
    """Delete the remains of removed collections."""
    for path in root.path.glob(f"{TRASH}*"):
        shutil.rmtree(path, ignore_errors=True)
