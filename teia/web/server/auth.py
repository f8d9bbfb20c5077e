"""Authentication and authorisation of requests.

A session cookie identifies a person, `Authorization: Bearer …` a program. Requests from this machine have no privilege.
A request that changes something must be intentional. Either it has a token, which a foreign page cannot add. Or it
comes from one of our own pages: the browser reports that (`Origin`, `Sec-Fetch-Site`), and the session's CSRF token in
the form proves it.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from teia.clock import Clock
from teia.errors import TeiaError
from teia.lib.message import Message
from teia.web import limits
from teia.web.access.accounts import Accounts
from teia.web.access.roles import ALL_SCOPES, Role, TokenScope
from teia.web.server.installation import Installation, installation_of

COOKIE = "teia_session"
CSRF_FIELD, CSRF_HEADER = "csrf", "x-csrf-token"
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Refused(TeiaError):
    """Raised to refuse a request: `status` is HTTP's, `next_step` a suggestion, `retry_after_s` the Retry-After."""

    def __init__(self, status: int, message: str, next_step: str = "", retry_after_s: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.next_step = next_step
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Visitor:
    """Sender of a request. `csrf` is empty if none is needed: for programs, and people not signed in.

    `preferences` are the user's preferences (preferences.py).
    """

    name: str = ""
    role: Role = Role.PUBLIC
    csrf: str = ""
    scopes: frozenset[TokenScope] = ALL_SCOPES
    preferences: Mapping[str, str] = field(default_factory=dict, hash=False)

    def may(self, role: Role, scope: TokenScope | None = None) -> bool:
        return self.role >= role and (scope is None or scope in self.scopes)


ANONYMOUS = Visitor()


async def visitor_of(request: Request, installation: Annotated[Installation, Depends(installation_of)]) -> Visitor:
    """Return the sender of a request, as a route dependency; refuse an invalid token instead of ignoring it."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme:
        # The look-up blocks on SQLite, so it must not run on the event loop.
        known = await run_in_threadpool(_visitor_by_token, installation.accounts, scheme, key.strip())
        if known is None:
            raise Refused(401, Message("unknown token"), Message("create one under Settings > Tokens"))
        return known
    secret = request.cookies.get(COOKIE, "")
    return await run_in_threadpool(_visitor_by_session, installation.accounts, secret) if secret else ANONYMOUS


def _visitor_by_token(accounts: Accounts, scheme: str, key: str) -> Visitor | None:
    known = accounts.find_token(key) if scheme.lower() == "bearer" else None
    return None if known is None else Visitor(known[0], known[1], scopes=known[2])


def _visitor_by_session(accounts: Accounts, secret: str) -> Visitor:
    session = accounts.find_session(secret)
    return (
        ANONYMOUS
        if session is None
        else Visitor(session.user, session.role, session.csrf, preferences=session.preferences)
    )


def require(role: Role, scope: TokenScope | None = None) -> Callable[..., Awaitable[Visitor]]:
    """Return the dependency of every route that checks the role, the token's scope, the origin and the CSRF token."""

    async def check(request: Request, visitor: Annotated[Visitor, Depends(visitor_of)]) -> Visitor:
        if not visitor.may(role):
            if not visitor.name:
                raise Refused(401, Message("this requires the role {role}", role=role.word), Message("sign in"))
            who = Message("this requires the role {role}; your role is {own}", role=role.word, own=visitor.role.word)
            raise Refused(403, who, Message("ask an admin"))
        if not visitor.may(role, scope):
            token_scopes = ", ".join(sorted(visitor.scopes))
            raise Refused(
                403,
                Message("this requires the scope {scope}; the token has {scopes}", scope=scope, scopes=token_scopes),
                Message("create another token"),
            )
        if request.method not in SAFE_METHODS:
            _check_origin(request)
            await _check_csrf(request, visitor)
        return visitor

    return check


def _check_origin(request: Request) -> None:
    """Refuse a request that, by the browser's headers, another site's page sent."""
    # `none`: the user has typed the address or used a bookmark.
    if request.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        raise Refused(403, Message("this request was sent by a page of another site"))
    # Old browsers send no Sec-Fetch-Site; programs send none of these headers and pass.
    for header in ("origin", "referer"):
        value = request.headers.get(header)
        if value is not None and urlsplit(value).netloc.lower() != request.headers.get("host", "").lower():
            raise Refused(403, Message("this request was sent by a page of another site"))


async def _check_csrf(request: Request, visitor: Visitor) -> None:
    # Browsers never add a token by themselves, and without a session there are no rights to abuse.
    if not visitor.csrf:
        return
    sent = request.headers.get(CSRF_HEADER, "")
    if not sent and request.headers.get("content-type", "").startswith(FORMS):
        sent = str((await request.form()).get(CSRF_FIELD, ""))
    # In constant time: the duration must not tell how much of a guess was right.
    if not hmac.compare_digest(sent.encode(), visitor.csrf.encode()):
        raise Refused(403, Message("this form has expired"), Message("reload the page and repeat the action"))


# ---- rate limits ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Buckets:
    """Token buckets of a bounded number of clients: `capacity` is their size, `per_s` their refill rate."""

    clock: Clock
    capacity: float
    per_s: float
    _tokens: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def acquire(self, client: str) -> float:
        """Take a token and return 0; if there is none, return the seconds until there is."""
        now = self.clock.ticks_s()
        with self._lock:
            # Removed and inserted again, so that the dictionary is in the order of last use.
            left, since = self._tokens.pop(client, (self.capacity, now))
            left = min(self.capacity, left + (now - since) * self.per_s)
            is_taken = left >= 1
            self._tokens[client] = (left - is_taken, now)
            # The least recently used bucket is forgotten; its client starts with a full one.
            if len(self._tokens) > limits.ADDRESSES:
                self._tokens.popitem(last=False)
        return 0.0 if is_taken else (1 - left) / self.per_s
