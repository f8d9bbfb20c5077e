"""Free disk space: fetching pauses before the disk is full, and continues when there is space again."""

from __future__ import annotations

import os
from pathlib import Path

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
        return f"only {free >> 20} MiB are free at {self._folder}; fetching resumes at {int(low * 1.6) >> 20} MiB"

    def has_enough(self) -> bool:
        free, low = self._free_and_low()
        return free >= low * (ENOUGH_SHARE / LOW_SHARE)

    def _free_and_low(self) -> tuple[int, float]:
        disk = os.statvfs(self._folder)
        return disk.f_bavail * disk.f_frsize, min(self.low_bytes, LOW_SHARE * disk.f_blocks * disk.f_frsize)
