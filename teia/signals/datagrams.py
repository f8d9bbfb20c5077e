"""Datagrams of the helper beside a Squid (squid_helper.py), and the socket that receives them.

The kernel bounds the size of a datagram, and the socket's queue their number; a sender beyond that gets an error and
counts it. Every user who may write to the socket may send, so anything unexpected is counted as malformed. Only the
counts that a helper has are accepted, and a limited number of URLs before other work has its turn.
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
"""Longest path of a Unix socket on Linux."""

DATAGRAMS_AT_ONCE = 64
"""Number of datagrams read before other work has its turn."""

URLS_AT_ONCE = 2_048
"""Number of URLs after which nothing more is read; further ones in the same datagram are dropped and counted."""

COUNTS = frozenset({"seen", "malformed", "skipped", "private", "dropped"})
"""Counts that a helper reports; the fate of announcements in this process is not among them."""

_HEADER = re.compile(rb"teia-announce 1(?: cache=([a-z0-9][a-z0-9-]{0,30}))?((?: [a-z]{1,16}=[0-9]{1,9}){0,16})")


@dataclass(frozen=True, slots=True)
class Datagram:
    """Contents of one datagram: the helper's counts since its last one, and URLs as users requested them.

    `cache` is the name of the cache where they did (`signals.caches`); empty: that of `signals.proxy`.
    """

    counts: dict[str, int]
    urls: tuple[str, ...]
    cache: str = ""


MALFORMED = Datagram({"malformed": 1}, ())


def decode(datagram: bytes) -> Datagram:
    """Parse a datagram; a foreign one counts as malformed, and so does each line that is no text."""
    header, *lines = datagram.split(b"\n")
    match = _HEADER.fullmatch(header)
    if match is None:
        return MALFORMED
    pairs = (pair.split(b"=") for pair in match[2].split())
    counts = {name.decode(): int(number) for name, number in pairs if name.decode() in COUNTS}
    # Before any decoding: a datagram of 65,536 bytes can hold tens of thousands of lines.
    if len(lines) > URLS_AT_ONCE:
        counts["dropped"] = counts.get("dropped", 0) + len(lines) - URLS_AT_ONCE
        del lines[URLS_AT_ONCE:]
    urls = [line.decode() for line in lines if line and line.isascii() and line.decode().isprintable()]
    if len(urls) < len(lines):
        counts["malformed"] = counts.get("malformed", 0) + len(lines) - len(urls)
    return Datagram(counts, tuple(urls), (match[1] or b"").decode())


class PathTaken(ConfigError):
    """Error: another crawler listens there."""


class AnnouncementSocket:
    """A socket that receives announcements; the crawl's own user may send, and the group of its folder.

    Its folder must be the crawl's own, so that a setting cannot put a socket in an arbitrary place.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        _check_folder(path)
        _remove_stale_socket(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.bind(str(path))
            # Squid's helper runs as another user; the folder's group is how the operator lets it write.
            os.chown(path, -1, path.parent.stat().st_gid)
            path.chmod(0o660)
            self._file = _file_at(path)
        except OSError as error:
            self._socket.close()
            if error.errno == errno.EADDRINUSE:  # it came there since we looked
                raise _path_taken(path) from error
            raise ConfigError(f"signals.socket: {path} cannot be created: {error.strerror}") from error

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> Iterable[Datagram]:
        """Read received datagrams, a bounded number at a time."""
        urls = 0
        for _ in range(DATAGRAMS_AT_ONCE):
            try:
                datagram = decode(self._socket.recv(MAX_DATAGRAM_BYTES))
            except BlockingIOError:
                return
            yield datagram
            urls += len(datagram.urls)
            if urls >= URLS_AT_ONCE:
                return

    def close(self) -> None:
        """Stop receiving. The file is removed first, so that another crawler can create its own at once."""
        with suppress(OSError):
            if _file_at(self.path) == self._file:
                self.path.unlink()
        self._socket.close()


def _check_folder(path: Path) -> None:
    """Refuse a folder that another user owns, or that every user may write to."""
    folder = path.parent
    try:
        found = folder.stat()
    except OSError as error:
        raise ConfigError(f"signals.socket: {path} cannot be created in that folder: {error.strerror}") from error
    if not path.is_absolute() or not stat.S_ISDIR(found.st_mode):
        raise ConfigError(f"signals.socket: {path} must be an absolute path")
    if found.st_uid != os.geteuid() or found.st_mode & stat.S_IWOTH:
        raise ConfigError(
            f"signals.socket: {folder} must belong to the user of the crawler and must not be writable by"
            " everybody; create a folder for it"
        )


def _file_at(path: Path) -> tuple[int, int]:
    """Return device and inode of the file at a path, to compare files independently of names."""
    found = path.lstat()
    return found.st_dev, found.st_ino


def _remove_stale_socket(path: Path) -> None:
    """Remove the socket of a dead crawler; any other file at that place is not ours to remove."""
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise ConfigError(f"signals.socket: {path} is too long for a socket; the maximum is {MAX_PATH_BYTES} bytes")
    try:
        is_socket, stale = stat.S_ISSOCK(path.lstat().st_mode), _file_at(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"signals.socket: {path} cannot be checked: {error.strerror}") from error
    if not is_socket:
        raise ConfigError(f"signals.socket: {path} is not a socket; choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as probe:
        try:
            # Connecting sends nothing, and succeeds only while a process has the socket open.
            probe.connect(str(path))
        except OSError as error:
            if error.errno == errno.ENOENT:  # its crawler has just ended
                return
            if error.errno != errno.ECONNREFUSED:
                raise ConfigError(f"signals.socket: {path} cannot be used: {error.strerror}") from error
        else:
            raise _path_taken(path)
    with suppress(FileNotFoundError):
        if _file_at(path) == stale:  # and not the socket of a crawler that was quicker
            path.unlink()


def _path_taken(path: Path) -> PathTaken:
    return PathTaken(f"signals.socket: another crawler is listening at {path}; choose another path")
