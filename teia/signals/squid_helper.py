#!/usr/bin/python3 -IS
"""What Squid runs beside itself so that the pages its users ask for are announced to teia (C7).

    teia-announce [--queries] SOCKET        as Squid's url_rewrite_program, or store_id_program: they ask alike

Squid writes a line for each request, `[channel] URL client/name user method …`, and waits for one line back. The answer
is always "leave it as it is" and goes out before anything else is done. Then the URL is put with others into a
datagram for teia's socket. That never waits: while nobody listens, or teia is slow, the oldest announcements are
dropped and counted. So neither a user's request nor its answer depends on teia in any way.

What leaves this process is the URL and some counts: no client, no user, no time. A URL with a query or with credentials
is not announced, because it may tell more of a person than of a page; `--queries` lets those with a query through.

One file of the standard library alone, because Squid runs it as its own user, who need not be able to read teia.
A datagram is a line `teia-announce 1` with counts since the last one, then a URL a line.
"""

from __future__ import annotations

import errno
import os
import re
import select
import socket
import sys
import time
from collections import Counter, deque
from contextlib import suppress
from math import inf

VERSION_LINE = b"teia-announce 1"
LEFT_ALONE = b"ERR\n"
"""The answer of a rewriter that does not rewrite, and of a store-ID program that has no other ID."""

READ_BYTES = 65_536
MAX_LINE_BYTES = 65_536
MAX_URL_BYTES = 8_192
MAX_WAITING = 4_096
DATAGRAM_BYTES = 32_768
SEND_EVERY_S = 0.1
"""Announcements are gathered for so long: a datagram for each would wake teia a thousand times a second."""

UNHEARD_S = 1.0
"""After so long it is tried again where nobody listened."""

_PAGE = re.compile(
    rb"https?://([^/?#\s\x00-\x1f\x7f]+)([^?#\s\x00-\x1f\x7f]*)(\?[^#\s\x00-\x1f\x7f]*)?(#.*)?", re.IGNORECASE
)


class Lines:
    """Whole lines out of what is read. Of one that is too long the beginning is kept: it has to be answered too."""

    def __init__(self) -> None:
        self._begun = b""

    def take(self, data: bytes) -> list[bytes]:
        *whole, rest = (self._begun + data).split(b"\n")
        self._begun = rest[: MAX_LINE_BYTES + 1]
        return whole


def answer(line: bytes) -> bytes:
    """Squid's own answer: with the channel's number where the line has one (`concurrency=` above 0)."""
    first = line[:32].split(b" ", 1)[0]
    return first + b" " + LEFT_ALONE if first.isdigit() else LEFT_ALONE


class Announcer:
    """Announcements on their way to a socket: bounded, never waiting, counted."""

    def __init__(self, path: str, *, queries: bool) -> None:
        self._path, self._queries = path, queries
        self._waiting: deque[bytes] = deque()
        self._counts: Counter[str] = Counter()
        self._told: set[int] = set()
        self._send_at = 0.0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def close(self) -> None:
        self._socket.close()

    def wait_s(self, now: float) -> float | None:
        """How long there is nothing to do unless Squid says something; None: until then."""
        return max(0.0, self._send_at - now) if self._waiting else None

    def note(self, line: bytes, now: float) -> None:
        """Take up the URL of a line, if it is one to be announced."""
        self._counts["seen"] += 1
        words = line.rstrip(b"\r").split(b" ")
        if words[0].isdigit():
            del words[0]
        if not words or not words[0] or len(words[0]) > MAX_URL_BYTES:
            self._counts["malformed"] += 1
            return
        found = _PAGE.fullmatch(words[0])
        if found is None:
            # A tunnel (CONNECT) names a host and a port and no page; other schemes are not ours.
            is_other = b":" in words[0] and words[0].isascii()
            self._counts["skipped" if is_other else "malformed"] += 1
        elif len(words) > 3 and words[3] != b"GET":
            self._counts["skipped"] += 1
        elif b"@" in found[1] or (found[3] and not self._queries):
            self._counts["private"] += 1
        else:
            self._keep(words[0].partition(b"#")[0], now)

    def _keep(self, url: bytes, now: float) -> None:
        if not self._waiting:
            self._send_at = max(self._send_at, now + SEND_EVERY_S)
        elif len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self._counts["dropped"] += 1
        self._waiting.append(url)

    def send(self, now: float) -> None:
        """Send what waits, if it is time; what does not go now stays."""
        while self._waiting and now >= self._send_at:
            taken, datagram = self._datagram()
            try:
                self._socket.sendto(datagram, self._path)
            except OSError as error:
                self._unheard(error, now)
                return
            for _ in range(taken):
                self._waiting.popleft()
            self._counts.clear()

    def _datagram(self) -> tuple[int, bytes]:
        counts = "".join(f" {name}={number}" for name, number in sorted(self._counts.items()))
        lines, size = [VERSION_LINE + counts.encode()], 0
        for url in self._waiting:
            size += len(url) + 1
            if size > DATAGRAM_BYTES and len(lines) > 1:
                break
            lines.append(url)
        return len(lines) - 1, b"\n".join(lines)

    def _unheard(self, error: OSError, now: float) -> None:
        is_full = error.errno in {errno.EAGAIN, errno.ENOBUFS}
        self._send_at = now + (SEND_EVERY_S if is_full else UNHEARD_S)
        if not is_full and error.errno is not None and error.errno not in self._told:
            self._told.add(error.errno)
            sys.stderr.write(f"teia-announce: {self._path}: {error.strerror}; no page is announced meanwhile\n")
            sys.stderr.flush()


def serve(announcer: Announcer, into: int = 0, out: int = 1) -> None:
    """Answer Squid until it closes the pipe."""
    lines = Lines()
    while True:
        ready, _, _ = select.select([into], [], [], announcer.wait_s(time.monotonic()))
        if ready:
            data = os.read(into, READ_BYTES)
            if not data:
                announcer.send(inf)
                return
            whole = lines.take(data)
            _write(out, b"".join(map(answer, whole)))
            now = time.monotonic()
            for line in whole:
                announcer.note(line, now)
        announcer.send(time.monotonic())


def _write(out: int, data: bytes) -> None:
    while data:
        data = data[os.write(out, data) :]


def main(words: list[str]) -> int:
    """Run as Squid's program; returns the exit status."""
    paths = [word for word in words if word != "--queries"]
    if len(paths) != 1 or paths[0].startswith("-"):
        sys.stderr.write("usage: teia-announce [--queries] SOCKET\n")
        return 2
    with suppress(BrokenPipeError, KeyboardInterrupt):
        announcer = Announcer(paths[0], queries="--queries" in words)
        serve(announcer)
        announcer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
