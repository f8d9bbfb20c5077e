"""What becomes of a URL after each outcome (C3)."""

from __future__ import annotations

import itertools

import pytest

from teia.frontier.cell.schema import STATE_DONE, STATE_EXCLUDED, STATE_FAILED, STATE_QUEUED
from teia.frontier.queue.retry import EXCLUDING, RETRY_RULES, verdict
from teia.records import Outcome

WAIT_S = 30.0
STATUSES = [str(status) for status in range(100, 600)]

FIRST_VERDICT = {
    Outcome.ROBOTS: STATE_EXCLUDED,
    Outcome.ROBOTS_UNREACHABLE: STATE_QUEUED,
    Outcome.OUT_OF_SCOPE: STATE_EXCLUDED,
    Outcome.FORBIDDEN_TYPE: STATE_EXCLUDED,
    Outcome.TOO_LARGE: STATE_FAILED,
    Outcome.TIMEOUT: STATE_QUEUED,
    Outcome.DNS: STATE_QUEUED,
    Outcome.CONNECT: STATE_QUEUED,
    Outcome.TLS: STATE_QUEUED,
    Outcome.BAD_ANSWER: STATE_QUEUED,
    Outcome.BLOCKED_ADDRESS: STATE_EXCLUDED,
    Outcome.REDIRECT_LOOP: STATE_FAILED,
    Outcome.TRAP: STATE_EXCLUDED,
    Outcome.BUDGET: STATE_EXCLUDED,
    Outcome.ALIAS: STATE_EXCLUDED,
    Outcome.SOFT_404: STATE_DONE,
    Outcome.PARSE_FAILED: STATE_DONE,
    Outcome.NOT_RENDERED: STATE_DONE,
    Outcome.GONE: STATE_FAILED,
    Outcome.DROPPED: STATE_EXCLUDED,
    Outcome.SYSTEM: STATE_QUEUED,
}


def test_every_outcome_has_a_verdict_that_was_thought_about() -> None:
    assert set(FIRST_VERDICT) == set(Outcome)


@pytest.mark.parametrize(("outcome", "state"), FIRST_VERDICT.items())
def test_first_verdict(outcome: Outcome, state: int) -> None:
    assert verdict(outcome, 0, WAIT_S).state == state


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("200", STATE_DONE),
        ("304", STATE_DONE),
        ("301", STATE_DONE),
        ("404", STATE_DONE),
        ("410", STATE_DONE),
        ("403", STATE_DONE),
        ("408", STATE_QUEUED),
        ("429", STATE_QUEUED),
        ("500", STATE_QUEUED),
        ("502", STATE_QUEUED),
        ("503", STATE_QUEUED),
        ("504", STATE_QUEUED),
    ],
)
def test_status_that_may_pass_is_tried_again_and_others_are_final(status: str, state: int) -> None:
    assert verdict(status, 0, WAIT_S).state == state


@pytest.mark.parametrize("outcome", RETRY_RULES)
def test_waits_double_until_the_tries_are_used_up(outcome: str) -> None:
    rule = RETRY_RULES[outcome]
    verdicts = [verdict(outcome, failures, WAIT_S) for failures in range(rule.tries)]
    assert [each.state for each in verdicts] == [STATE_QUEUED] * (rule.tries - 1) + [rule.state]
    waits = [each.wait_s for each in verdicts[:-1]]
    assert all(wait > 0 for wait in waits)
    assert all(later == 2 * earlier for earlier, later in itertools.pairwise(waits))


def test_nothing_is_tried_for_ever() -> None:
    for outcome in (*Outcome, *STATUSES):
        verdicts = [verdict(outcome, failures, WAIT_S) for failures in (*range(10), 10**6)]
        assert all(each.state != STATE_QUEUED for each in verdicts[9:]), outcome
        assert sum(each.wait_s for each in verdicts) < 86_400, outcome


def test_one_url_that_fails_in_turn_in_every_way_ends_too() -> None:
    outcomes = itertools.islice(itertools.cycle(RETRY_RULES), 100)
    assert any(verdict(outcome, n, WAIT_S).state != STATE_QUEUED for n, outcome in enumerate(outcomes))


def test_what_excludes_is_not_tried_again() -> None:
    assert not EXCLUDING & set(RETRY_RULES)
