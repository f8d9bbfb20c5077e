"""Page of one URL: age of its capture, next visit, links to it (F5, T10, P9).

A URL that a collection does not know leads to a page that tells whether it would be crawled, and offers to add it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from fastapi import Query, Request
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, Field

from teia.clock import iso_utc
from teia.collections.control_file import Inbox, VisitPage
from teia.collections.settings import change, is_clustered
from teia.crawler.lookup import Lookup, UrlEntry
from teia.errors import StoreError, UsageError
from teia.lib.message import Message
from teia.records import Edit, Operator, Outcome
from teia.urls import from_user, host_of
from teia.views.page import PageDetail, find_entry, page_detail, suggestions
from teia.views.queue import expected_s
from teia.views.why_waiting import why_unknown, why_waiting
from teia.web import limits
from teia.web.access.roles import Role
from teia.web.parts.collection_state import TABLE_PATIENCE_S, account_of, table_of
from teia.web.server.installation import Installation, UnknownPage
from teia.web.server.json_routes import API, ActionResult, InstallationDep, PageRoutes, RedirectTo, VisitorDep
from teia.web.server.templates import link

Url = Annotated[str, Query(max_length=limits.URL_CHARS)]
From = Annotated[int, Query(ge=0, le=1_000_000)]


@dataclass(frozen=True, slots=True)
class UnknownView:
    """A URL that a collection does not know.

    `would` tells whether it would be crawled if a page linked to it, `why` the reason. `alike` are similar known URLs.
    """

    url: str
    collection: str
    would: bool
    why: str
    alike: list[str]
    added: bool = False


class PageUrl(BaseModel):
    """A page, by its URL."""

    url: str = Field(min_length=1, max_length=limits.URL_CHARS)


def add_routes(pages: PageRoutes) -> None:
    pages.page("/c/{collection}/page", "page.html", Role.PUBLIC)(page)
    pages.page("/c/{collection}/unknown", "unknown.html", Role.PUBLIC)(unknown)
    for path in ("/page", "/copy"):
        pages.add("GET", path, Role.PUBLIC, find_page, include_in_schema=False, response_class=RedirectResponse)
    pages.add("GET", f"{API}/pages", Role.PUBLIC, page_anywhere, response_model=PageDetail)
    pages.action("/c/{collection}/check", Role.OPERATOR)(check)
    pages.action("/c/{collection}/add", Role.OPERATOR)(add)


def page(
    installation: InstallationDep,
    collection: str,
    url: Url,
    links_from: From = 0,
    links_to: From = 0,
    asked: Literal["", "running", "waiting"] = "",
) -> PageDetail:
    """Return all data about one page of a collection; its links from the given offsets on."""
    try:
        found = _detail(installation, collection, url, links_from, links_to)
        expected = expected_visit(installation, collection, found.url) if found.state == "queued" else None
        return replace(found, asked=asked, expected=expected)
    except StoreError as error:
        if from_user(url) is None:
            raise
        # Browsers are redirected to a page that offers to add the URL; the API gets 404.
        raise UnknownPage(error.message, link(f"/c/{collection}/unknown", url=url)) from error


def _detail(
    installation: Installation, collection: str, url: str, links_from: int = 0, links_to: int = 0
) -> PageDetail:
    config = installation.config(collection)
    with installation.lookup(collection) as lookup:
        return page_detail(lookup, url, config, installation.clock, links_from, links_to)


def expected_visit(installation: Installation, collection: str, url: str) -> str | None:
    """Return the time at which the running crawl would fetch a queued URL; None if none runs or it is far behind."""
    _, run = account_of(installation, collection)
    table = None if run is None else table_of(installation, collection, TABLE_PATIENCE_S)
    if table is None:
        return None
    with installation.lookup(collection) as lookup:
        at_s = expected_s(lookup, table, installation.config(collection), installation.clock.now_s(), url)
    return None if at_s is None else iso_utc(at_s)


def page_anywhere(installation: InstallationDep, url: Url, c: str = "") -> PageDetail:
    """Return all data about one page, from the first collection that knows it."""
    return _find(installation, url, c)[1]


def find_page(request: Request, installation: InstallationDep, url: Url) -> RedirectResponse:
    """Redirect to a page, or its capture, in the first collection that knows it."""
    return RedirectResponse(link(f"/c/{_find(installation, url, '')[0]}{request.url.path}", url=url), 303)


def _find(installation: Installation, url: str, collection: str) -> tuple[str, PageDetail]:
    names = [installation.check(collection)] if collection else installation.names()
    for name in names:
        try:
            return name, _detail(installation, name, url)
        except StoreError:
            # No collection knows it: the error of the last one is reported.
            if name == names[-1]:
                raise
    raise StoreError(Message("there is no collection yet"))


# ---- unknown URLs ---------------------------------------------------------------------------------------------------


def unknown(installation: InstallationDep, collection: str, url: Url, added: bool = False) -> UnknownView:
    """Tell whether a URL that no crawled page links to would be crawled."""
    canonical = _canonical(url)
    config = installation.config(collection)
    with installation.lookup(collection) as lookup:
        if lookup.find(canonical) is not None:
            raise RedirectTo(link(f"/c/{collection}/page", url=canonical))
        alike = suggestions(lookup, canonical)
    why = why_unknown(canonical, config)
    return UnknownView(canonical, collection, NOT_LINKED in why, why, alike, added)


NOT_LINKED = Message("no fetched page links to it")


def _canonical(url: str) -> str:
    canonical = from_user(url)
    if canonical is None:
        raise UsageError(
            Message("{url!r} is not an http or https URL; write it like https://example.org/page", url=url[:200])
        )
    return canonical


# ---- changes --------------------------------------------------------------------------------------------------------


def check(installation: InstallationDep, visitor: VisitorDep, collection: str, form: PageUrl) -> ActionResult:
    """Request a visit of a known page, at the next free slot of its server."""
    config, url = installation.config(collection), from_user(form.url)
    with installation.lookup(collection) as lookup:
        # Another node of a cluster may own the page: this folder does not know it, and the owner decides.
        is_elsewhere = (
            url is not None and is_clustered(installation.root.collection(collection)) and lookup.find(url) is None
        )
        if url is None or not is_elsewhere:
            entry = find_entry(lookup, form.url, config)
            _refuse_excluded(lookup, entry, installation.clock.now_s())
            url = entry.url
    with Inbox(installation.root.control) as inbox:
        inbox.send(collection, VisitPage(url), installation.clock.now_s(), visitor.name)
        is_running = inbox.running_crawl(collection) is not None
    installation.accounts.log_action(visitor.name, Message("check now"), collection=collection, url=url)
    when = f"as soon as the delay of {host_of(url)} allows" if is_running else "during the next crawl of the collection"
    asked = {} if is_elsewhere else {"asked": "running" if is_running else "waiting"}
    to = link(f"/c/{collection}/{'unknown' if is_elsewhere else 'page'}", url=url, **asked)
    return ActionResult(f"it will be fetched {when}; delays still apply", to)


def _refuse_excluded(lookup: Lookup, entry: UrlEntry, now_s: float) -> None:
    if entry.state == "excluded" and entry.outcome != Outcome.ROBOTS:
        raise UsageError(Message("{url} is not fetched: {why}", url=entry.url, why=why_waiting(lookup, entry, now_s)))


def add(installation: InstallationDep, visitor: VisitorDep, collection: str, form: PageUrl) -> ActionResult:
    """Add a URL to the seeds of a collection; a running crawl fetches it at once."""
    installation.check(collection)
    url = _canonical(form.url)
    change(installation.root, collection, [Edit("collection.seeds", Operator.ADD, url)], installation.clock)
    installation.accounts.log_action(visitor.name, Message("add"), collection=collection, url=url)
    return ActionResult(f"{url} is now a seed of {collection}", link(f"/c/{collection}/unknown", url=url, added="yes"))
