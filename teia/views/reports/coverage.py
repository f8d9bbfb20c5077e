"""Coverage of the sites, estimated from two ways of finding pages (C9).

Links and sitemaps are two lists of a site's pages. Their overlap shows how complete each list is, and so how many pages
are probably on neither. Hosts without a sitemap have one list only, and get no estimate.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from teia.frontier.cell.schema import BY_LINK, BY_REDIRECT, BY_SEED, BY_SITEMAP
from teia.frontier.tables.counts import overlap_by_host
from teia.lib.message import Message
from teia.views.reports.estimate import CaptureLists, PopulationEstimate, estimate
from teia.views.reports.source import Source

PAGE_TYPES = ("text/html", "application/xhtml+xml", "application/pdf", "text/plain")
FOLLOWED = BY_LINK | BY_REDIRECT | BY_SEED
"""Ways to find a URL by following pages, beginning with the seeds."""


@dataclass(frozen=True, slots=True)
class HostCoverage:
    """One host. `held` are the pages with a capture; `coverage` is their share of the estimate."""

    host: str
    held: int
    by_links: int
    by_sitemaps: int
    by_both: int
    estimate: float | None
    low: int | None
    high: int | None
    coverage: float | None


@dataclass(frozen=True, slots=True)
class Coverage:
    """The hosts with both lists together (`total`), the largest of all hosts, and the hosts left out."""

    hosts: int
    hosts_estimated: int
    held: int
    held_on_other_hosts: int
    total: HostCoverage
    by_host: tuple[HostCoverage, ...]
    method: str = Message(
        "Lincoln-Petersen estimate in Chapman's form, computed per host and summed; 95% log-normal interval"
    )
    notes: tuple[str, ...] = (
        Message(
            "Counted are HTML, text and PDF pages that may be fetched: those stored, and those known and still queued."
        ),
        Message(
            "The estimate depends on these assumptions: (1) Being linked and being in the sitemap are independent;"
            " sites list in sitemaps what they also link, so the overlap is too large and the estimate too low. (2)"
            " All pages of a host are equally likely to be found; deep and new pages are not, which also makes it too"
            " low. (3) The site does not change meanwhile, and each page has one URL: duplicate URLs of a page and"
            " queued URLs that turn out to be errors make it too high. (4) Links of pages that only a sitemap lists"
            " count as links. (5) A sitemap that lists everything gives an estimate of what it lists; a page that is"
            " in neither list, on a host without a sitemap, cannot be estimated."
        ),
        Message(
            "The interval covers random error only, not violated assumptions. For hosts with a few dozen pages of"
            " which both lists contain less than a third, it contains the true value in less than 95 of 100 cases."
        ),
    )


def coverage(source: Source, top: int = 20) -> Coverage:
    """Estimate how many pages there are, for each host that has a sitemap and for all of them together."""
    largest: list[tuple[int, str, int, CaptureLists]] = []
    estimated: list[CaptureLists] = []
    hosts = held = held_estimated = 0
    for cell in source.cells:
        for host, copies, *counts in overlap_by_host(cell.frontier, FOLLOWED, BY_SITEMAP, PAGE_TYPES):
            captures = CaptureLists(*counts)
            hosts, held = hosts + 1, held + copies
            if captures.first and captures.second:
                estimated.append(captures)
                held_estimated += copies
            heapq.heappush(largest, (captures.seen, host, copies, captures))
            # The heap keeps the largest hosts; with `top` 0 the list is emptied below.
            if len(largest) > max(1, top):
                heapq.heappop(largest)
    # Counts of all hosts that have both lists; the estimate itself is made host by host.
    together = CaptureLists(*(sum(getattr(each, name) for each in estimated) for name in ("first", "second", "both")))
    rows = sorted(largest, key=lambda each: (-each[0], each[1]))[: top or 0]
    return Coverage(
        hosts,
        len(estimated),
        held,
        held - held_estimated,
        _row("all", held_estimated, together, estimate(estimated)),
        tuple(_row(host, copies, captures, estimate([captures])) for _, host, copies, captures in rows),
    )


def _row(host: str, held: int, captures: CaptureLists, guess: PopulationEstimate | None) -> HostCoverage:
    counts = (captures.first, captures.second, captures.both)
    if guess is None:
        return HostCoverage(host, held, *counts, None, None, None, None)
    return HostCoverage(host, held, *counts, round(guess.number, 1), guess.low, guess.high, held / guess.number)
