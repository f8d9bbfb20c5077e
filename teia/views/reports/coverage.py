"""Coverage of the sites, estimated from two ways of finding pages (C9).

Following pages from the seeds gives one list of a site's pages. Its sitemaps and feeds, the requests that a proxy or
another signal announces, and lists that a user imports give another. Their overlap shows how complete each list is, and
so how many pages are probably on neither. A host that only links lead to has one list, and gets no estimate.

The same is done for servers: those that links lead to, and those that lists of hosts (a DNS zone) or signals name.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, NamedTuple

from teia.frontier.tables.counts import SourceCounts, pages_by_source
from teia.lib.message import Message
from teia.views.reports.estimate import CaptureLists, PopulationEstimate, estimate
from teia.views.reports.source import OpenCell, Source

PAGE_TYPES = ("text/html", "application/xhtml+xml", "application/pdf", "text/plain")
PRIOR_VISITS = 5
"""Number of visits that the share of pages among all visited URLs of the collection counts for on each host."""


@dataclass(frozen=True, slots=True)
class HostCoverage:
    """One host. `held` are the pages with a capture; `coverage` is their share of the estimate.

    `by_links` were found by following pages, `by_others` by any other source, `by_both` by both.
    """

    host: str
    held: int
    by_links: int
    by_sitemaps: int
    by_feeds: int
    by_signals: int
    by_lists: int
    by_others: int
    by_both: int
    estimate: float | None = None
    low: int | None = None
    high: int | None = None
    coverage: float | None = None


@dataclass(frozen=True, slots=True)
class ServerCoverage:
    """The servers with pages: found by links, named by lists of hosts or signals, and both."""

    servers: int
    by_links: int
    by_lists: int
    by_both: int
    estimate: float | None = None
    low: int | None = None
    high: int | None = None
    coverage: float | None = None


@dataclass(frozen=True, slots=True)
class Coverage:
    """The hosts with both lists together (`total`, None without any), the servers, and the largest of all hosts.

    `held_without_estimate` are on hosts with one list.
    """

    hosts: int
    hosts_estimated: int
    held: int
    held_without_estimate: int
    total: HostCoverage | None
    servers: ServerCoverage
    by_host: tuple[HostCoverage, ...]
    method: str = Message(
        "Lincoln-Petersen estimate in Chapman's form, computed per host and summed; 95% log-normal interval"
    )
    notes: tuple[str, ...] = (
        Message(
            "Counted are HTML, text and PDF pages that may be fetched: those stored, and those known and still queued."
        ),
        Message(
            "By others: pages in sitemaps or feeds, in announcements of proxies and other signals, or in an imported"
            " list. Servers: those that links lead to, compared with those that an imported list (of URLs, of hosts, a"
            " DNS zone) or a signal names."
        ),
        Message(
            "The estimate depends on these assumptions: (1) Being linked and being in the other list are independent;"
            " sites list in sitemaps and feeds what they also link, so the overlap is too large and the estimate too"
            " low. The requests of a proxy's users and lists of hosts depend less on links. (2) All pages of a host"
            " are equally likely to be in one of the lists; deep and new pages are not, which also makes it too low."
            " (3) The site does not change meanwhile, and each page has one URL: duplicate URLs of a page make it too"
            " high. (4) From the visited URLs that are as deep as the queue to the queue, the share of failures grows"
            " as much as from all visited URLs to those. (5) Links of pages that only the other list names count as"
            " links. (6) A list of everything gives an estimate of what it lists; a page that is in neither list, on a"
            " host with one list, cannot be estimated."
        ),
        Message(
            "The interval covers random error only, not violated assumptions. For hosts with a few dozen pages of"
            " which both lists contain less than a third, it contains the true value in less than 95 of 100 cases."
        ),
    )


_COUNTED = (
    "held", "by_links", "by_sitemaps", "by_feeds", "by_signals", "by_lists", "by_others", "by_both",
)  # fmt: skip
_VISITED = ("pages", "failed", "deep_pages", "deep_failed")

Kind = tuple[bool, bool]
"""Kinds of sources of a URL: following pages, and others."""


def coverage(source: Source, top: int = 20) -> Coverage:
    """Estimate how many pages there are, for each host with two lists and for all of them together."""
    by_host = [list(group) for cell in source.cells for _, group in groupby(_counts(cell), attrgetter("host"))]
    shares = _page_shares(by_host)
    hosts = [host for counts in by_host if (host := _HostLists.of(counts, shares)).lists.seen or host.row.held]
    estimated = [host for host in hosts if host.lists.first and host.lists.second]
    largest = heapq.nsmallest(top, hosts, key=lambda host: (-host.lists.seen, host.row.host))
    held = sum(host.row.held for host in hosts)
    # Counts of all hosts that have both lists; the estimate itself is made host by host.
    together = {name: sum(getattr(host.row, name) for host in estimated) for name in _COUNTED}
    total = _estimated(HostCoverage("all estimated", **together), [host.lists for host in estimated])
    return Coverage(
        len(hosts),
        len(estimated),
        held,
        held - total.held,
        total if estimated else None,
        _servers([host.row for host in hosts]),
        tuple(_estimated(host.row, [host.lists]) for host in largest),
    )


def _servers(rows: Sequence[HostCoverage]) -> ServerCoverage:
    linked, listed = (
        {row.host for row in rows if row.by_links},
        {row.host for row in rows if row.by_lists + row.by_signals},
    )
    numbers = (len(linked), len(listed), len(linked & listed))
    found = ServerCoverage(len(rows), *numbers)
    guess = estimate([CaptureLists(*numbers)])
    if guess is None:
        return found
    return replace(found, **_figures(guess, len(rows)))


def _counts(cell: OpenCell) -> Iterator[SourceCounts]:
    return pages_by_source(cell.frontier, PAGE_TYPES)


class _PageShare(NamedTuple):
    """The share of pages among the visited URLs of a collection with some kinds of sources.

    `drift` is how much less it is among those as deep as the queue: home pages and menus fail less often than deeper
    URLs. `variance` is that of the drift.
    """

    overall: float
    drift: float
    variance: float


def _page_shares(by_host: Sequence[Sequence[SourceCounts]]) -> dict[Kind, _PageShare]:
    """Return the share of pages among visited URLs of the whole collection, by their kinds of sources."""
    visited: defaultdict[Kind, Counter[str]] = defaultdict(Counter)
    for each in chain.from_iterable(by_host):
        visited[each.followed, each.others].update({name: getattr(each, name) for name in _VISITED})
    shares = {}
    for kind, number in visited.items():
        # Half a page more: without any visit, all queued URLs are taken for pages.
        overall = (number["pages"] + 0.5) / (number["pages"] + number["failed"] + 0.5)
        deep = _share(number["deep_pages"], number["deep_failed"], overall)
        variance = deep * (1 - deep) / (number["deep_pages"] + number["deep_failed"] + PRIOR_VISITS)
        shares[kind] = _PageShare(overall, overall - deep, variance)
    return shares


def _share(pages: int, failed: int, prior: float) -> float:
    return (pages + PRIOR_VISITS * prior) / (pages + failed + PRIOR_VISITS)


@dataclass(frozen=True, slots=True)
class _HostLists:
    """One host without its estimate, and the two lists of its pages.

    Some queued URLs are no pages. Each counts as the share of pages among visited URLs with the same kinds of sources:
    the host's own, and the collection's as if it came from `PRIOR_VISITS` visits. The share becomes less with depth,
    and of equally deep URLs those are found first that more pages lead to. So the queue is taken to differ from deep
    visits as much as these differ from all visits, give or take half of that.
    """

    row: HostCoverage
    lists: CaptureLists

    @classmethod
    def of(cls, host_counts: Sequence[SourceCounts], shares: Mapping[Kind, _PageShare]) -> _HostLists:
        pages: defaultdict[Kind, float] = defaultdict(float)
        known: defaultdict[Kind, int] = defaultdict(int)
        variance = 0.0
        for each in host_counts:
            kind, visited = (each.followed, each.others), each.pages + each.failed + PRIOR_VISITS
            overall, drift, of_drift = shares[kind]
            share = min(1.0, max(0.0, _share(each.pages, each.failed, overall) - 2 * drift))
            known[kind], pages[kind] = each.pages + each.queued, each.pages + share * each.queued
            if any(kind):
                # Of the number of pages among so many, of the share itself, and of the drift: two steps of it are
                # taken, one of which is uncertain by half. Part of its error is the share's, so it counts twice, not
                # four times.
                variance += share * (1 - share) * each.queued * (1 + each.queued / visited)
                variance += (drift**2 / 4 + 2 * of_drift) * each.queued**2
        both, known_both = pages[True, True], known[True, True]
        row = HostCoverage(
            host_counts[0].host,
            sum(each.pages for each in host_counts),
            known[True, False] + known_both,
            sum(each.sitemap for each in host_counts),
            sum(each.feed for each in host_counts),
            sum(each.signal for each in host_counts),
            sum(each.listed for each in host_counts),
            known[False, True] + known_both,
            known_both,
        )
        return cls(row, CaptureLists(pages[True, False] + both, pages[False, True] + both, both, variance))


def _estimated(row: HostCoverage, lists: Sequence[CaptureLists]) -> HostCoverage:
    """Return a row with its estimate, if there is one."""
    guess = estimate(lists)
    return row if guess is None else replace(row, **_figures(guess, row.held))


def _figures(guess: PopulationEstimate, held: int) -> dict[str, Any]:
    """Return the estimate, its interval and the coverage; what is held exists, also if neither list has it."""
    number, low, high = (max(held, each) for each in (guess.number, guess.low, guess.high))
    return {"estimate": round(number, 1), "low": low, "high": high, "coverage": held / number}
