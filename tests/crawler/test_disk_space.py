"""Fetching pauses before the disk is full."""

from __future__ import annotations

import os
from pathlib import Path

from teia.crawler.resources import DiskSpace


def test_small_limit_is_no_complaint_and_a_huge_one_is_capped_by_the_disks_share(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    free, whole = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    assert DiskSpace(tmp_path, 1).complaint() == ""
    assert DiskSpace(tmp_path, 1).has_enough()
    assert bool(DiskSpace(tmp_path, 1 << 60).complaint()) == (free < 0.05 * whole)


def test_complaint_says_where_and_when_it_goes_on(tmp_path: Path, monkeypatch: object) -> None:
    class Full:
        f_bavail, f_frsize, f_blocks = 10, 1 << 20, 1 << 20

    monkeypatch.setattr(os, "statvfs", lambda _path: Full)  # type: ignore[attr-defined]
    space = DiskSpace(tmp_path, 100 << 20)
    assert space.complaint() == f"only 10 MiB are free at {tmp_path}; fetching resumes at 160 MiB"
    assert not space.has_enough()
