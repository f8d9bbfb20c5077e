"""Messages about search: a node of another version is told so, whatever it sends."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from teia.cluster.nats.thread import LoopThread
from teia.cluster.nats.wire import connect
from teia.cluster.search import give_for_index
from teia.cluster.search.messages import (
    SEARCH,
    VERSION,
    AnotherTeia,
    CellOwnership,
    NodePresence,
    SearchReply,
    SearchRequest,
    cell_subject,
    decode,
    encode,
    presence_subject,
)
from teia.errors import ClusterError, IndexFailure
from teia.index.entry import IndexEntry
from teia.search.rank.rows import CANDIDATE
from teia.search.serve import wire_format
from tests.cluster.conftest import Nats
from tests.cluster.shelves import SOON_S, answering_node, gateway, make_root, search_until, wait_for_subscriptions
from tests.index.pages import page
from tests.waiting import until

SHAPES = {3: "2ef861aa1774e6af"}
"""By version: how everything that crosses the wire looks. Where this fails, give the wire another version.

Not for a field with a default at the end of an entry: either version reads what the other one sends.
"""

CARRIED = (
    NodePresence, SearchRequest, SearchReply, IndexEntry,
    wire_format.BatchRequest, wire_format.CandidatesRequest, wire_format.CountsRequest, wire_format.EntriesRequest,
    wire_format.FacetsRequest, wire_format.PartsRequest, wire_format.ExactTextRequest, wire_format.WordsLikeRequest,
    wire_format.BatchReply,
    wire_format.CandidatesReply, wire_format.CountsReply, wire_format.EntriesReply, wire_format.ExactTextReply,
    give_for_index.FileRequest, give_for_index.FilePiece, give_for_index.PagesRequest, give_for_index.PagesReply,
    give_for_index.AnchorsRequest, give_for_index.AnchorsReply,
)  # fmt: skip


def shape() -> str:
    """A digest of all types that are sent, but for their names in Python and what is written about them."""
    schemas, components = msgspec.json.schema_components(CARRIED)
    text = json.dumps([bare(schemas, components), CANDIDATE.descr], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def bare(schema: Any, components: dict[str, Any], within: tuple[str, ...] = ()) -> Any:
    """Return a schema with the types that it names in their places; a type within itself is a number."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return within.index(name) if name in within else bare(components[name], components, (*within, name))
        words = {name for name in ("description", "title") if isinstance(schema.get(name), str)}
        return {name: bare(value, components, within) for name, value in schema.items() if name not in words}
    return [bare(each, components, within) for each in schema] if isinstance(schema, list | tuple) else schema


def test_what_crosses_the_wire_has_not_changed_without_another_version() -> None:
    assert SHAPES[VERSION] == shape()


@pytest.mark.parametrize("message", [[1, "old", [[1, 5, 6]], 2], [99, "new", {"other": "things"}], [99, "newer"]])
def test_a_message_of_another_version_is_known_as_one_whatever_is_in_it(message: list[Any]) -> None:
    with pytest.raises(AnotherTeia, match="run the same version on all nodes") as found:
        decode(msgspec.msgpack.encode(message), NodePresence)
    assert found.value.node == message[1]


@pytest.mark.parametrize("octets", [b"", b"\xc1", msgspec.msgpack.encode([VERSION, "a", "no cells"])])
def test_what_is_no_message_is_an_error(octets: bytes) -> None:
    with pytest.raises(ClusterError, match="cannot be read"):
        decode(octets, NodePresence)


# ---- two versions in one cluster ------------------------------------------------------------------------------------


@contextmanager
def stranger(nats: Nats, collection: str) -> Iterator[tuple[LoopThread, Any]]:
    """A node of version 1, which says that it keeps cell 1."""
    with LoopThread() as thread:
        wire = thread.wait_for(connect(nats.servers.urls, nats.servers.key, "old"))

        async def tell(message: Any) -> None:
            await message.respond(msgspec.msgpack.encode([1, "old", [[1, 9, 9]], 2]))

        thread.wait_for(wire.client.subscribe(presence_subject(collection), cb=tell))
        thread.wait_for(wire.client.flush())
        yield thread, wire.client
        thread.wait_for(wire.end())


def test_a_node_of_another_version_is_not_queried_and_named(nats: Nats, unique: str, tmp_path: Path) -> None:
    root = make_root(tmp_path, unique, {0: [page("http://a.test/", "common words")]}, 2)
    with stranger(nats, unique), answering_node(nats, root, unique, "a") as node:
        node.keep(1, 0)
        wait_for_subscriptions()
        with closing(gateway(nats, unique, deadline_s=SOON_S)) as search:
            results = search_until(
                search, "common", lambda results: results.total and "old" in "".join(results.warnings)
            )
    assert (results.total, results.is_partial) == (1, True)
    assert "old runs another version of teia; run the same version on all nodes" in results.warnings[0]


def test_where_all_nodes_are_of_another_version_it_is_reported(nats: Nats, unique: str) -> None:
    with stranger(nats, unique):
        wait_for_subscriptions()
        with closing(gateway(nats, unique)) as search:

            def failure() -> str:
                with pytest.raises(IndexFailure) as found:
                    search.search("common")
                search.refresh_directory()
                return str(found.value)

            said = until(lambda: each if "old runs another version" in (each := failure()) else None, state=failure)
    assert "old runs another version of teia; run the same version on all nodes" in said


def test_a_request_of_another_version_is_refused_with_a_message(nats: Nats, unique: str, tmp_path: Path) -> None:
    root = make_root(tmp_path, unique, {0: [page("http://a.test/", "common words")]}, 1)
    with stranger(nats, unique) as (thread, client), answering_node(nats, root, unique, "a") as node:
        node.keep(1, 0)
        wait_for_subscriptions()
        question = msgspec.msgpack.encode([1, SEARCH, [0], 700, b"what was asked then"])
        answer = decode(
            thread.wait_for(client.request(cell_subject(unique, 0), question, timeout=20)).data, SearchReply
        )
    assert "another version of teia" in answer.error
    assert answer.body == b""


def test_messages_are_read_as_they_were_written() -> None:
    for message in (
        NodePresence(VERSION, "a", (CellOwnership(1, 2, 3),), 4),
        SearchRequest(VERSION, SEARCH, (1, 2), 700, b"x"),
        SearchReply(VERSION, "a", (CellOwnership(1, 2, 3),), {"cell 1": "why"}, "", b"y"),
    ):
        assert decode(encode(message), type(message)) == message


def test_an_entry_without_the_number_of_anchors_is_read_and_one_with_it_by_older_nodes() -> None:
    entry = page("http://a.test/", "words", "title")
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(entry))
    assert msgspec.convert(fields[:-1], IndexEntry) == entry
    older = msgspec.defstruct("Older", IndexEntry.__struct_fields__[:2], array_like=True)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(entry), type=older).url == entry.url  # type: ignore[attr-defined]
