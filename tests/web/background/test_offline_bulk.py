"""Bulk actions that the server executes while no crawler is running."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from teia.clock import WallClock
from teia.collections.control_file import Inbox, RunBulkAction
from teia.frontier.cell.bulk import BulkAction, BulkSelection
from teia.store.root import open_root
from teia.web.background.offline_bulk import OfflineBulk
from tests.waiting import until


def test_an_unreadable_request_does_not_stop_the_actions(tmp_path: Path) -> None:
    root = open_root(tmp_path / "data", create=True)
    root.create_collection("main", "", 1)
    with Inbox(root.control) as inbox:
        with closing(sqlite3.connect(root.control)) as db, db:
            db.execute("INSERT INTO requests (collection, kind, body, requested_s) VALUES ('main', 'bulk', '{}', 0)")
        number = inbox.send("main", RunBulkAction("00", BulkSelection(BulkAction.DROP)), 0.0)
        offline = OfflineBulk(root, WallClock())
        offline.start_if_needed()
        until(lambda: (found := inbox.get(number)) and found.done_s is not None, "the readable action is done")
        offline.close()
