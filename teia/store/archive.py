"""The WARC files of a cell: appended to, synced, rotated, and cut after a crash.

    archive/teia-<collection>-<cell>-<yyyymmddhhmmss>-<serial>.warc.gz     the last one is open, the others are closed

A `Position` is a file and an offset in it. The position that the frontier has committed counts: opened with it, the
writer cuts everything behind it (a torn tail, or records whose commit never came), removes files begun after it, and
touches nothing before it. If the file is shorter than that, something outside teia has damaged it, and the writer
raises CorruptFile.

Between two syncs everything is one group: it lies in one file, and either all of it is on the disk when
`flush_and_sync` returns, or an error is raised and none of it is. After an error the writer is at the last synced
position, and the caller may append the same records again.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from teia.clock import Clock
from teia.durable import disk_errors, store_error, sync_folder
from teia.errors import CorruptFile, StoreError
from teia.lib.closing import Closing
from teia.store.warc import Members, warcinfo_member

SET_ASIDE = ".aside"
"""Suffix of an uncommitted file that holds too much to delete."""

WRITE_BYTES = 1 << 20
"""Records wait in memory until there are so many bytes of them, or until the sync."""

_OURS = re.compile(r"teia-[a-z0-9_-]+-(?P<cell>\d{2,4})-\d{14}-(?P<serial>\d{5,})\.warc\.gz")


@dataclass(frozen=True, slots=True)
class Position:
    """A place between two records: `offset` bytes into `file`, a name in the cell's archive folder."""

    file: str
    offset: int


@dataclass(frozen=True, slots=True)
class Stored:
    """Place of one record."""

    file: str
    offset: int
    length: int


def serial_of(name: str) -> int | None:
    """Return the serial number in a file name of our writers; None for foreign files."""
    match = _OURS.fullmatch(name)
    return int(match["serial"]) if match else None


def archive_path(folder: Path, file: str) -> Path:
    """Return the path of a file that a cell names: in its own archive folder, or in that of the cell in its name.

    A cell that was split off another names files of that one; they stay in place.
    """
    here, match = folder / file, _OURS.fullmatch(file)
    if match is None or here.exists():
        return here
    return folder.parent.parent / match["cell"] / folder.name / file


def archive_files(folder: Path) -> list[Path]:
    """Return the WARC files of a folder in the order they were written; imported ones, by name, come first."""
    found = [path for path in folder.iterdir() if path.name.endswith((".warc.gz", ".warc")) and path.is_file()]
    return sorted(found, key=lambda path: (serial_of(path.name) or 0, path.name))


def committed_files(folder: Path, end: Position | None) -> list[tuple[Path, int | None]]:
    """Return the WARC files up to the committed position, each with the offset where reading stops (None: its end).

    Files of ours begun after it hold nothing committed yet; a writer may be at work on them.
    """
    files = archive_files(folder)
    if end is None:
        return [(path, None) for path in files]
    last = serial_of(end.file) or 0
    return [
        (path, end.offset if path.name == end.file else None) for path in files if (serial_of(path.name) or 0) <= last
    ]


def index_path(warc: Path) -> Path:
    """Return the path of the CDXJ of a WARC file: beside it, once the file is closed."""
    return warc.with_name(warc.name.removesuffix(".gz").removesuffix(".warc") + ".cdxj")


class ArchiveWriter(Closing):
    """Appends records to a cell's archive. One at a time per folder: that of the cell's owner.

    `start` is the committed position; None means that nothing was ever committed here, and then files that are here
    anyway (a first group that never committed, or a lost frontier database) are set aside, never deleted. With
    `past_damage` a committed file that is too short or gone is left as it is and a new file is begun after it. `about`
    goes into the warcinfo record of every file: the version of the software, the operator, the user agent.
    """

    def __init__(
        self,
        folder: Path,
        collection: str,
        cell: int,
        file_bytes: int,
        clock: Clock,
        start: Position | None,
        *,
        past_damage: bool = False,
        about: Mapping[str, str] | None = None,
    ) -> None:
        self._folder, self._prefix = folder, f"teia-{collection}-{cell:02d}"
        self._file_bytes, self._clock = file_bytes, clock
        self._about = {
            "software": "teia",
            "format": "WARC File Format 1.1",
            "conformsTo": "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
            "isPartOf": collection,
            **(about or {}),
        }
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._descriptor = -1
        self._must_cut = False
        self._least_serial = 0 if start is None else serial_of(start.file) or 0
        """In a cluster the last committed file may be another node's; ours come after it."""
        with disk_errors(folder, "opened"):
            self._recover(start, past_damage)

    # ---- opening ----------------------------------------------------------------------------------------------------

    def _recover(self, start: Position | None, past_damage: bool) -> None:
        if start is None:
            self._set_aside()
        # A committed file of another node of the cluster is a read-only copy: this node begins its own file.
        elif self._is_whole(start) and not (past_damage and self._is_copied(start)):
            self._remove_after(start)
            self._reopen(start)
            return
        elif not past_damage:
            raise CorruptFile(
                self._folder / start.file,
                f"shorter than the {start.offset} bytes that were committed, or missing; restore it from a backup,"
                " or run `teia audit archive --repair`, which drops the lost records and queues their pages again",
            )
        self._begin_file()

    def _is_whole(self, start: Position) -> bool:
        path = self._folder / start.file
        return path.is_file() and path.stat().st_size >= start.offset

    def _is_copied(self, start: Position) -> bool:
        """Tell whether the committed file is a copy of another node's (ship_archive.py), which is read-only."""
        return not (self._folder / start.file).stat().st_mode & 0o200

    def _set_aside(self) -> None:
        for path in self._own_files():
            path.rename(path.with_name(path.name + SET_ASIDE))

    def _remove_after(self, start: Position) -> None:
        committed = serial_of(start.file) or 0
        for path in self._own_files():
            if (serial_of(path.name) or 0) > committed:
                # The index goes before its WARC file: a crash between the two leaves no index without a file.
                index_path(path).unlink(missing_ok=True)
                path.unlink()
        # The last committed file is open again and grows; `upkeep/closed_files.py` indexes it when it is closed.
        index_path(self._folder / start.file).unlink(missing_ok=True)
        sync_folder(self._folder)

    def _own_files(self) -> list[Path]:
        return [path for path in archive_files(self._folder) if path.name.startswith(self._prefix + "-")]

    def _reopen(self, start: Position) -> None:
        self._path = self._folder / start.file
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        self._synced = self._written = self._size = start.offset
        if os.fstat(self._descriptor).st_size > start.offset:
            os.ftruncate(self._descriptor, start.offset)
            os.fsync(self._descriptor)

    def _begin_file(self) -> None:
        """Create the next file with its warcinfo record, on the disk before anything is appended to it."""
        now_s = self._clock.now_s()
        # Serial numbers of files set aside count too, so that a number never names two files.
        taken = [serial_of(path.name.removesuffix(SET_ASIDE)) or 0 for path in self._folder.iterdir()]
        taken.append(self._least_serial)
        stamp = datetime.fromtimestamp(now_s, UTC).strftime("%Y%m%d%H%M%S")
        path = self._folder / f"{self._prefix}-{stamp}-{max(taken, default=0) + 1:05d}.warc.gz"
        # Create, sync the file, sync the folder: only then may a position in this file be committed.
        first = warcinfo_member(path.name, now_s, self._about)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            _write_at(descriptor, first, 0)
            os.fsync(descriptor)
            sync_folder(self._folder)
        except OSError:
            os.close(descriptor)
            path.unlink()
            raise
        self._close_file()
        self._descriptor, self._path = descriptor, path
        self._synced = self._written = self._size = len(first)

    # ---- appending --------------------------------------------------------------------------------------------------

    @property
    def position(self) -> Position:
        """The last synced position, which the frontier may commit."""
        return Position(self._path.name, self._synced)

    def append(self, members: Members) -> tuple[Stored, ...]:
        """Take the records of one answer; return where each will lie once `flush_and_sync` has returned."""
        if self._descriptor < 0:
            raise StoreError(f"{self._folder}: the archive is closed")
        # Rotate only between groups: a group lies in one file, so that one position commits all of it.
        if self._size == self._synced >= self._file_bytes:
            with disk_errors(self._folder, "written"):
                self._begin_file()
        stored = []
        for length in members.lengths:
            stored.append(Stored(self._path.name, self._size, length))
            self._size += length
        self._waiting.append(members.data)
        self._waiting_bytes += len(members.data)
        if self._waiting_bytes >= WRITE_BYTES:
            self._write_waiting()
        return tuple(stored)

    def flush_and_sync(self) -> Position:
        """Bring everything appended so far onto the disk; return the position the frontier may now commit."""
        if self._size == self._synced:
            return self.position
        self._write_waiting()
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            # Pages of a failed sync may be dropped though they look clean: they are cut off, never synced again.
            self._roll_back()
            raise store_error(self._path, "written", error) from error
        self._synced = self._size
        return self.position

    def _write_waiting(self) -> None:
        data = b"".join(self._waiting)
        try:
            if self._must_cut:
                self._cut()
            _write_at(self._descriptor, data, self._written)
        except OSError as error:
            self._roll_back()
            raise store_error(self._path, "written", error) from error
        self._waiting.clear()
        self._waiting_bytes = 0
        self._written += len(data)

    def _roll_back(self) -> None:
        """Go back to the last synced position. Should even cutting fail, it is tried again before the next write."""
        self._waiting.clear()
        self._waiting_bytes = 0
        # Writes take their offset from `_written`, so the next one begins at the synced position.
        self._size = self._written = self._synced
        self._must_cut = True
        with contextlib.suppress(OSError):
            self._cut()

    def _cut(self) -> None:
        os.ftruncate(self._descriptor, self._synced)
        self._must_cut = False

    # ---- closing ----------------------------------------------------------------------------------------------------

    def _close_file(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def close(self) -> None:
        """Close the file. Records appended since the last sync were never promised, and are cut."""
        if self._descriptor >= 0:
            self._roll_back()
            self._close_file()


def _write_at(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
