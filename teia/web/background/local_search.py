"""Searches for commands of this machine: the server's side of the socket in the data folder (local_socket.py).

Only the user of the server and root are answered, whatever the permissions of the folder: they can read the index
themselves. Every limit of a search of the command holds here, too.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import BoundedSemaphore, Event, Thread
from typing import Any

from teia.collections.stored_settings import choose
from teia.errors import TeiaError
from teia.indexer.answer_request import answer_request
from teia.web.local_socket import MAX_REQUEST_BYTES, NAME, PATIENCE_S, VERSION, socket_path
from teia.web.server.installation import Installation

logger = logging.getLogger(__name__)

THREADS = 4
MAX_WAITING = 16
"""Requests at once, waiting ones included; more are refused, and their commands search by themselves."""

AGAIN_S = 0.1
"""Wait before connections are accepted again after one could not be."""

_CREDENTIALS = struct.Struct("3i")


class LocalSearch:
    """The socket, and threads that answer; `start` does nothing where there can be no socket."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._listener: socket.socket | None = None
        self._inode = 0
        self._threads = ThreadPoolExecutor(THREADS, "local-search")
        self._slots = BoundedSemaphore(MAX_WAITING)
        self._stopped = Event()

    def start(self) -> None:
        """Listen, unless another server of the folder does, or the folder cannot have a socket."""
        try:
            self._listener = self._bind()
        except OSError as error:
            logger.info("no socket for commands: %s", error)
            return
        Thread(target=self._accept, args=(self._listener,), name="local-search", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        if self._listener is not None:
            with suppress(OSError):
                # A thread that waits in accept() is not woken by close() alone.
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            path = self._installation.root.path / NAME
            with suppress(OSError):
                if path.stat().st_ino == self._inode:  # not that of a server that came later
                    path.unlink()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _bind(self) -> socket.socket:
        folder = self._installation.root.path
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with socket_path(folder) as path:
                if _is_abandoned(path):
                    os.unlink(path)  # noqa: PTH108  # a path by descriptor
                listener.bind(path)
                os.chmod(path, 0o600)  # noqa: PTH101
                self._inode = os.stat(path).st_ino  # noqa: PTH116
            listener.listen(MAX_WAITING)
        except OSError:
            listener.close()
            raise
        return listener

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                if self._stopped.wait(AGAIN_S):
                    return
                continue  # no descriptors or no memory for the moment
            if not self._slots.acquire(blocking=False):
                connection.close()
                continue
            try:
                self._threads.submit(self._handle, connection)
            except RuntimeError:  # ended meanwhile, or no thread for it
                self._slots.release()
                connection.close()

    def _handle(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError):
                connection.settimeout(PATIENCE_S)
                if _user_of(connection) not in {os.getuid(), 0}:
                    return
                answer = self._answer(_receive(connection))
                connection.sendall(json.dumps(answer).encode())
        finally:
            self._slots.release()

    def _answer(self, octets: bytes) -> dict[str, Any]:
        """Return the answer to a request; an empty object, with which the command searches itself, to any other."""
        try:
            message = json.loads(octets)
            if message["version"] != VERSION:
                return {}
            request = message["request"]
            name = choose(self._installation.root, request["collection"])
            answer = answer_request(self._installation.search(name), request, self._installation.clock)
        except (ValueError, KeyError, TypeError, AttributeError, TeiaError):
            return {}
        return {"version": VERSION, "answer": answer}


def _is_abandoned(path: str) -> bool:
    """Tell whether the socket is one that a killed server left; OSError if a server listens there."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise OSError(f"{NAME} in the data folder is no socket")
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.settimeout(PATIENCE_S)  # a server that hangs has no room for more connections
        try:
            other.connect(path)
        except ConnectionRefusedError:
            return True
    raise OSError("another server of the folder answers commands")


def _user_of(connection: socket.socket) -> int:
    """Return the user id of the process at the other end, by the kernel's word."""
    octets = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(octets)[1])


def _receive(connection: socket.socket) -> bytes:
    received = bytearray()
    while len(received) <= MAX_REQUEST_BYTES:
        piece = connection.recv(1 << 16)
        if not piece:
            return bytes(received)
        received += piece
    raise OSError("the request is too long")
