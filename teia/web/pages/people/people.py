"""Users, tokens and the log of changes, for admins; the password of the signed-in user."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from fastapi import Query, Request
from pydantic import BaseModel, Field

from teia.clock import iso_utc
from teia.errors import UsageError
from teia.lib.message import Message, plain
from teia.web import limits
from teia.web.access.accounts import ApiToken, AuditLine, ChangeLine, User, unpack_changes
from teia.web.access.roles import ALL_SCOPES, Role, TokenScope, role_named
from teia.web.language.numbers import LOCALES
from teia.web.server.auth import Refused, Visitor
from teia.web.server.installation import Installation
from teia.web.server.json_routes import (
    NO_PROBLEM,
    ActionResult,
    FormProblem,
    InstallationDep,
    PageRoutes,
    VisitorDep,
)
from teia.web.server.preferences import preference, preferences_of

LINES = 50
RoleWord = Literal["viewer", "operator", "admin"]
Name = Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS)]
Password = Annotated[str, Field(max_length=limits.PASSWORD_CHARS[1])]


@dataclass(frozen=True, slots=True)
class AuditLogEntry:
    """One entry of the audit log; `detail` names the object of the action."""

    time: str
    who: str
    what: str
    detail: dict[str, str]
    changes: list[ChangeLine]


@dataclass(frozen=True, slots=True)
class UsersView:
    """All users and their roles; `invitation` is the address that was just made, shown only once, for `minutes`."""

    users: list[User]
    invitation: str = ""
    minutes: int = 10
    problem: FormProblem = NO_PROBLEM


@dataclass(frozen=True, slots=True)
class TokensView:
    """All tokens; `token` is the secret that was just made, shown only once."""

    tokens: list[ApiToken]
    token: str = ""
    problem: FormProblem = NO_PROBLEM
    name: str = ""


@dataclass(frozen=True, slots=True)
class AuditView:
    """The newest entries of the audit log; `next` leads to those before."""

    changes: list[AuditLogEntry]
    next: int | None


@dataclass(frozen=True, slots=True)
class YouView:
    """The signed-in user and the user's preferences; an empty language or zone is the browser's."""

    name: str
    role: str
    language: str
    theme: str
    density: str
    keys: str
    zone: str
    tokens: list[ApiToken] = field(default_factory=list)
    problem: FormProblem = NO_PROBLEM


class InvitationForm(BaseModel):
    """Role of an invited user, and the minutes for which the invitation is valid."""

    role: RoleWord
    minutes: int = Field(10, ge=1, le=30 * 24 * 60)


class RoleForm(BaseModel):
    """A user and a new role."""

    name: Name
    role: RoleWord


class UserName(BaseModel):
    """A user, by name."""

    name: Name


class TokenForm(BaseModel):
    """Token to make, and its scopes."""

    name: Name
    role: RoleWord = "viewer"
    scopes: Annotated[list[TokenScope], Field(max_length=20)] = Field(default_factory=list)


class TokenName(BaseModel):
    """A token, by its name and its user."""

    name: Name
    user: Name


class PasswordForm(BaseModel):
    """A new password and the old one."""

    old: Password
    new: Password


def add_routes(pages: PageRoutes) -> None:
    pages.page("/settings/users", "users.html", Role.ADMIN)(users)
    pages.action("/settings/users/invite", Role.ADMIN, "users.html")(invite)
    pages.action("/settings/users/role", Role.ADMIN, "users.html", users_again)(change_role)
    pages.action("/settings/users/remove", Role.ADMIN, "users.html", users_again)(remove_user)
    pages.page("/settings/tokens", "tokens.html", Role.ADMIN)(tokens)
    pages.action("/settings/tokens/make", Role.ADMIN, "tokens.html", tokens_again)(make_token)
    pages.action("/settings/tokens/remove", Role.ADMIN)(remove_token)
    pages.page("/settings/audit", "audit.html", Role.ADMIN)(audit)
    pages.page("/settings/you", "you.html", Role.VIEWER)(you)
    pages.action("/settings/you/password", Role.VIEWER, "you.html", you_again)(change_password)


# ---- people ---------------------------------------------------------------------------------------------------------


def users(installation: InstallationDep) -> UsersView:
    """List the users and their roles."""
    return UsersView(installation.accounts.users())


def users_again(problem: FormProblem, installation: Installation, **_: object) -> UsersView:
    """Return the list of users after a change that failed."""
    return UsersView(installation.accounts.users(), problem=problem)


def invite(request: Request, installation: InstallationDep, visitor: VisitorDep, form: InvitationForm) -> UsersView:
    """Make an invitation: an address with which one person can create an account, once, within the given time."""
    _check_all_scopes(visitor)
    code = installation.accounts.invite(_role(form.role), 60.0 * form.minutes)
    installation.accounts.log_action(visitor.name, Message("invite"), role=form.role)
    # Behind `#`: browsers do not send that part, so the code is in no log and no Referer.
    here = f"{request.url.scheme}://{request.url.netloc}"
    return UsersView(users(installation).users, f"{here}/login#{code}", minutes=form.minutes)


def change_role(installation: InstallationDep, visitor: VisitorDep, form: RoleForm) -> ActionResult:
    """Change the role of a user."""
    before = {each.name: _role(each.role) for each in installation.accounts.users()}.get(form.name, Role.PUBLIC)
    # Lowering a role gives no rights, so a limited token may do it.
    if _role(form.role) > before:
        _check_all_scopes(visitor)
    installation.accounts.set_role(form.name, _role(form.role))
    installation.accounts.log_action(
        visitor.name, Message("change role"), [ChangeLine("role", before.word, form.role)], user=form.name
    )
    return ActionResult(
        Message("{name} now has the role {role}", name=form.name, role=plain(form.role)), "/settings/users"
    )


def remove_user(installation: InstallationDep, visitor: VisitorDep, form: UserName) -> ActionResult:
    """Remove a user with all sessions and tokens."""
    installation.accounts.remove_user(form.name)
    installation.accounts.log_action(visitor.name, Message("remove user"), user=form.name)
    return ActionResult(Message("the user {name} was removed", name=form.name), "/settings/users")


def _check_all_scopes(visitor: Visitor) -> None:
    """Refuse a token without all scopes to invite or promote a user.

    Users have all scopes, so the token's owner could sign in as the new user and gain the missing ones.
    """
    if visitor.scopes != ALL_SCOPES:
        lacks = ", ".join(sorted(ALL_SCOPES - visitor.scopes))
        raise Refused(
            403,
            Message("a token cannot grant scopes that it does not have: {scopes}", scopes=lacks),
            Message("sign in"),
        )


# ---- programs -------------------------------------------------------------------------------------------------------


def tokens(installation: InstallationDep) -> TokensView:
    """List the tokens."""
    return TokensView(installation.accounts.tokens())


def make_token(installation: InstallationDep, visitor: VisitorDep, form: TokenForm) -> TokensView:
    """Make a token with at least one scope; its secret is shown once."""
    scopes = frozenset(form.scopes)
    if not scopes:
        raise WrongScopes(Message("choose at least one scope for the token: {scopes}", scopes=", ".join(TokenScope)))
    if not scopes <= visitor.scopes:
        raise WrongScopes(
            Message(
                "a token cannot grant scopes that it does not have: {scopes}",
                scopes=", ".join(sorted(scopes - visitor.scopes)),
            )
        )
    token = installation.accounts.make_token(form.name, visitor.name, _role(form.role), scopes)
    installation.accounts.log_action(
        visitor.name, Message("make token"), token=form.name, role=form.role, scopes=" ".join(sorted(scopes))
    )
    return TokensView(installation.accounts.tokens(), token)


def tokens_again(problem: FormProblem, installation: Installation, form: TokenForm, **_: object) -> TokensView:
    """Return the list of tokens after one that could not be made."""
    return TokensView(installation.accounts.tokens(), problem=problem, name=form.name)


class WrongScopes(UsageError):
    """Raised for a token without scopes, or with more than its maker has."""

    field = "scopes"


def remove_token(installation: InstallationDep, visitor: VisitorDep, form: TokenName) -> ActionResult:
    """Remove a token."""
    installation.accounts.remove_token(form.name, form.user)
    installation.accounts.log_action(visitor.name, Message("remove token"), token=form.name, user=form.user)
    return ActionResult(Message("the token {name} was removed", name=form.name), "/settings/tokens")


# ---- audit log ------------------------------------------------------------------------------------------------------


def audit(installation: InstallationDep, before: Annotated[int | None, Query(ge=0, le=1 << 62)] = None) -> AuditView:
    """List the changes that users made, newest first."""
    # One entry more tells whether there are older ones.
    found = installation.accounts.logged_actions(LINES + 1, before)
    shown = found[:LINES]
    return AuditView([_change(line) for _, line in shown], shown[-1][0] if len(found) > LINES else None)


def _change(line: AuditLine) -> AuditLogEntry:
    changes, detail = unpack_changes(line.detail)
    return AuditLogEntry(iso_utc(line.time_s), line.who, line.what, detail, changes)


# ---- the signed-in user ---------------------------------------------------------------------------------------------


def you(request: Request, installation: InstallationDep, visitor: VisitorDep) -> YouView:
    """Return the signed-in user, with preferences and tokens."""
    preferences = preferences_of(request, visitor)
    return YouView(
        name=visitor.name,
        role=visitor.role.word,
        language=language if (language := preference(request, visitor, "language")) in LOCALES else "",
        **{name: preferences[name] for name in ("theme", "density", "keys")},
        zone=preferences["zone"].key if preferences["zone"] is not None else "",
        tokens=[token for token in installation.accounts.tokens() if token.user == visitor.name],
    )


def you_again(
    problem: FormProblem, request: Request, installation: Installation, visitor: Visitor, **_: object
) -> YouView:
    """Return the user's page after a password that could not be changed."""
    return replace(you(request, installation, visitor), problem=problem)


def change_password(
    request: Request,  # noqa: ARG001  # for the page after an error
    installation: InstallationDep,
    visitor: VisitorDep,
    form: PasswordForm,
) -> ActionResult:
    """Change the password of the signed-in user; all sessions end, and the user signs in again."""
    _check_session(visitor)
    installation.accounts.set_password(visitor.name, form.old, form.new)
    installation.accounts.log_action(visitor.name, Message("change password"))
    return ActionResult(Message("the password was changed; sign in with the new one"), "/login?to=/settings/you")


def _check_session(visitor: Visitor) -> None:
    # Only a session has a CSRF token.
    if not visitor.csrf:
        raise UsageError(Message("a token has no password; sign in to change one"))


def _role(word: str) -> Role:
    role = role_named(word)
    if role is None:
        raise UsageError(Message("{word!r} is not a role; choose viewer, operator or admin", word=word))
    return role
