"""IndexNow: sites tell that their pages changed. For programs alone, and for everybody's (docs/signals.md).

What is told is believed only when the site has proved to be the site (signals/indexnow.py); here it is only taken, and
only where a collection wants it (`signals.indexnow`) and holds such pages.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field

from teia.crawl.pings import count_refused, receive
from teia.errors import UsageError
from teia.frontier.schema import BY_SIGNAL
from teia.signals.indexnow import ASKED, CROWDED, MAX_URLS, VERIFIED, Ping, read_ping
from teia.web.roles import Role
from teia.web.site import Site, site_of
from teia.web.twins import Pages

URL_CHARS = 4_096
Whole = Annotated[Site, Depends(site_of)]
"""The installation with the collections that are not for everybody: they may want pings all the same."""

ANSWERS = {
    VERIFIED: (200, "taken\n"),
    ASKED: (202, "taken; the key is being looked for\n"),
    CROWDED: (429, "too many keys are being looked for; try again tomorrow\n"),
}
"""The best that a collection says is the answer; the protocol has these."""


class Told(BaseModel):
    """A message as the protocol has it."""

    host: str = Field(max_length=255)
    key: str = Field(max_length=128)
    keyLocation: str = Field("", max_length=URL_CHARS)  # noqa: N815  # the protocol's name
    urlList: list[Annotated[str, Field(max_length=URL_CHARS)]] = Field(max_length=MAX_URLS)  # noqa: N815


def add_to(pages: Pages) -> None:
    how = {"include_in_schema": False, "response_class": PlainTextResponse}
    pages.add("GET", "/indexnow", Role.PUBLIC, one, **how)
    pages.add("POST", "/indexnow", Role.PUBLIC, many, **how)


def one(
    site: Whole,
    url: Annotated[str, Query(max_length=URL_CHARS)] = "",
    key: Annotated[str, Query(max_length=128)] = "",
    location: Annotated[str, Query(alias="keyLocation", max_length=URL_CHARS)] = "",
) -> PlainTextResponse:
    """One page changed."""
    return _take(site, key, [url], location, "")


def many(site: Whole, told: Told) -> PlainTextResponse:
    """Several pages of a host changed."""
    return _take(site, told.key, told.urlList, told.keyLocation, told.host)


def _take(site: Site, key: str, urls: list[str], location: str, host: str) -> PlainTextResponse:
    wanting = [name for name in site.names() if site.config(name).signals.indexnow]
    try:
        ping = read_ping(key, urls, location, host)
    except UsageError as error:
        for name in wanting:
            count_refused(site.root.collection(name).signals, "malformed")
        return PlainTextResponse(f"{error}\n", 422)
    states = [state for name in wanting if (state := _taken_by(site, name, ping))]
    if not states:
        return PlainTextResponse("nobody here wants to know of these pages\n", 422)
    best = next((state for state in ANSWERS if state in states), "")
    status, text = ANSWERS.get(best, (403, "the key was not where it should be\n"))
    return PlainTextResponse(text, status)


def _taken_by(site: Site, name: str, ping: Ping) -> str:
    """What a collection says to a ping; empty if none of its pages is in scope."""
    folder = site.root.collection(name)
    meaning = site.meaning(name)
    told = tuple(url for url in ping.urls if meaning.wants_link(url, 1, BY_SIGNAL))
    if not told or not meaning.wants_link(ping.location, 1, BY_SIGNAL):
        count_refused(folder.signals, "out_of_scope")
        return ""
    left_out = ping.refused + len(ping.urls) - len(told)
    return receive(folder.signals, ping._replace(urls=told, refused=left_out), site.clock)
