"""Outcomes of all URLs: Tarântula's table of statuses (T8), our names beside its codes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from http import HTTPStatus

from teia.frontier.tables.counts import urls_by_outcome
from teia.records import Outcome
from teia.views.reports.source import Source, share_of

DESCRIPTIONS = {
    Outcome.ROBOTS: "excluded by robots.txt",
    Outcome.ROBOTS_UNREACHABLE: "robots.txt could not be fetched, so nothing was requested",
    Outcome.OUT_OF_SCOPE: "out of scope",
    Outcome.FORBIDDEN_TYPE: "media type not allowed",
    Outcome.TOO_LARGE: "larger than the limit",
    Outcome.TIMEOUT: "timed out",
    Outcome.DNS: "host name not found",
    Outcome.CONNECT: "connection failed or interrupted",
    Outcome.TLS: "TLS error",
    Outcome.BAD_ANSWER: "invalid HTTP response",
    Outcome.BLOCKED_ADDRESS: "address blocked by the address guard",
    Outcome.REDIRECT_LOOP: "redirect loop",
    Outcome.TRAP: "looks like a trap",
    Outcome.BUDGET: "budget of its host or site used up",
    Outcome.ALIAS: "its host is an alias of another host, where the page is counted",
    Outcome.SOFT_404: "soft 404: answers 200 with the page that the host shows for missing pages",
    Outcome.PARSE_FAILED: "stored, but could not be parsed",
    Outcome.GONE: "no longer exists",
    Outcome.DROPPED: "removed from the queue by a user",
    Outcome.SYSTEM: "internal error",
}


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """One outcome. `code` is T8's number for it: the HTTP status, or its own negative code; None where it has none."""

    outcome: str
    code: int | None
    meaning: str
    count: int
    share: float
    requests: int


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The last outcome of every URL that has one, and of all requests for pages."""

    count: int
    requests: int
    rows: tuple[OutcomeRow, ...]
    notes: tuple[str, ...] = (
        "URLs are counted by the outcome of their last visit. Requests include repeats; URLs that were rejected"
        " without a request (robots, dns) have none.",
    )


def outcomes(source: Source, top: int = 0) -> Outcomes:  # noqa: ARG001  # every outcome is shown
    """Count the URLs of a collection by outcome, the most frequent first."""
    by_url: Counter[str] = Counter()
    for cell in source.frontiers:
        by_url += urls_by_outcome(cell)
    sql = "SELECT outcome, count(*) FROM fetches WHERE kind NOT IN ('robots', 'probe') GROUP BY outcome"
    by_request = {outcome: int(number) for outcome, number in source.log.query(sql).rows}
    # A request may have had another outcome than the URL's last visit.
    names = sorted({*by_url, *by_request}, key=lambda name: (-by_url[name], -by_request.get(name, 0), name))
    total = by_url.total()
    rows = [
        OutcomeRow(
            each,
            code_of(each),
            describe_outcome(each),
            by_url[each],
            share_of(by_url[each], total),
            by_request.get(each, 0),
        )
        for each in names
    ]
    return Outcomes(total, sum(by_request.values()), tuple(rows))


def code_of(outcome: str) -> int | None:
    """Return T8's number for an outcome."""
    if outcome.isdigit():
        return int(outcome)
    return Outcome(outcome).tarantula_code if outcome in set(Outcome) else None


def describe_outcome(outcome: str) -> str:
    """Return an outcome in words: the phrase of an HTTP status, or ours."""
    if not outcome.isdigit():
        return DESCRIPTIONS.get(Outcome(outcome), "") if outcome in set(Outcome) else ""
    try:
        return f"HTTP: {HTTPStatus(int(outcome)).phrase}"
    except ValueError:
        return "HTTP: unregistered status"
