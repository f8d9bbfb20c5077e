"""The robots.txt of every origin being visited: what is known, what must be asked, what an answer means.

An origin's rules are believed for a day (RFC 9309, 2.4); then the next URL of the origin waits behind an errand that
fetches the file again. Five redirects of it are followed, to other hosts too; each hop is a request like any other
and waits for its own server, and what comes at the end holds for the origin that asked first.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from enum import Enum

from teia.config import CourtesySettings, LimitSettings
from teia.fetch.robots import RobotsRules, rules_from_answer
from teia.frontier.schedule import Queued
from teia.records import Outcome
from teia.urls import key_of

REMEMBERED = 100_000
UNREACHABLE_WAITS = 2
"""An unreachable robots.txt is asked for again after so many of the crawl's first retry waits."""

_NETWORK = frozenset({Outcome.DNS, Outcome.CONNECT, Outcome.TIMEOUT, Outcome.TLS, Outcome.BLOCKED_ADDRESS})


class Permission(Enum):
    """What robots.txt says of the URL at the head of a host's buffer."""

    GO = "go"
    SETTLED = "settled"  # the head is another one now: this one was refused, or robots.txt comes before it
    LATER = "later"  # robots.txt is on its way


@dataclass(slots=True)
class Known:
    """An origin's rules, when the server was asked for them, and what came of that.

    `was_used`: an unreachable file has refused some URL. Until then it does not grow old, or a server that rests
    longer than the file is believed would be asked for it for ever, and for nothing else.
    """

    rules: RobotsRules
    asked_s: float
    outcome: str
    detail: str = ""
    was_used: bool = False

    @property
    def why(self) -> str:
        """What the page's record says."""
        return f"robots.txt could not be read: {self.detail or self.outcome}"

    @property
    def refusal(self) -> Outcome:
        """The outcome of a page that unreachable rules forbid: what is wrong with the host, where that is known."""
        return Outcome(self.outcome) if self.outcome in _NETWORK else Outcome.ROBOTS_UNREACHABLE


class RobotsBook:
    """Rules by origin, in memory; the frontier keeps the bodies on disk."""

    def __init__(self, courtesy: CourtesySettings, limits: LimitSettings) -> None:
        self._courtesy = courtesy
        self._limits = limits
        self._known: OrderedDict[str, Known] = OrderedDict()
        self.awaited: set[str] = set()
        """Origins whose robots.txt is on its way; their URLs wait for it."""

    def take(self, courtesy: CourtesySettings, limits: LimitSettings) -> None:
        """Go by other settings from now on; what is known was read by the old ones."""
        self._courtesy, self._limits = courtesy, limits

    def known(self, origin: str, now_s: float) -> Known | None:
        """What holds for an origin now; None when the file must be fetched (again) first."""
        known = self._known.get(origin)
        if known is None:
            return None
        age_s = now_s - known.asked_s
        if known.rules.unreachable:
            is_old = known.was_used and age_s >= UNREACHABLE_WAITS * self._courtesy.retry_wait_s
        else:
            is_old = age_s >= self._courtesy.robots_max_age_s
        return None if is_old else known

    def learn(
        self, origin: str, outcome: str, status: int, body: bytes, asked_s: float, detail: str = ""
    ) -> RobotsRules:
        """Take an answer, from the server or from disk, and return the rules it makes."""
        self.awaited.discard(origin)
        previous = self._known.pop(origin, None)
        agent, limit = self._courtesy.user_agent, self._limits.robots_bytes
        earlier = None if previous is None else previous.rules
        rules = rules_from_answer(outcome, status, body, agent, earlier, asked_s, limit)
        self._known[origin] = Known(rules, asked_s, outcome, detail)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return rules

    @staticmethod
    def errand(origin: str, behind: Queued) -> Queued:
        """The request that must come before a URL can go out."""
        url = f"{origin}/robots.txt"
        return Queued(url, key_of(url), -1, 0, 0, behind.since_s, purpose="robots", origin=origin)

    def again(self, origin: str, since_s: float) -> Queued | None:
        """The request that reads a file anew; None if it was read since then, or is on its way."""
        known = self._known.get(origin)
        if origin in self.awaited or (known is not None and known.asked_s > since_s):
            return None
        self.awaited.add(origin)
        url = f"{origin}/robots.txt"
        return Queued(url, key_of(url), -1, 0, 0, 0.0, purpose="robots", origin=origin)

    @staticmethod
    def next_hop(item: Queued, redirect_to: str) -> Queued:
        """The same errand, one redirect further."""
        return replace(item, url=redirect_to, key=key_of(redirect_to), hops=item.hops + 1)
