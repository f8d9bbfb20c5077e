"""Pages on their way from the crawler to the indexer: a short-lived file per cell and batch of sixteen megabytes.

The crawler commits a page together with a *change*: a number in the cell's list of what the index has to follow. Before
that commit it writes the page's entry here under that number, so a reader that sees the change finds the entry too. If
the commit fails the number is given again and the later frame counts. Files are removed when the index has them, the
last one when the crawl ends.

It is a shortcut, not the source of truth. Nothing is synced, and when the indexer has fallen far behind nothing more is
written; an entry that is not here is read from the archive again.

    frame:  change u64, key i64, length u32, entry
"""

from __future__ import annotations

import contextlib
import itertools
import os
import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

from teia.durable import disk_errors

FILE_BYTES = 16 << 20
MAX_BYTES = 512 << 20
"""Most waiting bytes of one cell: about forty thousand pages."""

CHECK_EVERY = 64
"""While there is no room, the folder is checked once for so many entries."""

_FRAME = struct.Struct("<QqI")
_SUFFIX = ".entries"


class Handover:
    """The crawler's end: entries go in."""

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._file: BinaryIO | None = None
        self._size = 0
        self._other_bytes = 0
        self._checks = itertools.count()

    def write(self, change: int, key: int, entry: bytes) -> None:
        """Write an entry for the indexer; while too many wait, write none."""
        with disk_errors(self._folder, "written"):
            if self._file is None or self._size >= FILE_BYTES:
                self._file = self._start_file(change)
            if self._has_room():
                self._file.write(_FRAME.pack(change, key, len(entry)) + entry)
                self._size += _FRAME.size + len(entry)

    def _start_file(self, change: int) -> BinaryIO:
        self.close()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._size, self._other_bytes = 0, self._waiting_bytes()
        # A file of this name begins with a change whose commit failed, since its number was given again: all of it is
        # void.
        return (self._folder / f"{change:020d}{_SUFFIX}").open("wb")

    def _has_room(self) -> bool:
        if self._size + self._other_bytes >= self._max_bytes and next(self._checks) % CHECK_EVERY == 0:
            self._other_bytes = self._waiting_bytes() - self._size
        return self._size + self._other_bytes < self._max_bytes

    def _waiting_bytes(self) -> int:
        return sum(path.stat().st_size for path in self._folder.glob(f"*{_SUFFIX}"))

    def flush(self) -> None:
        """Make the written entries visible to the indexer; called before the commit of the changes."""
        if self._file is not None:
            with disk_errors(self._folder, "written"):
                self._file.flush()
                # An indexer that ended has removed the file: the next entry begins another.
                if not os.fstat(self._file.fileno()).st_nlink:
                    self.close()

    def close(self) -> None:
        """Close the file. What could not be written was a short cut, and the archive has it."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()

    def clear(self) -> None:
        """Remove all entries, which have texts of pages that must go; the indexer reads the archive instead."""
        self.close()
        with disk_errors(self._folder, "removed"):
            for path in self._folder.glob(f"*{_SUFFIX}"):
                path.unlink(missing_ok=True)


class _Frame(NamedTuple):
    change: int
    key: int
    at: int
    length: int


class _KnownFrames:
    """Frames of one file that may still be wanted, and the end of those that were seen."""

    __slots__ = ("_end", "frames")

    def __init__(self) -> None:
        self._end = 0
        self.frames: list[_Frame] = []

    def follow(self, descriptor: int) -> None:
        """Add the frames that were written since; one that is still on its way comes the next time."""
        size = os.fstat(descriptor).st_size
        while self._end + _FRAME.size <= size:
            change, key, length = _FRAME.unpack(os.pread(descriptor, _FRAME.size, self._end))
            at = self._end + _FRAME.size
            if at + length > size:
                break
            self.frames.append(_Frame(change, key, at, length))
            self._end = at + length


class HandoverReader:
    """The indexer's end: it reads entries in the order of their changes, and removes files that are done."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, _KnownFrames] = {}
        """Frames of files that were seen, so that entries which are not wanted yet are not read again and again."""

    def entries(self, first: int, last: int) -> dict[int, tuple[int, bytes]]:
        """Return entries of the changes from `first` to `last`: (key, entry) by number; the later of two wins."""
        found: dict[int, tuple[int, bytes]] = {}
        files = self._files()
        for (begins, path), following in zip(files, [*files[1:], None], strict=False):
            # The changes of a file end where the next file begins; the last one is open.
            if begins <= last and (following is None or following[0] >= first):
                found |= self._read(path, first, last)
        return found

    def _read(self, path: Path, first: int, last: int) -> dict[int, tuple[int, bytes]]:
        found: dict[int, tuple[int, bytes]] = {}
        known = self._known.setdefault(path, _KnownFrames())
        with contextlib.suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
            known.follow(file.fileno())
            known.frames = [frame for frame in known.frames if frame.change >= first]
            for change, key, at, length in known.frames:
                if change <= last:
                    found[change] = key, os.pread(file.fileno(), length, at)
        return found

    def forget(self, position: int, *, is_ended: bool = False) -> None:
        """Remove files that hold nothing after a position.

        The newest stays, unless the crawl `is_ended`: the crawler may be writing to it.
        """
        files = self._files()
        for (_, path), (next_begins, _) in itertools.pairwise(files):
            # All changes of a file are below the first of the next file.
            if next_begins <= position + 1:
                self._remove(path)
        if is_ended and files and _last_change(files[-1][1]) <= position:
            self._remove(files[-1][1])

    def _remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._known.pop(path, None)

    def _files(self) -> list[tuple[int, Path]]:
        return sorted((int(path.stem), path) for path in self._folder.glob(f"*{_SUFFIX}") if path.stem.isdigit())


def _last_change(path: Path) -> int:
    """Return the highest number of the changes in a file; 0 if it has none."""
    last = 0
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        while len(header := file.read(_FRAME.size)) == _FRAME.size:
            change, _, length = _FRAME.unpack(header)
            last = max(last, change)
            file.seek(length, os.SEEK_CUR)
    return last
