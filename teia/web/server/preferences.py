"""Preferences of a reader: language, theme, density of tables, keyboard shortcuts, time zone.

For signed-in users they are stored with the account, so that they are the same in every browser. For all others, and
for preferences that a user never set, they are in cookies.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from fastapi import Request

from teia.web.language.numbers import Locale, choose_locale
from teia.web.server.auth import Visitor

COOKIES = {name: f"teia_{name}" for name in ("language", "theme", "keys", "density", "zone")}
THEMES = ("auto", "light", "dark")
AUTO = "auto"
"""Stands for the time zone of the browser."""

_ZONE = re.compile(r"(Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific)/[\w/+-]+")


def preference(request: Request, visitor: Visitor, name: str) -> str:
    """Return a preference; empty if it was never set."""
    return visitor.preferences.get(name) or request.cookies.get(COOKIES[name], "")


def language_of(request: Request, visitor: Visitor) -> Locale:
    """Return the language of the response."""
    return choose_locale(preference(request, visitor, "language"), request.headers.get("accept-language", ""))


def preferences_of(request: Request, visitor: Visitor) -> dict[str, Any]:
    """Return all preferences but the language, with defaults."""
    theme = preference(request, visitor, "theme")
    return {
        "theme": theme if theme in THEMES else THEMES[0],
        "keys": "off" if preference(request, visitor, "keys") == "off" else "on",
        "density": "dense" if preference(request, visitor, "density") == "dense" else "normal",
        "zone": zone_named(preference(request, visitor, "zone")),
    }


@lru_cache
def zones() -> tuple[str, ...]:
    """Return all time zones with well-known names: those of a continent, and UTC."""
    return ("UTC", *sorted(name for name in available_timezones() if _ZONE.fullmatch(name)))


def zone_named(name: str) -> ZoneInfo | None:
    """Return the chosen time zone; None for the browser's."""
    # Only listed names: ZoneInfo would look for a file with the given name.
    return ZoneInfo(name) if name and name in zones() else None
