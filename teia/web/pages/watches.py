"""Pages and searches that are watched: who is told what, and how that goes; and the feeds (docs/signals.md).

A feed's address has a key in it that cannot be guessed, because programs that read feeds do not sign in: who has the
address may read it. A webhook's secret is shown once, when it is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from teia.cluster.library import post_of
from teia.crawl.subscribing import (
    MAX_QUERY_CHARS,
    MAX_WEBHOOK_CHARS,
    Watched,
    notices_for_feed,
    subscribe,
    subscriptions_of,
    try_webhook,
    unsubscribe,
)
from teia.errors import UsageError
from teia.urls import host_of
from teia.web.atom import MEDIA_TYPE, atom
from teia.web.gate import Refused
from teia.web.pages.page import MAX_URL_CHARS
from teia.web.rendering import link
from teia.web.roles import Role
from teia.web.site import Site, site_of
from teia.web.twins import Done, OfSite, OfVisitor, Pages

Whole = Annotated[Site, Depends(site_of)]


@dataclass(frozen=True, slots=True)
class WatchesView:
    """What is watched in a collection; `url` and `q` are what somebody is about to add.

    `made` is the subscription that was just made, and `secret` that of its webhook, shown this once.
    """

    collection: str
    subscriptions: list[Watched]
    url: str = ""
    q: str = ""
    made: str = ""
    secret: str = ""


class Wanted(BaseModel):
    """What to watch: a page or a search; and where to post what there is to tell, if anywhere."""

    url: str = Field("", max_length=MAX_URL_CHARS)
    query: str = Field("", max_length=MAX_QUERY_CHARS)
    webhook: str = Field("", max_length=MAX_WEBHOOK_CHARS)


class Named(BaseModel):
    """A subscription."""

    id: str = Field(min_length=1, max_length=64)


def add_to(pages: Pages) -> None:
    pages.page("/c/{collection}/watches", "watches.html", Role.VIEWER)(watches)
    pages.reveal("/c/{collection}/watches/add", "watches.html", Role.OPERATOR)(add)
    pages.deed("/c/{collection}/watches/remove", Role.OPERATOR)(remove)
    pages.deed("/c/{collection}/watches/try", Role.OPERATOR)(try_it)
    how = {"include_in_schema": False, "response_class": Response}
    pages.add("GET", "/c/{collection}/feed/{key}", Role.PUBLIC, feed, **how)


def watches(
    site: OfSite,
    collection: str,
    url: Annotated[str, Query(max_length=MAX_URL_CHARS)] = "",
    q: Annotated[str, Query(max_length=MAX_QUERY_CHARS)] = "",
) -> WatchesView:
    """Pages and searches that are watched, and how telling of them goes."""
    folder = site.root.collection(site.check(collection))
    return WatchesView(collection, subscriptions_of(folder), url, q)


def add(site: OfSite, visitor: OfVisitor, collection: str, asked: Wanted) -> WatchesView:
    """Watch a page or a search from now on."""
    site.check(collection)
    if post_of(site.root, collection) is not None:
        raise UsageError(f"{collection} is crawled by a cluster, where nothing can be watched yet")
    given = {"url": asked.url.strip(), "query": asked.query.strip(), "webhook": asked.webhook.strip()}
    made = subscribe(site.root, collection, site.clock, who=visitor.name, **given)
    to = host_of(made.subscription.webhook) if made.subscription.webhook else ""
    site.accounts.note(visitor.name, "watch", collection=collection, watched=made.subscription.what, webhook=to)
    view = watches(site, collection)
    return WatchesView(collection, view.subscriptions, made=made.subscription.id, secret=made.secret)


def remove(site: OfSite, visitor: OfVisitor, collection: str, asked: Named) -> Done:
    """Stop watching something."""
    gone = unsubscribe(site.root, site.check(collection), asked.id)
    site.accounts.note(visitor.name, "stop watching", collection=collection, watched=gone.what)
    return Done(f"{gone.what} is not watched any more", link(f"/c/{collection}/watches"))


def try_it(site: OfSite, visitor: OfVisitor, collection: str, asked: Named) -> Done:
    """Send a message to a webhook that says nothing but that it arrives."""
    tried = try_webhook(site.root, site.check(collection), site.clock, asked.id)
    site.accounts.note(visitor.name, "try webhook", collection=collection, watched=tried.what)
    return Done("a message is on its way", link(f"/c/{collection}/watches"))


def feed(request: Request, site: Whole, collection: str, key: str) -> Response:
    """What a subscription tells, as an Atom feed."""
    is_known = collection in site.names()  # which collections there are is not told to everybody
    found = notices_for_feed(site.root.collection(collection), key) if is_known else None
    if found is None:
        raise Refused(404, "there is no such feed")
    here = f"{request.url.scheme}://{request.url.netloc}"
    subscription, notices = found
    query = {"url": subscription.what} if subscription.kind == "page" else {"q": subscription.what, "c": collection}
    page = link(f"/c/{collection}/page" if subscription.kind == "page" else "/search", **query)
    return Response(atom(subscription, notices, here + request.url.path, here + page), media_type=MEDIA_TYPE)
