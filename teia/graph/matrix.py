"""The links of a whole collection as one sparse matrix, for PageRank.

Every page that was read is a node, and so is every URL that one of them leads to, fetched or not: the frontier uses the
scores of those. Keys are 64-bit hashes, so they are numbered first: pages that have links come first, then the others,
which only receive. A link is then one number, target above source. Sorted, these numbers are the matrix row by row,
with repeated links side by side.

Keys are numbered some millions at a time, because looking one up among millions costs most when it is done in no order.
bench/pagerank.py measures the cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from teia.graph.linkfile import Chunk, Keys, join_chunks

LINKS_AT_ONCE = 4_000_000
MAX_NODES = (1 << 31) - 1

_SOURCE_BITS = 32
_SOURCE_MASK = (1 << _SOURCE_BITS) - 1


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes and links.

    The matrix has a row for each node and a column for each of the first `pages` nodes, those that have links: 1 where
    the column's page leads to the row's. `columns` has the columns of all ones, row by row; those of row i lie between
    `pointers[i]` and `pointers[i + 1]`. `keys` are the nodes' keys, sorted, and `rows` says in which row each is.
    """

    keys: Keys
    rows: NDArray[np.int32]
    pages: int
    columns: NDArray[np.int32]
    pointers: NDArray[np.int64]

    @property
    def in_links(self) -> NDArray[np.int64]:
        """Number of pages that link to each row's node."""
        return np.diff(self.pointers)

    @property
    def out_links(self) -> NDArray[np.int64]:
        """Number of nodes to which each of the first `pages` nodes links."""
        return np.bincount(self.columns, minlength=self.pages)

    def received(self, given: NDArray[np.float64], first: int, last: int) -> NDArray[np.float64]:
        """Return for each row from `first` to before `last` the sum of what its linking pages give per link."""
        sums = np.zeros(last - first)
        at = first
        while at < last:
            # As many rows at a time as have some millions of links, and at least one.
            end = int(np.searchsorted(self.pointers, self.pointers[at] + LINKS_AT_ONCE, "right")) - 1
            end = min(max(end, at + 1), last)
            starts, ends = self.pointers[at:end], self.pointers[at + 1 : end + 1]
            linked = np.flatnonzero(starts < ends)
            if len(linked):
                gifts = given[self.columns[starts[0] : ends[-1]]]
                sums[linked + (at - first)] = np.add.reduceat(gifts, starts[linked] - starts[0])
            at = end
        return sums


@dataclass(frozen=True, slots=True)
class _Piece:
    """Links on their way into the matrix: sources by key, targets by their place among `target_keys`."""

    sources: Keys
    counts: NDArray[np.int64]
    target_keys: Keys
    targets: NDArray[np.int32]


def build_graph(files: Sequence[Iterable[Chunk]]) -> Graph:
    """Return the graph of all links in some link files (`linkfile.Edges`); links of a page to itself are left out."""
    pieces = [_make_piece(chunk) for chunk in _batches(files)]
    if not pieces:
        return Graph(np.zeros(0, np.int64), np.zeros(0, np.int32), 0, np.zeros(0, np.int32), np.zeros(1, np.int64))
    sources = _distinct([piece.sources for piece in pieces])
    keys = _distinct([sources, *(piece.target_keys for piece in pieces)])
    if len(keys) > MAX_NODES:
        raise ValueError(f"{len(keys):,} nodes exceed the maximum")
    # Codes are target row above source row: sorted, they are the matrix in CSR order.
    rows = _assign_rows(keys, sources)
    codes = _encode_links(pieces, keys, rows)
    pointers = np.searchsorted(codes, np.arange(len(keys) + 1) << _SOURCE_BITS)
    return Graph(keys, rows, len(sources), (codes & _SOURCE_MASK).astype(np.int32), pointers)


def _batches(files: Sequence[Iterable[Chunk]]) -> Iterator[Chunk]:
    """Yield all chunks, joined to some millions of links."""
    waiting: list[Chunk] = []
    links = 0
    for file in files:
        for chunk in file:
            waiting.append(chunk)
            links += len(chunk.targets)
            if links >= LINKS_AT_ONCE:
                yield join_chunks(waiting)
                waiting, links = [], 0
    if waiting:
        yield join_chunks(waiting)


def _make_piece(chunk: Chunk) -> _Piece:
    order = np.argsort(chunk.targets)
    sorted_targets = chunk.targets[order]
    is_first = _is_first(sorted_targets)
    targets = np.empty(len(order), np.int32)
    # Place of each target among the distinct keys, in the order of the links.
    targets[order] = np.cumsum(is_first, dtype=np.int32) - 1
    return _Piece(chunk.sources, chunk.counts, sorted_targets[is_first], targets)


def _distinct(keys: list[Keys]) -> Keys:
    """Return the distinct keys of some arrays, sorted; `np.unique` hashes, and is ten times as slow on millions."""
    together = np.concatenate(keys)
    together.sort()
    return together[_is_first(together)]


def _is_first(sorted_numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell for each number whether it differs from the one before it."""
    is_first = np.ones(len(sorted_numbers), np.bool_)
    np.not_equal(sorted_numbers[1:], sorted_numbers[:-1], out=is_first[1:])
    return is_first


def _assign_rows(keys: Keys, sources: Keys) -> NDArray[np.int32]:
    """Give each key its row: pages that have links first."""
    has_links = np.zeros(len(keys), np.bool_)
    has_links[np.searchsorted(keys, sources)] = True
    rows = np.empty(len(keys), np.int32)
    rows[has_links] = np.arange(len(sources))
    rows[~has_links] = np.arange(len(sources), len(keys))
    return rows


def _encode_links(pieces: list[_Piece], keys: Keys, rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return each link once, as target row above source row, sorted. Uses the pieces up."""
    codes = np.empty(sum(len(piece.targets) for piece in pieces), np.int64)
    at = 0
    while pieces:
        # Popped, so that each piece is freed as soon as it is coded.
        piece = pieces.pop()
        part = codes[at : at + len(piece.targets)]
        part[:] = rows[np.searchsorted(keys, piece.target_keys)][piece.targets]
        part <<= _SOURCE_BITS
        part |= np.repeat(rows[np.searchsorted(keys, piece.sources)], piece.counts)
        at += len(part)
    codes.sort()
    is_wanted = _is_first(codes)
    is_wanted &= (codes >> _SOURCE_BITS) != (codes & _SOURCE_MASK)
    return codes if is_wanted.all() else codes[is_wanted]
