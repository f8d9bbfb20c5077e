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
    Answered,
    Asked,
    Kept,
    Presence,
    about,
    decode,
    encode,
    who,
)
from teia.errors import ClusterError, IndexFailure
from teia.index.entry import Entry
from teia.search.rank.rows import CANDIDATE
from teia.search.serve import wire_format
from tests.cluster.conftest import Nats
from tests.cluster.shelves import SOON_S, desk, gateway, root_with, searched, settled
from tests.index.pages import page
from tests.waiting import until

SHAPES = {2: "16d6bdff2885c7a1"}
"""By version: how everything that crosses the wire looks. Where this fails, give the wire another version."""

CARRIED = (
    Presence, Asked, Answered, Entry,
    wire_format.AskAll, wire_format.AskCandidates, wire_format.AskCounts, wire_format.AskEntries,
    wire_format.AskFacets, wire_format.AskParts, wire_format.AskSpelt, wire_format.AskWordsLike, wire_format.Answers,
    wire_format.Best, wire_format.Counted, wire_format.Pages, wire_format.SpeltSo,
    give_for_index.AskFile, give_for_index.Piece, give_for_index.AskPages, give_for_index.LentPages,
    give_for_index.AskAnchors, give_for_index.LentAnchors,
)  # fmt: skip


def shape() -> str:
    """A digest of all types that are sent, but for what is written about them."""
    schemas, components = msgspec.json.schema_components(CARRIED)
    text = json.dumps([bare(schemas), bare(components), CANDIDATE.descr], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def bare(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: bare(value) for name, value in schema.items() if name != "description"}
    return [bare(each) for each in schema] if isinstance(schema, list | tuple) else schema


def test_what_crosses_the_wire_has_not_changed_without_another_version() -> None:
    assert SHAPES[VERSION] == shape()


@pytest.mark.parametrize("message", [[1, "old", [[1, 5, 6]], 2], [3, "new", {"other": "things"}], [3, "newer"]])
def test_a_message_of_another_version_is_known_as_one_whatever_is_in_it(message: list[Any]) -> None:
    with pytest.raises(AnotherTeia, match="run the same one on all nodes") as found:
        decode(msgspec.msgpack.encode(message), Presence)
    assert found.value.node == message[1]


@pytest.mark.parametrize("octets", [b"", b"\xc1", msgspec.msgpack.encode([VERSION, "a", "no cells"])])
def test_what_is_no_message_is_an_error(octets: bytes) -> None:
    with pytest.raises(ClusterError, match="cannot be read"):
        decode(octets, Presence)


# ---- two versions in one cluster ------------------------------------------------------------------------------------


@contextmanager
def stranger(nats: Nats, collection: str) -> Iterator[tuple[LoopThread, Any]]:
    """A node of version 1, which says that it keeps cell 1."""
    with LoopThread() as thread:
        wire = thread.wait_for(connect(nats.servers.urls, nats.servers.key, "old"))

        async def tell(message: Any) -> None:
            await message.respond(msgspec.msgpack.encode([1, "old", [[1, 9, 9]], 2]))

        thread.wait_for(wire.client.subscribe(who(collection), cb=tell))
        thread.wait_for(wire.client.flush())
        yield thread, wire.client
        thread.wait_for(wire.end())


def test_a_node_of_another_version_is_not_asked_and_named(nats: Nats, unique: str, tmp_path: Path) -> None:
    root = root_with(tmp_path, unique, {0: [page("http://a.test/", "common words")]}, 2)
    with stranger(nats, unique), desk(nats, root, unique, "a") as node:
        node.keep(1, 0)
        settled()
        with closing(gateway(nats, unique, deadline_s=SOON_S)) as search:
            results = searched(search, "common", lambda results: results.total and "old" in "".join(results.warnings))
    assert (results.total, results.is_partial) == (1, True)
    assert "old runs another teia; run the same one on all nodes" in results.warnings[0]


def test_where_all_nodes_are_of_another_version_it_is_said(nats: Nats, unique: str) -> None:
    with stranger(nats, unique):
        settled()
        with closing(gateway(nats, unique)) as search:

            def failure() -> str:
                with pytest.raises(IndexFailure) as found:
                    search.search("common")
                search.look_again()
                return str(found.value)

            said = until(lambda: each if "old runs another teia" in (each := failure()) else None, state=failure)
    assert "old runs another teia; run the same one on all nodes" in said


def test_whoever_asks_in_another_version_is_told(nats: Nats, unique: str, tmp_path: Path) -> None:
    root = root_with(tmp_path, unique, {0: [page("http://a.test/", "common words")]}, 1)
    with stranger(nats, unique) as (thread, client), desk(nats, root, unique, "a") as node:
        node.keep(1, 0)
        settled()
        question = msgspec.msgpack.encode([1, SEARCH, [0], 700, b"what was asked then"])
        answer = decode(thread.wait_for(client.request(about(unique, 0), question, timeout=20)).data, Answered)
    assert "another teia" in answer.error
    assert answer.body == b""


def test_messages_are_read_as_they_were_written() -> None:
    for message in (
        Presence(VERSION, "a", (Kept(1, 2, 3),), 4),
        Asked(VERSION, SEARCH, (1, 2), 700, b"x"),
        Answered(VERSION, "a", (Kept(1, 2, 3),), {"cell 1": "why"}, "", b"y"),
    ):
        assert decode(encode(message), type(message)) == message
