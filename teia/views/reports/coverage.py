"""Coverage of the sites, estimated from two ways of finding pages (C9).

Links and sitemaps are two lists of a site's pages. Their overlap shows how complete each list is, and so how many pages
are probably on neither. Hosts without a sitemap have one list only, and get no estimate.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from teia.frontier.cell.schema import BY_LINK, BY_REDIRECT, BY_SEED, BY_SITEMAP, STATE_QUEUED
from teia.records import Outcome
from teia.views.reports.estimate import Captures, Estimate, estimate
from teia.views.reports.source import DOCUMENT, OpenCell, Source

IS_PAGE = "p.media_type IN ('text/html', 'application/xhtml+xml', 'application/pdf', 'text/plain')"
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
    method: str = "Lincoln-Petersen, Chapman's form, host by host and added up; 95% interval: log-normal"
    notes: tuple[str, ...] = (
        "Counted are HTML, text and PDF pages that may be fetched: those we have, and those known that still wait.",
        "The estimate is wrong where its assumptions are: (1) being linked and being in the sitemap must not depend on"
        " each other; sites put into sitemaps what they also link, so the overlap is too large and the estimate too"
        " low. (2) Within a host every page must be as likely to be found as any other; deep and new pages are not,"
        " which again makes it too low. (3) The site must not change meanwhile, and one page must be one URL: second"
        " names of a page and waiting URLs that turn out to be errors make it too high. (4) Links of pages that only a"
        " sitemap names count as links. (5) A sitemap that lists everything gives an estimate of what it lists, and a"
        " page in neither list of a host without a sitemap is beyond any estimate.",
        "The interval speaks of chance alone, not of these. For hosts of a few dozen pages of which both lists have"
        " less than a third, even so it holds the truth less than 95 times in 100.",
    )


def coverage(source: Source, top: int = 20) -> Coverage:
    """Estimate how many pages there are, for each host that has a sitemap and for all of them together."""
    largest: list[tuple[int, str, int, Captures]] = []
    estimated: list[Captures] = []
    hosts = held = held_estimated = 0
    for cell in source.cells:
        for host, copies, captures in _captures(cell):
            hosts, held = hosts + 1, held + copies
            if captures.first and captures.second:
                estimated.append(captures)
                held_estimated += copies
            heapq.heappush(largest, (captures.seen, host, copies, captures))
            # The heap keeps the largest hosts; with `top` 0 the list is emptied below.
            if len(largest) > max(1, top):
                heapq.heappop(largest)
    # Counts of all hosts that have both lists; the estimate itself is made host by host.
    together = Captures(*(sum(getattr(each, name) for each in estimated) for name in ("first", "second", "both")))
    rows = sorted(largest, key=lambda each: (-each[0], each[1]))[: top or 0]
    return Coverage(
        hosts,
        len(estimated),
        held,
        held - held_estimated,
        _row("all", held_estimated, together, estimate(estimated)),
        tuple(_row(host, copies, captures, estimate([captures])) for _, host, copies, captures in rows),
    )


def _row(host: str, held: int, captures: Captures, guess: Estimate | None) -> HostCoverage:
    counts = (captures.first, captures.second, captures.both)
    if guess is None:
        return HostCoverage(host, held, *counts, None, None, None, None)
    return HostCoverage(host, held, *counts, round(guess.number, 1), guess.low, guess.high, held / guess.number)


def _captures(cell: OpenCell) -> list[tuple[str, int, Captures]]:
    """Return every host of a cell with a page: (name, pages held, its two lists)."""
    waits = f"u.state = {STATE_QUEUED} AND p.status IS NULL"
    sql = f"""
        SELECT h.name, sum(held), sum(links), sum(maps), sum(links AND maps) FROM
            (SELECT u.host_id, p.status IS NOT NULL AS held,
                    u.found_by & {FOLLOWED} <> 0 AS links, u.found_by & {BY_SITEMAP} <> 0 AS maps
             FROM urls AS u
             LEFT JOIN pages AS p ON p.slot = u.slot AND p.host_id = u.host_id AND p.key = u.key
             WHERE (p.{DOCUMENT} AND {IS_PAGE} AND u.outcome <> '{Outcome.SOFT_404}') OR ({waits}))
        JOIN hosts AS h USING (host_id) GROUP BY host_id
    """  # noqa: S608  # our own text
    return [(host, held, Captures(links, maps, both)) for host, held, links, maps, both in cell.rows(sql)]
