"""What the helper beside a Squid sends (squid_helper.py), and the socket where it is heard.

A datagram is bounded by the kernel, and how many wait by the socket's own queue; whoever sends more is told so and
counts it. Whatever else arrives is counted as malformed: every user who may write to the socket may send. So only the
counts that a helper has are taken, and so many URLs before others have their turn.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from teia.errors import ConfigError

MAX_DATAGRAM_BYTES = 65_536
MAX_PATH_BYTES = 107
"""What Linux has room for."""

DATAGRAMS_AT_ONCE = 64
"""Read before others have their turn."""

URLS_AT_ONCE = 2_048
"""The same in URLs: after so many nothing more is read; what one datagram has beyond is dropped and counted."""

COUNTS = frozenset({"seen", "malformed", "skipped", "private", "dropped"})
"""What a helper counts; it may not say what became of announcements here."""

_HEADER = re.compile(rb"teia-announce 1((?: [a-z]{1,16}=[0-9]{1,9}){0,16})")


@dataclass(frozen=True, slots=True)
class Heard:
    """What one datagram says: counts of the helper's since its last one, and URLs as users asked for them."""

    counts: dict[str, int]
    urls: tuple[str, ...]


MALFORMED = Heard({"malformed": 1}, ())


def decode(datagram: bytes) -> Heard:
    """Read a datagram; one that is not ours counts as malformed, and so does each line that is no text."""
    header, *lines = datagram.split(b"\n")
    match = _HEADER.fullmatch(header)
    if match is None:
        return MALFORMED
    pairs = (pair.split(b"=") for pair in match[1].split())
    counts = {name.decode(): int(number) for name, number in pairs if name.decode() in COUNTS}
    if len(lines) > URLS_AT_ONCE:
        counts["dropped"] = counts.get("dropped", 0) + len(lines) - URLS_AT_ONCE
        del lines[URLS_AT_ONCE:]
    urls = [line.decode() for line in lines if line and line.isascii() and line.decode().isprintable()]
    if len(urls) < len(lines):
        counts["malformed"] = counts.get("malformed", 0) + len(lines) - len(urls)
    return Heard(counts, tuple(urls))


class PathTaken(ConfigError):
    """Another crawler listens there."""


class Ear:
    """A socket that hears announcements; whoever may reach its folder may announce."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _make_way(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.bind(str(path))
            path.chmod(0o622)
            self._file = _file_at(path)
        except OSError as error:
            self._socket.close()
            if error.errno == errno.EADDRINUSE:  # it came there since we looked
                raise _taken(path) from error
            raise ConfigError(f"signals.socket: {path} cannot be made: {error.strerror}") from error

    def fileno(self) -> int:
        return self._socket.fileno()

    def hear(self) -> Iterable[Heard]:
        """Read what has arrived, some of it at a time."""
        urls = 0
        for _ in range(DATAGRAMS_AT_ONCE):
            try:
                heard = decode(self._socket.recv(MAX_DATAGRAM_BYTES))
            except BlockingIOError:
                return
            yield heard
            urls += len(heard.urls)
            if urls >= URLS_AT_ONCE:
                return

    def close(self) -> None:
        """Stop hearing. The file goes first: where nobody listens, another crawler may put its own at once."""
        with suppress(OSError):
            if _file_at(self.path) == self._file:
                self.path.unlink()
        self._socket.close()


def _file_at(path: Path) -> tuple[int, int]:
    """Which file is at a path, whatever its name."""
    found = path.lstat()
    return found.st_dev, found.st_ino


def _make_way(path: Path) -> None:
    """Remove a socket that a crawler left when it died; anything else at that place is not ours to remove."""
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise ConfigError(f"signals.socket: {path} is too long for a socket; {MAX_PATH_BYTES} bytes are the most")
    try:
        is_socket, left = stat.S_ISSOCK(path.stat().st_mode), _file_at(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"signals.socket: {path} cannot be looked at: {error.strerror}") from error
    if not is_socket:
        raise ConfigError(f"signals.socket: {path} is something else than a socket; choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as knock:
        try:
            knock.connect(str(path))
        except OSError as error:
            if error.errno == errno.ENOENT:  # its crawler has just ended
                return
            if error.errno != errno.ECONNREFUSED:
                raise ConfigError(f"signals.socket: {path} cannot be used: {error.strerror}") from error
        else:
            raise _taken(path)
    with suppress(FileNotFoundError):
        if _file_at(path) == left:  # and not that of who was quicker
            path.unlink()


def _taken(path: Path) -> PathTaken:
    return PathTaken(f"signals.socket: another crawler listens at {path}; choose another path")
