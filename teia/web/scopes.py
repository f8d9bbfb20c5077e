"""What a program's token is good for. A role says how much somebody may; a scope which part of that a token is for.

    search    search, pages and copies
    read      everything else that can be read: monitors, hosts, reports, SQL
    metrics   /metrics alone
    crawl     commands and changes: collections, hosts, URLs, audits
    lab       runs of the lab
    settings  people, tokens, the log of changes

People who signed in have all of them. So has a token that was made before there were scopes.
"""

from __future__ import annotations

from enum import StrEnum

from teia.web.roles import Role


class Scope(StrEnum):
    """A part of what there is to do; see the module's text."""

    SEARCH = "search"
    READ = "read"
    METRICS = "metrics"
    CRAWL = "crawl"
    LAB = "lab"
    SETTINGS = "settings"


ALL = frozenset(Scope)
_NOBODYS = ("/health", "/help/", "/api")
"""What says nothing of what is kept here."""


def scope_of(method: str, path: str, role: Role) -> Scope | None:
    """The scope that a route belongs to, by its path without the API's prefix; None for what every token may ask."""
    if path.startswith(_NOBODYS):
        return None
    if path == "/metrics":
        return Scope.METRICS
    if path.startswith("/settings/") and path != "/settings/data":
        return Scope.SETTINGS
    if method != "GET" and role is not Role.PUBLIC:
        return Scope.LAB if path.startswith("/lab") else Scope.CRAWL
    return Scope.SEARCH if role is Role.PUBLIC and path != "/events" else Scope.READ
