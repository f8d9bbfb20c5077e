"""Watched pages and searches: subscriptions, their deliveries, and feeds (docs/signals.md).

A feed's address contains a key that cannot be guessed, because feed readers do not sign in: any program with the
address may read the feed. A webhook's secret is shown once, when it is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from teia.cluster.search.processes import read_librarian_settings
from teia.errors import UsageError
from teia.lib.message import Message
from teia.notify.subscriptions import (
    MAX_QUERY_CHARS,
    MAX_WEBHOOK_CHARS,
    ListedSubscription,
    list_subscriptions,
    notices_for_feed,
    send_test_message,
    subscribe,
    unsubscribe,
)
from teia.urls import host_of
from teia.web import limits
from teia.web.access.roles import Role
from teia.web.server.atom import MEDIA_TYPE, atom
from teia.web.server.auth import Refused
from teia.web.server.installation import Installation, installation_of
from teia.web.server.json_routes import (
    NO_PROBLEM,
    ActionResult,
    FormProblem,
    InstallationDep,
    PageRoutes,
    VisitorDep,
)
from teia.web.server.templates import link

FullInstallationDep = Annotated[Installation, Depends(installation_of)]


@dataclass(frozen=True, slots=True)
class WatchesView:
    """Subscriptions of a collection; `url` and `q` prefill the form.

    `made` is the subscription that was just made, and `secret` that of its webhook, shown only once.
    """

    collection: str
    subscriptions: list[ListedSubscription]
    url: str = ""
    q: str = ""
    made: str = ""
    secret: str = ""
    webhook: str = ""
    problem: FormProblem = NO_PROBLEM


class SubscriptionForm(BaseModel):
    """A page or a search to watch, and a webhook for its notifications, if wanted."""

    url: str = Field("", max_length=limits.URL_CHARS)
    query: str = Field("", max_length=MAX_QUERY_CHARS)
    webhook: str = Field("", max_length=MAX_WEBHOOK_CHARS)


class SubscriptionId(BaseModel):
    """Subscription, by its id."""

    id: str = Field(min_length=1, max_length=64)


def add_routes(pages: PageRoutes) -> None:
    pages.page("/c/{collection}/watches", "watches.html", Role.VIEWER)(watches)
    pages.action("/c/{collection}/watches/add", Role.OPERATOR, "watches.html", add_again)(add)
    pages.action("/c/{collection}/watches/remove", Role.OPERATOR)(remove)
    pages.action("/c/{collection}/watches/try", Role.OPERATOR)(try_it)
    how = {"include_in_schema": False, "response_class": Response}
    pages.add("GET", "/c/{collection}/feed/{key}", Role.PUBLIC, feed, **how)


def watches(
    installation: InstallationDep,
    collection: str,
    url: Annotated[str, Query(max_length=limits.URL_CHARS)] = "",
    q: Annotated[str, Query(max_length=MAX_QUERY_CHARS)] = "",
) -> WatchesView:
    """List the watched pages and searches, and the state of their deliveries."""
    folder = installation.root.collection(installation.check(collection))
    return WatchesView(collection, list_subscriptions(folder), url, q)


def add(installation: InstallationDep, visitor: VisitorDep, collection: str, form: SubscriptionForm) -> WatchesView:
    """Watch a page or a search from now on."""
    installation.check(collection)
    if read_librarian_settings(installation.root, collection) is not None:
        raise UsageError(f"{collection} is crawled by a cluster; subscriptions are not supported there yet")
    given = {"url": form.url.strip(), "query": form.query.strip(), "webhook": form.webhook.strip()}
    made = subscribe(installation.root, collection, installation.clock, who=visitor.name, **given)
    # The audit log names the host alone: the path of a webhook may contain a key.
    to = host_of(made.subscription.webhook) if made.subscription.webhook else ""
    installation.accounts.log_action(
        visitor.name, Message("watch"), collection=collection, watched=made.subscription.what, webhook=to
    )
    view = watches(installation, collection)
    return WatchesView(collection, view.subscriptions, made=made.subscription.id, secret=made.secret)


def add_again(
    problem: FormProblem, installation: Installation, collection: str, form: SubscriptionForm, **_: object
) -> WatchesView:
    """Return the page after a subscription that could not be made, with what was typed."""
    # What is wrong with no other field is that a page is not known.
    problem = replace(problem, field=problem.field or ("url" if form.url.strip() else ""))
    view = watches(installation, collection, form.url, form.query)
    return replace(view, webhook=form.webhook, problem=problem)


def remove(installation: InstallationDep, visitor: VisitorDep, collection: str, form: SubscriptionId) -> ActionResult:
    """Stop watching a page or a search."""
    gone = unsubscribe(installation.root, installation.check(collection), form.id)
    installation.accounts.log_action(visitor.name, Message("stop watching"), collection=collection, watched=gone.what)
    return ActionResult(
        Message("the subscription to {what} was removed", what=gone.what), link(f"/c/{collection}/watches")
    )


def try_it(installation: InstallationDep, visitor: VisitorDep, collection: str, form: SubscriptionId) -> ActionResult:
    """Send a test message to a webhook."""
    tried = send_test_message(installation.root, installation.check(collection), installation.clock, form.id)
    installation.accounts.log_action(visitor.name, Message("try webhook"), collection=collection, watched=tried.what)
    return ActionResult(Message("a test message was queued"), link(f"/c/{collection}/watches"))


def feed(request: Request, installation: FullInstallationDep, collection: str, key: str) -> Response:
    """Return the notifications of a subscription as an Atom feed."""
    # One 404 for both an unknown collection and a wrong key: the public must not learn which collections exist.
    is_known = collection in installation.names()
    found = notices_for_feed(installation.root.collection(collection), key) if is_known else None
    if found is None:
        raise Refused(404, "there is no such feed")
    here = f"{request.url.scheme}://{request.url.netloc}"
    subscription, notices = found
    query = {"url": subscription.what} if subscription.kind == "page" else {"q": subscription.what, "c": collection}
    page = link(f"/c/{collection}/page" if subscription.kind == "page" else "/search", **query)
    return Response(atom(subscription, notices, here + request.url.path, here + page), media_type=MEDIA_TYPE)
