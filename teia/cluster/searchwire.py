"""What nodes and gateways say to each other about search: subjects, and the envelopes of questions and answers.

    <collection>.search.who        who is there? Every node that answers searches tells which cells it keeps
    <collection>.search.7          a question to whoever keeps cell 7, about that cell and others it keeps
    <collection>.search.at.rio-1   a question to one node, whatever it keeps: files and pages that others need

These are plain requests over NATS and are in no stream: nobody needs an old answer. An answer names for every cell the
epoch and the last record of its keeper, so of two that speak for a cell the one with the higher epoch is believed.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from teia.errors import ClusterError

VERSION = 2
"""Another one whenever a message changes, or what it carries (search/letters.py): tests/cluster/test_searchwire.py."""

GATHER_S = 5.0
"""From one look for what is new on other nodes to the next."""

BORROW_S = 120.0
"""So long an indexer waits at most for pages from other nodes."""

LINGER_AT_MOST_S = 60.0
"""So long a node that leaves stays at most, for others to bring pages from it."""

MAX_LINE_BYTES = 1 << 20

SEARCH, FILE, PAGES, ANCHORS = "search", "file", "pages", "anchors"
"""Kinds of questions: one for a shard (search/letters.py), and what gathering.py asks for."""


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """A cell as its keeper knows it: since which record it keeps it, and the last one it wrote."""

    cell: int
    epoch: int
    sequence: int


class Presence(msgspec.Struct, frozen=True, array_like=True):
    """A node that answers: its name, the cells it keeps, and how many the collection has."""

    version: int
    node: str
    cells: tuple[Kept, ...]
    of: int


class Asked(msgspec.Struct, frozen=True, array_like=True):
    """A question about some cells; `within_ms` is how long an answer is waited for."""

    version: int
    kind: str
    cells: tuple[int, ...]
    within_ms: int
    body: bytes


class Answered(msgspec.Struct, frozen=True, array_like=True):
    """An answer: for which cells, by whom, and which of its cells could not be searched; or what went wrong."""

    version: int
    node: str
    cells: tuple[Kept, ...] = ()
    left_out: dict[str, str] = {}
    error: str = ""
    body: bytes = b""


# ---- between a node and its librarian -------------------------------------------------------------------------------


class Post(msgspec.Struct, frozen=True):
    """Which node this is, of which collection, and where NATS is; `shared` is what the cluster calls the collection."""

    data: str
    collection: str
    shared: str
    node: str
    servers: tuple[str, ...]
    key: str | None = None
    ca: str | None = None
    gather_s: float = GATHER_S


class Holding(msgspec.Struct, frozen=True):
    """The cells that the node keeps."""

    cells: tuple[Kept, ...]


class Ready(msgspec.Struct, frozen=True):
    """Cells with which the indexer may begin."""

    ready: tuple[int, ...]


# ---- octets ---------------------------------------------------------------------------------------------------------

encode = msgspec.msgpack.Encoder().encode
Message = TypeVar("Message", Presence, Asked, Answered)


class AnotherTeia(ClusterError):
    """A message of another version; `node` is who sent an answer."""

    def __init__(self, node: str) -> None:
        super().__init__("another teia answers searches in this cluster; run the same one on all nodes")
        self.node = node


class _Stamp(msgspec.Struct, frozen=True, array_like=True):
    """How messages of every version begin; what follows may be anything."""

    version: int
    sender: str = ""


def decode(octets: bytes, kind: type[Message]) -> Message:
    """Read a message; ClusterError if it is none, AnotherTeia if it is of another version, whatever else is in it."""
    try:
        message = msgspec.msgpack.decode(octets, type=kind)
        if message.version == VERSION:
            return message
    except msgspec.MsgspecError as error:
        if _stamp(octets).version == VERSION:
            raise ClusterError(f"a message about search cannot be read: {error}") from error
    raise AnotherTeia(_stamp(octets).sender)


def _stamp(octets: bytes) -> _Stamp:
    try:
        return msgspec.msgpack.decode(octets, type=_Stamp)
    except msgspec.MsgspecError:
        return _Stamp(VERSION)


def who(collection: str) -> str:
    return f"{collection}.search.who"


def about(collection: str, cell: int) -> str:
    return f"{collection}.search.{cell}"


def at(collection: str, node: str) -> str:
    return f"{collection}.search.at.{node}"


def numbers(cells: tuple[int, ...] | list[int]) -> str:
    """Cells as people write them: 0-3, 7."""
    runs: list[list[int]] = []
    for cell in sorted(cells):
        if runs and cell == runs[-1][-1] + 1:
            runs[-1].append(cell)
        else:
            runs.append([cell])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
