"""What kinds of pages promise by what they led to (A6)."""

from __future__ import annotations

import pytest

from teia.frontier.queue.tunnels import FARTHER, UNSEEN, promises

TOPIC, DEPARTMENTS, SHOPS, PROJECTS = range(4)


def test_a_kind_that_leads_to_the_topic_promises_it() -> None:
    learnt = promises([(DEPARTMENTS, TOPIC, 30), (DEPARTMENTS, SHOPS, 60), (SHOPS, SHOPS, 90)], 1)
    assert learnt[DEPARTMENTS] == pytest.approx(30 / (90 + UNSEEN))
    assert learnt[SHOPS] == 0


def test_one_lucky_visit_promises_little() -> None:
    assert promises([(SHOPS, TOPIC, 1)], 1)[SHOPS] == pytest.approx(1 / (1 + UNSEEN))


def test_a_way_through_another_kind_counts_within_the_hops_allowed() -> None:
    rules = [(DEPARTMENTS, PROJECTS, 90), (PROJECTS, TOPIC, 90)]
    assert promises(rules, 1)[DEPARTMENTS] == 0
    assert promises(rules, 2)[DEPARTMENTS] == pytest.approx(0.9 * FARTHER * 0.9)


def test_counts_of_several_cells_add_up() -> None:
    assert promises([(SHOPS, TOPIC, 5), (SHOPS, TOPIC, 5)], 1) == promises([(SHOPS, TOPIC, 10)], 1)


def test_no_promise_is_more_than_certain() -> None:
    rules = [(via, kind, 10**6) for via in range(4) for kind in range(4)]
    assert all(0 <= promise <= 1 for promise in promises(rules, 3).values())


def test_nothing_seen_promises_nothing() -> None:
    assert promises([], 3) == {}
