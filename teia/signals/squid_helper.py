#!/usr/bin/python3 -IS
"""Helper program that Squid runs, to announce the pages that its users request to teia (C7).

    teia-announce-log unix:SOCKET           as its logfile_daemon; or with --log: requests, after their answers
    teia-announce-log FILE                  the same, for another log: becomes Squid's own log daemon
    teia-announce [--queries] SOCKET        as Squid's external_acl_type, url_rewrite_program or store_id_program

SOCKET@NAME announces with the name of this cache (`signals.caches` of the crawler), where there are several.
A rewriter gets a line for each request, `[channel] URL client/name user method …`, and Squid waits for one line back;
an ACL gets `[channel] URL -`, once for each page in the time that Squid caches its answers. squid_conf.py attaches
these. The answer is always "leave it as it is", or "no match", and is sent before anything else is done. The first
process only passes the line on to a second process, by a pipe that never blocks. The second process collects URLs into
datagrams for teia's socket. While teia does not listen, or is slow, the oldest announcements are dropped and counted.
So neither a user's request nor its answer depends on teia in any way. A log daemon answers nothing, so Squid never
waits for it. It passes lines on in the same way, because Squid exits when its log daemon does: everything that could
fail is in the second process. Squid has one program for all its `daemon:` logs, and runs it for each.

Only the URL and some counts leave the second process: no client, no user, no time. A URL with a query or with
credentials is not announced, because it may reveal more about a person than about a page; `--queries` lets those with a
query through.

This is one file that needs the standard library alone, because Squid runs it as its own user, who may be unable to read
teia. A datagram is a line `teia-announce 1` with the cache's name and counts since the last one, then a URL a line.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import re
import selectors
import signal
import socket
import stat
import sys
import time
from collections import Counter, deque
from contextlib import suppress
from math import inf
from typing import NoReturn

VERSION_LINE = b"teia-announce 1"
UNCHANGED = b"ERR\n"
"""The answer of a rewriter that does not rewrite, of a store-ID program with no other ID, of an ACL without a match."""

READ_BYTES = 65_536
MAX_LINE_BYTES = 65_536
MAX_URL_BYTES = 8_192
MAX_WAITING = 4_096
DATAGRAM_BYTES = 32_768
SEND_EVERY_S = 0.1
"""Announcements are gathered for so long: a datagram for each would wake teia a thousand times a second."""

RETRY_S = 1.0
"""Time in seconds until the next try where no process was listening."""

PIPE_BYTES = 1 << 20
GATHER_S = 0.05
"""Between the two processes: how much may wait, and for how long the second lets it gather before it reads."""

ATOMIC_BYTES = 4_096
"""A pipe takes so much as a whole or not at all."""

DROPPED = b"\0"
"""First byte of a line in which the first process reports how many lines it dropped."""

_DROPPED = re.compile(rb"\0[0-9]{1,18}")

NICENESS = 10

SOCKET_PREFIX = "unix:"
"""Before a log daemon's path: it is a socket's, whether or not there is one yet."""

_NAMED = re.compile(r"(.+)@([a-z0-9][a-z0-9-]{0,30})")

LOG_DAEMONS = (
    "/usr/lib/squid/log_file_daemon",
    "/usr/lib64/squid/log_file_daemon",
    "/usr/libexec/squid/log_file_daemon",
    "/usr/local/libexec/squid/log_file_daemon",
    "/usr/local/squid/libexec/log_file_daemon",
)
"""Paths of Squid's own log daemon in several distributions."""

_PAGE = re.compile(
    rb"https?://([^/?#\s\x00-\x1f\x7f]+)([^?#\s\x00-\x1f\x7f]*)(\?[^#\s\x00-\x1f\x7f]*)?(#.*)?", re.IGNORECASE
)


def split_cache(path: str) -> tuple[str, str]:
    """Return the path of a socket, and the name of the cache behind it; empty if there is none."""
    found = _NAMED.fullmatch(path)
    return (path, "") if found is None else (found[1], found[2])


class Lines:
    """Splits a stream into whole lines. Of a line that is too long the beginning is kept: it needs an answer too."""

    def __init__(self) -> None:
        self._partial = b""

    def split(self, data: bytes) -> list[bytes]:
        *whole, rest = (self._partial + data).split(b"\n")
        self._partial = rest[: MAX_LINE_BYTES + 1]
        return whole


def answer(line: bytes) -> bytes:
    """Return Squid's own answer, with the channel's number where the line has one (`concurrency=` above 0)."""
    # A channel's number has few digits; a long URL is not copied to find it.
    first = line[:32].split(b" ", 1)[0]
    return first + b" " + UNCHANGED if first.isdigit() else UNCHANGED


class Announcer:
    """Announcements on their way to a socket: bounded, never waiting, counted."""

    def __init__(self, path: str, *, queries: bool) -> None:
        self._path, cache = split_cache(path)
        self._queries = queries
        self._header = VERSION_LINE + (f" cache={cache}".encode() if cache else b"")
        self._waiting: deque[bytes] = deque()
        self._counts: Counter[str] = Counter()
        self._reported: set[int] = set()
        self._send_at = 0.0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def close(self) -> None:
        self._socket.close()

    def wait_s(self, now: float) -> float | None:
        """Return the time until the next send, unless Squid writes something; None: nothing waits."""
        return max(0.0, self._send_at - now) if self._waiting else None

    def count_lost(self, number: int) -> None:
        """Count lines that never arrived here."""
        self._counts["seen"] += number
        self._counts["dropped"] += number

    def add_line(self, line: bytes, now: float) -> None:
        """Queue the URL of a line, if it is to be announced."""
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
        # The fourth word is the method where Squid sends it: rewriter and log, not the ACL.
        elif len(words) > 3 and words[3] != b"GET":
            self._counts["skipped"] += 1
        elif b"@" in found[1] or (found[3] and not self._queries):
            self._counts["private"] += 1
        else:
            self._queue(words[0].partition(b"#")[0], now)

    def _queue(self, url: bytes, now: float) -> None:
        if not self._waiting:
            # max: after a failed send the pause of `_handle_send_error` still holds.
            self._send_at = max(self._send_at, now + SEND_EVERY_S)
        elif len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self._counts["dropped"] += 1
        self._waiting.append(url)

    def send(self, now: float) -> None:
        """Send the waiting announcements, if it is time; those that cannot be sent now stay."""
        while self._waiting and now >= self._send_at:
            taken, datagram = self._datagram()
            try:
                self._socket.sendto(datagram, self._path)
            except OSError as error:
                self._handle_send_error(error, now)
                return
            for _ in range(taken):
                self._waiting.popleft()
            # Cleared only after a datagram was accepted: counts of a failed send go with the next.
            self._counts.clear()

    def _datagram(self) -> tuple[int, bytes]:
        counts = "".join(f" {name}={number}" for name, number in sorted(self._counts.items()))
        lines, size = [self._header + counts.encode()], 0
        for url in self._waiting:
            size += len(url) + 1
            if size > DATAGRAM_BYTES and len(lines) > 1:
                break
            lines.append(url)
        return len(lines) - 1, b"\n".join(lines)

    def _handle_send_error(self, error: OSError, now: float) -> None:
        is_full = error.errno in {errno.EAGAIN, errno.ENOBUFS}
        self._send_at = now + (SEND_EVERY_S if is_full else RETRY_S)
        if not is_full and error.errno is not None and error.errno not in self._reported:
            self._reported.add(error.errno)
            _log_error(f"{self._path}: {error.strerror}; no pages are announced meanwhile")


class AnnouncerProcess:
    """The second process, as the first sees it: it gets lines, is never waited for, and is restarted if it died."""

    def __init__(self, path: str, *, queries: bool) -> None:
        self._path, self._queries = path, queries
        self._pipe = -1
        self._dropped = 0
        self._next_start = 0.0

    def forward(self, lines: list[bytes]) -> None:
        """Pass lines to the second process, as far as there is room for them."""
        if self._pipe < 0 and not self.start():
            self._dropped += len(lines)
            return
        data = b"\n".join(lines) + b"\n"
        # A write of up to PIPE_BUF bytes is atomic (pipe(7)): lines are never torn, and the reader needs no resync.
        if self._dropped or len(data) > ATOMIC_BYTES:
            self._forward_lines(lines)
        else:
            self._dropped += 0 if self._write_pipe(data) else len(lines)

    def _forward_lines(self, lines: list[bytes]) -> None:
        """Like `forward`, for more than a pipe takes at once, and with the number of lines dropped before."""
        if self._dropped and self._write_pipe(DROPPED + b"%d\n" % self._dropped):
            self._dropped = 0
        for line in lines:
            self._dropped += 0 if len(line) < ATOMIC_BYTES and self._write_pipe(line + b"\n") else 1

    def _write_pipe(self, data: bytes) -> bool:
        try:
            os.write(self._pipe, data)
        except BlockingIOError:
            return False
        except OSError:  # the second process is gone
            self.close()
            return False
        return True

    def start(self) -> bool:
        """Start the second process; False if that fails, or was tried a moment ago."""
        if time.monotonic() < self._next_start:
            return False
        # A second process that dies at once must not be forked again for every request.
        self._next_start = time.monotonic() + RETRY_S
        ours = -1
        try:
            ours, self._pipe = os.pipe()
            os.set_blocking(self._pipe, False)
            is_second = os.fork() == 0
        except OSError as error:  # no process, no pipe: a pipe without a reader must not be written to
            self.close()
            if ours >= 0:
                os.close(ours)
            _log_error(f"{error.strerror}; no pages are announced meanwhile")
            return False
        if is_second:
            os.close(self._pipe)
            # Never returns: the child must not enter the loop that answers Squid.
            _run_second(Announcer(self._path, queries=self._queries), ours)
        os.close(ours)
        with suppress(OSError):
            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        return True

    def close(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
        self._pipe = -1


def _run_second(announcer: Announcer, pipe: int) -> NoReturn:
    """Run as the second process; Squid's own pipes are closed here, so that their end is noticed."""
    try:
        os.close(0)
        os.close(1)
        with suppress(OSError):
            os.nice(NICENESS)
        announce(announcer, pipe, gather_s=GATHER_S)
    except BaseException as error:  # noqa: BLE001  # no error may continue as the first process
        _log_error(repr(error))
    os._exit(0)


def announce(announcer: Announcer, into: int, *, gather_s: float = 0.0) -> None:
    """Announce the lines of a pipe until it is closed."""
    lines = Lines()
    waiting = selectors.PollSelector()  # Squid has many descriptors open, and select() ends at 1,023
    waiting.register(into, selectors.EVENT_READ)
    while True:
        if waiting.select(announcer.wait_s(time.monotonic())):
            if gather_s:
                time.sleep(gather_s)
            data = os.read(into, PIPE_BYTES)
            if not data:
                announcer.send(inf)
                return
            now = time.monotonic()
            for line in lines.split(data):
                if _DROPPED.fullmatch(line):
                    announcer.count_lost(int(line[1:]))
                else:
                    announcer.add_line(line, now)
        announcer.send(time.monotonic())


def serve(announcer_process: AnnouncerProcess, into: int = 0, out: int = 1) -> None:
    """Answer Squid until it closes the pipe."""
    lines = Lines()
    while data := os.read(into, READ_BYTES):
        whole = lines.split(data)
        if whole:
            # Answer first: a user's request waits for it.
            _write(out, answer(whole[0]) if len(whole) == 1 else b"".join(map(answer, whole)))
            announcer_process.forward(whole)


def forward_log(announcer_process: AnnouncerProcess, into: int = 0) -> None:
    """Forward the lines of a log until Squid closes the pipe; its other lines are commands for a writer of files."""
    lines = Lines()
    while data := os.read(into, READ_BYTES):
        logged = [line[1:] for line in lines.split(data) if line[:1] == b"L"]
        if logged:
            announcer_process.forward(logged)


def _write(out: int, data: bytes) -> None:
    while data:
        data = data[os.write(out, data) :]


def _log_error(what: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"teia-announce: {what}\n")
        sys.stderr.flush()


def _is_socket(path: str) -> bool | None:
    """Tell whether a path is a socket; None: there is nothing, or it cannot be read."""
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)  # noqa: PTH116  # the helper starts sooner without pathlib
    except OSError:
        return None


def is_file_log(path: str) -> bool:
    """Tell whether a log daemon's path is that of a log which Squid writes by its own daemon.

    The socket of a crawl that does not run is missing; it is recognised by `unix:` or by its name.
    """
    path, _ = split_cache(path)
    return not path.startswith(SOCKET_PREFIX) and not path.endswith(".sock") and not _is_socket(path)


def write_log(path: str, into: int = 0) -> None:
    """Become Squid's own log daemon; without one, read until Squid ends, because an unread pipe would end Squid."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as Squid starts its programs, and Python does not
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    for daemon in LOG_DAEMONS:
        with suppress(OSError):
            os.execv(daemon, [daemon, path])  # noqa: S606  # no shell; Squid would start it likewise
    _log_error(f"{path} is not written: Squid's log_file_daemon was not found; write this log with `access_log stdio:`")
    while os.read(into, READ_BYTES):
        pass


def main(words: list[str], name: str = "") -> int:
    """Run as Squid's program; return the exit status. A log daemon gets no flags, and is recognised by its name."""
    flags = {word for word in words if word.startswith("--")}
    paths = [word for word in words if word not in flags]
    if len(paths) != 1 or paths[0].startswith("-") or flags - {"--queries", "--log"}:
        sys.stderr.write("usage: teia-announce [--queries] [--log] SOCKET[@NAME]\n")
        return 2
    path, is_log = paths[0], "--log" in flags or name.endswith("-log")
    if is_log and is_file_log(path):
        write_log(path)
        return 0
    path = path.removeprefix(SOCKET_PREFIX)
    if _is_socket(split_cache(path)[0]) is False:
        _log_error(f"{path} is not a socket, nothing is written to it")
    with suppress(BrokenPipeError, KeyboardInterrupt):
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the second process is never waited for
        # A garbage collection would delay answers; the loops below create no cycles.
        gc.disable()
        announcer_process = AnnouncerProcess(path, queries="--queries" in flags)
        announcer_process.start()
        if is_log:
            forward_log(announcer_process)
        else:
            serve(announcer_process)
        announcer_process.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.argv[0]))
