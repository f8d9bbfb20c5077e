"""Verdicts on outcomes: a URL is done, gone, or tried again later (C3).

Time-outs and refusals return to the queue with a penalty that doubles; a URL that does not exist is not requested
again. The table is the rule; `verdict` only reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

from teia.frontier.cell.schema import STATE_DONE, STATE_EXCLUDED, STATE_FAILED, STATE_QUEUED
from teia.records import Outcome


@dataclass(frozen=True, slots=True)
class RetryRule:
    """Number of tries of a URL in all, and its first wait in units of `retry_wait_s`; waits double."""

    tries: int
    first_wait: float
    state: int = STATE_FAILED


RETRY_RULES: dict[str, RetryRule] = {
    Outcome.TIMEOUT: RetryRule(3, 1),
    Outcome.CONNECT: RetryRule(3, 1),
    Outcome.DNS: RetryRule(3, 2),
    # A certificate is seldom fixed within minutes: one more try, after a long wait.
    Outcome.TLS: RetryRule(2, 32),
    Outcome.BAD_ANSWER: RetryRule(2, 2),
    Outcome.SYSTEM: RetryRule(5, 1),
    Outcome.PARSE_FAILED: RetryRule(1, 0, STATE_DONE),
    # Only of known pages, whose last capture stays.
    Outcome.NOT_RENDERED: RetryRule(1, 0, STATE_DONE),
    Outcome.SOFT_404: RetryRule(1, 0, STATE_DONE),
    # Nothing of a host may be fetched while its robots.txt is unreachable, so the waits are long.
    Outcome.ROBOTS_UNREACHABLE: RetryRule(5, 32),
    "408": RetryRule(3, 1),
    "429": RetryRule(8, 2),
    "500": RetryRule(3, 2),
    "502": RetryRule(3, 1),
    "503": RetryRule(8, 2),
    "504": RetryRule(3, 1),
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
class RetryVerdict:
    """The next state of a URL, and the wait before it is tried again if it stays queued."""

    state: int
    wait_s: float = 0.0


def verdict(outcome: str, failures_before: int, retry_wait_s: float) -> RetryVerdict:
    """Classify one more visit of a URL that failed `failures_before` times in a row."""
    rule = RETRY_RULES.get(outcome)
    if rule is not None:
        if failures_before + 1 < rule.tries:
            return RetryVerdict(STATE_QUEUED, rule.first_wait * 2.0**failures_before * retry_wait_s)
        return RetryVerdict(rule.state)
    if outcome in EXCLUDING:
        return RetryVerdict(STATE_EXCLUDED)
    return RetryVerdict(STATE_DONE if outcome.isdigit() else STATE_FAILED)
