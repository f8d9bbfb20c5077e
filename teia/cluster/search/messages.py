"""Messages about search between nodes and gateways: subjects, and the envelopes of questions and answers.

    <collection>.search.who        presence: every node that answers searches reports the cells it owns
    <collection>.search.7          a question to the owner of cell 7, about that cell and others it owns
    <collection>.search.at.rio-1   a question to one node, for any cells: files and pages that others need

These are plain requests over NATS and are in no stream: an old answer is of no use. An answer has for every cell the
epoch and the last record of its owner, so of two nodes that claim a cell the one with the higher epoch is believed.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from teia.errors import ClusterError
from teia.lib.undecodable import UNDECODABLE

VERSION = 3
"""Version of the messages; changes whenever a message or its content (wire_format.py) changes: test_messages.py."""

GATHER_S = 5.0
"""Interval between two looks for new data on other nodes."""

BORROW_S = 120.0
"""Longest time that an indexer waits for pages from other nodes."""

LINGER_AT_MOST_S = 60.0
"""Longest time that a node that leaves stays, so that others can fetch pages from it."""

MAX_LINE_BYTES = 1 << 20

SEARCH, FILE, PAGES, ANCHORS = "search", "file", "pages", "anchors"
"""Kinds of questions: one for a shard (search/serve/wire_format.py), and those of fetch_for_index.py."""


class CellOwnership(msgspec.Struct, frozen=True, array_like=True):
    """A cell as its owner knows it: the record since which it owns it, and the last one it wrote."""

    cell: int
    epoch: int
    sequence: int


class NodePresence(msgspec.Struct, frozen=True, array_like=True):
    """A node that answers: its name, the cells it owns, and the number of cells of the collection."""

    version: int
    node: str
    cells: tuple[CellOwnership, ...]
    cell_count: int


class SearchRequest(msgspec.Struct, frozen=True, array_like=True):
    """A question about some cells; `within_ms` is the time its sender waits for an answer."""

    version: int
    kind: str
    cells: tuple[int, ...]
    within_ms: int
    body: bytes


class SearchReply(msgspec.Struct, frozen=True, array_like=True):
    """An answer: its cells, its node, and cells that could not be searched; or an error."""

    version: int
    node: str
    cells: tuple[CellOwnership, ...] = ()
    left_out: dict[str, str] = {}
    error: str = ""
    body: bytes = b""


# ---- between a node and its librarian -------------------------------------------------------------------------------


class LibrarianSettings(msgspec.Struct, frozen=True):
    """The identity of a node, its collection, and its NATS servers.

    `shared` is the collection's name in the cluster.
    """

    data: str
    collection: str
    shared: str
    node: str
    servers: tuple[str, ...]
    key: str | None = None
    ca: str | None = None
    gather_s: float = GATHER_S


class OwnedCells(msgspec.Struct, frozen=True):
    """The cells that the node owns."""

    cells: tuple[CellOwnership, ...]


class ReadyCells(msgspec.Struct, frozen=True):
    """Cells with which the indexer may begin."""

    ready: tuple[int, ...]


# ---- encoding -------------------------------------------------------------------------------------------------------

encode = msgspec.msgpack.Encoder().encode
Message = TypeVar("Message", NodePresence, SearchRequest, SearchReply)


class AnotherTeia(ClusterError):
    """A message of another version; `node` is the sender of an answer."""

    def __init__(self, node: str) -> None:
        super().__init__("another version of teia answers searches in this cluster; run the same version on all nodes")
        self.node = node


class _Stamp(msgspec.Struct, frozen=True, array_like=True):
    """The beginning of messages of every version; anything may follow."""

    version: int
    sender: str = ""


def decode(octets: bytes, kind: type[Message]) -> Message:
    """Decode a message; ClusterError if it is invalid, AnotherTeia if it has another version and any content."""
    try:
        message = msgspec.msgpack.decode(octets, type=kind)
        if message.version == VERSION:
            return message
    except UNDECODABLE as error:
        # Of this version and yet unreadable: damaged, not foreign.
        if _stamp(octets).version == VERSION:
            raise ClusterError(f"a search message cannot be read: {error}") from error
    raise AnotherTeia(_stamp(octets).sender)


def _stamp(octets: bytes) -> _Stamp:
    try:
        return msgspec.msgpack.decode(octets, type=_Stamp)
    except UNDECODABLE:
        return _Stamp(VERSION)


def presence_subject(collection: str) -> str:
    return f"{collection}.search.who"


def cell_subject(collection: str, cell: int) -> str:
    return f"{collection}.search.{cell}"


def node_subject(collection: str, node: str) -> str:
    return f"{collection}.search.at.{node}"


def format_cells(cells: tuple[int, ...] | list[int]) -> str:
    """Return cells as people write them: 0-3, 7."""
    runs: list[list[int]] = []
    for cell in sorted(cells):
        if runs and cell == runs[-1][-1] + 1:
            runs[-1].append(cell)
        else:
            runs.append([cell])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
