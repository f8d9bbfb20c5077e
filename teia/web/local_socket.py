"""The socket of `teia serve` in its data folder: `teia search` has its request answered there, where the index is open.

    DIR/serve.sock     a Unix socket for processes of the same user and of root, who can read the folder anyway

A request is one JSON object, and so is the answer; then both sides close. This is the side of the command, which
imports next to nothing; background/local_search.py is that of the server. Any failure is the same as no server: the
command searches by itself.
"""

from __future__ import annotations

import os

from teia.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

NAME = "serve.sock"
VERSION = f"1 {__version__}"
"""Version of requests and answers, and of teia; a server of another version does not answer."""

PATIENCE_S = 1.0
"""Longest wait for the whole answer."""

MAX_REQUEST_BYTES = 64 << 10
MAX_ANSWER_BYTES = 16 << 20


def ask_server(folder: str | Path, request: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the answer of the server of a data folder; None if there is none, or none in time."""
    if not os.path.exists(os.path.join(folder, NAME)):  # noqa: PTH110, PTH118  # pathlib takes longer to import
        return None
    # Imported here: most folders have no server.
    import json

    try:
        received = _exchange(os.fspath(folder), json.dumps({"version": VERSION, "request": request}).encode())
        answer = json.loads(received)
        if isinstance(answer, dict) and answer.get("version") == VERSION and isinstance(answer.get("answer"), dict):
            found: dict[str, Any] = answer["answer"]
            return found
    except (OSError, ValueError):
        pass
    return None


def _exchange(folder: str, octets: bytes) -> bytes:
    import socket
    import time

    until = time.monotonic() + PATIENCE_S
    received = bytearray()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PATIENCE_S)
        with socket_path(folder) as path:
            connection.connect(path)
        connection.sendall(octets)
        connection.shutdown(socket.SHUT_WR)
        while len(received) <= MAX_ANSWER_BYTES:
            connection.settimeout(max(0.001, until - time.monotonic()))
            piece = connection.recv(1 << 16)
            if not piece:
                return bytes(received)
            received += piece
    raise OSError("the answer is too long")


class socket_path:  # noqa: N801  # used like a function
    """Path of the socket in a folder, for as long as the block lasts; short, because Unix allows 107 octets."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> str:
        return f"/proc/self/fd/{self._folder}/{NAME}"

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)
