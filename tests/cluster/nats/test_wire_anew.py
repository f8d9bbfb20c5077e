"""What a client leaves behind when it connects anew: nothing, however long NATS hangs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.cluster.nats import wire as wires
from teia.cluster.nats.wire import NoAnswer, connect
from tests.cluster.conftest import Nats
from tests.cluster.relay import ADDRESS, Relay, Relays, relays
from tests.waiting import until_async

MUCH = 512 * 1024


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Iterator[Relays]:
    """Relays, and a client that is quick to try again."""
    monkeypatch.setattr(wires, "CONNECT_S", 0.2)
    monkeypatch.setattr(wires, "RECONNECT_S", 0.05)
    with relays() as made:
        yield made


def relay_to(nats: Nats, between: Relays) -> tuple[Relay, str]:
    """A way to the server that can be cut, and its URL."""
    place = nats.servers._servers[0]
    relay = between.to(place.address, int(place.url.rpartition(":")[2]))
    return relay, f"nats://{ADDRESS}:{relay.port}"


def sockets_to(relay: Relay) -> int:
    """How many sockets of this process lead to a relay."""
    return sum(_leads_to(int(each.name), relay) for each in Path("/proc/self/fd").iterdir())


def _leads_to(descriptor: int, relay: Relay) -> bool:
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
        with socket.socket(fileno=os.dup(descriptor)) as each:
            return each.family == socket.AF_INET and each.getpeername() == (ADDRESS, relay.port)
    except OSError:  # it was closed meanwhile, or leads nowhere
        return False


def test_attempts_that_failed_leave_no_socket_open(nats: Nats, between: Relays) -> None:
    """A server that hangs takes connections and says nothing: each attempt opens one more."""

    async def main() -> None:
        relay, url = relay_to(nats, between)
        wire = await connect([url], nats.servers.key, "test", answer_s=0.2)
        nats.wires.append(wire)
        most, attempts = 0, wire.client._server_pool[0]
        between.cut([relay])
        with contextlib.suppress(NoAnswer):
            await wire.request(wire.js.account_info())
        await wire.client.force_reconnect()
        while attempts.reconnects < 8:
            most = max(most, sockets_to(relay))
            await asyncio.sleep(0.02)  # sockets are counted all the while
        assert 0 < most <= 2  # the one that is tried, and the one before it while it ends
        between.reconnect([relay])
        await until_async(lambda: wire.client.is_connected)
        await wire.request(wire.js.account_info())
        assert sockets_to(relay) == 1
        await wire.end()
        await until_async(lambda: sockets_to(relay) == 0)

    nats.run(main())


def test_a_connection_that_takes_no_more_is_left_for_another_server(nats: Nats, between: Relays) -> None:
    """What could not be sent is not waited for: a cable that was pulled would hold it up for a quarter of an hour."""

    async def main() -> None:
        ways = [relay_to(nats, between) for _ in range(2)]
        wire = await connect([url for _, url in ways], nats.servers.key, "test", answer_s=0.2)
        nats.wires.append(wire)
        ours = [relay for relay, _ in ways if sockets_to(relay)]
        between.cut(ours)
        writer = wire.client._transport._io_writer  # type: ignore[union-attr]
        while not writer.transport.get_write_buffer_size():
            await wire.client.publish("much", bytes(MUCH))
            await asyncio.sleep(0)  # the client writes
        await wire.client.force_reconnect()
        await until_async(lambda: wire.client.is_connected)
        await wire.request(wire.js.account_info())
        assert [sockets_to(relay) for relay in ours] == [0]

    nats.run(main())
