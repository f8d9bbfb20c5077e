"""The scores of a collection on disk: replaced atomically, mapped by readers.

    head    magic, version u32, nodes u64, stamp u64, made f64, alone f64, per_link f64; 64 octets, little-endian
    then    keys i64[nodes] sorted, scores f32[nodes], percentiles f32[nodes], in_links u32[nodes]

The *percentile* of a node says how many of the pages that have links have a lower score, as a share from 0 to 1. Unlike
the score it does not shrink as the web grows, so that ranking can use it as it is. The *stamp* is made from keys and
scores: two files with the same stamp say the same.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias, TypeVar

import numpy as np
import xxhash
from numpy.typing import NDArray

from teia.durable import disk_errors, replacing
from teia.errors import CorruptFile
from teia.graph.linkfile import Keys
from teia.lib._sorted import look_up

if TYPE_CHECKING:
    from teia.graph.pagerank import Ranks

VERSION = 1
NO_STAMP = 0
"""The stamp of a missing file."""

_MAGIC = b"teiarank"
_HEAD = struct.Struct("<8sI4xQQddd8x")
_ROW_BYTES = 8 + 4 + 4 + 4
_REMEDY = "delete it, it will be rebuilt"

Floats: TypeAlias = NDArray[np.float32]
Identity: TypeAlias = tuple[int, int, int] | None
Number = TypeVar("Number", np.float32, np.uint32)


# ---- writing --------------------------------------------------------------------------------------------------------


def write_ranks(path: Path, ranks: Ranks, made_s: float) -> None:
    """Write a rank file in the place of the one that may be there; readers see the old one or the new one."""
    keys, scores = ranks.keys.astype("<i8"), ranks.scores.astype("<f4")
    # Never 0: that is NO_STAMP.
    stamp = xxhash.xxh3_64_intdigest(scores.data, seed=xxhash.xxh3_64_intdigest(keys.data)) or 1
    columns = (keys, scores, compute_percentiles(scores, ranks.has_links), ranks.in_links.astype("<u4"))
    with replacing(path) as file:
        file.write(_HEAD.pack(_MAGIC, VERSION, len(keys), stamp, made_s, ranks.alone, ranks.per_link))
        for column in columns:
            file.write(column.data)


def compute_percentiles(scores: Floats, has_links: NDArray[np.bool_]) -> Floats:
    """Return for each node the share of pages with links that have a lower score."""
    sorted_scores = np.sort(scores[has_links])
    return (np.searchsorted(sorted_scores, scores) / max(1, len(sorted_scores))).astype("<f4")


# ---- reading --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Table:
    """One version of the file."""

    identity: Identity = None
    stamp: int = NO_STAMP
    made_s: float = 0.0
    alone: float = 0.0
    per_link: float = 0.0
    keys: Keys = field(default_factory=lambda: np.zeros(0, np.int64))
    scores: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    percentiles: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    in_links: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))


def _identity(path: Path) -> Identity:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _map_file(path: Path) -> _Table:
    """Map a rank file; nothing where there is none."""
    with disk_errors(path, "read"):
        identity = _identity(path)
        if identity is None:
            return _Table()
        with path.open("rb") as file:
            size, head = os.fstat(file.fileno()).st_size, file.read(_HEAD.size)
            if len(head) < _HEAD.size or not head.startswith(_MAGIC):
                raise CorruptFile(path, f"is not a rank file; {_REMEDY}")
            _, version, nodes, *facts = _HEAD.unpack(head)
            if version != VERSION or size != _HEAD.size + nodes * _ROW_BYTES:
                raise CorruptFile(path, f"is of another version or incomplete; {_REMEDY}")
            content = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            content.madvise(mmap.MADV_WILLNEED)  # two hundred pages are looked up at once, and lie anywhere
    columns = [
        np.frombuffer(content, kind, nodes, _HEAD.size + nodes * before)
        for kind, before in (("<i8", 0), ("<f4", 8), ("<f4", 12), ("<u4", 16))
    ]
    return _Table(identity, *facts, *columns)


def look_up_all(known: Keys, column: NDArray[Number], keys: Keys) -> NDArray[Number]:
    """Look up a column's value for each key among the sorted `known`; 0 for other keys."""
    found = np.empty(len(keys), column.dtype)
    look_up(known, column, np.ascontiguousarray(keys, np.int64), np.empty(len(keys), np.int64), found)
    return found


class RankFile:
    """A collection's scores, open for reading. Where there is no file, every page is unknown.

    Its contents stay the same until `reload`, so that an answer is made from one version. Threads may share it: a
    reload by one does not disturb the others.
    """

    def __init__(self, path: Path) -> None:
        """Know nothing until the first `reload`."""
        self.path = path
        self._table = _Table()

    @classmethod
    def open(cls, path: Path) -> Self:
        file = cls(path)
        file.reload()
        return file

    def reload(self) -> bool:
        """Load the current file, if it is another one; return True if it is."""
        with disk_errors(self.path, "read"):
            is_same = _identity(self.path) == self._table.identity
        if not is_same:
            self._table = _map_file(self.path)
        return not is_same

    def __len__(self) -> int:
        return len(self._table.keys)

    @property
    def stamp(self) -> int:
        """Identity of a set of scores; NO_STAMP where there is none."""
        return self._table.stamp

    @property
    def made_s(self) -> float:
        """Time at which the scores were made, in Unix seconds."""
        return self._table.made_s

    @property
    def alone(self) -> float:
        """The score of a page without links to it."""
        return self._table.alone

    @property
    def per_link(self) -> float:
        """Average score that one link adds."""
        return self._table.per_link

    def scores(self, keys: Keys) -> Floats:
        """Return the PageRank of each key; 0 for unknown ones. All scores of a file add up to 1."""
        # One read of the attribute: another thread's reload must not mix two versions in one answer.
        table = self._table
        return look_up_all(table.keys, table.scores, keys)

    def percentiles(self, keys: Keys) -> Floats:
        """Return for each key the share of pages with links that score lower; 0 for unknown keys."""
        table = self._table
        return look_up_all(table.keys, table.percentiles, keys)

    def in_links(self, keys: Keys) -> NDArray[np.uint32]:
        """Return for each key the number of pages that link to it, by their last captures; 0 for unknown keys."""
        table = self._table
        return look_up_all(table.keys, table.in_links, keys)
