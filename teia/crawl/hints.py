"""What a page's links are told on their way to the frontier, for orders that want hints (A6).

Sydney must know which page a link stands on. A focused crawl passes on the scores a parse child gave, lifted by what
the crawl has learnt of pages of that kind (frontier/tunnels.py): a link leads to the topic by its own promise, or by
its page's kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat

from teia.crawl.cells import Cell
from teia.crawl.messages import Focus, Judged
from teia.crawl.visits import Visit
from teia.frontier import trails
from teia.frontier.order import NO_HINT, NO_KIND, TOP_SCORE, Hint, Order
from teia.frontier.schema import BY_REQUISITE
from teia.frontier.tunnels import promises
from teia.lib.topic import TOPIC

RULE_HOPS = 3
"""Rules look so many links ahead, as those of Altingovde & Ulusoy did."""


def hints_of(visit: Visit, order: Order, promised: Mapping[int, float]) -> Iterable[Hint | None]:
    """A hint for each link of a page, in their order; nothing for orders that want none."""
    result = visit.result
    if not order.wants_hints or result is None:
        return repeat(None)
    if order.sampled:
        page = Hint(page=visit.item.key)
        return [None if link.by & BY_REQUISITE else page for link in result.links]
    if result.judged is None:
        return repeat(None)
    return focused_hints(result.judged, visit.item.hint or NO_HINT, promised)


def focused_hints(judged: Judged, way: Hint, promised: Mapping[int, float]) -> list[Hint]:
    """The hints of a page that was judged; what has no kind of its own stands for what led to it."""
    via = way.via if judged.kind == NO_KIND else judged.kind
    rule = promised.get(via, 0.0) if judged.off_topic and via != TOPIC else 0.0
    return [Hint(score + round((TOP_SCORE - score) * rule), judged.off_topic, via) for score in judged.scores]


def learnt_so_far(cells: Iterable[Cell]) -> dict[int, float]:
    """What each kind of page promises, by what all cells of a collection have seen."""
    return promises([rule for cell in cells for rule in trails.rules_of(cell.frontier.db)], RULE_HOPS)


def agree_on_kinds(cells: Iterable[Cell], focus: Focus) -> None:
    """Let every cell know which number means which kind of page."""
    for cell in cells:
        with cell.frontier.transaction() as frontier:
            trails.agree_on_kinds(frontier.db, focus.classes)


def note_read(cell: Cell, visit: Visit, now_s: float) -> bool:
    """Remember what a visit told of its page, and of the kind of page that led to it; in the cell's transaction.

    Returns whether the page is to be visited once more.
    """
    judged, item = visit.result.judged if visit.result is not None else None, visit.item
    if judged is None or visit.fetched is None:
        return False
    is_first_answer = item.visits == 0 and 200 <= visit.fetched.status < 300
    if is_first_answer and judged.kind != NO_KIND and item.hint is not None and item.hint.via != NO_KIND:
        trails.count_rule(cell.frontier.db, item.hint.via, judged.kind)
    read = trails.Read(judged.relevance, judged.kind, judged.depends)
    return cell.frontier.note_read(visit.queue.host_id, visit.queue.host, item, read, now_s)
