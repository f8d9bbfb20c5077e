"""What holds for every request before any route sees it.

Which names we answer to, how much and how often; and the headers without which a browser would trust our pages more
than it should.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from teia.clock import Clock
from teia.web import limits
from teia.web.gate import Buckets
from teia.web.rendering import phrases_for
from teia.web.words import preferred

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
SEARCHES = ("/", "/search", "/api/v1/search")
RAW = "/raw/"
RAW_HEADERS = {
    "content-security-policy": (
        "sandbox allow-top-navigation-by-user-activation; default-src 'none'; img-src 'self'; "
        "style-src 'self' 'unsafe-inline'; font-src 'self'; frame-ancestors 'self'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
"""Copies of foreign pages, and whatever else is answered there: an origin of its own, on which nothing runs. Not to be
read by other origins (CORP) is left out: to the browser, the copy itself is one, and it has pictures."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that no route sees: why, and after how many seconds to come again."""

    status: int
    message: str
    again_s: int = 0

    def answer(self, headers: Headers) -> PlainTextResponse:
        """In the language that the browser asks for."""
        phrases = phrases_for(preferred("", headers.get("accept-language", "")).tag)
        said = None if phrases is None else phrases.said(self.message)
        again = {"retry-after": str(self.again_s)} if self.again_s else None
        return PlainTextResponse(f"{said or self.message}\n", self.status, again)


class Shield:
    """Wraps the whole application.

    `names` are the hosts we answer to: a foreign name that leads here is a page trying to read us through its
    visitor's browser.
    """

    def __init__(self, app: ASGIApp, clock: Clock, names: Collection[str]) -> None:
        self._app = app
        self._names = frozenset(name.lower() for name in names)
        self._buckets = Buckets(clock, limits.REQUESTS_AT_ONCE, limits.REQUESTS_PER_S)
        self._raw_buckets = Buckets(clock, limits.RAW_AT_ONCE, limits.RAW_PER_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        app = self._app if refusal is None else refusal.answer(Headers(scope=scope))
        policy = RAW_HEADERS if scope["path"].startswith(RAW) else HEADERS

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in policy.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await app(scope, _bounded(scope, receive), send_with_headers)

    def _refusal(self, scope: Scope) -> Refusal | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if _name_of(host) not in self._names:
            return Refusal(421, f"this server does not answer to {host[:200]!r}")
        most = limits.SEARCH_TARGET_BYTES if scope["path"] in SEARCHES else limits.TARGET_BYTES
        if len(scope.get("raw_path", b"")) + len(scope.get("query_string", b"")) > most:
            return Refusal(414, "the address is too long")
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > limits.BODY_BYTES:
            return Refusal(413, f"at most {limits.BODY_BYTES:,} bytes are taken")
        asker = scope["client"][0] if scope.get("client") else ""
        wait_s = (self._raw_buckets if scope["path"].startswith(RAW) else self._buckets).wait_s(asker)
        if wait_s:
            return Refusal(429, "too many requests", math.ceil(wait_s))
        return None


def _name_of(host: str) -> str:
    """A Host header without its port."""
    name = host.lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0].rstrip(".")


def _bounded(scope: Scope, receive: Receive) -> Receive:
    """The body, cut off once it is too long or too slow; a request without one passes through."""
    if scope["method"] in {"GET", "HEAD"}:
        return receive
    received = 0
    loop = asyncio.get_running_loop()
    until = loop.time() + limits.BODY_S

    async def bounded() -> Message:
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
            received = -1  # whole: what comes now is only the end of the connection
        return message

    return bounded
