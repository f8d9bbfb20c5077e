"""Bulk actions that users requested, as pages list them."""

from __future__ import annotations

from dataclasses import dataclass

from teia.clock import iso_utc
from teia.collections.control_file import Inbox, RunBulkAction
from teia.frontier.cell.bulk import selection_fields
from teia.web.server.installation import Installation

SHOWN = 5


@dataclass(frozen=True, slots=True)
class BulkActionRow:
    """Requested bulk action; `number` is the count of URLs so far, `done` is null until it is complete."""

    deed: str
    host: str
    contains: str
    source: str
    depth: int | None
    outcome: str
    who: str
    asked: str
    number: int
    done: str | None


def latest_actions(installation: Installation, collection: str) -> list[BulkActionRow]:
    """Return the last bulk actions on a collection, newest first."""
    with Inbox(installation.root.control) as inbox:
        found = inbox.recent(collection, RunBulkAction, SHOWN)
    return [
        BulkActionRow(
            deed=each.body.selection.action.value,
            **selection_fields(each.body.selection),
            who=each.who,
            asked=iso_utc(each.requested_s),
            number=each.progress,
            done=None if each.done_s is None else iso_utc(each.done_s),
        )
        for each in found
    ]
