"""State of one collection, as every page shows it: counts, hosts, alerts, freshness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from teia.clock import iso_utc
from teia.collections.account import COARSE_S, MIN_REVISITED, empty_summary, points_of, rates_of
from teia.collections.commands import idle_state, standing_commands
from teia.collections.control_file import CrawlReport, CrawlReports, Inbox, RunBulkAction
from teia.errors import StoreError
from teia.index.position import META_FILE
from teia.store.fixity import summarize
from teia.transfer.read_all import idle_account
from teia.views.alerts import Alert, Disk, DismissedAlert, find_alerts, list_dismissed, measure_disk, split_dismissed
from teia.views.hosts import HostTable, host_table
from teia.web.server.installation import Installation

DAY_S = 86_400.0
IDLE_S, TABLE_S, FIXITY_S = 5.0, 20.0, 60.0
"""Times for which counts of a folder, the table of hosts, and the state of the archive are cached."""

TABLE_PATIENCE_S = 0.1
"""Time that a page waits for the table of hosts if it can do without."""


def account_of(installation: Installation, collection: str) -> tuple[dict[str, Any], CrawlReport | None]:
    """Return a crawl's status: its last report, or the counts of its folder. Keys of `teia status`."""
    installation.check(collection)
    with CrawlReports(installation.root.control) as reports:
        run = reports.running_crawl(collection)
    # A crawl that has just started has not reported its counts yet; the folder has those of the last run.
    fixity = {"fixity": _fixity(installation, collection)}
    if run is not None and "requests" in run.account:
        return {**run.account, **fixity}, run
    message = idle_state(standing_commands(installation.root, collection)) if run is None else dict(run.account)
    if message.get("state") == "starting" and not _has_crawler(installation):
        message = {}
    return {**_idle_account(installation, collection), **message, **fixity}, run


def _has_crawler(installation: Installation) -> bool:
    """Tell whether a crawl that is wanted will start: this server has a crawler, or another process is crawling."""
    return installation.supervisor is not None or installation.root.lock_holder() is not None


def _fixity(installation: Installation, collection: str) -> dict[str, Any]:
    """Return the state of the signed archive, by its manifest and the last comparisons."""

    def make() -> dict[str, Any]:
        return asdict(summarize(installation.root.collection(collection).path))

    return installation.cache.get(("fixity", collection), make, FIXITY_S).value


def _idle_account(installation: Installation, collection: str) -> dict[str, Any]:
    def make() -> dict[str, Any]:
        try:
            return idle_account(installation.root, collection)
        except StoreError:  # the collection waits for its first run
            return asdict(empty_summary(collection))

    return installation.cache.get(
        ("at rest", collection), make, IDLE_S, stamp=_last_modified(installation, collection)
    ).value


def _last_modified(installation: Installation, collection: str) -> int:
    """Return the last modification time of a collection's files; 0 if there are none."""
    paths = [cell.frontier for cell in installation.root.collection(collection).cells()]
    # A commit goes to the write-ahead log; the database file itself may be older.
    paths += [path.with_name(f"{path.name}-wal") for path in paths]
    paths += [cell.index / META_FILE for cell in installation.root.collection(collection).cells()]
    return max((path.stat().st_mtime_ns for path in paths if path.exists()), default=0)


def table_of(installation: Installation, collection: str, patience_s: float | None = None) -> HostTable | None:
    """Return the cached table of all hosts; None if there is none after `patience_s`."""

    def make() -> HostTable:
        return host_table(installation.root, collection, installation.clock.now_s())

    key = ("hosts", collection)
    with Inbox(installation.root.control) as inbox:
        # A finished bulk action changes the table, so its time is the stamp of the cached one.
        stamp = inbox.last_done_s(collection, RunBulkAction)
    if patience_s is None:
        return installation.cache.get(key, make, TABLE_S, installation.patience_s(collection), stamp).value
    found = installation.cache.get_or_none(key, make, TABLE_S, patience_s, stamp)
    return None if found is None else found.value


def disk_of(installation: Installation, collection: str) -> Disk:
    return measure_disk(installation.root.path, installation.config(collection).limits.disk_free_bytes)


def is_freshness_known(account: Mapping[str, Any]) -> bool:
    """Tell whether enough pages were revisited to estimate their freshness."""
    return bool(account.get("freshness")) and account["freshness"].get("visited_again", 0) >= MIN_REVISITED


def freshness_of(installation: Installation, collection: str, account: Mapping[str, Any]) -> dict[str, Any]:
    """Return the freshness to show: the crawler's; at rest the last one that was counted; empty if it is not known."""
    if is_freshness_known(account):
        return dict(account["freshness"])
    found = installation.cache.last(("freshness", collection))
    if found is None or account.get("live") or found.value.fresh is None or found.value.visited_again < MIN_REVISITED:
        return {}
    names = ("pages", "visited_again", "fresh", "fresh_error", "best", "best_error", "possible")
    return {name: getattr(found.value, name) for name in names} | {"counted": iso_utc(found.time_s)}


def open_alerts(installation: Installation, collection: str, account: Mapping[str, Any]) -> list[Alert]:
    """Return the open alerts by cached data; no host is counted for them."""
    found = installation.cache.last(("hosts", collection))
    alerts = find_alerts(account, None if found is None else found.value, disk_of(installation, collection))
    return split_by_dismissal(installation, collection, alerts)[0]


def split_by_dismissal(
    installation: Installation, collection: str, alerts: list[Alert]
) -> tuple[list[Alert], list[tuple[Alert, DismissedAlert]]]:
    with CrawlReports(installation.root.control) as reports:
        return split_dismissed(alerts, list_dismissed(reports, collection))


def last_day(installation: Installation, collection: str) -> list[tuple[float, float | None]]:
    """Return the requests per second over the last 24 hours, each with its time."""
    with CrawlReports(installation.root.control) as reports:
        points = points_of(reports, collection, COARSE_S, installation.clock.now_s() - DAY_S)
    return [(at, None if rate is None else round(rate, 3)) for at, rate in rates_of(points, COARSE_S)]


def all_hosts(installation: Installation, collection: str) -> HostTable:
    installation.check(collection)
    table = table_of(installation, collection)
    assert table is not None
    return table


class HostShares(NamedTuple):
    """Freshness of a host's captures, the most that can be kept in the long run, and the limit now; None: not known."""

    fresh: float | None = None
    best: float | None = None
    possible: float | None = None


def by_host(installation: Installation, collection: str) -> dict[str, HostShares]:
    """Return the freshness of each host, if the report is cached."""
    found = installation.cache.last(("freshness", collection))
    if found is None or found.value.visited_again < MIN_REVISITED:
        return {}
    return {row.host: HostShares(row.fresh, row.best, row.possible) for row in found.value.rows}
