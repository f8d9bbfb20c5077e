"""Links that can be cut: TCP connections go through relays of ours, which carry nothing while they are cut.

A cut link is silent, as one is whose cable was pulled: nothing is refused and nothing is closed, and what was sent
meanwhile arrives when it is mended, unless somebody has given up by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from teia.cluster.nats.servers import NatsServer, NatsServers

CHUNK = 65_536
ADDRESS = "127.78.0.9"


class Relay:
    """Carries connections to one place; made by `Relays`."""

    def __init__(self, address: str, port: int) -> None:
        self._to = address, port
        self._whole = asyncio.Event()
        self._whole.set()
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, ADDRESS, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._server.close()
        self._whole.set()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=2)

    async def set_whole(self, is_whole: bool) -> None:
        (self._whole.set if is_whole else self._whole.clear)()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self._whole.wait()
            far_reader, far_writer = await asyncio.open_connection(*self._to)
            await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))
        writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(CHUNK):
                await self._whole.wait()
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


class Relays:
    """Relays in a thread of their own."""

    def __init__(self) -> None:
        self._all: list[Relay] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relays", daemon=True)

    def close(self) -> None:
        for relay in self._all:
            self._do(relay.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    def to(self, address: str, port: int) -> Relay:
        relay = Relay(address, port)
        self._all.append(relay)
        self._do(relay.start())
        return relay

    def cut(self, relays: Iterable[Relay]) -> None:
        for relay in relays:
            self._do(relay.set_whole(False))

    def reconnect(self, relays: Iterable[Relay]) -> None:
        for relay in relays:
            self._do(relay.set_whole(True))


@contextmanager
def relays() -> Iterator[Relays]:
    made = Relays()
    made._thread.start()
    try:
        yield made
    finally:
        made.close()


def with_relayed_routes(servers: NatsServers, between: Relays) -> dict[int, list[Relay]]:
    """Have servers reach each other through relays, before they start; returns those that touch each server."""
    servers._prepare()
    places: list[NatsServer] = servers._servers
    touching: dict[int, list[Relay]] = {at: [] for at in range(len(places))}
    for at, place in enumerate(places):
        conf = servers.folder / f"{place.name}.conf"
        text = conf.read_text().replace("cluster { name: teia,", "cluster { name: teia, no_advertise: true,")
        for to, other in enumerate(places):
            if to != at:
                relay = between.to(other.address, other.route)
                text = text.replace(f"@{other.address}:{other.route}", f"@{ADDRESS}:{relay.port}")
                touching[at].append(relay)
                touching[to].append(relay)
        conf.write_text(text)
    return touching
