"""A server that takes what is posted to it, on loopback, and remembers it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

ADDRESS = "127.77.0.8"


@dataclass(frozen=True)
class Received:
    """One request."""

    method: str
    path: str
    headers: Message
    body: bytes
    head: bytes


@dataclass(frozen=True)
class Reply:
    """One answer."""

    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


Behave = Callable[[Received], Reply]


class Receiver:
    """Listens at `url`; what arrived is in `received`, in order."""

    def __init__(self, behave: Behave | None = None, address: str = ADDRESS) -> None:
        self.received: list[Received] = []
        self.behave: Behave = behave or (lambda _: Reply())
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", 0))
                head = f"{self.raw_requestline.decode()}{self.headers}".replace("\r\n", "\n").replace("\n", "\r\n")
                body = self.rfile.read(length)
                got = Received(self.command, self.path, self.headers, body, head.encode())
                outer.received.append(got)
                said = outer.behave(got)
                with contextlib.suppress(OSError):
                    self.send_response(said.status)
                    for name, value in {"content-length": str(len(said.body)), **said.headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(said.body)

            do_GET = do_POST  # noqa: N815  # as the library calls it

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer((address, 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{address}:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
