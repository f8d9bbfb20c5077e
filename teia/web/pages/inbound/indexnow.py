"""IndexNow: sites report their changed pages. A public route for programs (docs/signals.md).

A ping is applied only after the site has proved its identity (signals/indexnow.py). This module only receives it, and
only if a collection accepts pings (`signals.indexnow`) and has such pages in scope.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field

from teia.crawler.signals_in.indexnow import count_refused, receive
from teia.errors import UsageError
from teia.signals.indexnow import CROWDED, MAX_URLS, PENDING, VERIFIED, IndexNowPing, read_ping
from teia.web.access.roles import Role
from teia.web.server.installation import Installation, installation_of
from teia.web.server.json_routes import PageRoutes

URL_CHARS = 4_096
FullInstallationDep = Annotated[Installation, Depends(installation_of)]
"""Installation with its non-public collections: they may accept pings, too."""

ANSWERS = {
    VERIFIED: (200, "taken\n"),
    PENDING: (202, "accepted; the key is being verified\n"),
    CROWDED: (429, "too many keys are being verified; try again tomorrow\n"),
}
"""HTTP responses of the protocol, best first; the best result over all collections is sent."""


class IndexNowMessage(BaseModel):
    """Message of the IndexNow protocol."""

    host: str = Field(max_length=255)
    key: str = Field(max_length=128)
    keyLocation: str = Field("", max_length=URL_CHARS)  # noqa: N815  # the protocol's name
    urlList: list[Annotated[str, Field(max_length=URL_CHARS)]] = Field(max_length=MAX_URLS)  # noqa: N815


def add_routes(pages: PageRoutes) -> None:
    how = {"include_in_schema": False, "response_class": PlainTextResponse}
    pages.add("GET", "/indexnow", Role.PUBLIC, receive_one, **how)
    pages.add("POST", "/indexnow", Role.PUBLIC, receive_many, **how)


def receive_one(
    installation: FullInstallationDep,
    url: Annotated[str, Query(max_length=URL_CHARS)] = "",
    key: Annotated[str, Query(max_length=128)] = "",
    location: Annotated[str, Query(alias="keyLocation", max_length=URL_CHARS)] = "",
) -> PlainTextResponse:
    """Receive a ping for one changed page."""
    return _receive(installation, key, [url], location, "")


def receive_many(installation: FullInstallationDep, message: IndexNowMessage) -> PlainTextResponse:
    """Receive a ping for several changed pages of a host."""
    return _receive(installation, message.key, message.urlList, message.keyLocation, message.host)


def _receive(installation: Installation, key: str, urls: list[str], location: str, host: str) -> PlainTextResponse:
    accepting = [name for name in installation.names() if installation.config(name).signals.indexnow]
    try:
        ping = read_ping(key, urls, location, host)
    except UsageError as error:
        for name in accepting:
            count_refused(installation.root.collection(name).signals, "malformed")
        return PlainTextResponse(f"{error}\n", 422)
    states = [state for name in accepting if (state := _receive_for(installation, name, ping))]
    if not states:
        return PlainTextResponse("these pages are not in the scope of any collection here\n", 422)
    best = next((state for state in ANSWERS if state in states), "")
    status, text = ANSWERS.get(best, (403, "the key was not found at its location\n"))
    return PlainTextResponse(text, status)


def _receive_for(installation: Installation, name: str, ping: IndexNowPing) -> str:
    """Pass a ping to a collection and return its state; empty if no URL of it is in scope."""
    folder = installation.root.collection(name)
    compiled = installation.compiled_settings(name)
    message = tuple(filter(compiled.wants_announced, ping.urls))
    # The key file is fetched from the site, so its address must be in scope as well.
    if not message or not compiled.wants_announced(ping.location):
        count_refused(folder.signals, "out_of_scope")
        return ""
    left_out = ping.refused + len(ping.urls) - len(message)
    return receive(folder.signals, ping._replace(urls=message, refused=left_out), installation.clock)
