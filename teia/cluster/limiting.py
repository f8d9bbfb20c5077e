"""Limits of a whole collection, kept by nodes that do not ask each other: pages, time, pages that are kept.

Every cell counts the pages that were stored in it, in its own file, so the count survives whoever kept it. Nodes say
with their sessions how many their cells have; of a cell that nobody keeps for a moment the last word counts. And each
*claims* its part of what is left before it goes on: it stores no more until it has said so. A node that begins claims
nothing before it has heard of every cell. What cannot be divided goes around with time. Claims are made from what
others said last. Two that are made at the same instant are of the same remainder, divided by all nodes, so they do not
exceed it; only a node that dies with a claim unused, or a cell that changes hands meanwhile, can make the limit be
missed or passed, by as much as was claimed.

A limit is the collection's, not a run's: it counts from when the cluster began. When it is reached all nodes leave, as
if somebody had said `stop`; nodes that are started later leave again, unless the limit was raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from teia.cluster.session import NodeState, Session
from teia.config import LimitSettings

STORED = "stored"
"""The row of `meta` with the number of pages that were stored in a cell."""

TURN_S = 3.0
"""How long what cannot be divided is one node's."""

UNHEARD_S = 300.0
"""After this a cell that nobody could open since we joined counts as if it had no pages."""


class Shares:
    """What nodes say they have stored and claim, and what this node may do; `cells` are all there are."""

    def __init__(self, session: Session, cells: Callable[[], Iterable[int]], now: float) -> None:
        self._session = session
        self._cells = cells
        self._began = now
        self._last: dict[str, int] = {}
        self._kept: dict[str, float] = {}

    def look(self, stored: Mapping[int, int] | None = None) -> int:
        """How many pages all cells have by what was said last; `stored` are those of our own as they are now."""
        for said in [each.stored for each in self._session.alive().values()]:
            self._note(said.items())
        self._note((str(cell), pages) for cell, pages in (stored or {}).items())
        return sum(self._last.values())

    def _note(self, said: Iterable[tuple[str, int]]) -> None:
        for cell, pages in said:
            self._last[cell] = max(pages, self._last.get(cell, 0))

    def claim(self, most: int, now: float, stored: Mapping[int, int], open_pages: int = 0) -> int:
        """How many pages this node should say that it will store beyond those it has, if there may be `most`.

        `stored` is what it says with it that its cells have. What is under way is claimed in any case.
        """
        if not most:
            return 0
        name, alive = self._session.node.name, self._session.alive()
        claimed = sum(node.claims for each, node in alive.items() if each != name)
        remaining = most - self.look(stored) - claimed
        may_more = remaining > 0 and not self._must_hear_more(now)
        return max(part_of(remaining, name, alive, now) if may_more else 0, open_pages)

    def _must_hear_more(self, now: float) -> bool:
        """Whether a cell may have pages that nobody told us of yet."""
        return now - self._began < UNHEARD_S and any(str(cell) not in self._last for cell in self._cells())

    def left(self, stored: Mapping[int, int]) -> int:
        """How many pages this node may store now, by what it has said; `stored` are those that its cells have."""
        said = self._session.said
        if said is None:
            return 0
        return said.claims - sum(pages - said.stored.get(str(cell), pages) for cell, pages in stored.items())

    def kept_elsewhere(self) -> int:
        """How many pages other nodes keep fresh, as they say.

        The last word counts of a node between two shifts, and of one that is gone until all its cells are kept again.
        """
        alive = self._session.alive()
        told = {cell for node in alive.values() for cell in node.cells}
        if all(str(cell) in told for cell in self._cells()):
            self._kept.clear()
        self._kept |= {name: node.load["kept"] for name, node in alive.items() if "kept" in node.load}
        return int(sum(kept for name, kept in self._kept.items() if name != self._session.node.name))


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
