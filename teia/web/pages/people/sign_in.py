"""Sign in, sign out, first account, and preferences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Depends, Form, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, Field

from teia.errors import UsageError
from teia.lib.message import Message
from teia.web import limits
from teia.web.access.roles import Role
from teia.web.server.auth import COOKIE, Buckets, Refused
from teia.web.server.installation import Installation
from teia.web.server.json_routes import NO_PROBLEM, FormProblem, InstallationDep, PageRoutes, VisitorDep
from teia.web.server.preferences import AUTO, COOKIES, zone_named

YEAR_S = 365 * 86_400


@dataclass(frozen=True, slots=True)
class SignInView:
    """Forms to sign in and to accept an invitation, with what was typed; `to` is the address to return to.

    `is_first` is true before the first account exists, `is_invited` if the problem is that of an invitation.
    """

    to: str
    is_first: bool
    problem: FormProblem = NO_PROBLEM
    name: str = ""
    is_invited: bool = False
    code: str = ""


class SignInForm(BaseModel):
    """Name and password of a user, and the address to return to."""

    name: str = Field(max_length=limits.NAME_CHARS)
    password: str = Field(max_length=limits.PASSWORD_CHARS[1])
    to: str = Field("/", max_length=2_000)


class AcceptanceForm(BaseModel):
    """Code of an invitation, and the name and password of the new account."""

    code: str = Field(max_length=200)
    name: str = Field(max_length=limits.NAME_CHARS)
    password: str = Field(max_length=limits.PASSWORD_CHARS[1])


def add_routes(pages: PageRoutes) -> None:
    pages.page("/login", "login.html", Role.PUBLIC, with_json=False)(sign_in_page)
    pages.form("/login", Role.PUBLIC, "login.html", sign_in_again)(sign_in)
    pages.form("/login/first", Role.PUBLIC, "login.html", accept_again)(accept_invitation)
    for path, endpoint in (("/logout", sign_out), ("/choose", save_preferences)):
        pages.add("POST", path, Role.PUBLIC, endpoint, include_in_schema=False)


def sign_in_page(installation: InstallationDep, to: str = "/", name: str = "") -> SignInView:
    """Return the sign-in page."""
    return SignInView(_local_path(to), installation.accounts.is_empty, name=name[: limits.NAME_CHARS])


def sign_in_again(problem: FormProblem, installation: Installation, form: SignInForm, **_: object) -> SignInView:
    """Return the sign-in page after an attempt that failed."""
    return SignInView(_local_path(form.to), installation.accounts.is_empty, problem, form.name)


def accept_again(problem: FormProblem, installation: Installation, form: AcceptanceForm, **_: object) -> SignInView:
    """Return the sign-in page after an invitation that could not be accepted."""
    return SignInView("/", installation.accounts.is_empty, problem, form.name, is_invited=True, code=form.code)


def attempts_of(request: Request) -> Buckets:
    """Return the token buckets of sign-in attempts: one set for the whole application."""
    state = request.app.state
    if not hasattr(state, "attempts"):
        state.attempts = Buckets(state.installation.clock, limits.SIGN_INS_AT_ONCE, limits.SIGN_INS_PER_S)
    buckets: Buckets = state.attempts
    return buckets


AttemptsDep = Annotated[Buckets, Depends(attempts_of)]


def sign_in(
    request: Request,
    installation: InstallationDep,
    visitor: VisitorDep,  # noqa: ARG001  # for the page after an error
    attempts: AttemptsDep,
    form: SignInForm,
) -> Response:
    """Sign a user in: start a session."""
    _limit_attempts(request, attempts, form.name)
    secret = installation.accounts.sign_in(form.name, form.password)
    if secret is None:
        raise WrongPassword(401, Message("wrong user name or password"))
    return _with_session(RedirectResponse(_local_path(form.to), 303), request, secret)


class WrongPassword(Refused):
    """Raised for an unknown name or a wrong password; the form shows it beside the password."""

    field = "password"


def accept_invitation(
    request: Request,
    installation: InstallationDep,
    visitor: VisitorDep,  # noqa: ARG001  # for the page after an error
    attempts: AttemptsDep,
    form: AcceptanceForm,
) -> Response:
    """Create the account of an invitation, and start a session."""
    _limit_attempts(request, attempts, form.name)
    installation.accounts.accept_invitation(form.code.strip(), form.name, form.password)
    installation.accounts.log_action(form.name, Message("first sign-in"))
    secret = installation.accounts.sign_in(form.name, form.password)
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
