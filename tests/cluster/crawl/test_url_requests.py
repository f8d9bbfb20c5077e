"""Bulk actions that nodes agree on are run one after another, and none is run twice."""

from __future__ import annotations

from teia.cluster.crawl.url_requests import KEPT_ACTIONS, next_action, with_action, with_result
from teia.cluster.members.agreement import Agreement
from teia.frontier.cell.bulk import BulkAction, BulkSelection

DROP = BulkSelection(BulkAction.DROP, host="a.test")


def marks(agreement: Agreement) -> list[str]:
    return [each.mark for each in agreement.actions]


def test_actions_run_in_the_order_in_which_they_were_agreed_on() -> None:
    now = Agreement("id", "", 1)
    assert next_action(now) is None
    for mark in ("first", "second", "first"):
        now = with_action(now, mark, DROP)
    assert marks(now) == ["first", "second"]
    action = next_action(now)
    assert action is not None
    assert (action.mark, action.selection, action.urls) == ("first", DROP, None)
    now = with_result(now, "first", 7)
    action = next_action(now)
    assert action is not None
    assert action.mark == "second"
    assert with_result(now, "first", 9) == now, "of two nodes that notice the end, the first one writes"
    assert with_action(now, "first", DROP) == now, "its node was away, and finds the result"


def test_results_are_kept_for_a_while() -> None:
    now = with_action(Agreement("id", "", 1), "pending", DROP)
    for number in range(KEPT_ACTIONS + 5):
        now = with_result(with_action(now, str(number), DROP), str(number), number)
    now = with_action(now, "last", DROP)
    assert marks(now) == ["pending", *map(str, range(5, KEPT_ACTIONS + 5)), "last"]
