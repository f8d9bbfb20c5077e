"""Single records of the archive, as they are put into frames: `/raw/{signed}` (RELIABILITY 37).

Authorised by the signature alone; no cookie is looked at. The headers (shield.py) make of every answer here an origin
of its own on which nothing runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Annotated
from urllib.parse import quote

from fastapi import Depends
from fastapi.responses import PlainTextResponse, Response

from teia.clock import iso_utc
from teia.config import LimitSettings
from teia.crawl.copies import Copy, copy_at, member_of, nearest
from teia.crawl.lookup import Lookup
from teia.errors import TeiaError
from teia.parse.decode import decode
from teia.parse.headers import parse_head
from teia.parse.mime import content_type, effective_type
from teia.parse.replay import filled
from teia.urls import split
from teia.web.rendering import link
from teia.web.roles import Role
from teia.web.signing import Place, Signer
from teia.web.site import Site, site_of
from teia.web.twins import Pages

MAX_RESOLVED = 600
"""Pictures and style sheets of one page that are looked for in the archive."""

_ATTACHED = "application/octet-stream"


def add_to(pages: Pages) -> None:
    pages.add("GET", "/raw/{signed:path}", Role.PUBLIC, raw, include_in_schema=False, response_class=Response)


def raw(site: Annotated[Site, Depends(site_of)], signed: str) -> Response:
    """A record of the archive, for who has its address."""
    signer = Signer(site)
    place = signer.place(signed)
    if place is None:
        return PlainTextResponse("this address is not good any more; open the copy again\n", 404)
    try:
        with site.lookup(place.collection) as lookup:
            found = copy_at(lookup, place.cell, place.file, place.offset)
            return _answer(site, signer, lookup, place, found)
    except TeiaError as error:
        return PlainTextResponse(f"{error}\n", 404)


def _answer(site: Site, signer: Signer, lookup: Lookup, place: Place, found: Copy) -> Response:
    if place.kind == "record":
        return _attached(member_of(lookup, found), f"{_name(found.url)}.warc.gz")
    if place.kind == "file":
        return _attached(payload_of(found), _name(found.url))
    if place.kind == "picture":
        payload = payload_of(found)
        media_type = effective_type(content_type(parse_head(found.head).headers.all("content-type")), payload)
        if not media_type.startswith("image/"):
            return PlainTextResponse("this is not a picture\n", 404)
        return Response(payload, media_type=media_type)
    shown = site.copies.shown(found.url, found.head, found.body, is_style=place.kind == "style")
    if not shown.is_safe:
        return PlainTextResponse("This page cannot be shown as it was; its text and its source can.\n")
    targets = addresses(signer, lookup, found.time_s, shown.references)
    markup = filled(shown.markup, lambda number: targets[number] if number < len(targets) else "")
    return Response(markup, media_type="text/css" if place.kind == "style" else "text/html")


def addresses(signer: Signer, lookup: Lookup, time_s: float, references: Sequence[tuple[str, str]]) -> list[str]:
    """What goes into the holes of a page: links to our copies, signed addresses of what we have, else nothing."""
    filled_in, looked_for = [], 0
    for url, use in references:
        if use == "link":
            to = link(f"/c/{lookup.name}/copy", url=url, time=iso_utc(time_s))
            filled_in.append(escape(to))
        elif looked_for < MAX_RESOLVED:
            looked_for += 1
            filled_in.append(_address(signer, lookup, time_s, url, use))
        else:
            filled_in.append("")
    return filled_in


def _address(signer: Signer, lookup: Lookup, time_s: float, url: str, use: str) -> str:
    entry = lookup.find(url)
    visit = nearest(lookup.visits(entry), time_s) if entry is not None else None
    if entry is None or visit is None or not visit.outcome.startswith("2"):
        return ""
    return signer.address(Place(use, lookup.name, entry.cell, visit.file, visit.offset))


def payload_of(found: Copy) -> bytes:
    """The body of a copy without chunks and compression."""
    return decode(parse_head(found.head).headers, found.body, LimitSettings()).payload


def _attached(octets: bytes, name: str) -> Response:
    return Response(
        octets, media_type=_ATTACHED, headers={"content-disposition": f"attachment; filename*=UTF-8''{name}"}
    )


def _name(url: str) -> str:
    """A file's name for a URL: the last part of its path."""
    parts = split(url)
    last = parts.path.rstrip("/").rpartition("/")[2]
    return quote((last or parts.host)[:100], safe="")
