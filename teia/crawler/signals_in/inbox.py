"""The file of a collection in which announcements wait, opened for writing or counted."""

from __future__ import annotations

from pathlib import Path

from teia.signals import announce
from teia.signals.announce import AnnouncementInbox
from teia.sqlite import open_database, open_to_read, sqlite_errors


def open_inbox(path: Path) -> AnnouncementInbox:
    """Open a collection's inbox for reading and writing; it is made if it is missing."""
    return AnnouncementInbox(open_database(path, announce.SCHEMA))


def counts_in(path: Path) -> dict[str, dict[str, int]]:
    """Return the counts of a collection's signals by kind and result."""
    if not path.exists():
        return {}
    db = open_to_read(path, announce.SCHEMA)
    try:
        with sqlite_errors(path):
            return announce.counts_of(db)
    finally:
        db.close()
