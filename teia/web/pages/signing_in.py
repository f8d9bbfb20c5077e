"""Signing in and out, the first account, language and theme."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Depends, Form, Request
from fastapi.responses import RedirectResponse, Response

from teia.errors import UsageError
from teia.web import limits
from teia.web.choosing import AUTO, COOKIES, zone_named
from teia.web.gate import COOKIE, Buckets, Refused
from teia.web.roles import Role
from teia.web.twins import OfSite, OfVisitor, Pages

YEAR_S = 365 * 86_400


@dataclass(frozen=True, slots=True)
class SignInView:
    """Where to go afterwards, and whether anybody has an account yet."""

    to: str
    is_first: bool
    problem: str = ""
    name: str = ""


def add_to(pages: Pages) -> None:
    pages.page("/login", "login.html", Role.PUBLIC, twin=False)(sign_in_page)
    for path, endpoint in (("/login", sign_in), ("/login/first", begin), ("/logout", sign_out), ("/choose", choose)):
        pages.add("POST", path, Role.PUBLIC, endpoint, include_in_schema=False)


def sign_in_page(site: OfSite, to: str = "/", problem: str = "", name: str = "") -> SignInView:
    """The page where people sign in."""
    return SignInView(_ours(to), site.accounts.is_empty, problem[:200], name[: limits.NAME_CHARS])


def attempts_of(request: Request) -> Buckets:
    """How often somebody may still try: one set of buckets for the whole application."""
    state = request.app.state
    if not hasattr(state, "attempts"):
        state.attempts = Buckets(state.site.clock, limits.SIGN_INS_AT_ONCE, limits.SIGN_INS_PER_S)
    buckets: Buckets = state.attempts
    return buckets


def sign_in(
    request: Request,
    site: OfSite,
    attempts: Annotated[Buckets, Depends(attempts_of)],
    name: Annotated[str, Form(max_length=limits.NAME_CHARS)],
    password: Annotated[str, Form(max_length=limits.PASSWORD_CHARS[1])],
    to: Annotated[str, Form(max_length=2_000)] = "/",
) -> Response:
    """Begin a session."""
    _not_too_often(request, attempts, name)
    secret = site.accounts.sign_in(name, password)
    if secret is None:
        raise Refused(401, "name or password are not right", "try again")
    return _with_session(RedirectResponse(_ours(to), 303), request, secret)


def begin(
    request: Request,
    site: OfSite,
    attempts: Annotated[Buckets, Depends(attempts_of)],
    code: Annotated[str, Form(max_length=200)],
    name: Annotated[str, Form(max_length=limits.NAME_CHARS)],
    password: Annotated[str, Form(max_length=limits.PASSWORD_CHARS[1])],
) -> Response:
    """Make the account that an invitation is for, and begin a session."""
    _not_too_often(request, attempts, name)
    site.accounts.accept(code, name, password)
    site.accounts.note(name, "first sign-in")
    secret = site.accounts.sign_in(name, password)
    if secret is None:
        raise UsageError("the account was removed while it was made")
    return _with_session(RedirectResponse("/c", 303), request, secret)


def sign_out(request: Request, site: OfSite, _: OfVisitor) -> Response:
    """End a session."""
    site.accounts.sign_out(request.cookies.get(COOKIE, ""))
    answer = RedirectResponse("/", 303)
    answer.delete_cookie(COOKIE)
    return answer


def choose(
    request: Request,
    site: OfSite,
    visitor: OfVisitor,
    to: Annotated[str, Form(max_length=limits.TARGET_BYTES)] = "/",
    language: Annotated[Literal["en", "pt-BR", ""], Form()] = "",
    theme: Annotated[Literal["auto", "light", "dark", ""], Form()] = "",
    keys: Annotated[Literal["on", "off", ""], Form()] = "",
    density: Annotated[Literal["normal", "dense", ""], Form()] = "",
    zone: Annotated[str, Form(max_length=64)] = "",
) -> Response:
    """Choose a language, a theme, how dense tables are, a time zone, or whether keys do anything."""
    if zone not in ("", AUTO) and zone_named(zone) is None:
        raise UsageError(f"{zone!r} is no time zone that is known here, like America/Sao_Paulo")
    answer = RedirectResponse(_ours(to), 303)
    given = {"language": language, "theme": theme, "keys": keys, "density": density, "zone": zone}
    choices = {name: value for name, value in given.items() if value}
    if visitor.csrf:
        site.accounts.choose(visitor.name, choices)
        return answer
    for name, value in choices.items():
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIES[name], value, max_age=YEAR_S, samesite="lax", httponly=True, secure=secure)
    return answer


def _with_session(answer: Response, request: Request, secret: str) -> Response:
    # Lax: a click on a link of an archived copy counts as another site's, and must not sign its reader out.
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, secret, max_age=int(limits.SESSION_S), samesite="lax", httponly=True, secure=secure)
    return answer


def _not_too_often(request: Request, attempts: Buckets, name: str) -> None:
    address = request.client.host if request.client else ""
    for asker in (f"from {address}", f"as {name}"):
        wait_s = attempts.wait_s(asker)
        if wait_s:
            raise Refused(429, f"too many attempts; the next one is taken in {wait_s:.0f} s")


def _ours(to: str) -> str:
    """An address on this site; anything else leads to the front page."""
    is_ours = to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable()
    return to if is_ours else "/"
