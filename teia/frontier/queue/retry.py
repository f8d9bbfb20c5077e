"""Verdicts on outcomes: a URL is done, gone, or tried again later (C3).

Time-outs and refusals return to the queue with a penalty that doubles; a URL that does not exist is not requested
again. The table is the rule; `verdict` only reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

from teia.frontier.cell.schema import STATE_DONE, STATE_EXCLUDED, STATE_FAILED, STATE_QUEUED
from teia.records import Outcome


@dataclass(frozen=True, slots=True)
class Rule:
    """Number of tries of a URL in all, and its first wait in units of `retry_wait_s`; waits double."""

    tries: int
    first_wait: float
    state: int = STATE_FAILED


RETRY_RULES: dict[str, Rule] = {
    Outcome.TIMEOUT: Rule(3, 1),
    Outcome.CONNECT: Rule(3, 1),
    Outcome.DNS: Rule(3, 2),
    # A certificate is seldom fixed within minutes: one more try, after a long wait.
    Outcome.TLS: Rule(2, 32),
    Outcome.BAD_ANSWER: Rule(2, 2),
    Outcome.SYSTEM: Rule(5, 1),
    Outcome.PARSE_FAILED: Rule(1, 0, STATE_DONE),
    Outcome.SOFT_404: Rule(1, 0, STATE_DONE),
    # Nothing of a host may be fetched while its robots.txt is unreachable, so the waits are long.
    Outcome.ROBOTS_UNREACHABLE: Rule(5, 32),
    "408": Rule(3, 1),
    "429": Rule(8, 2),
    "500": Rule(3, 2),
    "502": Rule(3, 1),
    "503": Rule(8, 2),
    "504": Rule(3, 1),
}
"""Retry rules by outcome. Every other outcome is final after one try."""

EXCLUDING = frozenset(
    {
        Outcome.ROBOTS,
        Outcome.OUT_OF_SCOPE,
        Outcome.TRAP,
        Outcome.BUDGET,
        Outcome.ALIAS,
        Outcome.BLOCKED_ADDRESS,
        Outcome.FORBIDDEN_TYPE,
        Outcome.DROPPED,
    }
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The next state of a URL, and the wait before it is tried again if it stays queued."""

    state: int
    wait_s: float = 0.0


def verdict(outcome: str, failures_before: int, retry_wait_s: float) -> Verdict:
    """Judge one more visit of a URL that failed `failures_before` times in a row."""
    rule = RETRY_RULES.get(outcome)
    if rule is not None:
        if failures_before + 1 < rule.tries:
            return Verdict(STATE_QUEUED, rule.first_wait * 2.0**failures_before * retry_wait_s)
        return Verdict(rule.state)
    if outcome in EXCLUDING:
        return Verdict(STATE_EXCLUDED)
    return Verdict(STATE_DONE if outcome.isdigit() else STATE_FAILED)
