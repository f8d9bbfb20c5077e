"""A NATS server for the tests of a module, in a thread with a loop of its own; and what is made anew for each test."""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from teia.clock import WallClock
from teia.cluster.cells.log import create_stream
from teia.cluster.members.join import join
from teia.cluster.members.session import NodeSession, Pace
from teia.cluster.nats.servers import NatsServers
from teia.cluster.nats.wire import Wire, connect
from tests.conftest import missing

PACE = Pace(silence_s=2.0, beat_s=0.25, margin_s=0.5)
ANSWER_S = 1.0
STALL_S = 2.0
"""So much longer than it should anything may take on a busy machine, where a test goes by the wall clock."""

_numbers = itertools.count(1)


@dataclass
class Nats:
    """Servers and how to reach them; `count` is how often everything is stored."""

    servers: NatsServers
    count: int
    clock: WallClock = field(default_factory=WallClock)
    wires: list[Wire] = field(default_factory=list)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a test, and close what it opened."""

        async def whole() -> None:
            try:
                await work
            finally:
                wires, self.wires = self.wires, []
                for wire in wires:
                    await wire.end()
                await asyncio.sleep(0.01)  # their transports are closed in the loop's next turns

        asyncio.run(whole())
        gc.collect()  # a connection that was left open is this test's fault, not the next one's

    async def wire(self, name: str = "test") -> Wire:
        wire = await connect(self.servers.urls, self.servers.key, name, answer_s=ANSWER_S)
        self.wires.append(wire)
        return wire

    async def stream(self, wire: Wire) -> str:
        """A new collection's name, its stream made."""
        name = f"c{next(_numbers)}"
        await create_stream(wire, self.clock, name, self.count)
        return name

    async def node(
        self, name: str, on_lost: Callable[[str], None] = lambda why: None, pace: Pace = PACE
    ) -> NodeSession:
        """A session on a connection of its own, under a name that no other test has."""
        return await join(await self.wire(name), self.clock, name, on_lost, pace=pace, replicas=self.count)


def run_servers(
    folder: Path, count: int, prepare: Callable[[NatsServers], None] = lambda servers: None
) -> Iterator[Nats]:
    """Run servers until the test is over, whatever becomes of it; `prepare` may do something to them first."""
    try:
        servers = NatsServers(folder, count, WallClock())
    except Exception as error:
        missing(str(error))
        raise
    prepare(servers)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="nats", daemon=True)
    thread.start()

    def wait_for(work: Coroutine[Any, Any, None]) -> None:
        future: Future[None] = asyncio.run_coroutine_threadsafe(work, loop)
        future.result(60)

    try:
        wait_for(servers.start())
        yield Nats(servers, count)
    finally:
        wait_for(servers.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@pytest.fixture(scope="package")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    """One server that all tests of this folder share; none of them may stop it."""
    yield from run_servers(tmp_path_factory.mktemp("nats"), 1)


@pytest.fixture
def own_nats(tmp_path: Path) -> Iterator[Nats]:
    """One server for one test, to be stopped and killed."""
    yield from run_servers(tmp_path / "nats", 1)


@pytest.fixture
def three_nats(tmp_path: Path) -> Iterator[Nats]:
    """Three servers for one test."""
    yield from run_servers(tmp_path / "nats", 3)


@pytest.fixture
def unique() -> str:
    """A word for names of nodes that no other test uses."""
    return f"n{next(_numbers)}"
