"""URL shapes that have no end (T9, A8).

The rules are data: a name, which is shown to a user who asks why a URL was not fetched, and an expression over the
path or the query. Limits on length, segments and depth come from the configuration. Traps without a telling shape
are recognised by their pages (detector.py); the rest is stopped by the budgets of host and site.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from teia.config.sections import LimitSettings
from teia.lib.message import Message


@dataclass(frozen=True, slots=True)
class TrapRule:
    """One shape: its name and the expression that finds it in path and query."""

    name: str
    expression: re.Pattern[str]


TRAP_RULES = (
    TrapRule(Message("a path segment three times in a row"), re.compile(r"(/[^/?]+)\1{2}(?:/|\?|$)")),
    TrapRule(Message("a pair of path segments three times in a row"), re.compile(r"(/[^/?]+/[^/?]+)\1{2}(?:/|\?|$)")),
    TrapRule(Message("path segments that go round three times"), re.compile(r"((?:/[^/?]+){3,5})\1{2}(?:/|\?|$)")),
    TrapRule(
        Message("the same parameter more than eight times in a row"), re.compile(r"[?&]([^=&]+)=[^&]*(?:&\1=[^&]*){8}")
    ),
)


def trap_of(url: str, limits: LimitSettings) -> str | None:
    """Return the reason a canonical URL looks like a trap, or None."""
    if len(url) > limits.url_chars:
        return Message("longer than {n} characters", n=limits.url_chars)
    slashes = url.count("/") - len("//")
    if slashes < 3 and slashes <= limits.url_segments and url.count("&") < 8:
        return None  # too short to repeat anything three times, as most URLs are
    target = url[url.index("/", len("https://")) :]
    path = target.partition("?")[0]
    # A final slash begins no segment.
    if path.count("/") - path.endswith("/") > limits.url_segments:
        return Message("more than {n} path segments", n=limits.url_segments)
    # All shapes but the last need a segment three times, which few URLs have and expressions take long to look for.
    segments = target.replace("?", "/").split("/")
    if len(segments) - len(set(segments)) < 2 and target.count("&") < 8:
        return None
    for rule in TRAP_RULES:
        if rule.expression.search(target):
            return rule.name
    return None
