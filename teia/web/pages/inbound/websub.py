"""WebSub callbacks: hubs report changed feeds. Public routes for programs (docs/signals.md).

The address contains a key that only the hub knows, but the key proves nothing about a message. A hub's verification is
confirmed only for a subscription that we requested. A push without a signature by the subscription's secret is ignored
and counted. Every push to a known key gets the same response, so that an attacker learns nothing by trying.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request
from fastapi.responses import PlainTextResponse
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from teia.crawler.signals_in.websub import announce_push, count_push, open_collection_hubs
from teia.errors import ParseError
from teia.frontier.cell.schema import BY_SIGNAL
from teia.signals.websub import DENIED, MAX_CHALLENGE_CHARS, MAX_PUSH_BYTES, HubTopic, is_signed
from teia.urls import host_of, site_of
from teia.web.access.roles import Role
from teia.web.server.installation import Installation, installation_of
from teia.web.server.json_routes import PageRoutes

MAX_TOPIC_CHARS = 8_000
MAX_TYPE_CHARS = 100
FullInstallationDep = Annotated[Installation, Depends(installation_of)]
UNKNOWN = PlainTextResponse("there is no subscription here\n", 404)
ACCEPTED = "thank you\n"


def add_routes(pages: PageRoutes) -> None:
    how = {"include_in_schema": False, "response_class": PlainTextResponse}
    pages.add("GET", "/websub/{collection}/{key}", Role.PUBLIC, verify, **how)
    pages.add("POST", "/websub/{collection}/{key}", Role.PUBLIC, push, **how)


def verify(
    installation: FullInstallationDep,
    collection: str,
    key: str,
    mode: Annotated[str, Query(alias="hub.mode", max_length=20)] = "",
    topic: Annotated[str, Query(alias="hub.topic", max_length=MAX_TOPIC_CHARS)] = "",
    challenge: Annotated[str, Query(alias="hub.challenge", max_length=MAX_CHALLENGE_CHARS)] = "",
    lease_s: Annotated[int, Query(alias="hub.lease_seconds", ge=0, le=10**10)] = 0,
    reason: Annotated[str, Query(alias="hub.reason", max_length=500)] = "",
) -> PlainTextResponse:
    """Answer a hub that verifies a subscription, or that denies it."""
    known = _topic(installation, collection, key)
    if known is None:
        return UNKNOWN
    folder, now_s = installation.root.collection(collection), installation.clock.now_s()
    with open_collection_hubs(folder) as hubs:
        if mode == DENIED:
            return PlainTextResponse(ACCEPTED) if hubs.deny(known, topic, reason, now_s) else UNKNOWN
        # The echo confirms the subscription (WebSub, 5.3), so it is sent only for one that was requested.
        if challenge and hubs.confirm(known, mode, topic, lease_s, now_s):
            return PlainTextResponse(challenge)
    return UNKNOWN


async def push(request: Request, installation: FullInstallationDep, collection: str, key: str) -> PlainTextResponse:
    """Receive a hub's notification of a changed feed."""
    known = await run_in_threadpool(_topic, installation, collection, key)
    if known is None:
        return UNKNOWN
    try:
        body = await request.body()
    except ClientDisconnect:  # the body was too long or too slow; count it as oversized
        body = bytes(MAX_PUSH_BYTES + 1)
    signature = request.headers.get("x-hub-signature", "")
    media_type = request.headers.get("content-type", "")[:MAX_TYPE_CHARS]
    await run_in_threadpool(_receive_push, installation, collection, known, body, signature, media_type)
    return PlainTextResponse(ACCEPTED, 202)


def _topic(installation: Installation, collection: str, key: str) -> HubTopic | None:
    """Return the subscription with this key; None also for an unknown collection, so that names are not revealed."""
    if collection not in installation.names():
        return None
    folder = installation.root.collection(collection)
    if not folder.hubs.exists():
        return None
    with open_collection_hubs(folder) as hubs:
        return hubs.with_key(key)


def _receive_push(
    installation: Installation, collection: str, known: HubTopic, body: bytes, signature: str, media_type: str
) -> None:
    folder = installation.root.collection(collection)
    with open_collection_hubs(folder) as hubs:
        is_push_expected = hubs.is_push_expected(known, installation.clock.now_s())
    if len(body) > MAX_PUSH_BYTES:
        count_push(folder, "oversized")
    elif not is_signed(known.secret, signature, body):
        count_push(folder, "forged" if signature else "unsigned")
    elif not is_push_expected:
        count_push(folder, "unasked")
    else:
        announce_push(
            folder, known.feed, _pages(installation, collection, known.feed, body, media_type), installation.clock
        )


def _pages(installation: Installation, collection: str, feed: str, body: bytes, media_type: str) -> list[str]:
    """Return the pages of the feed's own site in a push.

    It is untrusted text, so a child process parses it.
    """
    if not body.strip():
        return []
    # It becomes a header line of a made-up response, so it must not contain a line end.
    content_type = "".join(char for char in media_type if " " <= char <= "~") or "application/xml"
    try:
        text = installation.capture_reader.text(
            feed, f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n".encode(), body
        )
    except ParseError:
        count_push(installation.root.collection(collection), "malformed")
        return []
    compiled, own = installation.compiled_settings(collection), site_of(host_of(feed))
    return [url for url in text.links if site_of(host_of(url)) == own and compiled.wants_link(url, 1, BY_SIGNAL)]
