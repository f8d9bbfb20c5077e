"""Disk use of a collection by purpose, and the commands for a backup."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from teia.durable import disk_errors
from teia.store.root import Root

STEP_BYTES = 10_000_000


@dataclass(frozen=True, slots=True)
class CollectionBytes:
    """Bytes of a collection. `archive` are captures as received, `frontier` the URLs, `log` requests, `other` the rest.

    `index_bytes` can be made again from the archive.
    """

    archive_bytes: int
    archive_files: int
    frontier_bytes: int
    index_bytes: int
    log_bytes: int
    other_bytes: int
    total_bytes: int


def measure_disk_use(root: Root, name: str) -> CollectionBytes:
    """Add up the sizes of all files of a collection; reads the metadata of each."""
    folder = root.collection(name)
    archive_bytes = archive_files = frontier_bytes = index_bytes = log_bytes = 0
    for cell in folder.cells():
        archive = list(_sizes(cell.archive))
        archive_bytes, archive_files = archive_bytes + sum(archive), archive_files + len(archive)
        index_bytes, log_bytes = index_bytes + sum(_sizes(cell.index)), log_bytes + sum(_sizes(cell.log))
        # With SQLite's -wal and -shm files.
        frontier_bytes += sum(map(_size, cell.path.glob(f"{cell.frontier.name}*")))
    known = archive_bytes + frontier_bytes + index_bytes + log_bytes
    # A crawl may write or remove files between the two walks.
    other_bytes = max(0, sum(_sizes(folder.path)) - known)
    return CollectionBytes(
        archive_bytes, archive_files, frontier_bytes, index_bytes, log_bytes, other_bytes, known + other_bytes
    )


def _sizes(folder: Path) -> Iterator[int]:
    with disk_errors(folder, "read"):
        for directory, _, names in os.walk(folder):
            yield from (_size(Path(directory, name)) for name in names)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:  # a running crawler may remove a journal between the two
        return 0


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """The disk of a data folder; free space is rounded to ten million bytes, because it changes all the time."""

    free_bytes: int
    disk_bytes: int


def free_space(root: Root) -> FreeSpace:
    # `f_bavail` leaves out blocks that are reserved for root.
    disk = os.statvfs(root.path)
    return FreeSpace(disk.f_bavail * disk.f_frsize // STEP_BYTES * STEP_BYTES, disk.f_blocks * disk.f_frsize)


# ---- copies ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Backup:
    """Commands, in the order to run them. `whole` copies the folder while no process writes in it, and checks the copy.

    `beside` exports what is committed while a crawl continues; `again` makes a collection of that.
    """

    whole: tuple[str, ...]
    beside: tuple[str, ...]
    again: tuple[str, ...]


def backup_commands(data: str, name: str, running: Sequence[str]) -> Backup:
    """Return the commands for a backup of a collection. `data` is the data folder, which is copied as a whole.

    `running` are all collections in it that are being crawled now.
    """
    folder, to = shlex.quote(data.rstrip("/") or "/"), "BACKUP"
    warc, urls = f"{to}/{name}-warc", f"{to}/{name}-urls.jsonl"
    return Backup(
        whole=(
            *(f"teia stop --data {folder} --collection {each}" for each in running),
            f"rsync -a --delete {folder}/ {to}/",
            f"teia audit archive --data {to} --collection {name}",
        ),
        beside=(
            f"teia export warc --data {folder} --collection {name} --out {warc}",
            f"teia export urls --data {folder} --collection {name} --out {urls}",
            f"cp {shlex.quote(f'{data}/{name}/teia.toml')} {to}/{name}.toml",
        ),
        again=(
            f"teia import warc {warc}/*.warc.gz --data NEW --name {name} --config {to}/{name}.toml",
            f"teia import urls {urls} --data NEW --name {name}",
            f"teia rebuild index --data NEW --collection {name}",
        ),
    )
