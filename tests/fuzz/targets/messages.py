"""Messages between the nodes of a cluster and of parse children: other bytes are refused with the documented error."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from typing import Any

import msgspec

from teia.clock import VirtualClock
from teia.cluster.cells.log import VERSION, CellLog, LogRecord
from teia.cluster.cells.packs import PIECE_BYTES, FileMap, read_map, unpack
from teia.cluster.cells.site_homes import FORWARDED, LOST, SITE_MOVED, decode_message
from teia.cluster.crawl.shared_aliases import AliasMessage
from teia.cluster.crawl.url_requests import UrlAnswer, UrlQuestion
from teia.cluster.nats.wire import decode_message as decode_wire
from teia.cluster.search import messages
from teia.cluster.search.messages import NodePresence, SearchReply, SearchRequest
from teia.crawler.child.messages import result_of
from teia.errors import ClusterError, IndexFailure
from teia.frontier.cell import mail, move_site
from teia.index.entry import open_encoded, open_packed
from teia.lib.undecodable import UNDECODABLE
from teia.search.serve.wire_format import CandidatesReply, EntriesReply, decode_reply, decode_request, unpack_received
from teia.signals.trust import SignalSource
from tests.fuzz.pieces import Pieces, folder

LOG = CellLog(None, VirtualClock(), "main", 0, "a", "b")  # type: ignore[arg-type]  # it only decodes here
encode = msgspec.msgpack.encode


def _log_record(data: bytes) -> None:
    record = LOG._decode_record(1, data)
    assert LOG._decode_record(1, encode(record)) == record


def _file_map(data: bytes) -> None:
    """Put a file together whose map, and the pack beside it, are of another."""
    octets, path, packed = zlib.compress(data), folder() / "map", folder() / "pack"
    path.write_bytes(octets)
    packed.write_bytes(data)
    found = read_map(path, hashlib.sha256(octets).digest())
    with (folder() / "file").open("wb") as into:
        unpack(found, dict.fromkeys(found.packs, packed), into)
        assert into.tell() <= len(found.pieces) * PIECE_BYTES


DECODERS: tuple[tuple[Callable[[bytes], Any], tuple[type[Exception], ...]], ...] = (
    (_log_record, (ClusterError,)),
    (decode_message, (ClusterError,)),
    (lambda data: decode_message(SITE_MOVED + data), (ClusterError,)),
    (lambda data: decode_message(FORWARDED + data), (ClusterError,)),
    (lambda data: decode_message(LOST + data), (ClusterError,)),
    (lambda data: decode_message(move_site.MARK + zlib.compress(data)), (ClusterError,)),
    (mail.decode_links, (ClusterError,)),
    (lambda data: messages.decode(data, SearchRequest), (ClusterError,)),
    (lambda data: messages.decode(data, SearchReply), (ClusterError,)),
    (lambda data: messages.decode(data, NodePresence), (ClusterError,)),
    (lambda data: decode_reply(EntriesReply, data), (IndexFailure,)),
    (lambda data: decode_reply(CandidatesReply, data), (IndexFailure,)),
    (unpack_received, (IndexFailure,)),
    (open_packed, ()),
    (open_encoded, ()),
    (_file_map, (ClusterError,)),
    (SignalSource.decode, (ValueError,)),
    (lambda data: decode_wire(data, AliasMessage), (ClusterError,)),
    (lambda data: decode_wire(data, UrlQuestion), (ClusterError,)),
    (lambda data: decode_wire(data, UrlAnswer), (ClusterError,)),
    (decode_request, UNDECODABLE),
    (result_of, ()),
)
SEEDS = (
    b"\x00" + encode(LogRecord(VERSION, "commit", "a", "b", "c", 1, 2, "", 0, b"body")),
    b"\x01" + encode([("a.test", 5, "/x", 1, 2, 3, 4, None)]),
    b"\x06" + encode(SearchRequest(messages.VERSION, "search", (1, 2), 50, b"x")),
    b"\x07" + encode(SearchReply(messages.VERSION, "a", (), {"1": "x"})),
    b"\x08" + encode(NodePresence(messages.VERSION, "a", (), 4)),
    b"\x09" + encode(EntriesReply({1: b"x"}, {1: (1.5, None, 2.0)}, [2], {"a": b"b"})),
    b"\x0e" + encode(FileMap(1, 5, b"x" * 32, ["p"], [5], [])),
    b"\x0f" + SignalSource().encode(),
    b"\x10" + encode({"type": "entries", "keys": [1]}),
)


def fuzz_one(data: bytes) -> None:
    pieces = Pieces(data)
    decode, documented = pieces.choice(DECODERS)
    try:
        decode(pieces.rest())
    except documented:
        return
