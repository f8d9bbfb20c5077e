"""Bulk actions on all URLs of a filter: drop, put first, retry; always after a count."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlencode

from fastapi import Query
from pydantic import BaseModel, Field, ValidationError

from teia.clock import iso_utc
from teia.collections import bulk
from teia.collections.control_file import Inbox
from teia.errors import TeiaError, UsageError
from teia.frontier.cell.bulk import BulkAction, BulkSelection, selection_fields
from teia.lib.message import Message, plain
from teia.views.reports.source import snapshot
from teia.web.access.roles import Role
from teia.web.background.cache import CachedAnswer, NotReady
from teia.web.server.installation import Installation
from teia.web.server.json_routes import ActionResult, InstallationDep, PageRoutes, VisitorDep
from teia.web.server.templates import link

COUNT_FRESH_S, COUNT_PATIENCE_S = 10.0, 0.1
ActionName = Literal["drop", "first", "retry"]
Source = Literal["", "new", "retry", "refresh", "suspect"]
ACTIONS = (Message("drop"), Message("first"), Message("retry"))
"""Names of the actions in the log of changes, for the catalogues."""


@dataclass(frozen=True, slots=True)
class BulkView:
    """Count of the URLs that a bulk action would affect, and examples; `number` is null during the count.

    `query` is the filter as this page's address has it.
    """

    deed: str
    host: str
    contains: str
    source: str
    depth: int | None
    outcome: str
    counted: str | None
    number: int | None
    examples: list[str]
    is_counting: bool
    query: str


class BulkForm(BaseModel):
    """A bulk action and its filter of URLs; empty fields match every URL."""

    deed: ActionName
    host: str = Field(default="", max_length=255)
    contains: str = Field(default="", max_length=500)
    source: Source = ""
    depth: str = Field(default="", max_length=4, pattern=r"^[0-9]{0,4}$")
    outcome: str = Field(default="", max_length=40)


class CountForm(BulkForm):
    """A bulk action to count the URLs of; `drop` by default."""

    deed: ActionName = "drop"


def add_routes(pages: PageRoutes) -> None:
    pages.page("/c/{collection}/frontier/bulk", "bulk.html", Role.OPERATOR)(counted)
    pages.action("/c/{collection}/frontier/bulk", Role.OPERATOR)(carry_out)


def counted(installation: InstallationDep, collection: str, form: Annotated[CountForm, Query()]) -> BulkView:
    """Count the URLs that a bulk action would affect; change nothing."""
    installation.check(collection)
    selection = _selection(form)

    def make() -> bulk.BulkCount:
        with snapshot(installation.root, collection) as cells:
            return bulk.count_urls([cell.frontier for cell in cells], selection, installation.clock.now_s())

    found: CachedAnswer[bulk.BulkCount] | None = None
    with suppress(NotReady):
        found = installation.cache.get(("bulk", collection, selection), make, COUNT_FRESH_S, COUNT_PATIENCE_S)
    return BulkView(
        deed=selection.action.value,
        **selection_fields(selection),
        counted=None if found is None else iso_utc(found.time_s),
        number=None if found is None else found.value.number,
        examples=[] if found is None else list(found.value.examples),
        is_counting=found is None,
        query=urlencode({name: value for name, value in form.model_dump().items() if value}),
    )


def live_bulk(installation: Installation, collection: str, query: str) -> dict[str, Any]:
    """Return the live part of the page: the state of the count, its result, or its error."""
    try:
        # The filter comes from the address of the page, so it is checked like a form.
        form = CountForm.model_validate(dict(parse_qsl(query)))
    except ValidationError as error:
        raise UsageError(f"{query!r} is not a filter of URLs") from error
    found = installation.cache.last(("bulk", installation.check(collection), _selection(form)))
    if found is not None:  # a live page does not start a new count
        return {"is_counting": False, "counted": iso_utc(found.time_s), "number": found.value.number, "failed": ""}
    try:
        view = counted(installation, collection, form)
    except TeiaError as error:
        return {"is_counting": False, "counted": None, "number": None, "failed": error.message}
    return {"is_counting": view.is_counting, "counted": view.counted, "number": view.number, "failed": ""}


def _selection(form: BulkForm) -> BulkSelection:
    depth = int(form.depth) if form.depth else None
    host = form.host.strip().lower()
    return BulkSelection(BulkAction(form.deed), host, form.contains, form.source, depth, form.outcome.strip())


def carry_out(installation: InstallationDep, visitor: VisitorDep, collection: str, form: BulkForm) -> ActionResult:
    """Drop waiting URLs, put them first, or retry them: all that match, in the running crawl or without one."""
    installation.check(collection)
    selection = _selection(form)
    with Inbox(installation.root.control) as inbox:
        bulk.request_action(inbox, collection, selection, visitor.name, installation.clock.now_s())
        is_running = inbox.running_crawl(collection) is not None
    details = {name: str(value) for name, value in selection_fields(selection).items() if value not in ("", None)}
    installation.accounts.log_action(
        visitor.name, Message("many URLs: {deed}", deed=plain(selection.action)), collection=collection, **details
    )
    # Without a running crawl, this server executes the action.
    installation.offline_bulk.start_if_needed()
    who = "by the running crawl" if is_running else "now"
    return ActionResult(
        f"{selection.action} is executed {who}, for every URL that matches", link(f"/c/{collection}/frontier")
    )
