"""Limits of a whole collection, kept by nodes that do not ask each other: pages, time, pages that are kept.

Every cell counts the pages that were stored in it, in its own file, so the count survives whoever kept it. Nodes say
with their sessions how many their cells have; of a cell that nobody keeps for a moment the last word counts. And each
*claims* its part of what is left before it goes on: it stores no more until it has said so. What cannot be divided goes
around with time. Claims are made from what others said last. Two that are made at the same instant are of the same
remainder, divided by all nodes, so they do not exceed it; only a node that dies with a claim unused, or a cell that
changes hands meanwhile, can make the limit be missed or passed, by as much as was claimed.

A limit is the collection's, not a run's: it counts from when the cluster began. When it is reached all nodes leave, as
if somebody had said `stop`; nodes that are started later leave again, unless the limit was raised.
"""

from __future__ import annotations

from collections.abc import Mapping

from teia.cluster.session import NodeState, Session
from teia.config import LimitSettings

STORED = "stored"
"""The row of `meta` with the number of pages that were stored in a cell."""

TURN_S = 3.0
"""How long what cannot be divided is one node's."""


class Shares:
    """What nodes say they have stored and claim, and what this node may do."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._last: dict[str, int] = {}

    def look(self) -> int:
        """How many pages all cells have by what was said last."""
        for node in self._session.alive().values():
            for cell, stored in node.stored.items():
                self._last[cell] = max(stored, self._last.get(cell, 0))
        return sum(self._last.values())

    def claim(self, most: int, now: float) -> int:
        """How many pages this node should say that it will store beyond those it has, if there may be `most`."""
        if not most:
            return 0
        name, alive = self._session.node.name, self._session.alive()
        claimed = sum(node.claims for each, node in alive.items() if each != name)
        remaining = most - self.look() - claimed
        return part_of(remaining, name, alive, now) if remaining > 0 else 0

    def left(self, stored: Mapping[int, int]) -> int:
        """How many pages this node may store now, by what it has said; `stored` are those that its cells have."""
        said = self._session.said
        if said is None:
            return 0
        return said.claims - sum(pages - said.stored.get(str(cell), pages) for cell, pages in stored.items())

    def kept_elsewhere(self) -> int:
        """How many pages other nodes keep fresh, as they say."""
        others = (node for name, node in self._session.alive().items() if name != self._session.node.name)
        return int(sum(node.load.get("kept", 0.0) for node in others))


def part_of(remaining: int, name: str, nodes: Mapping[str, NodeState], now: float) -> int:
    """One node's part of something that is to be divided."""
    names = sorted({*nodes, name})
    each, rest = divmod(remaining, len(names))
    place = (names.index(name) + int(now / TURN_S)) % len(names)
    return each + (place < rest)


def reached(limits: LimitSettings, stored: int, began_s: float, now_s: float) -> str:
    """Which limit of the collection is reached, in words; empty if none is."""
    if limits.pages and stored >= limits.pages:
        return f"limits.pages: {stored:,} pages are stored"
    if limits.seconds and began_s and now_s - began_s >= limits.seconds:
        return f"limits.seconds: the crawl began {now_s - began_s:,.0f} s ago"
    return ""
