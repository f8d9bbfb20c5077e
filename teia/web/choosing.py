"""How somebody wants to be shown things: language, theme, density of tables, keys, time zone.

Kept with the user for who is signed in, so that it is the same in every browser; for everybody else, and for what a
user never chose, in cookies of the browser.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from fastapi import Request

from teia.web.gate import Visitor
from teia.web.words import Locale, preferred

COOKIES = {name: f"teia_{name}" for name in ("language", "theme", "keys", "density", "zone")}
THEMES = ("auto", "light", "dark")
AUTO = "auto"
"""The time zone of the browser."""

_ZONE = re.compile(r"(Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific)/[\w/+-]+")


def chosen(request: Request, visitor: Visitor, name: str) -> str:
    """What somebody chose; empty if nothing."""
    return visitor.choices.get(name) or request.cookies.get(COOKIES[name], "")


def language_of(request: Request, visitor: Visitor) -> Locale:
    """The language in which whoever asks wants to be answered."""
    return preferred(chosen(request, visitor, "language"), request.headers.get("accept-language", ""))


def choices_of(request: Request, visitor: Visitor) -> dict[str, Any]:
    """What somebody chose beside the language, or what is usual."""
    theme = chosen(request, visitor, "theme")
    return {
        "theme": theme if theme in THEMES else THEMES[0],
        "keys": "off" if chosen(request, visitor, "keys") == "off" else "on",
        "density": "dense" if chosen(request, visitor, "density") == "dense" else "normal",
        "zone": zone_named(chosen(request, visitor, "zone")),
    }


@lru_cache
def zones() -> tuple[str, ...]:
    """All time zones there are, by the names that people know: those of a continent, and UTC."""
    return ("UTC", *sorted(name for name in available_timezones() if _ZONE.fullmatch(name)))


def zone_named(name: str) -> ZoneInfo | None:
    """A time zone that somebody chose; None for that of their browser."""
    return ZoneInfo(name) if name and name in zones() else None
