"""A node whose start fails half-way: nothing that it had begun goes on without it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from teia.clock import WallClock
from teia.cluster.nats.wire import NoAnswer
from teia.cluster.node import Node, NodeIdentity
from teia.cluster.placing.cell_owners import OwnerOverrides
from teia.config.sections import Config
from teia.errors import ConfigError
from teia.parse.children.spawn import ZygoteProcess
from teia.store.root import open_root
from tests.waiting import until_async

from .conftest import Nats

SESSION_S = 4.0


def children() -> set[int]:
    """The processes that this one has started and that are there, the librarian and the indexer among them."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == os.getpid() and state != "Z":
                found.add(int(stat.parent.name))
    return found


def node_of(nats: Nats, folder: Path, name: str, **fetch: Any) -> Node:
    """A node of a collection with nothing to crawl."""
    config = Config()
    collection = replace(config.collection, name="main", seeds=("http://nobody.test/",), cells=2)
    config = replace(config, collection=collection, fetch=replace(config.fetch, **fetch))
    place = NodeIdentity(name, tuple(nats.servers.urls), nats.servers.key, session_s=SESSION_S)
    return Node(open_root(folder, create=True), "main", config, place, WallClock())


def test_a_start_that_fails_leaves_no_child_and_no_session(
    own_nats: Nats, tmp_path: Path, unique: str, zygotes: list[ZygoteProcess]
) -> None:
    """What is wrong is found when parse children, indexer and librarian have been started."""

    async def main() -> None:
        other, before = await own_nats.node(f"{unique}z"), children()
        with pytest.raises(ConfigError, match=r"fetch\.resolve"):
            await node_of(own_nats, tmp_path / "a", unique, resolve=("nonsense",)).run()
        assert zygotes
        assert all(each.process.returncode is not None for each in zygotes)
        assert children() <= before
        await until_async(lambda: unique in other.nodes() and other.nodes()[unique].state == "left")
        await other.leave()

    own_nats.run(main())


def test_a_session_that_was_begun_for_nothing_does_not_keep_the_name(
    own_nats: Nats, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """NATS was there when the node joined and away a moment later: it joins again, by the same name."""
    read, times = OwnerOverrides.read, [0]

    async def silent_once(overrides: OwnerOverrides) -> None:
        times[0] += 1
        if times[0] == 1:
            raise NoAnswer("NATS does not respond")
        await read(overrides)

    monkeypatch.setattr(OwnerOverrides, "read", silent_once)

    async def main() -> None:
        node = node_of(own_nats, tmp_path / "a", unique)
        running = asyncio.get_running_loop().create_task(node.run())
        await until_async(lambda: "cells=0,1 open" in caplog.text or running.done())
        node.stop()
        node.stop()
        await running
        assert "cells=0,1 open" in caplog.text
        assert "no session: NATS does not respond" in caplog.text

    with caplog.at_level(logging.INFO, "teia.cluster"):
        own_nats.run(main())
