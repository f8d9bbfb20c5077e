"""Memento (RFC 7089): captures by URL and time, for archive clients and for browsers' extensions.

    /c/{collection}/timegate/URL             redirects to the capture nearest to `Accept-Datetime`
    /c/{collection}/timemap/link/URL         all captures of the URL (application/link-format)
    /c/{collection}/memento/TIMESTAMP/URL    one capture, with `Memento-Datetime`

A capture has the body, the media type and the status of the original answer. It is a foreign page on our origin, so its
headers give it no rights at all: no script, no origin, no request of its own. A page of ours may not load it as a
script or a style either, which its headers would not prevent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from urllib.parse import unquote, urljoin

from fastapi import Request
from fastapi.responses import PlainTextResponse, RedirectResponse, Response

from teia.errors import UsageError
from teia.lib.message import Message
from teia.parse.headers import parse_head
from teia.store.cdxj import timestamp
from teia.store.warc import header_url
from teia.urls import from_user
from teia.views.captures import read_capture_at
from teia.views.cdx import Capture, captures_of, moment_of
from teia.web.access.roles import Role
from teia.web.parts.archived_records import SpooledResponse, check_reserved, payload_of
from teia.web.server.json_routes import InstallationDep, PageRoutes, VisitorDep

TIMEMAP_CAPTURES = 10_000
"""Most captures in one TimeMap; it then refers to the TimeMap of the later ones."""

LINK_FORMAT = "application/link-format"
POLICY = {
    "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    "referrer-policy": "no-referrer",
}
LOADED_INTO_PAGES = frozenset({"script", "style", "worker", "sharedworker", "serviceworker", "xslt"})
"""Values of Sec-Fetch-Dest with which a browser would give the body the rights of the page that loads it."""

_SCHEME = re.compile(r"(https?):/+", re.IGNORECASE)


def add_routes(pages: PageRoutes) -> None:
    for path, endpoint in (
        ("/c/{collection}/timegate/{uri:path}", timegate),
        ("/c/{collection}/timemap/{part}/{uri:path}", timemap),
        ("/c/{collection}/memento/{stamp}/{uri:path}", memento),
    ):
        # Clients often want the headers alone.
        how = {"methods": ["GET", "HEAD"], "include_in_schema": False, "response_class": Response}
        pages.add("GET", path, Role.PUBLIC, endpoint, **how)


def timegate(request: Request, installation: InstallationDep, collection: str) -> Response:
    """Redirect to the capture nearest to the time in Accept-Datetime, or to the last one."""
    url, captures = _find(request, installation, collection, 4)
    wanted_s = _accept_datetime(request)
    if not captures:
        return _nothing(url)
    chosen = _nearest(captures, wanted_s)
    headers = {"vary": "accept-datetime", "link": _links(request, collection, url, captures, chosen)}
    return RedirectResponse(_memento_uri(request, collection, captures[chosen]), 302, headers)


def timemap(request: Request, installation: InstallationDep, collection: str, part: str) -> Response:
    """Return the captures of a URL as a list of links; `part` is `link`, or the time of the first one."""
    url, captures = _find(request, installation, collection, 5)
    if part != "link":
        first_s = moment_of(part)
        captures = [each for each in captures if each.visit.time_s >= first_s]
    if not captures:
        return _nothing(url)
    shown, rest = captures[:TIMEMAP_CAPTURES], captures[TIMEMAP_CAPTURES:]
    here = _prefix(request, collection)
    lines = [
        f'<{header_url(url)}>; rel="original"',
        f'<{here}/timegate/{header_url(url)}>; rel="timegate"',
        f'<{here}/timemap/{part}/{header_url(url)}>; rel="self"; type="{LINK_FORMAT}"'
        f'; from="{_date(shown[0])}"; until="{_date(shown[-1])}"',
    ]
    if rest:
        next_uri = f"{here}/timemap/{timestamp(rest[0].visit.time_s)}/{header_url(url)}"
        lines.append(f'<{next_uri}>; rel="timemap"; type="{LINK_FORMAT}"; from="{_date(rest[0])}"')
    lines += [_link(request, collection, shown, number) for number in range(len(shown))]
    return PlainTextResponse(",\n".join(lines) + "\n", media_type=LINK_FORMAT)


def memento(
    request: Request, installation: InstallationDep, visitor: VisitorDep, collection: str, stamp: str
) -> Response:
    """Return the capture of a second; where there is none, redirect to the nearest one."""
    if request.headers.get("sec-fetch-dest", "").lower() in LOADED_INTO_PAGES:
        return PlainTextResponse("a capture cannot be loaded as a script or a style\n", 403)
    url, captures = _find(request, installation, collection, 5)
    wanted_s = moment_of(stamp)
    if not captures:
        return _nothing(url)
    same = [number for number, each in enumerate(captures) if timestamp(each.visit.time_s) == stamp]
    chosen = same[-1] if same else _nearest(captures, wanted_s)
    links = _links(request, collection, url, captures, chosen)
    if not same:
        return RedirectResponse(_memento_uri(request, collection, captures[chosen]), 302, {"link": links})
    capture = captures[chosen]
    with installation.lookup(collection) as lookup, installation.capture_slots.hold():
        found = read_capture_at(lookup, capture.cell, capture.visit.file, capture.visit.offset)
        check_reserved(installation, visitor, collection, found)
        head = parse_head(found.head)
        headers = {"memento-datetime": _date(capture), "link": links, **POLICY}
        location = head.headers.first("location")
        target = from_user(urljoin(capture.url, location)) if location and head.status // 100 == 3 else None
        if target is not None:
            # The original redirect, within the archive and its time.
            headers["location"] = f"{_prefix(request, collection)}/memento/{stamp}/{header_url(target)}"
        media_type = head.headers.first("content-type") or "application/octet-stream"
        response = SpooledResponse(installation, payload_of(found), media_type, headers)
    # The header as it came: starlette would add a charset of its own.
    response.headers["content-type"] = media_type.encode("ascii", "replace").decode()
    response.status_code = head.status if 200 <= head.status <= 599 and head.status not in {204, 205, 304} else 200
    return response


# ---- choosing -------------------------------------------------------------------------------------------------------


def _find(request: Request, installation: InstallationDep, collection: str, segments: int) -> tuple[str, list[Capture]]:
    """Return the original URL in a request's target, after so many segments, and its captures."""
    installation.check_captures(collection)
    # The target as sent: the decoded path has lost the escapes of the original URL, and lacks its query.
    raw = (request.scope.get("raw_path") or request.scope["path"].encode()).decode("latin-1").partition("?")[0]
    text = raw.split("/", segments)[-1]
    if request.scope["query_string"]:
        text += "?" + request.scope["query_string"].decode("latin-1")
    if text[:8].lower().startswith(("http%3a", "https%3a")):
        text = unquote(text)
    # A proxy on the way may have joined the slashes.
    url = from_user(_SCHEME.sub(r"\1://", text, count=1))
    if url is None:
        raise UsageError(Message("{url!r} is not an http or https URL", url=text[:200]))
    with installation.lookup(collection) as lookup:
        return url, captures_of(lookup, url)


def _accept_datetime(request: Request) -> float | None:
    text = request.headers.get("accept-datetime")
    if not text:
        return None
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        raise UsageError(Message("Accept-Datetime: {time!r} is not an HTTP date", time=text[:80])) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _nearest(captures: Sequence[Capture], wanted_s: float | None) -> int:
    if wanted_s is None:
        return len(captures) - 1
    return min(range(len(captures)), key=lambda number: abs(captures[number].visit.time_s - wanted_s))


# ---- links ----------------------------------------------------------------------------------------------------------


def _prefix(request: Request, collection: str) -> str:
    return f"{request.url.scheme}://{request.url.netloc}/c/{collection}"


def _memento_uri(request: Request, collection: str, capture: Capture) -> str:
    return f"{_prefix(request, collection)}/memento/{timestamp(capture.visit.time_s)}/{header_url(capture.url)}"


def _date(capture: Capture) -> str:
    return format_datetime(datetime.fromtimestamp(int(capture.visit.time_s), UTC), usegmt=True)


def _link(request: Request, collection: str, captures: Sequence[Capture], number: int, relation: str = "") -> str:
    words = [relation] if relation else []
    words += ["first"] if number == 0 else []
    words += ["last"] if number == len(captures) - 1 else []
    capture = captures[number]
    uri = _memento_uri(request, collection, capture)
    return f'<{uri}>; rel="{" ".join([*words, "memento"])}"; datetime="{_date(capture)}"'


def _links(request: Request, collection: str, url: str, captures: Sequence[Capture], chosen: int) -> str:
    """Return the Link header of a capture: the original, the gate, the map, and its neighbours."""
    here, last = _prefix(request, collection), len(captures) - 1
    shown = {0: "", last: "", chosen: ""}
    shown |= {chosen - 1: "prev"} if chosen else {}
    shown |= {chosen + 1: "next"} if chosen < last else {}
    links = [
        f'<{header_url(url)}>; rel="original"',
        f'<{here}/timegate/{header_url(url)}>; rel="timegate"',
        f'<{here}/timemap/link/{header_url(url)}>; rel="timemap"; type="{LINK_FORMAT}"',
    ]
    links += [_link(request, collection, captures, number, shown[number]) for number in sorted(shown)]
    return ", ".join(links)


def _nothing(url: str) -> Response:
    return PlainTextResponse(f"there is no capture of {url[:200]}\n", 404, {"vary": "accept-datetime"})
