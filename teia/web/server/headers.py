"""Checks and headers for every request, before any route.

The host names the server answers to, limits of size and rate, and the security headers without which a browser would
trust our pages too much.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as AsgiMessage

from teia.clock import Clock
from teia.lib.message import Message
from teia.web import limits
from teia.web.language.numbers import choose_locale
from teia.web.language.translate import translator_for
from teia.web.server.auth import Buckets

# Only our own scripts and styles, none inline; no frames around us; no markup made from text (Trusted Types).
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    # Paths and queries contain feed keys and searches, which must not reach other sites.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
LONG_TARGETS = ("/", "/search", "/api/v1/search")
"""Paths whose query may be a whole text that a user has pasted."""
SEARCHES = ("/search", "/search.rss", "/complete", "/api/v1/search", "/api/v1/complete")
"""Paths that search; one address gets few answers at a time."""
SEARCHES_OF_PAST = ("/search", "/api/v1/search")
"""Those that may search an earlier state."""
HEALTH = "/health"
RAW = "/raw/"
RAW_HEADERS = {
    "content-security-policy": (
        "sandbox allow-top-navigation-by-user-activation; default-src 'none'; img-src 'self'; "
        "style-src 'self' 'unsafe-inline'; font-src 'self'; frame-ancestors 'self'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
"""Headers of captures of foreign pages, and of all other responses there.

They have an origin of their own, on which no script runs. CORP, which forbids reading by other origins, is left out: to
the browser the capture itself is another origin, and it loads images from here.
"""


@dataclass(frozen=True, slots=True)
class RequestRefusal:
    """Refusal of a request before any route: the reason, and the seconds until a retry."""

    status: int
    message: str
    retry_after_s: int = 0

    def response(self, headers: Headers) -> PlainTextResponse:
        """Return the response in the language that the browser accepts."""
        translator = translator_for(choose_locale("", headers.get("accept-language", "")).tag)
        retry_headers = {"retry-after": str(self.retry_after_s)} if self.retry_after_s else None
        return PlainTextResponse(f"{translator.translate(self.message)}\n", self.status, retry_headers)


class SecurityMiddleware:
    """Middleware around the whole application.

    `names` are the hosts we answer to: a request for a foreign name that resolves to us is an attack through a
    visitor's browser (DNS rebinding). A name with a port is accepted at that port only, one without a port at any,
    because a tunnel or a proxy in front of us has a port of its own.
    """

    def __init__(self, app: ASGIApp, clock: Clock, names: Collection[str]) -> None:
        self._app = app
        self._names = frozenset(authority for name in names if (authority := authority_of(_with_brackets(name))))
        self._in_flight: Counter[str] = Counter()
        self._searching: dict[str, asyncio.Semaphore] = {}
        """By the address of a client: the searches that are answered at the same time."""

        self._buckets = Buckets(clock, limits.REQUESTS_AT_ONCE, limits.REQUESTS_PER_S)
        self._raw_buckets = Buckets(clock, limits.RAW_AT_ONCE, limits.RAW_PER_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = scope["client"][0] if scope.get("client") else ""
        refusal = self._refuse_foreign_host(scope) or self._refuse_over_limits(scope, client)
        policy = RAW_HEADERS if scope["path"].startswith(RAW) else HEADERS

        async def send_with_headers(message: AsgiMessage) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in policy.items():
                    headers.setdefault(name, value)
                # Pages depend on the user; a route whose response may be stored sets its own header.
                headers.setdefault("cache-control", "no-store")
            await send(message)

        self._in_flight[client] += 1
        try:
            if refusal is not None and scope["path"] != HEALTH:
                await asyncio.sleep(limits.REFUSED_S)
            async with self._turn(scope, client, refusal) as late_refusal:
                app = self._app if late_refusal is None else late_refusal.response(Headers(scope=scope))
                await app(scope, _limit_body(scope, receive), send_with_headers)
        finally:
            self._in_flight[client] -= 1
            if not self._in_flight[client]:
                del self._in_flight[client]
                self._searching.pop(client, None)

    @asynccontextmanager
    async def _turn(
        self, scope: Scope, client: str, refusal: RequestRefusal | None
    ) -> AsyncIterator[RequestRefusal | None]:
        """Wait until a search may begin after others of its address; refuse it if that takes too long."""
        if refusal is not None or scope["path"] not in SEARCHES or _is_of_the_past(scope):
            yield refusal
            return
        turns = self._searching.setdefault(client, asyncio.Semaphore(limits.SEARCHES_PER_ADDRESS))
        try:
            async with asyncio.timeout(limits.SEARCH_WAIT_S):
                await turns.acquire()
        except TimeoutError:
            yield RequestRefusal(503, Message("too many requests at the same time"), 1)
            return
        try:
            yield None
        finally:
            turns.release()

    def _refuse_foreign_host(self, scope: Scope) -> RequestRefusal | None:
        """Refuse a request for a foreign host name; rewrite a target in absolute form to a path (RFC 9112, 3.2)."""
        hosts = Headers(scope=scope).getlist("host")
        # Two Host headers could be read differently by a proxy and by us.
        if len(hosts) != 1:
            return RequestRefusal(400, Message("a request must have exactly one Host header"))
        authority = authority_of(hosts[0])
        if authority is None or not self._names & {authority, Authority(authority.name)}:
            return RequestRefusal(
                421, Message("this server does not accept requests for {host!r}", host=hosts[0][:200])
            )
        target: bytes = scope.get("raw_path") or scope["path"].encode()
        # `*` is the target of OPTIONS for the whole server (RFC 9112, 3.2.4).
        if target.startswith(b"/") or target == b"*":
            return None
        absolute = _ABSOLUTE.fullmatch(target.decode("latin-1"))
        if absolute is None or authority_of(absolute["host"]) != authority:
            return RequestRefusal(
                421, Message("this server does not accept requests for {host!r}", host=target[:200].decode("latin-1"))
            )
        path = absolute["path"] or "/"
        scope["path"], scope["raw_path"] = unquote(path), path.encode("latin-1")
        return None

    def _refuse_over_limits(self, scope: Scope, client: str) -> RequestRefusal | None:
        headers = Headers(scope=scope)
        most = limits.SEARCH_TARGET_BYTES if scope["path"] in LONG_TARGETS else limits.TARGET_BYTES
        if len(scope.get("raw_path", b"")) + len(scope.get("query_string", b"")) > most:
            return RequestRefusal(414, Message("the URL is too long"))
        # A chunked body states no length; `_limit_body` counts it.
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > limits.BODY_BYTES:
            return RequestRefusal(413, Message("at most {n:,} bytes are accepted", n=limits.BODY_BYTES))
        # A busy server must still answer health checks, or its supervisor would restart it.
        if self._in_flight[client] >= limits.IN_FLIGHT_PER_ADDRESS and scope["path"] != HEALTH:
            return RequestRefusal(503, Message("too many requests at the same time"), 1)
        wait_s = (self._raw_buckets if scope["path"].startswith(RAW) else self._buckets).acquire(client)
        if wait_s:
            return RequestRefusal(429, Message("too many requests"), math.ceil(wait_s))
        return None


@dataclass(frozen=True, slots=True)
class Authority:
    """Host of a request in lower case, an IP address in its shortest form; and its port, if given."""

    name: str
    port: int | None = None


_HOST = re.compile(
    r"(?P<name>\[[0-9a-f:.]{2,45}\]|[a-z0-9_](?:[a-z0-9_.-]{0,252}[a-z0-9_])?\.?)(?::(?P<port>[0-9]{1,5}))?"
)
_ABSOLUTE = re.compile(r"(?i:https?)://(?P<host>[^/?#@]*)(?P<path>/[^#]*)?")


def authority_of(host: str) -> Authority | None:
    """Parse a Host header; return None if it is not exactly one host."""
    match = _HOST.fullmatch(host.lower())
    if match is None:
        return None
    # `example.org.` is the same name.
    name, port = match["name"].removesuffix("."), match["port"]
    if name.startswith("["):
        try:
            name = f"[{ipaddress.IPv6Address(name[1:-1]).compressed}]"
        except ValueError:
            return None
    if not all(name.split(".")) or int(port or 0) > 65_535:
        return None
    return Authority(name, None if port is None else int(port))


def _with_brackets(name: str) -> str:
    """Put an IPv6 address in brackets, as a Host header has it."""
    return f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name


def _is_of_the_past(scope: Scope) -> bool:
    """Tell whether a search is of an earlier state; these have turns of their own, because they take long."""
    # The same parser as the route's, so that both see the same value.
    return scope["path"] in SEARCHES_OF_PAST and bool(QueryParams(scope["query_string"]).get("as_of", "").strip())


def _limit_body(scope: Scope, receive: Receive) -> Receive:
    """Return a `receive` that cuts off a body that is too long or too slow; GET and HEAD pass through."""
    if scope["method"] in {"GET", "HEAD"}:
        return receive
    received = 0
    loop = asyncio.get_running_loop()
    until = loop.time() + limits.BODY_S

    async def receive_limited() -> AsgiMessage:
        nonlocal received
        if received < 0:
            return await receive()
        try:
            async with asyncio.timeout_at(until):
                message = await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        received += len(message.get("body", b""))
        if received > limits.BODY_BYTES:
            return {"type": "http.disconnect"}
        if message["type"] == "http.request" and not message.get("more_body"):
            received = -1  # the body is complete; only the disconnect follows
        return message

    return receive_limited
