"""Hints that a page's links carry to the frontier, for orders that want them (A6).

The order Sydney must know the page that contains a link, a preference the language of that page. A focused crawl
forwards the scores that a parse child gave, raised by its statistics on pages of that kind (tunnels.py): a link leads
to the topic by its own promise, or by its page's kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat

from teia.crawler.child.messages import Focus, FocusJudgement
from teia.crawler.open_cell import Cell
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell import trails
from teia.frontier.cell.schema import BY_REQUISITE, LANE_NEW
from teia.frontier.queue.order import ASIDE, NO_HINT, NO_KIND, TOP_SCORE, Hint, Order, Preference, is_aside
from teia.frontier.queue.tunnels import promises
from teia.lib.topic import TOPIC

RULE_HOPS = 3
"""Number of links that rules look ahead, as those of Altingovde & Ulusoy did."""


def hints_of(visit: ActiveVisit, order: Order, promises_by_kind: Mapping[int, float]) -> Iterable[Hint | None]:
    """Return a hint for each link of a page, in their order, for an order that needs them; None for a link without."""
    result = visit.result
    if result is None:
        return repeat(None)
    if order.has_preference:
        return preference_hints(visit, order.preference)
    if order.sample_size:
        page = Hint(page=visit.item.key)
        return [None if by & BY_REQUISITE else page for links in result.links for by in links.by]
    if result.judged is None:
        return repeat(None)
    return focused_hints(result.judged, visit.item.hint or NO_HINT, promises_by_kind)


def preference_hints(visit: ActiveVisit, preference: Preference) -> Iterable[Hint | None]:
    """Return a hint for each link of a page that is not preferred, by its host or by the page's language."""
    result, item = visit.result, visit.item
    assert result is not None
    other = Hint(ASIDE)
    if result.redirect_to:  # it has no language of its own
        return repeat(other if item.lane == LANE_NEW and is_aside(item.rank) else None)
    if preference.is_language_preferred(result.language):
        return repeat(None)
    hosts = [(links, None if preference.is_host_preferred(links.host) else other) for links in result.links]
    return [None if by & BY_REQUISITE else hint for links, hint in hosts for by in links.by]


def focused_hints(judged: FocusJudgement, hint: Hint, promises_by_kind: Mapping[int, float]) -> list[Hint]:
    """Return the hints of a judged page; a page without a kind inherits the kind of the page that led to it."""
    via = hint.via if judged.kind == NO_KIND else judged.kind
    rule = promises_by_kind.get(via, 0.0) if judged.off_topic and via != TOPIC else 0.0
    return [Hint(score + round((TOP_SCORE - score) * rule), judged.off_topic, via) for score in judged.scores]


def learnt_promises(cells: Iterable[Cell]) -> dict[int, float]:
    """Return the promise of each kind of page, from the statistics of all cells of a collection."""
    return promises([rule for cell in cells for rule in trails.all_rules(cell.frontier)], RULE_HOPS)


def agree_on_kinds(cells: Iterable[Cell], focus: Focus) -> None:
    """Store the numbering of page kinds in every cell."""
    for cell in cells:
        with cell.frontier.transaction() as frontier:
            trails.reset_changed_kinds(frontier, focus.classes)


def note_read(cell: Cell, visit: ActiveVisit, now_s: float) -> bool:
    """Store a visit's judgement of its page and of the kind of page that led to it; in the cell's transaction.

    Returns whether the page is to be visited once more.
    """
    judged, item = visit.result.judged if visit.result is not None else None, visit.item
    if judged is None or visit.fetched is None:
        return False
    # A revisit or an error would count the same link of kinds again.
    is_first_answer = item.visits == 0 and 200 <= visit.fetched.status < 300
    if is_first_answer and judged.kind != NO_KIND and item.hint is not None and item.hint.via != NO_KIND:
        trails.count_rule(cell.frontier, item.hint.via, judged.kind)
    read = trails.ReadingResult(judged.relevance, judged.kind, judged.depends)
    return cell.frontier.note_read(visit.queue.host_id, visit.queue.host, item, read, now_s)
