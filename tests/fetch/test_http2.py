"""Servers that speak HTTP/2: over TLS, where they offer it, and where they speak nothing else."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvloop

from teia.lab.hostile.server import WEB
from teia.parse.headers import parse_head
from tests.fetch.conftest import Fetching, get

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS = 0, 1, 4
END_STREAM, END_HEADERS, ACK = 1, 4, 1
STATUS_200 = b"\x88"
CONTENT_TYPE = b"\x0f\x10" + bytes([len(b"text/html")]) + b"text/html"
"""A literal with the name of entry 31 of HPACK's static table (RFC 7541)."""

BODY = b"<p>spoken in frames</p>"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


class Http2Server:
    """A TLS server that answers every request with one page, and closes connections that did not choose HTTP/2."""

    def __init__(self, certificate: Path) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
        self._context.set_alpn_protocols(["h2"])
        self._listener = socket.create_server((WEB[0], 0))
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        self.url = f"https://a.test:{self._listener.getsockname()[1]}/"
        self.protocols: list[str | None] = []
        self.is_broken = False

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with contextlib.suppress(OSError), self._context.wrap_socket(connection, server_side=True) as secure:
                    self.protocols.append(secure.selected_alpn_protocol())
                    if self.protocols[-1] == "h2" and not self.is_broken:
                        self._speak(secure)

    def _speak(self, connection: ssl.SSLSocket) -> None:
        received = connection.makefile("rb")
        connection.sendall(frame(SETTINGS, 0, 0))
        assert received.read(len(PREFACE)) == PREFACE
        while len(head := received.read(9)) == 9:
            received.read(int.from_bytes(head[:3]))
            kind, stream = head[3], int.from_bytes(head[5:9])
            if kind == SETTINGS and not head[4] & ACK:
                connection.sendall(frame(SETTINGS, ACK, 0))
            elif kind == HEADERS:
                answer = frame(HEADERS, END_HEADERS, stream, STATUS_200 + CONTENT_TYPE)
                connection.sendall(answer + frame(DATA, END_STREAM, stream, BODY))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)


@contextmanager
def serving(certificate: Path) -> Iterator[Http2Server]:
    server = Http2Server(certificate)
    try:
        yield server
    finally:
        server.close()


@pytest.mark.parametrize(
    ("http2", "answered", "protocols"),
    [
        # The second request is the crawler's retry; the third uses the same connection.
        ("needed", [False, True, True], [None, "h2"]),
        ("offered", [True, True, True], ["h2"]),
        ("never", [False, False, False], [None, None, None]),
    ],
)
def test_a_server_that_speaks_http2_alone_is_fetched(
    certificate: Path, http2: str, answered: list[bool], protocols: list[str | None]
) -> None:
    """HTTP/1.1 was the only version, so that no page of such a server could be fetched."""
    options = {"ca_file": str(certificate / "cert.pem"), "http2": http2}
    with serving(certificate) as server:
        answers = get(*[server.url] * 3, options=options)
        assert [each.outcome == "200" for each in answers] == answered
        assert server.protocols == protocols
    for each in answers:
        if each.outcome == "200":
            assert each.body == BODY
            assert each.head.startswith(b"HTTP/2 200")
            assert parse_head(each.head).headers.first("content-type") == "text/html"


def test_a_server_that_is_silent_with_http2_too_gets_http1_again(certificate: Path) -> None:
    """One connection that was cut made a TLS server get HTTP/2 for ever, also if its HTTP/2 was broken."""

    async def run(server: Http2Server) -> None:
        async with Fetching(ca_file=str(certificate / "cert.pem")) as fetching:
            await fetching.get(server.url)
            server.is_broken = True
            await fetching.get(server.url)
            await fetching.get(server.url)

    with serving(certificate) as server:
        uvloop.run(run(server))
        assert server.protocols == [None, "h2", None]
