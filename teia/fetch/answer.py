"""An answer as it arrives: lines and bytes counted before they are kept, framing judged before the body.

libcurl is the HTTP parser; this module applies our tighter limits, and refuses what libcurl accepts and we must not:
length and chunks together, a blank before the colon, codings other than `chunked`, 101. Limits are tested before
anything is stored. The bytes stay as received: compressed, and with chunk framing in place; the parse child undoes
both, bounded by its own output.

The callbacks return None for "all taken" and 0 to end the transfer, with the reason left in `stop` first: libcurl only
says that a callback failed.
"""

from __future__ import annotations

from dataclasses import dataclass

from teia.config.sections import LimitSettings
from teia.fetch.outcome import StopReason

MAX_INTERIM = 5
"""1xx answers before the real one."""

SMALL_BYTES = 4_096
"""Pieces of a body below this are put together as they come: a server may send it octet by octet. Larger ones are kept
as they are; growing one buffer by them costs twenty times as much with a page of 120 kB."""

# First letters of Content-Length, Content-Type and Transfer-Encoding: all other lines skip `_accepts`.
_FRAMING_INITIALS = frozenset(b"CcTt")
_MAX_LENGTH_DIGITS = 18  # libcurl ignores a length above 2**63 and reads to the close


@dataclass(slots=True)
class BodyMemory:
    """Body bytes of all transfers under way: many answers, each within its limit, may still be too much together."""

    limit_bytes: int
    now_bytes: int = 0


class Answer:
    """Data received by one transfer so far; its handle reuses the object."""

    def __init__(self, limits: LimitSettings, memory: BodyMemory) -> None:
        self._limits = limits
        self._memory = memory
        self._body_bytes = 0
        self.begin(limits.body_bytes, ())

    def begin(self, max_body_bytes: int, types: tuple[str, ...]) -> None:
        """Forget the last answer and expect the next."""
        # The counter is shared by all transfers: return this one's share before its own count is cleared.
        self._memory.now_bytes -= self._body_bytes
        self._body_bytes = 0
        self._pieces: list[bytes] = []
        self._small = bytearray()
        self._lines: list[bytes] = []
        self._head_bytes = 0
        self._interim = 0
        self._has_length = self._chunked = False
        self._media_type = ""
        self._max_body_bytes = max_body_bytes
        self._types = types
        self.status = 0
        self.stop: StopReason | None = None

    # ---- callbacks of libcurl ----------------------------------------------------------------------------------------

    def on_header(self, line: bytes) -> int | None:
        """Take one line of a head, its line end included; folded lines come joined."""
        lines, limits = self._lines, self._limits
        self._head_bytes += len(line)
        if len(line) > limits.header_line_bytes:
            return self.refuse(StopReason.HEADER_LINE)
        if self._head_bytes > limits.header_bytes:
            return self.refuse(StopReason.HEADER_BYTES)
        if line == b"\r\n" or line == b"\n":
            lines.append(line)
            return self._end_of_head()
        if len(lines) > limits.header_count:
            return self.refuse(StopReason.HEADER_COUNT)
        # Two framings in one head let two parsers disagree on the body's end (request smuggling, RFC 9112, 6.3).
        if line[0] in _FRAMING_INITIALS and not self._accepts(line):
            return self.refuse(StopReason.FRAMING)
        lines.append(line)
        return None

    def on_body(self, data: bytes) -> int | None:
        """Take the next piece of a body."""
        room = self._max_body_bytes - self._body_bytes
        if len(data) > room:
            # The beginning is kept: a page cut at the limit is archived as truncated.
            self._take(data[:room])
            return self.refuse(StopReason.BODY)
        self._take(data)
        return self.refuse(StopReason.MEMORY) if self._memory.now_bytes > self._memory.limit_bytes else None

    def _take(self, data: bytes) -> None:
        self._body_bytes += len(data)
        self._memory.now_bytes += len(data)
        if len(data) < SMALL_BYTES:
            self._small += data
            return
        if self._small:
            self._pieces.append(bytes(self._small))
            self._small.clear()
        self._pieces.append(data)

    def refuse(self, stop: StopReason) -> int:
        self.stop = stop
        return 0

    # ---- results -----------------------------------------------------------------------------------------------------

    @property
    def anything_received(self) -> bool:
        return self._head_bytes > 0

    @property
    def received_bytes(self) -> int:
        """Bytes of heads and body so far."""
        return self._head_bytes + self._body_bytes

    def head(self) -> bytes:
        """Return the final answer's head with its blank line, exact but for bare LFs and the case of `HTTP/`."""
        if not self.status:
            return b""
        head = b"".join(self._lines)
        # WARC readers look for CR LF, so bare LFs are rewritten; libcurl also accepts `http/` in lower case.
        if head.count(b"\n") != head.count(b"\r\n"):
            head = b"".join(line.rstrip(b"\r\n") + b"\r\n" for line in self._lines)
        return head if head.startswith(b"HTTP/") else b"HTTP/" + head[5:]

    def body(self) -> bytes:
        if not self.status:
            return b""
        return b"".join((*self._pieces, self._small) if self._small else self._pieces)  # one piece is not copied

    # ---- the head ----------------------------------------------------------------------------------------------------

    def _accepts(self, line: bytes) -> bool:
        """Check that a header line about the end of the body states it in the one way that all parsers agree on."""
        raw_name, _, value = line.partition(b":")
        name = raw_name.strip().lower()
        if name == b"content-length":
            self._has_length = True
            return name == raw_name.lower() and not self._chunked and len(value.strip()) <= _MAX_LENGTH_DIGITS
        if name == b"transfer-encoding":
            once, self._chunked = not self._chunked, True
            plain = name == raw_name.lower() and value.strip().lower() == b"chunked"
            return once and plain and not self._has_length
        if name == b"content-type":
            self._media_type = value.partition(b";")[0].strip().lower().decode("latin-1")
        return True

    def _end_of_head(self) -> int | None:
        fields = self._lines[0].split(None, 2)
        if len(fields) < 2 or len(fields[1]) != 3 or not fields[1].isdigit():
            return self.refuse(StopReason.STATUS_LINE)
        status = int(fields[1])
        # A 101 would hand the connection to another protocol; no request of ours asks for an upgrade.
        if status == 101:
            return self.refuse(StopReason.UPGRADE)
        if status < 200:
            return self._end_of_interim()
        self.status = status
        if self._types and status < 300 and not self._is_wanted():
            return self.refuse(StopReason.TYPE)
        return None

    def _end_of_interim(self) -> int | None:
        self._interim += 1
        self._lines.clear()
        self._has_length = self._chunked = False
        return self.refuse(StopReason.INTERIM) if self._interim > MAX_INTERIM else None

    def _is_wanted(self) -> bool:
        """Tell whether the Content-Type is wanted; a missing one is: the parse child inspects the bytes."""
        kind = self._media_type
        wildcard = kind.partition("/")[0] + "/*"
        return not kind or kind in self._types or wildcard in self._types
