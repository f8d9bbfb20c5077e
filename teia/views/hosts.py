"""Table of a collection's hosts: known URLs, waiting URLs and reasons, duration of one pass (C1, C2).

Building it takes one walk over the frontier, about a second for a million URLs, so callers cache it for a while. The
distance between a host's requests is its politeness delay (from the ledger, or from the settings and robots.txt) plus
the time of its last answer.

A host may have several reasons why it is not finished, as words that users can filter by. All of them come from its
line of the table, so that a hundred thousand hosts can be classified in a moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from teia.collections.settings import saved
from teia.config.sections import Config
from teia.crawler.keep_fresh.freshness import WEEK_S
from teia.crawler.robots import stored_crawl_delay_s
from teia.frontier.cell.schema import (
    LANE_DUE,
    LANE_LATER,
    LANE_NEW,
    LANE_REFRESH,
)
from teia.frontier.queue.host_rules import PAUSED, delay_of, host_delays, paused_hosts
from teia.frontier.queue.ledger import read_servers
from teia.frontier.tables.hosts import UrlCounts, all_hosts, count_queued, count_urls
from teia.lib.message import decoded
from teia.store.root import Root
from teia.views.reports.source import OpenCell, snapshot

DELAYS_READ = 500
"""Number of hosts, those with the most URLs, whose robots.txt is read for a Crawl-delay if the ledger has none."""


@dataclass(frozen=True, slots=True)
class HostWaitReasons:
    """Numbers of waiting URLs of a host, by reason. `refresh_…` are known pages, where pages are kept fresh.

    `retry_due` counts the retries that may be fetched now.
    """

    new: int = 0
    retry: int = 0
    suspect: int = 0
    refresh_due: int = 0
    refresh_later: int = 0
    retry_due: int = 0

    @property
    def ready(self) -> int:
        """URLs that wait only for their turn."""
        return self.new + self.refresh_due + self.retry_due

    @property
    def retry_later(self) -> int:
        return self.retry - self.retry_due

    @property
    def queued(self) -> int:
        return self.new + self.retry + self.suspect

    @property
    def any(self) -> bool:
        return bool(self.queued or self.refresh_due or self.refresh_later)


@dataclass(frozen=True, slots=True)
class HostLine:
    """One host. Requests are `slot_s` apart; `pass_s` is the time to visit all its known URLs once.

    `ready_at_s` and `last_request_s` are None for a host without recent requests. `paced_s` is the time between
    requests by its part of a budget, where that is known (host_budget.py).
    """

    host: str
    host_id: int
    cell: int
    urls: int
    visited: int
    failed: int
    excluded: int
    requests: int
    bytes: int
    address: str
    parked: str
    response_s: float
    delay_s: float
    ready_at_s: float | None
    last_request_s: float | None
    waits: HostWaitReasons
    paced_s: float = 0.0
    with_outcome: int = 0
    errors: int = 0

    @property
    def error_share(self) -> float:
        """Part of the URLs with an outcome that ended in an error, as in the report on errors."""
        return self.errors / self.with_outcome if self.with_outcome else 0.0

    @property
    def waiting(self) -> int:
        return self.waits.queued

    @property
    def slot_s(self) -> float:
        return max(self.delay_s + self.response_s, self.paced_s)

    @property
    def pass_s(self) -> float:
        return (self.visited + self.waiting) * self.slot_s

    @property
    def finish_s(self) -> float:
        """Time in seconds to fetch the waiting URLs, if nothing new is found."""
        return 0.0 if self.parked else self.waiting * self.slot_s


@dataclass(frozen=True, slots=True)
class HostTable:
    """All hosts by name, as of `time_s`."""

    time_s: float
    hosts: Mapping[str, HostLine]

    @property
    def slowest(self) -> HostLine | None:
        """The host that will finish last; None where nothing waits."""
        waiting = (line for line in self.hosts.values() if line.finish_s > 0)
        return max(waiting, key=lambda line: (line.finish_s, line.host), default=None)

    def count_sharing(self, line: HostLine) -> int:
        """Count the other hosts with the same address."""
        # A host without an address shares it with none.
        same = sum(each.address == line.address for each in self.hosts.values()) if line.address else 1
        return same - 1


def host_table(root: Root, collection: str, now_s: float) -> HostTable:
    """Build the table of all hosts of a collection."""
    config = saved(root, collection).config
    delays = read_servers(root.path / "ledger.sqlite")
    found: dict[str, HostLine] = {}
    with snapshot(root, collection) as cells:
        for cell in cells:
            lines = list(_lines(cell, config, delays, now_s))
            # Only the largest hosts: parsing robots.txt takes a while.
            most = sorted(lines, key=lambda line: -line.urls)[: DELAYS_READ // len(cells) + 1]
            crawl_delays = {line.host: _crawl_delay_s(cell, line, config) for line in most if line.ready_at_s is None}
            found |= {line.host: _with_crawl_delay(line, crawl_delays.get(line.host, 0.0)) for line in lines}
    return HostTable(now_s, found)


def _lines(
    cell: OpenCell, config: Config, delays: Mapping[str, tuple[float, float]], now_s: float
) -> Iterable[HostLine]:
    urls = dict(count_urls(cell.frontier))
    waits = _waits(cell, now_s, keeps=config.refresh.keep)
    courtesy = config.courtesy
    paused, delays_s = paused_hosts(courtesy.paused), host_delays(courtesy.host_delays)
    for host_id, _, host, _, requests, received, parked, address, response_s in all_hosts(cell.frontier):
        counts = urls.get(host_id, UrlCounts())
        known, done, failed, excluded = counts.known, counts.done, counts.failed, counts.excluded
        set_delay_s = delay_of(courtesy, host, is_small=known <= courtesy.small_site_urls)
        # With a delay of 0 the response factor does not apply either (politeness.py).
        own_s = max(set_delay_s, courtesy.response_factor * response_s) if set_delay_s else 0.0
        ready_at_s, delay_s = delays.get(host, (None, own_s))
        delay_s = max(delay_s, delays_s.get(host, 0.0))
        # The delay after the last request is over. After the next one it is at least that of the settings.
        if ready_at_s is not None and ready_at_s <= now_s:
            delay_s = max(delay_s, own_s)
        # A pause is a setting; the row may still have it after the pause was lifted.
        why = PAUSED if host in paused else "" if parked == PAUSED else decoded(parked)
        yield HostLine(
            *(host, host_id, cell.number, known, done, failed, excluded, requests, received, address, why),
            response_s=response_s,
            delay_s=delay_s,
            ready_at_s=ready_at_s,
            # The ledger has delays also of hosts that were never requested, such as after a start of the machine.
            last_request_s=None if ready_at_s is None or not requests else min(ready_at_s - delays[host][1], now_s),
            waits=waits.get(host_id, HostWaitReasons()),
            with_outcome=counts.with_outcome,
            errors=counts.errors,
        )


def _waits(cell: OpenCell, now_s: float, *, keeps: bool) -> dict[int, HostWaitReasons]:
    found = {}
    for host_id, host_lanes in count_queued(cell.frontier, now_s).items():
        known, due = host_lanes.get(LANE_REFRESH, (0, 0)) if keeps else (0, 0)
        new, retry, suspect = (host_lanes.get(lane, (0, 0))[0] for lane in (LANE_NEW, LANE_DUE, LANE_LATER))
        found[host_id] = HostWaitReasons(new, retry, suspect, due, known - due, host_lanes.get(LANE_DUE, (0, 0))[1])
    return found


def _crawl_delay_s(cell: OpenCell, line: HostLine, config: Config) -> float:
    """Return the Crawl-delay of a host, as far as we obey it."""
    if not config.courtesy.robots:
        return 0.0
    delay_s = stored_crawl_delay_s(cell.frontier, line.host_id, line.host, config.courtesy.user_agent) or 0.0
    return delay_s if delay_s <= config.courtesy.max_crawl_delay_s else 0.0


def _with_crawl_delay(line: HostLine, crawl_delay_s: float) -> HostLine:
    return replace(line, delay_s=crawl_delay_s) if crawl_delay_s > line.delay_s else line


# ---- what waits for what --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WaitReasons:
    """Numbers of waiting URLs, by reason; they add up to `total`. `revisits` of them are planned for known pages."""

    total: int
    next: int
    resting: int
    behind: int
    retry: int
    suspect: int
    parked: int
    not_due: int
    revisits: int


def count_wait_reasons(table: HostTable) -> WaitReasons:
    """Add up why URLs wait: of each host one is next, or waits for the host's delay, and the others are behind it."""
    upcoming = resting = behind = retry = suspect = parked = not_due = 0
    for line in table.hosts.values():
        waits, ready = line.waits, line.waits.ready
        not_due += waits.refresh_later
        if line.parked:
            parked += ready + waits.retry_later + waits.suspect
            continue
        retry, suspect = retry + waits.retry_later, suspect + waits.suspect
        if ready:
            is_delayed = line.ready_at_s is not None and line.ready_at_s > table.time_s
            resting, upcoming = resting + is_delayed, upcoming + (not is_delayed)
            behind += ready - 1
    total = upcoming + resting + behind + retry + suspect + parked + not_due
    revisits = sum(line.waits.refresh_due + line.waits.refresh_later for line in table.hosts.values())
    return WaitReasons(total, upcoming, resting, behind, retry, suspect, parked, not_due, revisits)


# ---- reasons why a host is not finished ------------------------------------------------------------------------------


MANY_FAILURES, MANY_SHARE = 5, 0.1

REASONS = ("paused", "parked", "unanswered", "errors", "left_out", "slow", "retry", "suspect", "resting")
"""Reasons by severity, the worst first.

paused      an operator paused it
parked      it is left alone for another reason, as a Crawl-delay that is too long
unanswered  no page of it could ever be fetched
errors      a tenth of its answers or more are failures
left_out    all its known URLs are left out: by robots.txt, by the rules, as traps
slow        one pass takes longer than a week
retry       some of its URLs failed and wait for another try
suspect     some of its URLs may be a trap and come last
resting     its politeness delay is running, or its server asked us to wait
"""


def host_reasons(line: HostLine, now_s: float) -> tuple[str, ...]:
    """Return the reasons why a host is not finished; none if all is well."""
    waits = line.waits
    settled = line.visited + line.failed
    found = (
        ("paused", line.parked == PAUSED),
        ("parked", bool(line.parked) and line.parked != PAUSED),
        ("unanswered", line.failed > 0 and not line.visited),
        ("errors", line.visited > 0 and line.failed >= max(MANY_FAILURES, MANY_SHARE * settled)),
        ("left_out", line.excluded > 0 and line.excluded == line.urls),
        ("slow", line.pass_s > WEEK_S),
        ("retry", waits.retry_later > 0),
        ("suspect", waits.suspect > 0),
        ("resting", not line.parked and waits.ready > 0 and (line.ready_at_s or 0.0) > now_s),
    )
    return tuple(word for word, is_so in found if is_so)


def count_reasons(lines: Iterable[HostLine], now_s: float) -> dict[str, int]:
    """Count the hosts that have each reason."""
    found = Counter(word for line in lines for word in host_reasons(line, now_s))
    return {word: found[word] for word in REASONS}
