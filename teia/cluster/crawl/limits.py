"""Limits of a whole collection, observed by nodes without requests to each other: pages, time, pages kept, budget.

Every cell counts the pages that were stored in it, in its own file, so the count survives a change of owner. Nodes
report with their sessions how many pages their cells have. For a cell without an owner the last report counts. Each
node *claims* its part of the remaining pages before it continues: it stores no more until it has reported the claim. A
node that begins claims nothing before it has a report of every cell. The remainder of the division is assigned to nodes
in turn, by time. Claims are computed from the last reports. Two that are made at the same instant divide the same
remainder by all nodes, so they do not exceed it. Only a node that dies with a claim unused, or a cell that changes
hands meanwhile, can make the limit be missed or passed, by as much as was claimed.

A limit is the collection's, not a run's: it counts from the beginning of the cluster. When it is reached all nodes
leave, as after `stop`. Nodes that are started later leave again, unless the limit was raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import TYPE_CHECKING

from teia.cluster.members.session import NodeSession, NodeState
from teia.config.sections import LimitSettings
from teia.crawler.ownership import KeptElsewhere

if TYPE_CHECKING:
    from teia.crawler.keep_fresh.crawl_budget import CrawlBudget, Elsewhere
    from teia.crawler.keep_fresh.keep_fresh import Refresh
    from teia.crawler.keep_fresh.visit_all_again import RevisitAll
    from teia.crawler.running_collection import Crawl

STORED = "stored"
"""The row of `meta` with the number of pages that were stored in a cell."""

LEAST_KEPT = "least_kept"
"""The importance of a node's least important page, in what it reports of itself."""

REMAINDER_S = 3.0
"""Time for which the remainder of a division is one node's."""

UNREPORTED_S = 300.0
"""Time after which a cell that no node could open since we joined counts as if it had no pages."""


class LimitShares:
    """Pages that nodes report as stored and claimed, and this node's share; `cells` returns all cells."""

    def __init__(self, session: NodeSession, cells: Callable[[], Iterable[int]], now: float) -> None:
        self._session = session
        self._cells = cells
        self._began = now
        self._last: dict[str, int] = {}
        self._refreshed: dict[str, float] = {}
        self._spending: dict[str, list[float]] = {}

    def count_stored(self, stored: Mapping[int, int] | None = None) -> int:
        """Return the pages of all cells by the last reports; `stored` are those of our own cells now."""
        for reported in [each.stored for each in self._session.alive().values()]:
            self._note(reported.items())
        self._note((str(cell), pages) for cell, pages in (stored or {}).items())
        return sum(self._last.values())

    def _note(self, reported: Iterable[tuple[str, int]]) -> None:
        for cell, pages in reported:
            # Counts only grow: a smaller one is an older report.
            self._last[cell] = max(pages, self._last.get(cell, 0))

    def claim(self, most: int, now: float, stored: Mapping[int, int], open_pages: int = 0) -> int:
        """Return the number of pages that this node should claim beyond those it has, if there may be `most`.

        `stored` are the pages of its cells, as it reports them with the claim. Pages under way are claimed in any case.
        """
        if not most:
            return 0
        name, alive = self._session.node.name, self._session.alive()
        claimed = sum(node.claims for each, node in alive.items() if each != name)
        remaining = most - self.count_stored(stored) - claimed
        may_more = remaining > 0 and not self._lacks_reports(now)
        return max(share_of(remaining, name, alive, now) if may_more else 0, open_pages)

    def _lacks_reports(self, now: float) -> bool:
        """Tell whether a cell may have pages that no node has reported to us yet."""
        return now - self._began < UNREPORTED_S and any(str(cell) not in self._last for cell in self._cells())

    def remaining_share(self, stored: Mapping[int, int]) -> int:
        """Return the number of pages that this node may store now, by its reported claim.

        `stored`: pages of its cells.
        """
        reported = self._session.reported
        # Nothing is claimed before the first report.
        if reported is None:
            return 0
        # Pages stored since that report use the claim up.
        return reported.claims - sum(pages - reported.stored.get(str(cell), pages) for cell, pages in stored.items())

    def kept_elsewhere(self) -> KeptElsewhere:
        """Return the pages that other nodes keep fresh, as they report.

        The last report counts for a node between two shifts, and for one that is gone until all its cells have owners
        again. The least important page is one of a living node, which can give it up.
        """
        alive = self._session.alive()
        if self._all_have_owners(alive):
            self._refreshed.clear()
        self._refreshed |= {name: node.load["kept"] for name, node in alive.items() if "kept" in node.load}
        own = self._session.node.name
        others = ((node.load.get(LEAST_KEPT, inf), name) for name, node in alive.items() if name != own)
        least, node_name = min(others, default=(inf, own))
        pages = int(sum(pages for name, pages in self._refreshed.items() if name != own))
        return KeptElsewhere(pages, least, goes_first=least < inf and node_name < own)

    def spent_elsewhere(self) -> Elsewhere:
        """Return what other nodes would spend of the budget at each price, as they report.

        Nodes exchange this, not plans: from the sum each knows the price, and by it its own part (crawl_budget.py). The
        last report counts for a node that is gone until its cells have owners again, and for all while this node is
        cut off.
        """
        from teia.crawler.keep_fresh.crawl_budget import Elsewhere  # imports numpy, which other crawls do not need

        alive = self._session.alive()
        if self._all_have_owners(alive):
            self._spending.clear()
        self._spending |= {name: node.spending for name, node in alive.items() if node.spending}
        # A node that has cells and no report yet may spend as much as this one; one without cells requests nothing.
        silent = (name for name, node in alive.items() if node.cells and name not in self._spending)
        unknown: dict[str, list[float]] = {name: [] for name in silent}
        known = {**self._spending, **unknown}
        return Elsewhere.sum_up(report for name, report in known.items() if name != self._session.node.name)

    def _all_have_owners(self, alive: Mapping[str, NodeState]) -> bool:
        reported = {cell for node in alive.values() for cell in node.cells}
        return all(str(cell) in reported for cell in self._cells())


def report_kept(refresh: Refresh | RevisitAll | None) -> dict[str, float]:
    """Return what a node reports of the pages that it keeps fresh."""
    least = getattr(refresh, "least_kept", inf)
    kept = {"kept": float(getattr(refresh, "stored_pages", 0))}
    return kept | ({LEAST_KEPT: least} if least < inf else {})


def spending_of(crawl: Crawl) -> list[float]:
    """Return what this node would spend of the budget, as it reports that; empty if it has no budget."""
    budget: CrawlBudget | None = getattr(crawl.committer.refresh, "budget", None)
    return [] if budget is None else budget.report()


def share_of(remaining: int, name: str, nodes: Mapping[str, NodeState], now: float) -> int:
    """Return one node's part of a number that is to be divided."""
    names = sorted({*nodes, name})
    each, rest = divmod(remaining, len(names))
    position = (names.index(name) + int(now / REMAINDER_S)) % len(names)
    return each + (position < rest)


def limit_reached(limits: LimitSettings, stored: int, began_s: float, now_s: float) -> str:
    """Return the limit of the collection that is reached, as a text; empty if none is."""
    if limits.pages and stored >= limits.pages:
        return f"limits.pages: {stored:,} pages are stored"
    if limits.seconds and began_s and now_s - began_s >= limits.seconds:
        return f"limits.seconds: the crawl started {now_s - began_s:,.0f} s ago"
    return ""
