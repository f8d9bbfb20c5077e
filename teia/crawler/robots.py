"""The robots.txt of every origin being visited: known rules, pending fetches, evaluation of answers.

An origin's rules are used for a day (RFC 9309, 2.4); then the next URL of the origin waits behind a prerequisite
(`prerequisite`) that fetches the file again. Up to five redirects of it are followed, to other hosts too. Each hop is a
request like any other and waits for its own server; the final answer holds for the origin of the first request.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from dataclasses import dataclass, replace
from enum import Enum

from teia.config.sections import CourtesySettings, LimitSettings
from teia.fetch.robots import RobotsRules, parse_robots, rules_from_answer
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import QueuedUrl
from teia.records import Outcome
from teia.urls import key_of, split

# Origins in memory; those whose answer is oldest are dropped first, and read from disk or fetched again.
REMEMBERED = 100_000
UNREACHABLE_WAITS = 2
"""Number of the crawl's first retry waits after which an unreachable robots.txt is fetched again."""

_NETWORK = frozenset({Outcome.DNS, Outcome.CONNECT, Outcome.TIMEOUT, Outcome.TLS, Outcome.BLOCKED_ADDRESS})


class RobotsDecision(Enum):
    """Decision of robots.txt on the URL at the head of a host's buffer."""

    GO = "go"
    SETTLED = "settled"  # the head has changed: this URL was refused, or robots.txt was queued before it
    LATER = "later"  # robots.txt is being fetched


@dataclass(slots=True)
class OriginRobots:
    """An origin's rules, the time of their request, and its outcome.

    `was_used`: the rules of an unreachable file have refused some URL. Until then they do not expire. Otherwise a
    server whose delay is longer than the rules' lifetime would be requested for robots.txt forever, and for nothing
    else. `is_stored`: the frontier has the answer on disk.
    """

    rules: RobotsRules
    requested_s: float
    outcome: str
    detail: str = ""
    is_stored: bool = False
    was_used: bool = False

    @property
    def reason(self) -> str:
        """Reason for the page's record."""
        return f"robots.txt could not be fetched: {self.detail or self.outcome}"

    @property
    def refusal(self) -> Outcome:
        """Outcome of a page that unreachable rules forbid: the host's network failure, where that is known."""
        return Outcome(self.outcome) if self.outcome in _NETWORK else Outcome.ROBOTS_UNREACHABLE


class RobotsCache:
    """Rules by origin, in memory; the frontier keeps the bodies on disk."""

    def __init__(self, courtesy: CourtesySettings, limits: LimitSettings) -> None:
        self._courtesy = courtesy
        self._limits = limits
        self._known: OrderedDict[str, OriginRobots] = OrderedDict()
        self._origins: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
        """The known origins of each host."""
        self.awaited: set[str] = set()
        """Origins whose robots.txt is being fetched; their URLs wait for it."""
        self._refetched: set[str] = set()
        """Origins whose new answer was not asked about yet; they stay in memory for that."""

    def apply_settings(self, courtesy: CourtesySettings, limits: LimitSettings) -> None:
        """Apply new settings from now on; known rules were read by the old ones."""
        self._courtesy, self._limits = courtesy, limits

    def rules_of(self, origin: str, now_s: float) -> OriginRobots | None:
        """Return the rules in force for an origin; None when the file must be fetched (again) first."""
        known = self._known.get(origin)
        if known is None:
            return None
        age_s = now_s - known.requested_s
        if known.rules.unreachable:
            is_old = known.was_used and age_s >= UNREACHABLE_WAITS * self._courtesy.retry_wait_s
        else:
            is_old = age_s >= self._courtesy.robots_max_age_s
        return None if is_old else known

    def learn(
        self,
        origin: str,
        outcome: str,
        status: int,
        body: bytes,
        requested_s: float,
        detail: str = "",
        *,
        is_stored: bool = False,
    ) -> RobotsRules:
        """Store the rules from an answer, which came from the server or from disk, and return them."""
        self.awaited.discard(origin)
        # Popped and stored again, so that the newest answer is last.
        previous = self._known.pop(origin, None)
        agent, limit = self._courtesy.user_agent, self._limits.robots_bytes
        earlier = None if previous is None else previous.rules
        rules = rules_from_answer(outcome, status, body, agent, earlier, requested_s, limit)
        self._known[origin] = OriginRobots(rules, requested_s, outcome, detail, is_stored)
        if previous is None:
            self._origins[split(f"{origin}/").host] += (origin,)
        if len(self._known) > REMEMBERED:
            self._drop(next(iter(self._known)))
        return rules

    def _drop(self, origin: str) -> None:
        del self._known[origin]
        host = split(f"{origin}/").host
        others = tuple(each for each in self._origins.pop(host) if each != origin)
        if others:
            self._origins[host] = others

    def forget(self, host: str) -> None:
        """Drop the rules of a host that no crawl has in memory any more; they are read from disk when it comes back."""
        for origin in self._origins.get(host, ()):
            if self._known[origin].is_stored and origin not in self._refetched:
                self._drop(origin)

    @staticmethod
    def prerequisite(origin: str, since_s: float) -> QueuedUrl:
        """Return the robots.txt request that must come before a URL, which waits since `since_s`, can be fetched."""
        url = f"{origin}/robots.txt"
        # Lane -1: it has no place in the queue on disk.
        return QueuedUrl(url, key_of(url), -1, 0, 0, since_s, purpose="robots", origin=origin)

    def refetch(self, origin: str, since_s: float) -> QueuedUrl | None:
        """Return the request that fetches a file again; None if it was fetched since `since_s`, or is being fetched."""
        known = self._known.get(origin)
        if origin in self.awaited:
            return None
        if known is not None and known.requested_s > since_s:
            self._refetched.discard(origin)
            return None
        self._refetched.add(origin)
        self.awaited.add(origin)
        return self.prerequisite(origin, 0.0)

    @staticmethod
    def next_hop(item: QueuedUrl, redirect_to: str) -> QueuedUrl:
        """Return the robots.txt request for the next redirect hop."""
        return replace(item, url=redirect_to, key=key_of(redirect_to), hops=item.hops + 1)


def stored_crawl_delay_s(frontier: FrontierCell, host_id: int, host: str, agent: str) -> float | None:
    """Return the longest Crawl-delay for us in a host's stored robots.txt files; None if there is none."""
    files = frontier.robots_of(host_id, host)
    delays = [parse_robots(body, agent).crawl_delay_s for *_, status, body in files if status == 200]
    return max((each for each in delays if each is not None), default=None)
