"""Subscriptions as users make, list and end them: for the command line and the web interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex, token_urlsafe

from teia.clock import Clock, iso_utc
from teia.collections.settings import saved
from teia.config.sections import Config
from teia.crawler.lookup import Lookup
from teia.errors import UsageError
from teia.fetch.destination import AddressOverrides, resolve_here
from teia.fetch.guard import AddressGuard
from teia.lib.message import Message
from teia.signals import subscriptions as tables
from teia.signals.subscriptions import PAGE, SEARCH, Notice, Subscription, Subscriptions
from teia.signals.webhook import message, new_secret
from teia.sqlite import open_database, sqlite_errors, transaction
from teia.store.root import CollectionFolder, Root
from teia.urls import canonicalize, split

MAX_QUERY_CHARS, MAX_WEBHOOK_CHARS = 2_000, 2_000
TEST = "test"
"""Type of the message with which a user tests a webhook."""


@dataclass(frozen=True, slots=True)
class ListedSubscription:
    """A subscription as it is listed: without its secret, and without the parts of its webhook that may hold one.

    `waiting`, `delivered`, `given_up` and `dropped` count notices. `problem` is the error of the last try of the
    webhook, `again` the time of the next.
    """

    id: str
    kind: str
    what: str
    webhook: str | None
    feed: str
    made: str
    made_by: str
    last_notice: str | None
    waiting: int
    delivered: int
    given_up: int
    dropped: int
    failures: int
    problem: str | None
    again: str | None


@dataclass(frozen=True, slots=True)
class NewSubscription:
    """A new subscription; its secret is shown this once, and is empty where there is no webhook."""

    subscription: ListedSubscription
    secret: str


def open_subscriptions(path: Path) -> Subscriptions:
    """Open a collection's subscriptions; a missing file is created, readable by its owner alone."""
    return Subscriptions(open_database(path, tables.SCHEMA))


@contextmanager
def open_store(folder: CollectionFolder) -> Iterator[Subscriptions]:
    """Open a collection's subscriptions for a `with` block."""
    with closing(open_subscriptions(folder.subscriptions)) as store, sqlite_errors(folder.subscriptions):
        yield store


def subscribe(
    root: Root, name: str, clock: Clock, *, url: str = "", query: str = "", webhook: str = "", who: str = ""
) -> NewSubscription:
    """Watch a page or a search from now on; UsageError or StoreError gives the reason if it is impossible."""
    from teia.views.page import find_entry  # imports the rate estimators

    if bool(url) == bool(query):
        raise UsageError(Message("choose either the URL of a page or the query of a search"), "url")
    config = saved(root, name).config
    to = check_webhook(webhook, config) if webhook else ""
    now_s = clock.now_s()
    with Lookup(root, name) as lookup:
        if url:
            entry = find_entry(lookup, url, config)
            kind, what, positions = PAGE, entry.url, dict[int, int]()
            # The watch begins after the last visit: earlier changes are no news.
            seen_s = entry.page.last_visit_s if entry.page is not None else 0.0
        else:
            kind, what, seen_s = SEARCH, check_query(query, config), now_s
            # Pages that change after these positions are compared with the search.
            positions = {number: cell.last_change() for number, cell in enumerate(lookup.cells)}
    secret = new_secret() if to else ""
    # The id is shown in lists; the feed's address has a key that cannot be guessed.
    made = Subscription(token_hex(8), kind, what, to, secret, token_urlsafe(24), now_s, who, seen_s)
    with open_store(root.collection(name)) as store:
        store.add(made, positions)
        return NewSubscription(_listed(store, made), secret)


def unsubscribe(root: Root, name: str, identity: str) -> ListedSubscription:
    """End a subscription; return its last state."""
    with open_store(root.collection(name)) as store:
        found = _get(store, name, identity)
        watched = _listed(store, found)
        store.remove(found.id)
        return watched


def send_test_message(root: Root, name: str, clock: Clock, identity: str) -> ListedSubscription:
    """Queue a test message for a webhook; waiting tries are made at once."""
    now_s = clock.now_s()
    with open_store(root.collection(name)) as store:
        found = _get(store, name, identity)
        if not found.webhook:
            raise UsageError(f"the subscription {found.id} has no webhook, only a feed")
        body = message(TEST, iso_utc(now_s), origin_fields(name, found))
        with transaction(store.db):
            store.queue_notice(found, token_hex(16), now_s, body)
            store.db.execute("UPDATE subscriptions SET again_s = 0 WHERE id = ?", (found.id,))
        return _listed(store, found)


def origin_fields(collection: str, subscription: Subscription) -> dict[str, object]:
    """Return the fields of every message that name its origin."""
    return {"collection": collection, "subscription": subscription.id, subscription.kind: subscription.what}


def list_subscriptions(folder: CollectionFolder) -> list[ListedSubscription]:
    """Return all subscriptions of a collection, oldest first."""
    if not folder.subscriptions.exists():
        return []
    with open_store(folder) as store:
        return [_listed(store, each) for each in store.all()]


def notices_for_feed(folder: CollectionFolder, key: str) -> tuple[Subscription, list[Notice]] | None:
    """Return the notices of a feed, newest first; None if no subscription of the collection has this key."""
    if not folder.subscriptions.exists():
        return None
    with open_store(folder) as store:
        found = store.with_feed(key)
        return None if found is None else (found, store.notices(found.id))


def _get(store: Subscriptions, name: str, identity: str) -> Subscription:
    found = store.get(identity)
    if found is None:
        raise UsageError(f"there is no subscription {identity[:40]!r} in {name}; `teia watch list` lists them")
    return found


def _listed(store: Subscriptions, each: Subscription) -> ListedSubscription:
    last = store.notices(each.id, 1)
    return ListedSubscription(
        id=each.id,
        kind=each.kind,
        what=each.what,
        webhook=redact_webhook(each.webhook) if each.webhook else None,
        feed=each.feed,
        made=iso_utc(each.made_s),
        made_by=each.made_by,
        last_notice=iso_utc(last[0].time_s) if last else None,
        waiting=store.count_waiting(each.id),
        delivered=each.delivered,
        given_up=each.given_up,
        dropped=each.dropped,
        failures=each.failures,
        problem=each.outcome or None,
        again=iso_utc(each.again_s) if each.failures else None,
    )


# ---- checks of queries and webhooks ---------------------------------------------------------------------------------


def check_query(query: str, config: Config) -> str:
    """Return a query that can be answered; raise UsageError otherwise."""
    from teia.search.query.parser import parse

    if not config.index.enabled:
        raise UsageError(
            Message(
                "{name} has no search index (index.enabled), so searches cannot be watched", name=config.collection.name
            ),
            "query",
        )
    if len(query) > MAX_QUERY_CHARS:
        raise UsageError(
            Message("the query of a subscription may have at most {n:,} characters", n=MAX_QUERY_CHARS), "query"
        )
    if not parse(query).is_answerable:
        raise UsageError(
            Message("{query!r} is an empty query; add a word or a filter, such as site:example.org", query=query[:100]),
            "query",
        )
    return query.strip()


def check_webhook(text: str, config: Config) -> str:
    """Return a webhook URL that messages may be posted to, as far as can be checked without a request."""
    url = canonicalize(text.strip(), ()) if len(text) <= MAX_WEBHOOK_CHARS else None
    if url is None:
        raise UsageError(Message("webhook: must be an http or https URL, such as https://example.org/hook"), "webhook")
    # `canonicalize` drops a name and a password silently; the receiver would then refuse every message.
    if "@" in text.partition("://")[2].partition("/")[0]:
        raise UsageError(
            Message("webhook: must not contain a user name and a password; messages are signed instead"), "webhook"
        )
    parts = split(url)
    override = AddressOverrides.parse(config.fetch.resolve).find(parts.host)
    # No DNS request here: a name is resolved, and its address guarded, at every post (signals_in/post.py).
    here = resolve_here(parts.host)
    addresses = (override.address,) if override is not None else here.addresses if here is not None else ()
    port = override.port or parts.port if override is not None else parts.port
    if here is not None and here.failure is not None and override is None:
        raise UsageError(Message("webhook: {host} is not a host", host=parts.host), "webhook")
    refusal = AddressGuard(config.fetch.allow_nets).check_all(addresses, port)
    if refusal is not None:
        hint = "" if refusal.startswith("port") else "; allow such networks with fetch.allow_nets"
        raise UsageError(f"webhook: {refusal}{hint}", "webhook")
    return url


def redact_webhook(url: str) -> str:
    """Return a webhook's address without its path and query: either may contain a key."""
    # `https://`, or `http://` and the first letter of the host: the slash of the path comes later in both.
    at, slash, rest = url[8:].partition("/")
    return f"{url[:8]}{at}{slash}{'…' if rest else ''}"
