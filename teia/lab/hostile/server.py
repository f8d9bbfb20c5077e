"""A server that says exactly what it is told to, on raw sockets, and remembers every request it saw.

Frameworks correct malformed output, so there is none here. One behaviour per path; the log is the oracle of the tests:
what the server saw, not what the client claims. Only loopback: 127.77.0.0/16 is the web, 127.66.0.0/16 the inside.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

WEB = ("127.77.0.1", "127.77.0.2")
INSIDE = "127.66.0.1"


@dataclass(frozen=True)
class Seen:
    """One request as it arrived, and when; connections are numbered from 1, over all addresses."""

    connection: int
    address: str
    head: bytes
    at_s: float = 0.0

    @property
    def target(self) -> str:
        return self.head.split(b" ")[1].decode()

    def header(self, name: str) -> str | None:
        for line in self.head.decode("latin-1").split("\r\n")[1:]:
            if line.lower().startswith(name.lower() + ":"):
                return line.partition(":")[2].strip()
        return None


Behaviour = Callable[[socket.socket, Seen], bool]
"""Answers one request on a connection; True keeps the connection for another."""


def sends(data: bytes, keep: bool = False) -> Behaviour:
    def behave(connection: socket.socket, _seen: Seen) -> bool:
        connection.sendall(data)
        return keep

    return behave


def says_nothing(connection: socket.socket, _seen: Seen) -> bool:
    """Wait until the client goes away."""
    connection.recv(1)
    return False


def sends_then_resets(data: bytes) -> Behaviour:
    def behave(connection: socket.socket, _seen: Seen) -> bool:
        connection.sendall(data)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    return behave


def repeats(start: bytes, piece: bytes, every_s: float = 0.0, limit_bytes: int = 200 * 2**20) -> Behaviour:
    """Sends `piece` until the client goes away (or a bound that no test should reach)."""

    def behave(connection: socket.socket, _seen: Seen) -> bool:
        connection.sendall(start)
        gone = threading.Event()
        for _ in range(limit_bytes // len(piece)):
            connection.sendall(piece)
            if every_s:
                gone.wait(every_s)
        return False

    return behave


def page(body: bytes = b"page", *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


class HostileServer:
    """Listens on every address of `addresses` at one port that the kernel chose."""

    def __init__(
        self,
        behaviours: Mapping[str, Behaviour],
        addresses: Sequence[str] = WEB,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._behaviours = behaviours
        self._tls = tls
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.log: list[Seen] = []
        self.connections = 0
        self.hung_up = 0
        self._listeners = list(_listeners(addresses))
        self.port: int = self._listeners[0].getsockname()[1]
        for listener in self._listeners:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.drop_connections()

    def url(self, path: str, host: str = "a.test") -> str:
        return f"http{'s' if self._tls else ''}://{host}:{self.port}{path}"

    def targets(self) -> list[str]:
        return [seen.target for seen in self.log]

    def drop_connections(self) -> None:
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                number = self.connections
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        # The client hangs up on most of what is sent here; that is what the tests are for.
        with contextlib.suppress(OSError):
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with self._lock:
                self._open.add(connection)
            address = connection.getsockname()[0]
            for head in _request_heads(connection):
                seen = Seen(number, address, head, time.monotonic())
                self.log.append(seen)
                path = seen.target.partition("?")[0]
                if not self._behaviours.get(path, sends(page(b"unknown", status=b"404 Not Found"), True))(
                    connection, seen
                ):
                    break
        with self._lock:
            self._open.discard(connection)
        connection.close()
        self.hung_up += 1


def _listeners(addresses: Sequence[str]) -> Iterator[socket.socket]:
    port = 0
    for address in addresses:
        listener = socket.create_server((address, port), backlog=512)
        port = listener.getsockname()[1]
        yield listener


def _request_heads(connection: socket.socket) -> Iterator[bytes]:
    waiting = b""
    while True:
        while b"\r\n\r\n" not in waiting:
            data = connection.recv(65_536)
            if not data:
                return
            waiting += data
        head, _, waiting = waiting.partition(b"\r\n\r\n")
        yield head + b"\r\n\r\n"
