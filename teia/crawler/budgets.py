"""Budgets of hosts and registered domains: requests, bytes and consecutive failures.

A budget stops a crawl where no rule recognises the problem: a trap of fresh text, a site with a million host names.
Requests and bytes are counted over all runs, in the `hosts` table. Consecutive failures are counted since the crawler
started, because the server may be well again tomorrow. A URL refused by a budget records the reason (`budget`, or the
failure), and is queued again when the settings allow it.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from teia.config.sections import LimitSettings
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.queue.host_rules import budget_of
from teia.frontier.queue.schedule import HostQueue
from teia.frontier.tables.hosts import all_hosts
from teia.records import Outcome
from teia.urls import key_of, site_of

SLOW_DOWN_AFTER_FAILURES = 5
MAX_DOUBLINGS = 10
HOST_FAILURES = frozenset({Outcome.CONNECT, Outcome.TIMEOUT, Outcome.TLS})
"""Outcomes that concern the host rather than one page. A failing host's delay doubles, then the host is given up."""


@dataclass(slots=True)
class SiteUsage:
    """Requests, bytes and failures of one registered domain."""

    requests: int = 0
    received_bytes: int = 0
    failures: int = 0


_RECORD = Struct("<qIQ")
SHARDS = 4_096


class SiteTable:
    """Requests and bytes of sites that have no host in memory: 20 octets each, because there may be millions of them.

    A site is known by a hash of 64 bits. Records of equal hashes modulo `SHARDS` lie together and are searched.
    """

    def __init__(self) -> None:
        self._shards = [bytearray() for _ in range(SHARDS)]

    def add(self, site: str, requests: int, received_bytes: int) -> None:
        """Add to the counts of a site."""
        earlier_requests, earlier_bytes = self.take(site)
        key = key_of(site)
        self._shards[key % SHARDS] += _RECORD.pack(key, earlier_requests + requests, earlier_bytes + received_bytes)

    def take(self, site: str) -> tuple[int, int]:
        """Remove the counts of a site and return them; 0 for a site that has none."""
        key = key_of(site)
        shard, sought = self._shards[key % SHARDS], key.to_bytes(8, "little", signed=True)
        at = shard.find(sought)
        # Other fields may happen to hold the same octets.
        while at >= 0 and at % _RECORD.size:
            at = shard.find(sought, at + 1)
        if at < 0:
            return 0, 0
        _, requests, received_bytes = _RECORD.unpack_from(shard, at)
        del shard[at : at + _RECORD.size]
        return requests, received_bytes


class Budgets:
    """The accounts of one crawl's sites; the accounts of hosts are in their queues."""

    def __init__(self) -> None:
        self._sites: dict[str, SiteUsage] = {}
        self._others = SiteTable()

    def load(self, frontier: FrontierCell) -> None:
        """Add the requests and bytes that earlier runs spent on the hosts of a cell."""
        for host in all_hosts(frontier):
            if host.requests:
                self._others.add(site_of(host.name), host.requests, host.bytes)

    def _account(self, host: str) -> SiteUsage:
        site = site_of(host)
        account = self._sites.get(site)
        if account is None:
            account = self._sites[site] = SiteUsage(*self._others.take(site))
        return account

    def forget(self, host: str) -> None:
        """Store the account of a host's site compactly, because the host leaves memory."""
        site = site_of(host)
        account = self._sites.get(site)
        if account is not None and not account.failures:
            self._others.add(site, account.requests, account.received_bytes)
            del self._sites[site]

    def exhausted(self, queue: HostQueue, limits: LimitSettings) -> str:
        """Return the budget that a host has used up, its own or its site's; empty if none."""
        site = self._account(queue.host)
        if queue.requests >= (budget := budget_of(limits, queue.host)):
            return f"{budget} requests to one host"
        if site.requests >= limits.pages_per_site:
            return f"{limits.pages_per_site} requests to one registered domain"
        if queue.received_bytes >= limits.bytes_per_host:
            return f"{limits.bytes_per_host} bytes from one host"
        if site.received_bytes >= limits.bytes_per_site:
            return f"{limits.bytes_per_site} bytes from one registered domain"
        return ""

    def failure_reason(self, queue: HostQueue, limits: LimitSettings) -> str:
        """Return the reason why a host is given up for this run; empty if it is not."""
        if queue.failures >= limits.failures_per_host:
            return f"{queue.failures} consecutive failures of its host"
        failures = self._account(queue.host).failures
        return (
            (f"{failures} consecutive failures of its registered domain")
            if failures >= limits.failures_per_site
            else ""
        )

    def count(self, visit: ActiveVisit, now: float, retry_wait_s: float) -> None:
        """Count a request and its bytes; lengthen the delay of a host that repeatedly does not answer."""
        queue, fetched, site = visit.queue, visit.fetched, self._account(visit.queue.host)
        assert fetched is not None
        queue.requests += 1
        queue.received_bytes += visit.bytes_received
        site.requests += 1
        site.received_bytes += visit.bytes_received
        # Any answer, even an error page, shows that the host is alive.
        if fetched.status or fetched.outcome not in HOST_FAILURES:
            queue.failures = site.failures = 0
            return
        if visit.item.failures or fetched.unanswered:
            return  # neither a repeated failure of a page nor a closed idle connection is news of the host
        queue.failures += 1
        site.failures += 1
        queue.last_failure = Outcome(fetched.outcome)
        if queue.failures >= SLOW_DOWN_AFTER_FAILURES:
            # The schedule leaves the host out of all lines until then.
            doublings = min(queue.failures - SLOW_DOWN_AFTER_FAILURES, MAX_DOUBLINGS)
            queue.hold_until = now + retry_wait_s * 2.0**doublings
