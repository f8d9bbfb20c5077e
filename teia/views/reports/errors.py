"""Report of failures: by class, by host, with examples (C5's table 6)."""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.tables.counts import HostOutcome, outcomes_by_host
from teia.lib.message import Message
from teia.records import Outcome
from teia.views.reports.outcomes import code_of, describe_outcome
from teia.views.reports.source import Source, share_of

EXAMPLES = 3
REFUSED = frozenset(
    {
        Outcome.ROBOTS,
        Outcome.ROBOTS_UNREACHABLE,
        Outcome.OUT_OF_SCOPE,
        Outcome.FORBIDDEN_TYPE,
        Outcome.TOO_LARGE,
        Outcome.BLOCKED_ADDRESS,
        Outcome.TRAP,
        Outcome.BUDGET,
    }
)
OURS = frozenset({Outcome.SYSTEM, Outcome.PARSE_FAILED, Outcome.NOT_RENDERED})


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One kind of failure. `detail` is its last recorded message."""

    kind: str
    outcome: str
    code: int | None
    meaning: str
    urls: int
    share: float
    hosts: int
    detail: str
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostErrors:
    """A host with failures: the number of its failed URLs, and their most frequent outcome."""

    host: str
    errors: int
    share: float
    mostly: str


@dataclass(frozen=True, slots=True)
class Errors:
    """Failures of a collection. `share` of a row is of all failures, `share` of a host of its visited URLs."""

    visited: int
    errors: int
    rows: tuple[ErrorRow, ...]
    by_host: tuple[HostErrors, ...]
    notes: tuple[str, ...] = (
        Message(
            "Kind: client and server are the HTTP error classes; network means that no response was received; refused"
            " means that the crawler did not fetch or store it; ours is an error of the crawler itself. Each URL is"
            " counted by its last outcome."
        ),
    )


CLIENT = Message("client")


def kind_of(outcome: str) -> str:
    """Return the class of a failure."""
    if outcome.isdigit():
        return {"4": CLIENT, "5": Message("server")}.get(outcome[0], Message("other"))
    if outcome == Outcome.SOFT_404:
        return CLIENT
    if outcome in REFUSED:
        return Message("refused")
    return Message("ours") if outcome in OURS else Message("network")


def errors(source: Source, top: int = 20) -> Errors:
    """Count failures by outcome and by host."""
    tally = _Tally()
    failing = (host for cell in source.frontiers for host in tally.add(cell))
    worst = heapq.nsmallest(top, failing, key=lambda host: (-host.errors, host.host))
    return Errors(tally.visited, tally.urls.total(), _by_outcome(source, tally), tuple(worst))


def is_error(outcome: str) -> bool:
    """Tell whether the outcome of a visit is a failure."""
    return outcome != Outcome.ALIAS and not re.fullmatch("[23][0-9][0-9]", outcome)


class _Tally:
    """The visited URLs, and by outcome: the failed ones, the hosts that have some, one example of each cell."""

    def __init__(self) -> None:
        self.visited = 0
        self.urls: Counter[str] = Counter()
        self.hosts: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = defaultdict(list)

    def add(self, cell: FrontierCell) -> Iterator[HostErrors]:
        """Count the URLs of a cell; yield its hosts with failures."""
        examples: dict[str, HostOutcome] = {}
        for host, outcomes in groupby(outcomes_by_host(cell), attrgetter("host")):
            counted = list(outcomes)
            visited = sum(each.urls for each in counted)
            self.visited += visited
            failed = [each for each in counted if is_error(each.outcome)]
            for each in failed:
                self.urls[each.outcome] += each.urls
                self.hosts[each.outcome] += 1
                examples[each.outcome] = min(each, examples.get(each.outcome, each), key=attrgetter("key"))
            if failed:
                errors = sum(each.urls for each in failed)
                mostly = min(failed, key=lambda each: (-each.urls, each.outcome)).outcome
                yield HostErrors(host, errors, share_of(errors, visited), mostly)
        for outcome, each in examples.items():
            self.examples[outcome].append(each.example)


def _by_outcome(source: Source, tally: _Tally) -> tuple[ErrorRow, ...]:
    urls = tally.urls
    # The newest message of each outcome.
    details = dict(
        source.log.query(
            "SELECT outcome, arg_max(detail, started) FROM fetches WHERE detail IS NOT NULL GROUP BY outcome"
        ).rows
    )
    total = sum(urls.values())
    return tuple(
        ErrorRow(
            kind_of(each),
            each,
            code_of(each),
            describe_outcome(each),
            urls[each],
            share_of(urls[each], total),
            tally.hosts[each],
            details.get(each) or "",
            tuple(tally.examples[each][:EXAMPLES]),
        )
        for each in sorted(urls, key=lambda name: (-urls[name], name))
    )
