"""The server's own record of every request: politeness is judged by it, not by the crawler's claims.

On disk: one JSON object a line, in the order in which answers ended,

    {"start": "2026-03-01T12:00:00.000123Z", "end": "…", "peer": "127.0.0.1", "peer_port": 40112,
     "address": "127.77.0.9", "host": "h9.test", "path": "/a?b=1", "status": 200, "headers": {"user-agent": "…"}}

`start` is the arrival of the first byte of the request. `end` is the time at which the last byte of the answer was
handed to the socket (or the client was gone). `address` is the server's side of the connection: several names may share
it. `path` is the request target as it was sent. `status` is 0 where no status line was sent (reset, silence, garbage).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from teia.clock import from_iso, iso_utc
from teia.errors import CorruptFile, LabError

MOST_PENDING = 1000
"""Number of lines in memory at which they are written without waiting for the next flush."""


_Row = tuple[float, float, tuple[str, int], str, str, str, int, Mapping[str, str]]


class _Line(msgspec.Struct, gc=False):
    """A line as it is in the file."""

    start: str
    end: str
    peer: str
    peer_port: int
    address: str
    host: str
    path: str
    status: int
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RequestLogEntry:
    """One request as the server saw it. Times are Unix seconds of the wall clock."""

    start_s: float
    end_s: float
    peer: str
    peer_port: int
    address: str
    host: str
    path: str
    status: int
    headers: Mapping[str, str]


class RequestLog:
    """Writes entries a batch at a time. The owner calls `flush` often enough (`lab.server.serve`: every 0.2 s).

    `add` never raises, because it runs in the middle of an answer. A failed write is raised by the next `flush` or by
    `close`, and ends the lab, because an incomplete log is useless for judging a crawl.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._second = -1
        self._second_text = ""
        self._pending: list[_Row] = []
        self._error: OSError | None = None
        self._encoder = msgspec.json.Encoder()
        try:
            # Unbuffered: the batch in memory is the only buffer, so a flush leaves nothing behind.
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            raise LabError(f"cannot write the request log {path}: {error.strerror}; choose another --log") from error

    def add(
        self,
        start_s: float,
        end_s: float,
        client: tuple[str, int],
        address: str,
        host: str,
        path: str,
        status: int,
        headers: Mapping[str, str],
    ) -> None:
        """Record a request; its line is formatted when the batch is written, not in the middle of an answer."""
        self._pending.append((start_s, end_s, client, address, host, path, status, headers))
        if len(self._pending) >= MOST_PENDING:
            self._write()

    def flush(self) -> None:
        """Hand all entries to the operating system; LabError if that, or a write since the last flush, failed."""
        if self._pending:
            self._write()
        if self._error is not None:
            reason = self._error.strerror or str(self._error)
            raise LabError(f"the request log {self.path} is incomplete: {reason}; free some space") from self._error

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self) -> None:
        stamp = self._stamp
        lines = memoryview(
            self._encoder.encode_lines(
                [
                    _Line(stamp(start_s), stamp(end_s), *client, address, host, path, status, headers)
                    for start_s, end_s, client, address, host, path, status, headers in self._pending
                ]
            )
        )
        self._pending.clear()
        if self._error is not None:
            return
        try:
            while lines:
                lines = lines[self._file.write(lines) :]
        except OSError as error:
            self._error = error

    def _stamp(self, unix_s: float) -> str:
        """Format a time like `clock.iso_utc`, but truncated; the text of the second is cached."""
        second = int(unix_s)
        if second != self._second:
            self._second = second
            self._second_text = iso_utc(second)[: len("2026-03-01T12:00:00.")]
        return f"{self._second_text}{int((unix_s - second) * 1e6):06d}Z"


def read_log(path: Path) -> list[RequestLogEntry]:
    """Return all entries of a request log. An incomplete last line is left out: the writer may not have finished it."""
    lines = path.read_bytes().split(b"\n")
    del lines[-1]  # empty, or torn
    return [_entry(path, number, line) for number, line in enumerate(lines, 1)]


def _entry(path: Path, number: int, text: bytes) -> RequestLogEntry:
    try:
        line = msgspec.json.decode(text, type=_Line)
        start_s, end_s = from_iso(line.start), from_iso(line.end)
    except (msgspec.DecodeError, ValueError) as error:
        raise CorruptFile(path, f"line {number} is not an entry of a request log") from error
    return RequestLogEntry(
        start_s, end_s, line.peer, line.peer_port, line.address, line.host, line.path, line.status, line.headers
    )
