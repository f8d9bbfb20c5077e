"""WebSub callbacks: hubs report changed feeds. Public routes for programs (docs/signals.md).

The address contains a key that only the hub knows, but the key proves nothing about a message. A hub's verification is
confirmed only for a subscription that we requested. A push without a signature by the subscription's secret is ignored
and counted. Every push to a known key gets the same response, so that an attacker learns nothing by trying.
"""

from __future__ import annotations

from secrets import token_hex
from typing import Annotated

from fastapi import Depends, Query, Request
from fastapi.responses import PlainTextResponse
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from teia.collections.control_file import Inbox, JudgeHubCall
from teia.collections.settings import is_clustered
from teia.crawler.signals_in.websub import announce_push, count_push, judge_call
from teia.errors import ParseError, StoreError, UsageError
from teia.signals.websub import (
    ACCEPTED,
    CONFIRMED,
    DENIED,
    MAX_CHALLENGE_CHARS,
    MAX_PUSH_BYTES,
    REFUSAL_NOTED,
    HubCall,
    HubVerdict,
)
from teia.urls import host_of, site_of
from teia.web.access.roles import Role
from teia.web.server.installation import Installation, installation_of
from teia.web.server.json_routes import PageRoutes

MAX_TOPIC_CHARS = 8_000
MAX_TYPE_CHARS = 100
NODES_ANSWER_S = 5.0
FullInstallationDep = Annotated[Installation, Depends(installation_of)]
UNKNOWN = PlainTextResponse("there is no subscription here\n", 404)
THANKS = "thank you\n"


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
    if not mode or not (challenge or mode == DENIED):
        return UNKNOWN
    found = _judge(installation, collection, HubCall(key, mode, topic, lease_s, reason))
    # The echo confirms the subscription (WebSub, 5.3), so it is sent only for one that was requested.
    answers = {REFUSAL_NOTED: THANKS, CONFIRMED: challenge}
    is_expected = found is not None and found.verdict in answers
    return PlainTextResponse(answers[found.verdict]) if found is not None and is_expected else UNKNOWN


async def push(request: Request, installation: FullInstallationDep, collection: str, key: str) -> PlainTextResponse:
    """Receive a hub's notification of a changed feed."""
    try:
        body = await request.body()
    except ClientDisconnect:  # the body was too long or too slow; count it as oversized
        body = bytes(MAX_PUSH_BYTES + 1)
    call = HubCall(key, signature=request.headers.get("x-hub-signature", ""), body=body)
    media_type = request.headers.get("content-type", "")[:MAX_TYPE_CHARS]
    is_known = await run_in_threadpool(_receive_push, installation, collection, call, media_type)
    return PlainTextResponse(THANKS, 202) if is_known else UNKNOWN


def _judge(installation: Installation, collection: str, call: HubCall) -> HubVerdict | None:
    """Judge a call, here or by the node that has the subscription.

    None if there is none, also for an unknown collection, so that names are not revealed.
    """
    if collection not in installation.names():
        return None
    found = judge_call(installation.root.collection(collection), call, installation.clock.now_s())
    return found or (None if len(call.body) > MAX_PUSH_BYTES else _ask_nodes(installation, collection, call))


def _ask_nodes(installation: Installation, collection: str, call: HubCall) -> HubVerdict | None:
    """Ask the other nodes of a cluster, if this is the folder of one (cluster/crawl/url_requests.py)."""
    if not is_clustered(installation.root.collection(collection)):
        return None
    try:
        with Inbox(installation.root.control) as inbox:
            if inbox.running_crawl(collection) is None:
                return None
            number = inbox.send(collection, JudgeHubCall(token_hex(8), call), installation.clock.now_s())
            request = inbox.wait(number, installation.clock, NODES_ANSWER_S, "no node answered")
    except (StoreError, UsageError):  # nobody has it, or too many calls wait
        return None
    return None if request is None or request.answer is None else request.answer.hub


def _receive_push(installation: Installation, collection: str, call: HubCall, media_type: str) -> bool:
    """Announce the pages of a push that is as it should be, count others; return False for an unknown key."""
    found = _judge(installation, collection, call)
    if found is None:
        return False
    folder = installation.root.collection(collection)
    if found.verdict != ACCEPTED:
        count_push(folder, found.verdict)
    else:
        announce_push(
            folder, found.feed, _pages(installation, collection, found.feed, call.body, media_type), installation.clock
        )
    return True


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
    return [url for url in text.links if site_of(host_of(url)) == own and compiled.wants_announced(url)]
