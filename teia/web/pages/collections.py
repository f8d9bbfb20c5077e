"""Collections: what runs, what is next; and a crawl told to pause, go on or stop (T1, T2, T7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from teia.crawl.control import Command, Control
from teia.crawl.reading import account_at_rest
from teia.errors import StoreError
from teia.web.gate import Visitor
from teia.web.roles import Role
from teia.web.site import Site
from teia.web.twins import API, Done, OfSite, OfVisitor, Pages

WORDS: dict[str, Command] = {"pause": Command.PAUSE, "resume": Command.RESUME, "stop": Command.STOP}
SAID = {
    "pause": "asked to pause: requests under way are finished, no new ones begin",
    "resume": "asked to go on",
    "stop": "asked to stop: it finishes its requests, then stops; start it again any time, nothing is lost",
}


@dataclass(frozen=True, slots=True)
class CollectionLine:
    """One collection in the list."""

    name: str
    state: str
    pages: int
    urls_known: int
    urls_queued: int
    pages_per_s: float
    fresh: float | None
    bound: float | None
    paused_why: str


@dataclass(frozen=True, slots=True)
class CollectionsView:
    """All collections of a root."""

    collections: list[CollectionLine]


class Wanted(BaseModel):
    """What a running crawl is told."""

    command: Literal["pause", "resume", "stop"]


def add_to(pages: Pages) -> None:
    pages.page("/c", "collections.html", Role.VIEWER)(collections)
    pages.page("/c/{collection}", "monitor.html", Role.VIEWER, twin=False)(status)
    pages.add("GET", API + "/c/{collection}/status", Role.VIEWER, status)
    pages.add("GET", f"{API}/status", Role.VIEWER, first_status)
    pages.deed("/c/{collection}/command", Role.OPERATOR)(command)


def collections(site: OfSite) -> CollectionsView:
    """The collections, and how each stands."""
    return CollectionsView([_line(site, name) for name in site.names()])


def _line(site: Site, name: str) -> CollectionLine:
    account = status(site, name)
    freshness = account.get("freshness") or {}
    return CollectionLine(
        name=name,
        state=account["state"],
        pages=account["pages"],
        urls_known=account["urls_known"],
        urls_queued=account["urls_queued"],
        pages_per_s=account["pages_per_s"],
        fresh=freshness.get("fresh"),
        bound=freshness.get("best"),
        paused_why=account["paused_why"],
    )


def status(site: OfSite, collection: str) -> dict[str, Any]:
    """How a crawl stands: what it last said of itself, or what its folder holds. Keys of `teia status`."""
    site.check(collection)
    control = Control(site.root.path / "control.sqlite")
    try:
        run = control.run(collection)
    finally:
        control.close()
    if run is not None and "requests" in run.account:
        return {**run.account, "is_running": True}
    return {**account_at_rest(site.root, collection), "is_running": False}


def first_status(site: OfSite, c: str = "") -> dict[str, Any]:
    """How the crawl of a collection stands; without a name, of the only one."""
    names = site.names()
    if not c and len(names) != 1:
        raise StoreError(f"say which collection: c={'|'.join(names) or '(there is none yet)'}")
    return status(site, c or names[0])


def command(site: OfSite, visitor: OfVisitor, collection: str, asked: Wanted) -> Done:
    """Tell a running crawl to pause, to go on or to stop."""
    site.check(collection)
    control = Control(site.root.path / "control.sqlite")
    try:
        if control.run(collection) is None:
            raise StoreError(f"no crawl of {collection} is running")
        control.ask(collection, WORDS[asked.command], site.clock.now_s())
    finally:
        control.close()
    _note(site, visitor, collection, asked)
    return Done(f"{collection}: {SAID[asked.command]}", f"/c/{collection}")


def _note(site: Site, visitor: Visitor, collection: str, asked: Wanted) -> None:
    site.accounts.note(visitor.name, asked.command, collection=collection)
