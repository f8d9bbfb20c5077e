"""Connections that do not send their request or do not read their answer keep nobody else out, and are closed."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
import uvicorn
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from teia.clock import WallClock
from teia.web import limits
from teia.web.serve import HTTP_OPTIONS
from teia.web.server.headers import SecurityMiddleware
from tests.waiting import until

HALF = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "


LONG = b"x" * 1_000_000


@pytest.fixture(params=["auto"])
def served(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[uvicorn.Server, int]]:
    """The real server and its shield before an application of one line, with small limits."""
    for name, value in {"CONNECTIONS": 40, "WAITING": 20, "WAITING_PER_ADDRESS": 10, "HEADER_S": 60.0}.items():
        monkeypatch.setattr(limits, name, value)
    monkeypatch.setattr(limits, "IN_FLIGHT_PER_ADDRESS", 3)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        if scope["path"] == "/held":
            await receive()
            await receive()  # until its asker goes
            return
        if scope["path"] == "/pieces":
            await StreamingResponse(pieces())(scope, receive, send)
            return
        await PlainTextResponse(LONG if scope["path"] == "/long" else "ok")(scope, receive, send)

    how = {
        "log_level": "error",
        "lifespan": "off",
        "loop": request.param,
        "limit_concurrency": limits.CONNECTIONS,
        **HTTP_OPTIONS,
    }
    server = uvicorn.Server(uvicorn.Config(SecurityMiddleware(app, WallClock(), ["127.0.0.1"]), **how))
    bound = socket.create_server(("127.0.0.1", 0), backlog=256)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 << 10)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    yield server, bound.getsockname()[1]
    server.should_exit = server.force_exit = True
    thread.join(30)
    bound.close()


@pytest.fixture
def port(served: tuple[uvicorn.Server, int]) -> int:
    return served[1]


async def pieces() -> AsyncIterator[bytes]:
    for start in range(0, len(LONG), 50_000):
        yield LONG[start : start + 50_000]


def health(port: int) -> int:
    asking = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        asking.request("GET", "/health")
        return asking.getresponse().status
    finally:
        asking.close()


def opened(stack: ExitStack, port: int, sent: bytes, own: str = "127.0.0.1") -> socket.socket:
    made = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(own, 0)))
    made.sendall(sent)
    return made


@pytest.mark.parametrize("sent", [HALF, b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"])
def test_many_connections_without_a_request_keep_nobody_out(port: int, sent: bytes) -> None:
    with ExitStack() as stack:
        for number in range(120):
            opened(stack, port, sent, f"127.0.{number % 4}.1")
            if number % 20 == 0:
                assert health(port) == 200
        assert health(port) == 200


def test_the_one_of_an_address_that_waited_longest_is_closed(port: int) -> None:
    with ExitStack() as stack:
        stranger = opened(stack, port, HALF, "127.0.0.9")
        waiting = []
        for _ in range(limits.WAITING_PER_ADDRESS + 1):
            waiting.append(opened(stack, port, HALF))
            assert health(port) == 200  # so that all were taken in their order
        assert waiting[0].recv(100).startswith(b"HTTP/1.1 408 ")
        waiting[-1].sendall(b"x\r\n\r\n")
        assert waiting[-1].recv(100).startswith(b"HTTP/1.1 200 ")
        stranger.sendall(b"x\r\n\r\n")
        assert stranger.recv(100).startswith(b"HTTP/1.1 200 "), "another address has its own"


def test_a_request_that_does_not_arrive_in_time_is_given_up(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEADER_S", 0.3)
    with ExitStack() as stack:
        silent, slow = opened(stack, port, b""), opened(stack, port, HALF)
        until = time.monotonic() + 30
        slow.settimeout(0.02)
        got = b""
        while not got and time.monotonic() < until:
            try:
                slow.sendall(b"x")  # a byte now and then does not keep it open
                got = slow.recv(100)
            except TimeoutError:
                continue
        assert got.startswith(b"HTTP/1.1 408 ")
        assert silent.recv(100) == b""
        kept = opened(stack, port, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert kept.recv(1000).startswith(b"HTTP/1.1 200 ")
        kept.sendall(HALF)
        assert kept.recv(1000).startswith(b"HTTP/1.1 408 "), "the second request of a connection, too"


def test_one_address_has_so_many_requests_under_way_and_health_beside_them(port: int) -> None:
    held = b"GET /held HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(limits.IN_FLIGHT_PER_ADDRESS):
            opened(stack, port, held)
        refused = opened(stack, port, held)
        said = refused.recv(1000).lower()
        assert said.startswith(b"http/1.1 503 ")
        assert b"retry-after: 1" in said
        assert health(port) == 200
        other = opened(stack, port, held.replace(b"/held", b"/"), "127.0.0.9")
        assert other.recv(100).startswith(b"HTTP/1.1 200 ")


# ---- answers that are not read --------------------------------------------------------------------------------------


def unread(stack: ExitStack, port: int, path: str, how: str, own: str = "127.0.0.1") -> socket.socket:
    """Ask for something, and take as little of it as the system lets one."""
    made = stack.enter_context(socket.socket())
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 10)
    made.settimeout(30)
    made.bind((own, 0))
    made.connect(("127.0.0.1", port))
    made.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: {how}\r\n\r\n".encode())
    return made


def length_of(connection: socket.socket) -> int:
    """Read an answer to its end; return how long it is."""
    length = 0
    with suppress(ConnectionError):
        while piece := connection.recv(1 << 20):
            length += len(piece)
    return length


@pytest.mark.parametrize("served", ["asyncio", "auto"], indirect=True)
@pytest.mark.parametrize("how", ["keep-alive", "close"])
def test_answers_that_nobody_reads_keep_nobody_out(port: int, how: str) -> None:
    with ExitStack() as stack:
        for number in range(120):
            unread(stack, port, "/long", how, f"127.0.{number % 4}.1")
            if number % 10 == 0:
                assert health(port) == 200
        assert health(port) == 200


@pytest.mark.heavy
@pytest.mark.parametrize("served", ["asyncio", "auto"], indirect=True)
@pytest.mark.parametrize("how", ["keep-alive", "close"])
def test_a_whole_answer_of_which_nothing_is_read_is_cut_off(
    served: tuple[uvicorn.Server, int], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HEADER_S", 0.5)
    server, port = served
    with ExitStack() as stack:
        asked = unread(stack, port, "/long", how)
        until(lambda: server.server_state.total_requests == 1)
        until(lambda: not server.server_state.connections)
        assert length_of(asked) < len(LONG)


@pytest.mark.heavy
def test_an_answer_that_is_being_made_may_wait_for_its_reader_a_while(
    served: tuple[uvicorn.Server, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HEADER_S", 0.5)
    server, port = served
    looked: set[Any] = {None}

    def is_looked_at(often: int) -> bool:
        looked.update(each._reader_timer for each in list(server.server_state.connections))  # type: ignore[union-attr]
        return len(looked) > often

    with ExitStack() as stack:
        asked = unread(stack, port, "/pieces", "close")
        until(lambda: is_looked_at(3))
        assert length_of(asked) > len(LONG)
        until(lambda: not server.server_state.connections)
        monkeypatch.setattr(limits, "STALLED_S", 0.5)
        asked = unread(stack, port, "/pieces", "close")
        until(lambda: is_looked_at(4))
        until(lambda: not server.server_state.connections)
        assert length_of(asked) < len(LONG)


def test_who_reads_slowly_is_not_cut_off(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEADER_S", 1.5)
    with ExitStack() as stack:
        asked = unread(stack, port, "/long", "close")
        length, began_s = 0, time.monotonic()
        while time.monotonic() - began_s < 2.5 * limits.HEADER_S:
            length += len(asked.recv(4 << 10))
            time.sleep(0.05)  # reads slowly: the subject of this test
        assert length < len(LONG)
        assert length + length_of(asked) > len(LONG)
