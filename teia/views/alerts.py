"""Alerts: the warnings of one crawl, the most harmful first, each naming its subject (C2, C5).

An alert is never an opinion about the web. Each one is a matter that only a person can decide, with the number that
makes it one. `message` is English text; `kind` and the numbers allow a translation.

A user who has seen an alert may dismiss it: it is set aside until it is twice as bad. An alert is identified by its
kind and its subject. The user who dismissed it, the time, and how bad it was then are a row of `control.sqlite`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teia.collections.account import MIN_REVISITED
from teia.collections.control_file import CrawlReports
from teia.crawler.keep_fresh.freshness import WEEK_S, days
from teia.crawler.resources import LOW_SHARE
from teia.fetch.destination import Failure
from teia.lib.message import Message
from teia.records import Outcome
from teia.urls import host_of
from teia.views.hosts import HostTable
from teia.views.reports.outcomes import outcome_words

NEAR_LOW = 2.0
"""A disk causes an alert when it has less than so many times the room at which fetching pauses."""

SLOW_HOSTS, PARKED_HOSTS, UNRESOLVED_HOSTS = 3, 2, 5
FAR_FROM_BOUND = 0.1
LARGE_LAG, LARGE_LAG_SHARE, SMALL_LAG = 2_000, 0.2, 200
"""Thresholds of the index backlog.

While the index is being written, an alert needs `LARGE_LAG` pages and that share of all pages. While no indexer runs
beside a running crawl, it needs more than `SMALL_LAG`.
"""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. `harm` orders them; `value` is its number, `limit` the number it is compared with."""

    kind: str
    message: str
    harm: float
    host: str = ""
    value: float | None = None
    limit: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Disk:
    """The room on the disk of a data folder, as shares of it; fetching pauses at `low`."""

    free: float
    low: float


def measure_disk(folder: Path, low_bytes: int) -> Disk:
    disk = os.statvfs(folder)
    whole = max(1, disk.f_blocks * disk.f_frsize)
    # The smaller of the two limits, as the crawler itself has it (DiskSpace).
    return Disk(disk.f_bavail * disk.f_frsize / whole, min(low_bytes / whole, LOW_SHARE))


def find_alerts(account: Mapping[str, Any], table: HostTable | None, disk: Disk) -> list[Alert]:
    """Return the alerts of a crawl from its account, its hosts and the disk; the most harmful first."""
    found = [*_account_alerts(account), *_index_alerts(account), *_disk_alerts(disk)]
    if table is not None:
        found += _host_alerts(table)
    return sorted(found, key=lambda alert: (-alert.harm, alert.kind, alert.host))


def _account_alerts(account: Mapping[str, Any]) -> list[Alert]:
    # Harm orders the alerts: servers come first (100), then a crawl that stops (90, 80), then its results.
    found = []
    early = (account.get("live") or {}).get("early", 0)
    if early:
        found.append(
            Alert(
                "early", f"{early:,} requests were sent before the delay of their server had passed", 100.0, value=early
            )
        )
    if account["state"] == "paused" and account["paused_why"] != "asked to":
        why = account["paused_why"]
        found.append(Alert("paused", Message("the crawl paused automatically: {why}", why=why), 90.0, detail=why))
    if account.get("lost_here"):
        lost, cap = account["lost_here"], account["parallel_requests"]
        message = (
            f"{lost:,} documents were lost to time-outs of this machine; it sends at most {cap:,} requests at once"
        )
        found.append(Alert("own_timeouts", message, 75.0, value=lost, limit=cap))
    if account.get("not_rendered"):
        why = account["not_rendered"]
        message = Message("pages are not rendered by a browser: {why}", why=why)
        found.append(Alert("rendering", message, 55.0, detail=why))
    fixity = account.get("fixity") or {}
    if fixity.get("violations"):
        wrong, first = fixity["violations"], fixity["details"][0]
        message = Message("{n} files of the archive are not as they were signed: {first}", n=wrong, first=first)
        found.append(Alert("fixity", message, 78.0, value=wrong, detail=first))
    seeds, unresolved = _failed_seeds(account)
    for host in unresolved[:UNRESOLVED_HOSTS]:
        message = Message("no address was found for the host {host}; check its spelling", host=host)
        found.append(Alert("no_host", message, 85.0, host))
    if seeds:
        number = "1 seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
        url, outcome, why = failed_seed(seeds[0])
        message = f"{number} could not be fetched: {url}: {outcome_words(outcome)}{why and f' ({why})'}"
        found.append(Alert("seeds", message, 60.0, value=len(seeds), detail=seeds[0]))
    fresh = account.get("freshness") or {}
    is_known = fresh.get("visited_again", 0) >= MIN_REVISITED
    # Beyond the error of the estimate: chance alone makes no alert.
    if is_known and fresh["best"] - fresh["fresh"] - fresh["fresh_error"] > FAR_FROM_BOUND:
        message = f"{fresh['fresh']:.1%} of the captures are fresh; {fresh['best']:.1%} would be possible"
        found.append(Alert("freshness", message, 50.0, value=fresh["fresh"], limit=fresh["best"]))
    return found


def _failed_seeds(account: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the seeds that could not be fetched, and the hosts of those without an address."""
    seeds, hosts = list[str](), dict[str, None]()
    for text in account.get("failed_seeds") or ():
        url, outcome, why = failed_seed(text)
        # A time-out of the name servers says nothing about the name.
        is_temporary = any(failure in why for failure in Failure if failure.is_temporary)
        if outcome == Outcome.DNS and not is_temporary:
            hosts[host_of(url)] = None
        else:
            seeds.append(text)
    return seeds, list(hosts)


def failed_seed(text: str) -> tuple[str, str, str]:
    """Split a failed seed of an account, such as `http://x.test/: dns (no such name)`: URL, outcome, reason."""
    url, _, rest = text.partition(": ")
    outcome, _, why = rest.partition(" (")
    return url, outcome, why.removesuffix(")")


def _index_alerts(account: Mapping[str, Any]) -> list[Alert]:
    """Warn of an index that lacks pages: many while an indexer is running, any while none is."""
    found = []
    lag, unreadable = account.get("index_behind", 0), account.get("index_unreadable", 0)
    indexed = account.get("indexed", 0)
    is_being_written = account.get("index_writing", False)
    threshold = SMALL_LAG if account.get("live") else 0  # a crawl that begins waits a moment for its indexer
    if lag > (max(LARGE_LAG, LARGE_LAG_SHARE * (indexed + lag)) if is_being_written else threshold):
        who = "indexing continues" if is_being_written else "no indexer is running"
        message = f"{lag:,} crawled pages are not indexed yet; {who}"
        found.append(Alert("index", message, 70.0, value=lag, limit=indexed + lag, detail=who))
    if unreadable:
        message = f"{unreadable:,} pages are not indexed because their captures cannot be read"
        found.append(Alert("unreadable", message, 65.0, value=unreadable))
    return found


def _disk_alerts(disk: Disk) -> list[Alert]:
    if disk.free > NEAR_LOW * disk.low:
        return []
    message = f"{disk.free:.1%} of the disk is free; fetching pauses at {disk.low:.1%}"
    return [Alert("disk", message, 80.0, value=disk.free, limit=disk.low)]


def _host_alerts(table: HostTable) -> list[Alert]:
    lines = table.hosts.values()
    # A parked host makes no pass.
    slow = sorted((line for line in lines if not line.parked and line.pass_s > WEEK_S), key=lambda line: -line.pass_s)
    parked = sorted((line for line in lines if line.parked and line.waiting), key=lambda line: -line.waiting)
    found = [
        Alert(
            "slow_host",
            f"a full pass over {line.host} takes {days(line.pass_s)}",
            # Below 60, where alerts about the whole crawl begin.
            min(40.0 + line.pass_s / WEEK_S / 10, 59.0),
            line.host,
            line.pass_s,
            WEEK_S,
        )
        for line in slow[:SLOW_HOSTS]
    ]
    if len(slow) > SLOW_HOSTS:
        more = len(slow) - SLOW_HOSTS
        found.append(
            Alert("slow_hosts", f"{more:,} more hosts need more than a week for a full pass", 39.0, value=more)
        )
    for line in parked[:PARKED_HOSTS]:
        message = f"{line.host} is parked: {line.parked}; {line.waiting:,} URLs are queued"
        found.append(Alert("parked", message, 30.0, line.host, line.waiting, detail=line.parked))
    return found


# ---- dismissed alerts ------------------------------------------------------------------------------------------------


MUCH_WORSE = 2.0
MAX_ABOUT_CHARS = 500


@dataclass(frozen=True, slots=True)
class DismissedAlert:
    """A dismissed alert; `badness` is its severity at that time."""

    kind: str
    about: str
    badness: float
    who: str
    time_s: float


def alert_subject(alert: Alert) -> str:
    """Return the subject of an alert, beside its kind: a host, or its detail."""
    return (alert.host or (alert.detail if alert.kind in {"paused", "seeds"} else ""))[:MAX_ABOUT_CHARS]


def alert_severity(alert: Alert) -> float:
    """Return the severity of an alert: for a disk the inverse of free space, for freshness the shortfall."""
    value = alert.value or 0.0
    if alert.kind == "disk":
        # Twice as bad is half the free space.
        return 1.0 / max(value, 1e-6)
    if alert.kind == "freshness":
        return max(0.0, (alert.limit or 0.0) - value)
    return max(value, 1.0)


def list_dismissed(reports: CrawlReports, collection: str) -> list[DismissedAlert]:
    """Return all dismissed alerts."""
    return [DismissedAlert(*row) for row in reports.dismissed_alerts(collection)]


def split_dismissed(
    alerts: Sequence[Alert], known: Sequence[DismissedAlert]
) -> tuple[list[Alert], list[tuple[Alert, DismissedAlert]]]:
    """Split alerts into those that still stand and those that were dismissed and are not much worse since."""
    by_subject = {(each.kind, each.about): each for each in known}
    active: list[Alert] = []
    dismissed: list[tuple[Alert, DismissedAlert]] = []
    for alert in alerts:
        before = by_subject.get((alert.kind, alert_subject(alert)))
        if before is None or alert_severity(alert) >= MUCH_WORSE * before.badness:
            active.append(alert)
        else:
            dismissed.append((alert, before))
    return active, dismissed
