"""Roles of users, and scopes of API tokens.

A role limits a user's rights, and includes the rights of all roles before it. A scope limits a token to a part of them:

    search    search, pages and captures
    read      everything else that can be read: monitors, hosts, reports, SQL
    metrics   /metrics alone
    crawl     commands and changes: collections, hosts, URLs, audits
    lab       runs of the lab
    settings  people, tokens, the log of changes

Users who signed in have all scopes. So do tokens that were made before scopes existed.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

from teia.lib.message import Message


class Role(IntEnum):
    """PUBLIC searches; VIEWER reads everything; OPERATOR commands and edits; ADMIN manages users and deletes."""

    PUBLIC = 0
    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        return _WORDS[self]


_WORDS = ("public", Message("viewer"), Message("operator"), Message("admin"))


def role_named(word: str) -> Role | None:
    """Return the role with this name; None for an unknown name and for PUBLIC, which no user is given."""
    return next((role for role in Role if role.word == word and role is not Role.PUBLIC), None)


# ---- scopes of tokens ------------------------------------------------------------------------------------------------


class TokenScope(StrEnum):
    """Part of the API that a token may use; the module's docstring lists them."""

    SEARCH = "search"
    READ = "read"
    METRICS = "metrics"
    CRAWL = "crawl"
    LAB = "lab"
    SETTINGS = "settings"


ALL_SCOPES = frozenset(TokenScope)
_UNSCOPED_PATHS = ("/health", "/help/", "/api")
"""Paths that reveal nothing about the stored data, so that every token may request them."""


def scope_of(method: str, path: str, role: Role) -> TokenScope | None:
    """Return the scope of a route, by its path without the API prefix; None if every token may use it."""
    if path.startswith(_UNSCOPED_PATHS):
        return None
    if path == "/metrics":
        return TokenScope.METRICS
    # /settings/data is the disk use, which every viewer may read.
    if path.startswith("/settings/") and path != "/settings/data":
        return TokenScope.SETTINGS
    # Public POST routes, such as sign-in, preferences and pings, command nothing.
    if method != "GET" and role is not Role.PUBLIC:
        return TokenScope.LAB if path.startswith("/lab") else TokenScope.CRAWL
    # /events is a public route, but most of its topics are for viewers.
    return TokenScope.SEARCH if role is Role.PUBLIC and path != "/events" else TokenScope.READ
