"""Sign in, sign out, first account, and preferences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Depends, Form, Request
from fastapi.responses import RedirectResponse, Response

from teia.errors import UsageError
from teia.lib.message import Message
from teia.web import limits
from teia.web.access.roles import Role
from teia.web.server.auth import COOKIE, Buckets, Refused
from teia.web.server.json_routes import InstallationDep, PageRoutes, VisitorDep
from teia.web.server.preferences import AUTO, COOKIES, zone_named

YEAR_S = 365 * 86_400


@dataclass(frozen=True, slots=True)
class SignInView:
    """Sign-in form: `to` is the address to return to; `is_first` is true before the first account exists."""

    to: str
    is_first: bool
    problem: str = ""
    name: str = ""


def add_routes(pages: PageRoutes) -> None:
    pages.page("/login", "login.html", Role.PUBLIC, with_json=False)(sign_in_page)
    for path, endpoint in (
        ("/login", sign_in),
        ("/login/first", accept_invitation),
        ("/logout", sign_out),
        ("/choose", save_preferences),
    ):
        pages.add("POST", path, Role.PUBLIC, endpoint, include_in_schema=False)


def sign_in_page(installation: InstallationDep, to: str = "/", problem: str = "", name: str = "") -> SignInView:
    """Return the sign-in page."""
    return SignInView(_local_path(to), installation.accounts.is_empty, problem[:200], name[: limits.NAME_CHARS])


def attempts_of(request: Request) -> Buckets:
    """Return the token buckets of sign-in attempts: one set for the whole application."""
    state = request.app.state
    if not hasattr(state, "attempts"):
        state.attempts = Buckets(state.installation.clock, limits.SIGN_INS_AT_ONCE, limits.SIGN_INS_PER_S)
    buckets: Buckets = state.attempts
    return buckets


def sign_in(
    request: Request,
    installation: InstallationDep,
    attempts: Annotated[Buckets, Depends(attempts_of)],
    name: Annotated[str, Form(max_length=limits.NAME_CHARS)],
    password: Annotated[str, Form(max_length=limits.PASSWORD_CHARS[1])],
    to: Annotated[str, Form(max_length=2_000)] = "/",
) -> Response:
    """Sign a user in: start a session."""
    _limit_attempts(request, attempts, name)
    secret = installation.accounts.sign_in(name, password)
    if secret is None:
        raise Refused(401, Message("wrong user name or password"), Message("try again"))
    return _with_session(RedirectResponse(_local_path(to), 303), request, secret)


def accept_invitation(
    request: Request,
    installation: InstallationDep,
    attempts: Annotated[Buckets, Depends(attempts_of)],
    code: Annotated[str, Form(max_length=200)],
    name: Annotated[str, Form(max_length=limits.NAME_CHARS)],
    password: Annotated[str, Form(max_length=limits.PASSWORD_CHARS[1])],
) -> Response:
    """Create the account of an invitation, and start a session."""
    _limit_attempts(request, attempts, name)
    installation.accounts.accept_invitation(code, name, password)
    installation.accounts.log_action(name, Message("first sign-in"))
    secret = installation.accounts.sign_in(name, password)
    if secret is None:
        raise UsageError(Message("the account was removed during sign-up"))
    return _with_session(RedirectResponse("/c", 303), request, secret)


def sign_out(request: Request, installation: InstallationDep, _: VisitorDep) -> Response:
    """End a session."""
    installation.accounts.sign_out(request.cookies.get(COOKIE, ""))
    response = RedirectResponse("/", 303)
    response.delete_cookie(COOKIE)
    return response


def save_preferences(
    request: Request,
    installation: InstallationDep,
    visitor: VisitorDep,
    to: Annotated[str, Form(max_length=limits.TARGET_BYTES)] = "/",
    language: Annotated[Literal["en", "pt-BR", ""], Form()] = "",
    theme: Annotated[Literal["auto", "light", "dark", ""], Form()] = "",
    keys: Annotated[Literal["on", "off", ""], Form()] = "",
    density: Annotated[Literal["normal", "dense", ""], Form()] = "",
    zone: Annotated[str, Form(max_length=64)] = "",
) -> Response:
    """Set the language, the theme, the density of tables, the time zone, or keyboard shortcuts."""
    if zone not in ("", AUTO) and zone_named(zone) is None:
        raise UsageError(Message("unknown time zone {text!r}; write it like America/Sao_Paulo", text=zone))
    response = RedirectResponse(_local_path(to), 303)
    given = {"language": language, "theme": theme, "keys": keys, "density": density, "zone": zone}
    preferences = {name: value for name, value in given.items() if value}
    # Only a session has a CSRF token; all others keep their preferences in cookies.
    if visitor.csrf:
        installation.accounts.set_preferences(visitor.name, preferences)
        return response
    for name, value in preferences.items():
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIES[name], value, max_age=YEAR_S, samesite="lax", httponly=True, secure=secure)
    return response


def _with_session(response: Response, request: Request, secret: str) -> Response:
    # Lax: browsers treat a link clicked in an archived capture as cross-site, and it must not sign the user out.
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, secret, max_age=int(limits.SESSION_S), samesite="lax", httponly=True, secure=secure)
    return response


def _limit_attempts(request: Request, attempts: Buckets, name: str) -> None:
    address = request.client.host if request.client else ""
    # Per address against guessing many names; per name against guessing one from many addresses.
    for client in (f"from {address}", f"as {name}"):
        wait_s = attempts.acquire(client)
        if wait_s:
            raise Refused(429, Message("too many attempts; try again in {n:.0f} s", n=wait_s))


def _local_path(to: str) -> str:
    """Return an address if it is on this site; otherwise the front page's."""
    # Browsers read // and /\ as the start of another host: an open redirect.
    is_local = to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable()
    return to if is_local else "/"
