"""What a host and a registered domain may cost, and what they have cost so far: requests, bytes, failures in a row.

A budget stops what no rule sees: a trap of fresh text, a site made of a million names. Requests and bytes are counted
over all runs, by the `hosts` table; failures in a row since the crawler started, because tomorrow the server may be
well again. A URL that is refused for them says so (`budget`, or the failure), and comes back when settings allow it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from teia.config import LimitSettings
from teia.crawl.visits import Visit
from teia.frontier.cell import FrontierCell
from teia.frontier.hostrules import budget_of
from teia.frontier.schedule import HostQueue
from teia.records import Outcome
from teia.urls import site_of

SLOW_DOWN_AFTER_FAILURES = 5
MAX_DOUBLINGS = 10
HOST_FAILURES = frozenset({Outcome.CONNECT, Outcome.TIMEOUT, Outcome.TLS})
"""Outcomes that speak of the host rather than of one page. The rest of a failing host doubles, then it is given up."""


@dataclass(slots=True)
class Account:
    """What was spent on one registered domain."""

    requests: int = 0
    received_bytes: int = 0
    failures: int = 0


class Budgets:
    """The accounts of one crawl's sites; those of hosts are in their queues."""

    def __init__(self) -> None:
        self._sites: defaultdict[str, Account] = defaultdict(Account)

    def recall(self, frontier: FrontierCell) -> None:
        """Add what earlier runs spent on the hosts of a cell."""
        for host, requests, received in frontier.db.execute("SELECT name, requests, bytes FROM hosts WHERE requests"):
            account = self._sites[site_of(host)]
            account.requests += requests
            account.received_bytes += received

    def spent(self, queue: HostQueue, limits: LimitSettings) -> str:
        """Which budget a host has used up, its own or its site's; empty if none."""
        site = self._sites[site_of(queue.host)]
        if queue.requests >= (budget := budget_of(limits, queue.host)):
            return f"{budget} requests to one host"
        if site.requests >= limits.pages_per_site:
            return f"{limits.pages_per_site} requests to one registered domain"
        if queue.received_bytes >= limits.bytes_per_host:
            return f"{limits.bytes_per_host} bytes from one host"
        if site.received_bytes >= limits.bytes_per_site:
            return f"{limits.bytes_per_site} bytes from one registered domain"
        return ""

    def failed(self, queue: HostQueue, limits: LimitSettings) -> str:
        """Why a host is given up for this run; empty if it is not."""
        if queue.failures >= limits.failures_per_host:
            return f"{queue.failures} failures of its host in a row"
        failures = self._sites[site_of(queue.host)].failures
        return f"{failures} failures of its registered domain in a row" if failures >= limits.failures_per_site else ""

    def count(self, visit: Visit, now: float, retry_wait_s: float) -> None:
        """Keep account of a request. A host that does not answer again and again gets a longer and longer rest."""
        queue, fetched, site = visit.queue, visit.fetched, self._sites[site_of(visit.queue.host)]
        assert fetched is not None
        queue.requests += 1
        queue.received_bytes += visit.bytes_received
        site.requests += 1
        site.received_bytes += visit.bytes_received
        if fetched.status or fetched.outcome not in HOST_FAILURES:
            queue.failures = site.failures = 0
            return
        if visit.item.failures:
            return  # a page that failed before says nothing new of its host
        queue.failures += 1
        site.failures += 1
        queue.last_failure = Outcome(fetched.outcome)
        if queue.failures >= SLOW_DOWN_AFTER_FAILURES:
            doublings = min(queue.failures - SLOW_DOWN_AFTER_FAILURES, MAX_DOUBLINGS)
            queue.hold_until = now + retry_wait_s * 2.0**doublings


def spent_before(frontier: FrontierCell, queue: HostQueue) -> tuple[HostQueue, int, int]:
    """A host with the requests and bytes of all runs, this one's as far as they are committed."""
    sql = "SELECT requests, bytes FROM hosts WHERE host_id = ?"
    requests, received = frontier.db.execute(sql, (queue.host_id,)).fetchone() or (0, 0)
    return queue, requests, received
