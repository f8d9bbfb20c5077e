"""A synthetic web on sockets: one listener per server address, a name server, and a control port.

    with reserve_port() as port:
        world = World(spec, epoch_s=clock.now_s(), port=port)
        async with LabServer(world, clock, port=port, log=Path("requests.jsonl")) as lab:
            ...  # lab.url("h1.test", "/"), lab.dns, lab.answered_requests

Everything runs in the event loop of the caller; a crawl that is to be measured needs the lab in a separate process
(`lab.server.process`). One client's connection is `connection`, the bytes are `wire`, the names are `dns`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from teia.clock import Clock
from teia.errors import LabError
from teia.lab.server.connection import Connection, LabServerState, Responder
from teia.lab.server.dns import Names, serve_names
from teia.lab.server.listen import check_loopback, open_datagram_socket, open_listeners, raise_file_limit, reserve_port
from teia.lab.server.requestlog import RequestLog

DNS_HOST = "127.77.255.53"
CONTROL_HOST = "127.77.255.80"
FLUSH_S = 0.2
IDLE_S = 60.0
"""Time without progress after which a connection is cut; it takes at most twice as long."""

MOST_CONNECTIONS = 8192
MOST_CONTROL_CONNECTIONS = 64
LEAST_CONNECTIONS = 16
SPARE_FILES = 64
"""Number of open files that a process needs besides its listeners and connections."""


class ServedWorld(Responder, Protocol):
    """The interface of a world to this server: it answers, and maps names to addresses. All names are lower-case."""

    @property
    def names(self) -> Names:
        """Names of servers; several may share an address."""

    @property
    def unreachable(self) -> Names:
        """Names that also resolve, but whose addresses have no listener."""


class LabServer:
    """Serves from `__aenter__` to `__aexit__`; `port`, `dns` and `control` then hold the actual addresses and ports.

    `port` 0 takes a port that is free on all addresses. A world that writes its port into its links must know it first:
    `reserve_port`.
    """

    def __init__(
        self,
        web: ServedWorld,
        clock: Clock,
        *,
        port: int = 0,
        dns: str = f"{DNS_HOST}:0",
        control: Responder | None = None,
        control_host: str = CONTROL_HOST,
        log: Path | None = None,
        idle_s: float = IDLE_S,
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        self.port = port
        self.dns = dns
        self.control = ""
        self.log_path = log
        self.addresses = sorted(
            {check_loopback(host.address) for host in web.names.values()}, key=ipaddress.IPv4Address
        )
        self._web = web
        self._clock = clock
        self._control = control
        self._control_host = control_host
        self._idle_s = idle_s
        self._most_connections = most_connections
        self._state: LabServerState
        self._maintenance: asyncio.Task[None]
        self._stack = AsyncExitStack()

    @property
    def answered_requests(self) -> int:
        """Number of requests that were answered, or met with a fault."""
        return self._state.answered_requests

    def url(self, host: str, path: str = "/") -> str:
        return f"http://{host}:{self.port}{path}"

    async def watch(self) -> None:
        """Never return; raise LabError when the lab can no longer work (the log cannot be written)."""
        await asyncio.shield(self._maintenance)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:  # closes the resources opened so far if a later step fails
            log = stack.enter_context(RequestLog(self.log_path)) if self.log_path else None
            self._state = LabServerState(self._web, self._clock, log, self._max_connections())
            await self._listen(stack)
            await self._serve_dns(stack)
            self._maintenance = asyncio.create_task(self._maintain(log))
            stack.push_async_callback(self._stop_maintenance)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    def _max_connections(self) -> int:
        """Return the number of connections that fit under the limit on open files."""
        others = len(self.addresses) + MOST_CONTROL_CONNECTIONS + SPARE_FILES
        available = raise_file_limit(others + self._most_connections) - others
        if available < min(LEAST_CONNECTIONS, self._most_connections):
            raise LabError(
                f"{len(self.addresses)} servers need more open files; use fewer --hosts or raise `ulimit -Hn`"
            )
        return min(available, self._most_connections)

    async def _listen(self, stack: AsyncExitStack) -> None:
        states = dict.fromkeys(self.addresses, self._state)
        stack.push_async_callback(self._state.close)
        if self._control is not None:
            state = states[self._control_host] = LabServerState(
                self._control, self._clock, None, MOST_CONTROL_CONNECTIONS
            )
            stack.push_async_callback(state.close)
        sockets = self._bind(list(states))
        for one in sockets:
            stack.callback(one.close)
        for one, state in zip(sockets, states.values(), strict=True):
            server = await asyncio.get_running_loop().create_server(partial(Connection, state), sock=one)
            stack.callback(server.close)
        if self._control is not None:
            self.control = f"{self._control_host}:{self.port}"

    def _bind(self, hosts: list[str]) -> list[socket.socket]:
        if self.port:
            return open_listeners(hosts, self.port)
        with reserve_port() as self.port:
            return open_listeners(hosts, self.port)

    async def _serve_dns(self, stack: AsyncExitStack) -> None:
        udp = open_datagram_socket(*split_address(self.dns))
        self.dns = "{}:{}".format(*udp.getsockname())
        try:
            names = await serve_names({**self._web.names, **self._web.unreachable}, udp)
        except BaseException:
            udp.close()
            raise
        stack.callback(names.close)

    async def _maintain(self, log: RequestLog | None) -> None:
        next_sweep_s = self._clock.ticks_s() + self._idle_s
        while True:
            await self._clock.sleep(FLUSH_S)
            if log is not None:
                log.flush()
            if self._clock.ticks_s() >= next_sweep_s:
                next_sweep_s += self._idle_s
                self._state.sweep()

    async def _stop_maintenance(self) -> None:
        self._maintenance.cancel()
        with suppress(asyncio.CancelledError, LabError):  # the log reports on closing that it is incomplete
            await self._maintenance


def split_address(text: str) -> tuple[str, int]:
    """Return address and port of `127.0.0.1:53`; LabError if it is not a loopback address and a port."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 65536):
        raise LabError(f"{text} is not an address with a port; write it like {DNS_HOST}:8853")
    return check_loopback(host), int(port)
