"""URLs added to the queue, by a form or by a program."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel, Field

from teia.collections.add_urls import MAX_URLS, AddUrlResult, WrongUrls, add_urls
from teia.errors import StoreError
from teia.lib.message import Message
from teia.web import limits
from teia.web.access.roles import Role
from teia.web.server.json_routes import FormAgain, InstallationDep, PageRoutes, VisitorDep

LOGGED_URLS = 20


@dataclass(frozen=True, slots=True)
class LineFault:
    """Error in one typed line; lines are counted from 1."""

    line: int
    message: str


@dataclass(frozen=True, slots=True)
class AddView:
    """Results for the URLs that were sent, if any: `fate` is added, known or refused.

    `widened` are scope rules that new seeds added; `follows_seeds` is true if the scope follows the seeds.
    `is_running`: a crawl is running and has received the URLs. `typed` and `faults` are set when a form is shown again.
    """

    most: int
    follows_seeds: bool
    urls: list[AddUrlResult] = field(default_factory=list)
    widened: list[str] = field(default_factory=list)
    is_running: bool = False
    typed: str = ""
    faults: list[LineFault] = field(default_factory=list)


class AddUrlsForm(BaseModel):
    """URLs to crawl, up to 200; a form sends them one per line."""

    urls: Annotated[list[Annotated[str, Field(max_length=limits.BODY_BYTES)]], Field(max_length=10_000)]

    def lines(self) -> list[str]:
        """Return the typed lines."""
        return [line.strip() for text in self.urls for line in text.splitlines()]


def add_routes(pages: PageRoutes) -> None:
    to = "/c/{collection}/frontier/add"
    pages.page(to, "adding.html", Role.OPERATOR)(form)
    pages.form(to, Role.OPERATOR, "adding.html")(add_by_form)
    pages.api(to, Role.OPERATOR, "adding_add")(add)


def form(installation: InstallationDep, collection: str) -> AddView:
    """Return the form for adding URLs to the queue."""
    return AddView(MAX_URLS, not installation.config(collection).scope.include)


def add(installation: InstallationDep, visitor: VisitorDep, collection: str, form: AddUrlsForm) -> AddView:
    """Add URLs to the crawl; they are checked like seeds, and become seeds."""
    config = installation.config(collection)
    with ExitStack() as stack:
        try:
            lookup = stack.enter_context(installation.lookup(collection))
        except StoreError:  # the collection was never crawled
            lookup = None
        done = add_urls(
            installation.root, collection, [line for line in form.lines() if line], config, lookup, installation.clock
        )
    new = [each.url for each in done.urls if each.fate == "added"]
    if new:
        more = f" and {len(new) - LOGGED_URLS:,} more" if len(new) > LOGGED_URLS else ""
        installation.accounts.log_action(
            visitor.name, Message("add"), collection=collection, urls=", ".join(new[:LOGGED_URLS]) + more
        )
    return AddView(MAX_URLS, not config.scope.include, list(done.urls), list(done.widened), done.is_running)


def add_by_form(
    installation: InstallationDep, visitor: VisitorDep, collection: str, form: AddUrlsForm
) -> AddView | FormAgain:
    """Add URLs; if there is an error, show the form again with the typed text."""
    try:
        return add(installation, visitor, collection, form)
    except WrongUrls as wrong:
        # `add` got the lines that are not empty; the form counts all of them.
        numbers = [number for number, line in enumerate(form.lines(), 1) if line]
        faults = [LineFault(numbers[index] if index < len(numbers) else 1, message) for index, message in wrong.faults]
        follows, typed = not installation.config(collection).scope.include, "\n".join(form.urls)
        return FormAgain(AddView(MAX_URLS, follows, typed=typed, faults=faults))
