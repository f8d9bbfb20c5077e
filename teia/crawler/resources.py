"""Limits of the machine that a crawl respects: open files and disk space.

Every request under way and every idle connection is a descriptor, beside the files of each cell. If a crawl ran out of
descriptors, servers that were never requested would look dead. So a crawl counts its descriptors at its start, and
limits the number of concurrent requests to them. If there are almost none, it reports an error and does not start.

Fetching pauses before the disk is full, and continues when there is space again.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from teia.errors import StoreError
from teia.lib.message import Message

WANTED = 65_536
SPARE = 18
"""Descriptors for files opened now and then: a resolver's socket, a child's pipes, a log, an index, the manifest."""

PER_CHILD = 3
LEAST = 6


@dataclass(frozen=True, slots=True)
class Sockets:
    """Number of concurrent requests and of idle connections for which there are descriptors."""

    at_once: int
    keep_alive: int


def raise_limit() -> int:
    """Raise the descriptor limit above the shell's default; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)


def count_open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # names are enough


def allot_sockets(limit: int, used: int, at_once: int, keep_alive: int) -> Sockets:
    """Return how many of the requested sockets fit beside `used` descriptors.

    The number of idle connections is reduced by a third, because half as many again may be kept for https
    (fetch/curl.py).
    """
    room = limit - used - SPARE
    if room < LEAST:
        raise StoreError(
            f"the limit of {limit} open files is too low, {used + SPARE + LEAST} are needed; raise it with `ulimit -n`"
        )
    requests = min(at_once, room // 2)
    return Sockets(requests, min(keep_alive, (room - requests) * 2 // 3))


# ---- disk space ------------------------------------------------------------------------------------------------------


def allocated_bytes(folders: Iterable[Path]) -> int:
    """Return the disk space that the files of folders take; holes take none."""
    used = 0
    for folder in folders:
        # A file may be renamed or removed meanwhile, and a folder with its cell.
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    used += entry.stat().st_blocks * 512
    return used


NEAR_QUOTA, ROOM_AGAIN = 0.95, 0.9
"""Parts of its quota at which a crawl pauses, and below which it resumes: else each few pages would need a removal."""


def quota_complaint(folders: Iterable[Path], quota_bytes: int, awaited_bytes: int, *, is_waiting: bool) -> str:
    """Return a message if the archive of a collection is near its quota, else an empty string; 0: no quota.

    `awaited_bytes` are expected of the visits that are under way; `is_waiting`: the crawl has paused for its quota.
    """
    used = allocated_bytes(folders) if quota_bytes else 0
    limit = quota_bytes * (ROOM_AGAIN if is_waiting else NEAR_QUOTA)
    if used + awaited_bytes < limit or not quota_bytes:
        return ""
    return Message(
        "the archive takes {n} MiB, its quota is {quota} MiB; if the crawl stays paused, no capture may be removed:"
        " raise retention.quota_bytes",
        n=used >> 20,
        quota=quota_bytes >> 20,
    )


LOW_SHARE = 0.05
ENOUGH_SHARE = 0.08


class DiskSpace:
    """The file system of a data folder.

    Space is low below `low_bytes` or 5% of the disk, whichever is less, because 5% of a large disk is more than a crawl
    needs in an hour. Fetching continues at eight fifths of that.
    """

    def __init__(self, folder: Path, low_bytes: int) -> None:
        self._folder = folder
        self.low_bytes = low_bytes

    def complaint(self) -> str:
        """Return a message if space is low, else an empty string."""
        free, low = self._free_and_low()
        if free >= low:
            return ""
        return Message(
            "only {n} MiB are free at {path}; fetching resumes at {enough} MiB",
            n=free >> 20,
            path=self._folder,
            enough=int(low * 1.6) >> 20,
        )

    def has_enough(self) -> bool:
        free, low = self._free_and_low()
        return free >= low * (ENOUGH_SHARE / LOW_SHARE)

    def _free_and_low(self) -> tuple[int, float]:
        disk = os.statvfs(self._folder)
        return disk.f_bavail * disk.f_frsize, min(self.low_bytes, LOW_SHARE * disk.f_blocks * disk.f_frsize)
