"""Outcomes of all URLs: Tarântula's table of statuses (T8), our names beside its codes."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from teia.frontier.tables.counts import urls_by_outcome
from teia.lib.message import Message
from teia.records import Outcome
from teia.store.fetchlog import OF_PAGES
from teia.views.reports.source import Source, share_of

DESCRIPTIONS = {
    Outcome.ROBOTS: Message("excluded by robots.txt"),
    Outcome.ROBOTS_UNREACHABLE: Message("robots.txt could not be fetched, so nothing was requested"),
    Outcome.OUT_OF_SCOPE: Message("out of scope"),
    Outcome.FORBIDDEN_TYPE: Message("media type not allowed"),
    Outcome.TOO_LARGE: Message("larger than the limit"),
    Outcome.TIMEOUT: Message("timed out"),
    Outcome.DNS: Message("host name not found"),
    Outcome.CONNECT: Message("connection failed or interrupted"),
    Outcome.TLS: Message("TLS error"),
    Outcome.BAD_ANSWER: Message("invalid HTTP response"),
    Outcome.BLOCKED_ADDRESS: Message("address blocked by the address guard"),
    Outcome.REDIRECT_LOOP: Message("redirect loop"),
    Outcome.TRAP: Message("looks like a trap"),
    Outcome.BUDGET: Message("budget of its host or site used up"),
    Outcome.ALIAS: Message("its host is an alias of another host, where the page is counted"),
    Outcome.SOFT_404: Message("soft 404: answers 200 with the page that the host shows for missing pages"),
    Outcome.PARSE_FAILED: Message("stored, but could not be parsed"),
    Outcome.NOT_RENDERED: Message("stored, but not shown by its scripts; the last capture counts"),
    Outcome.GONE: Message("no longer exists"),
    Outcome.DROPPED: Message("removed from the queue by a user"),
    Outcome.SYSTEM: Message("internal error"),
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
        Message(
            "URLs are counted by the outcome of their last visit. Requests include repeats, but none for robots.txt;"
            " URLs that were rejected without a request (robots, dns) have none."
        ),
    )


def outcomes(source: Source, top: int = 0) -> Outcomes:  # noqa: ARG001  # every outcome is shown
    """Count the URLs of a collection by outcome, the most frequent first."""
    by_url = source.count(urls_by_outcome)
    sql = f"SELECT outcome, count(*) FROM fetches WHERE {OF_PAGES} GROUP BY outcome"  # noqa: S608  # our own text
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


def _is_status(outcome: str) -> bool:
    return outcome.isascii() and outcome.isdigit()  # of imported logs, too: `²` is a digit for Python, but no number


def code_of(outcome: str) -> int | None:
    """Return T8's number for an outcome."""
    if _is_status(outcome):
        return int(outcome)
    return Outcome(outcome).tarantula_code if outcome in set(Outcome) else None


def describe_outcome(outcome: str) -> str:
    """Return an outcome in words: the phrase of an HTTP status, or ours."""
    if not _is_status(outcome):
        return DESCRIPTIONS.get(Outcome(outcome), "") if outcome in set(Outcome) else ""
    try:
        return f"HTTP: {HTTPStatus(int(outcome)).phrase}"
    except ValueError:
        return "HTTP: unregistered status"


def outcome_words(outcome: str) -> str:
    """Return an outcome as a sentence names it: our own in words, an HTTP status as its number."""
    return outcome if _is_status(outcome) else describe_outcome(outcome) or outcome
