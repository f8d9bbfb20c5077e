"""What needs a person: the warnings of one crawl, the most harmful first, each naming what it is about (C2, C5).

Nothing here is an opinion about the web: each is something that only a person can decide, with the number that makes it
one. `message` says it in English; `kind` and the numbers are for whoever says it in another language.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teia.crawl.hosttable import HostTable
from teia.crawl.series import ENOUGH_AGAIN
from teia.crawl.space import LOW_SHARE
from teia.crawl.standing import WEEK_S, days

NEAR_LOW = 2.0
"""A disk is worth a word when it has less than so many times the room at which fetching pauses."""

SLOW_HOSTS, PARKED_HOSTS = 3, 2
FAR_FROM_BOUND = 0.1


@dataclass(frozen=True, slots=True)
class Need:
    """One warning. `harm` orders them; `value` is the number it is about, `limit` what it is compared with."""

    kind: str
    message: str
    harm: float
    host: str = ""
    value: float | None = None
    limit: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Disk:
    """The room on the disk of a data folder, as shares of it; `low` is where fetching pauses."""

    free: float
    low: float


def disk_of(folder: Path, low_bytes: int) -> Disk:
    disk = os.statvfs(folder)
    whole = max(1, disk.f_blocks * disk.f_frsize)
    return Disk(disk.f_bavail * disk.f_frsize / whole, min(low_bytes / whole, LOW_SHARE))


def needs_of(account: Mapping[str, Any], table: HostTable | None, disk: Disk) -> list[Need]:
    """The warnings of a crawl by its account, its hosts and the disk; the most harmful first."""
    found = [*_of_account(account), *_of_disk(disk)]
    if table is not None:
        found += _of_hosts(table)
    return sorted(found, key=lambda need: (-need.harm, need.kind, need.host))


def _of_account(account: Mapping[str, Any]) -> list[Need]:
    found = []
    early = (account.get("live") or {}).get("early", 0)
    if early:
        found.append(Need("early", f"{early:,} requests came before their server had rested", 100.0, value=early))
    if account["state"] == "paused" and account["paused_why"] != "asked to":
        why = account["paused_why"]
        found.append(Need("paused", f"it has paused by itself: {why}", 90.0, detail=why))
    seeds = account.get("failed_seeds") or ()
    if seeds:
        message = f"{len(seeds)} of its seeds could not be visited: {seeds[0]}"
        found.append(Need("seeds", message, 60.0, value=len(seeds), detail=seeds[0]))
    fresh = account.get("freshness") or {}
    is_known = fresh.get("visited_again", 0) >= ENOUGH_AGAIN
    if is_known and fresh["best"] - fresh["fresh"] - fresh["fresh_error"] > FAR_FROM_BOUND:
        message = f"{fresh['fresh']:.1%} of its copies are fresh, and {fresh['best']:.1%} could be"
        found.append(Need("freshness", message, 50.0, value=fresh["fresh"], limit=fresh["best"]))
    return found


def _of_disk(disk: Disk) -> list[Need]:
    if disk.free > NEAR_LOW * disk.low:
        return []
    message = f"{disk.free:.1%} of the disk are free; fetching pauses at {disk.low:.1%}"
    return [Need("disk", message, 80.0, value=disk.free, limit=disk.low)]


def _of_hosts(table: HostTable) -> list[Need]:
    lines = table.hosts.values()
    slow = sorted((line for line in lines if not line.parked and line.pass_s > WEEK_S), key=lambda line: -line.pass_s)
    parked = sorted((line for line in lines if line.parked and line.waiting), key=lambda line: -line.waiting)
    found = [
        Need(
            "slow_host",
            f"{line.host} needs {days(line.pass_s)} for one pass",
            min(40.0 + line.pass_s / WEEK_S / 10, 59.0),
            line.host,
            line.pass_s,
            WEEK_S,
        )
        for line in slow[:SLOW_HOSTS]
    ]
    if len(slow) > SLOW_HOSTS:
        more = len(slow) - SLOW_HOSTS
        found.append(Need("slow_hosts", f"{more:,} more hosts need longer than a week for one pass", 39.0, value=more))
    for line in parked[:PARKED_HOSTS]:
        message = f"{line.host} is left alone: {line.parked}; {line.waiting:,} URLs wait"
        found.append(Need("parked", message, 30.0, line.host, line.waiting, detail=line.parked))
    return found
