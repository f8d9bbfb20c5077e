"""Read-ahead for the files of an index that is not in memory yet.

tantivy maps its files. A search reads thousands of places in them, a few octets each; where one is not in memory the
search waits for the disk. So the parts that every search needs are requested at once, and the kernel reads them in the
background. Before the files are opened these are their ends, which hold the offsets, and all of the columns and lengths
of fields (40 octets a page); then all of small segments, if that is not too much. The dictionaries of large segments
are left out: 300 MB of them at 600,000 pages kept the disk busy while the first searches needed other parts.

With each place the kernel also reads its surroundings, as much as the disk's read-ahead says. Usually that is 128 kB,
which does no harm. But some machines have megabytes, and a search then reads a third of the index. There the mappings
are advised to expect random access. The price: under pressure the kernel takes pages of such mappings first (decision
15).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

COLUMNS = frozenset({".fast", ".fieldnorm"})
OTHERS = frozenset({".term", ".idx", ".pos", ".store"})
WORDS = frozenset({".term", ".idx", ".pos"})
SMALL_BYTES = 4 << 20
MAX_WORDS_BYTES = 512 << 20
"""Limit in bytes; the rest is read as it is needed. 600,000 pages have 90 MB in small files."""

END_BYTES = 16 << 10
MUCH_READ_AHEAD_KB = 512

_MADV_RANDOM = 1
_DEVICES = Path("/sys/dev/block")
_MAPS = Path("/proc/self/maps")
_MAP_FIELDS = 6


def read_ahead(files: Iterable[Path]) -> None:
    """Request the parts needed to open some files, and the parts that every search reads at many places."""
    for file in files:
        if file.suffix in COLUMNS:
            prefetch(file)
        elif file.suffix in OTHERS:
            prefetch(file, max(0, size_of(file) - END_BYTES))


def read_words_ahead(files: Iterable[Path], most: int = MAX_WORDS_BYTES) -> None:
    """Request the parts needed to find words in small segments, which cause as many waits as large ones."""
    # Smallest first: as many segments as possible fit into the limit.
    for size, file in sorted((size_of(file), file) for file in files if file.suffix in WORDS):
        most -= size
        if size > SMALL_BYTES or most < 0:
            break
        prefetch(file)


def size_of(file: Path) -> int:
    """Return the size of a file; 0 if it is gone, since a merge may remove it meanwhile."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def prefetch(file: Path, start: int = 0) -> None:
    """Request the kernel to read a file into memory, from a place to its end, without waiting for it."""
    with suppress(OSError):
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(descriptor, start, 0, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(descriptor)


def advise_random_access(folders: Collection[Path]) -> int:
    """Advise the kernel of random access to the mapped files of some folders; return the number of mappings."""
    wanted = {str(folder.resolve()) for folder in folders if read_ahead_kb(folder) > MUCH_READ_AHEAD_KB}
    advised = 0
    if wanted:
        advise = ctypes.CDLL(None).madvise
        advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for start, end in _mappings(wanted):
            advised += not advise(start, end - start, _MADV_RANDOM)
    return advised


def _mappings(folders: Collection[str]) -> list[tuple[int, int]]:
    """Return the address ranges at which the files of some folders are mapped."""
    found = []
    with suppress(OSError):
        for line in _MAPS.read_text("utf-8", "surrogateescape").splitlines():
            fields = line.split(maxsplit=_MAP_FIELDS - 1)
            if len(fields) == _MAP_FIELDS and fields[-1].rpartition("/")[0] in folders:
                start, end = (int(number, 16) for number in fields[0].split("-"))
                found.append((start, end))
    return found


def read_ahead_kb(folder: Path, devices: Path = _DEVICES) -> int:
    """Return the read-ahead of the disk of a folder, in kB; 0 if unknown."""
    with suppress(OSError):
        device = folder.stat().st_dev
        here = devices / f"{os.major(device)}:{os.minor(device)}"
        for device_folder in (here, here / ".."):  # a partition uses the setting of its disk
            with suppress(OSError, ValueError):
                return int((device_folder / "queue" / "read_ahead_kb").read_text("ascii"))
    return 0
