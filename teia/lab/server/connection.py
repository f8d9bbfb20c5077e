"""One client's connection to the lab: requests in, answers or faults out.

A connection is in one of four states:

    reading    waiting for the end of a head
    answering  an answer waits for its delay, or for the client to read it
    draining   an error answer was sent and further input is discarded. Closing a socket with unread bytes resets it,
               and the client might never see the answer
    closed

Requests are answered one after the other, so a pipelining client's later requests wait in the buffer. Memory is bounded
both ways: reading pauses while the buffer is full, and no answer is begun before the kernel has the previous one.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from math import inf
from typing import Protocol, cast

from teia.clock import Clock
from teia.lab.server.requestlog import RequestLog
from teia.lab.server.wire import MOST_HEAD_BYTES, BadRequest, DateLine, RequestHead, parse_head, render
from teia.lab.world.exchange import ServerFault, WorldAnswer, WorldRequest

MOST_WAITING_BYTES = 64 * 1024
PIECE_BYTES = 256 * 1024
"""Size of the pieces of a larger body, so that a slow reader of a huge page costs no copy of it."""

DRIPS = 40
"""Number of pieces of a dripping answer."""

DRAIN_S = 2.0
END_S = 2.0
_LINGER_OFF = struct.pack("ii", 1, 0)  # close() then sends RST
_NO_FAULT = ServerFault.NONE  # looking a member up in its class is slow
_WITHOUT_ANSWER = frozenset({ServerFault.RESET, ServerFault.SILENT})


class Responder(Protocol):
    """The responder behind the sockets: a world, or the lab's control."""

    def answer(self, request: WorldRequest, now_s: float) -> WorldAnswer:
        """Answer one request at the given wall time; never raises."""


class LabServerState:
    """Shared state of the connections of one lab: the responder, the clock, the log, and the open connections."""

    def __init__(self, web: Responder, clock: Clock, log: RequestLog | None, most_connections: int) -> None:
        self.web = web
        self.clock = clock
        self.log = log
        self.date = DateLine()
        self.answered_requests = 0
        self.refused_connections = 0
        self._most_connections = most_connections
        self._open: set[Connection] = set()
        self._changed = asyncio.Event()

    def register(self, connection: Connection) -> bool:
        """Register a connection; False if there is no room for one more."""
        if len(self._open) >= self._most_connections:
            self.refused_connections += 1
            return False
        self._open.add(connection)
        return True

    def unregister(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._changed.set()

    def sweep(self) -> None:
        """Cut the connections without any progress since the last sweep."""
        for connection in [one for one in self._open if one.check_stalled()]:
            connection.abort()

    async def close(self) -> None:
        """Cut all connections, and wait until each is closed, because its last request is logged at that point."""
        for connection in list(self._open):
            connection.abort()
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                while self._open:
                    self._changed.clear()
                    await self._changed.wait()


class Connection(asyncio.Protocol):
    """A connection in one of the module's states. `_head` is set while answering, `_ignores_input` from draining on."""

    __slots__ = (
        "_address",
        "_answer",
        "_buffer",
        "_client",
        "_client_ended",
        "_client_ended_s",
        "_head",
        "_ignores_input",
        "_last_progress",
        "_latest_s",
        "_reading_paused",
        "_requested_s",
        "_sent_s",
        "_skip_bytes",
        "_start_s",
        "_state",
        "_timer",
        "_transport",
        "_unsent",
        "_writing_paused",
    )  # fmt: skip

    def __init__(self, state: LabServerState) -> None:
        self._state = state
        self._transport: asyncio.Transport
        self._client = ("", 0)
        self._address = ""
        self._buffer = b""
        self._start_s = 0.0  # arrival of the first byte of the buffer
        self._latest_s = 0.0  # arrival of the last byte
        self._skip_bytes = 0  # rest of a request's body, still to arrive
        self._head: RequestHead | None = None
        self._answer = WorldAnswer(0, b"")
        self._requested_s = 0.0  # arrival of the first byte of the request being answered
        self._sent_s = 0.0  # time before its last bytes were handed over
        self._unsent: bytes | memoryview = b""  # of a large answer
        self._timer: asyncio.TimerHandle | None = None
        self._client_ended = False  # the client sends no more, but may still read
        self._client_ended_s = inf
        self._ignores_input = False
        self._reading_paused = False
        self._writing_paused = False
        self._last_progress = (0.0, 0)

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._state.register(self):
            self._ignores_input = True
            self._transport.abort()
            return
        self._latest_s = self._state.clock.now_s()
        # With a limit of 0 a write goes to the kernel at once, and `resume_writing` is called when the kernel has all
        # of it.
        self._transport.set_write_buffer_limits(high=0)
        self._client = transport.get_extra_info("peername")[:2]
        self._address = transport.get_extra_info("sockname")[0]

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            return
        self._latest_s = self._state.clock.now_s()
        if self._buffer:
            self._buffer += data
        else:
            self._buffer = data
            self._start_s = self._latest_s
        if self._head is None:
            self._answer_requests()
        elif len(self._buffer) > MOST_WAITING_BYTES and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Keep the connection while an answer is due; a client that ends during a silence or a drip has given up.

        A client that ends while an answer waits for its delay may have given up: for the log its request ends here.
        """
        self._client_ended, self._client_ended_s = True, self._state.clock.now_s()
        is_dripping = self._timer is not None and bool(self._unsent)
        return self._head is not None and self._answer.fault is not ServerFault.SILENT and not is_dripping

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        if self._head is not None and self._timer is None:
            self._send_rest()
            self._answer_requests()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # the event loop passes it
        self._ignores_input = True
        if self._head is not None:
            if self._timer is not None:  # the client has left before its answer, or in the middle of a drip
                self._sent_s = self._state.clock.now_s()
            self._record(0 if self._timer is not None else self._answer.status)
            self._head = None
        if self._timer is not None:
            self._timer.cancel()
        self._state.unregister(self)

    # Called by the lab.

    def check_stalled(self) -> bool:
        """Tell whether there was no progress since the last call; a delayed answer counts as progress."""
        progress = (self._latest_s, self._transport.get_write_buffer_size() + len(self._unsent))
        if progress == self._last_progress and self._timer is None:
            return True
        self._last_progress = progress
        return False

    def abort(self) -> None:
        self._transport.abort()

    # Reading.

    def _answer_requests(self) -> None:
        """Answer the complete requests in the buffer, until an answer has to wait."""
        while self._buffer and self._head is None and not self._ignores_input:
            if self._skip_bytes:
                skipped_bytes = min(self._skip_bytes, len(self._buffer))
                self._skip_bytes -= skipped_bytes
                self._consume(skipped_bytes)
                continue
            try:
                head = self._next_head()
            except BadRequest as error:
                self._reject(error.status)
                return
            if head is None:
                break
            self._start_answer(head)
        if self._head is not None or self._ignores_input:
            return
        if self._client_ended:
            self._close()
        elif self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    def _next_head(self) -> RequestHead | None:
        if self._buffer.startswith(b"\r\n"):  # RFC 9112, 2.2: empty lines before a request are to be ignored
            self._buffer = self._buffer.lstrip(b"\r\n")
        end = self._buffer.find(b"\r\n\r\n", 0, MOST_HEAD_BYTES + 4)
        if end < 0:
            if len(self._buffer) > MOST_HEAD_BYTES:
                raise BadRequest(431)
            return None
        head = parse_head(self._buffer[:end])
        self._requested_s = self._start_s
        self._skip_bytes = head.body_bytes
        self._consume(end + 4)
        return head

    def _consume(self, size_bytes: int) -> None:
        """Drop the first bytes. The rest is dated by the last packet, which is nearly always correct."""
        self._buffer = self._buffer[size_bytes:]
        self._start_s = self._latest_s

    # Answering.

    def _start_answer(self, head: RequestHead) -> None:
        self._head = head
        request = WorldRequest(head.host, head.target, head.method, head.headers, self._client[0])
        self._answer = self._state.web.answer(request, self._state.clock.now_s())
        if self._answer.delay_s > 0:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._answer.delay_s, self._after_delay)
        else:
            self._send_answer(head)

    def _after_delay(self) -> None:
        self._timer = None
        if self._head is not None:
            self._send_answer(self._head)
            self._answer_requests()

    def _send_answer(self, head: RequestHead) -> None:
        fault = self._answer.fault
        self._sent_s = self._state.clock.now_s()
        if fault is _NO_FAULT or fault not in _WITHOUT_ANSWER:
            start, body = render(self._answer, head, self._state.date.at(self._sent_s))
            if self._answer.drip_s > 0:
                self._unsent = start + body
                self._drip(max(1, len(self._unsent) // DRIPS))
                return
            if len(body) <= PIECE_BYTES:
                self._transport.write(start + body)  # a copy of a page costs less than one more system call
            else:
                self._transport.write(start)
                self._unsent = memoryview(body)
            self._send_rest()
            return
        self._finish(0)
        if fault is ServerFault.SILENT:
            self._close()
            return
        self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_OFF)
        self._ignores_input = True
        self._transport.abort()

    def _send_rest(self) -> None:
        """Send the rest of a large answer, as far as the kernel takes it."""
        while self._unsent and not self._writing_paused:
            if self._transport.is_closing():
                return  # the client is gone, and the loop is about to report it
            before_s = self._state.clock.now_s()
            self._transport.write(self._unsent[:PIECE_BYTES])
            if self._transport.is_closing():
                return
            self._sent_s = before_s
            self._unsent = self._unsent[PIECE_BYTES:]
        if not self._writing_paused:
            self._finish_answer()

    def _drip(self, size_bytes: int) -> None:
        """Send one piece of a dripping answer, and schedule the next."""
        self._timer = None
        if self._head is None or self._transport.is_closing():
            return  # the client is gone, and the loop reports it
        self._sent_s = self._state.clock.now_s()
        piece, self._unsent = self._unsent[:size_bytes], self._unsent[size_bytes:]
        self._transport.write(piece)
        if self._unsent:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._answer.drip_s / DRIPS, self._drip, size_bytes)
            return
        self._send_rest()
        self._answer_requests()

    def _finish_answer(self) -> None:
        """Finish the request: the kernel has the whole answer."""
        head = self._head
        assert head is not None
        is_proper = self._answer.fault is _NO_FAULT
        self._finish(self._answer.status if is_proper or self._answer.fault is not ServerFault.GARBAGE else 0)
        if not (head.keep_alive and is_proper):
            self._close()

    def _reject(self, status: int) -> None:
        """Answer an invalid request, and drain."""
        self._head = head = RequestHead("GET", "", "", {}, keep_alive=False, is_http10=False, body_bytes=0)
        self._requested_s = self._start_s
        self._answer = WorldAnswer(
            status, b"Content-Type: text/plain\r\n", b"this is not a request that can be answered\n"
        )
        self._ignores_input = True
        self._buffer = b""
        self._sent_s = self._latest_s
        self._transport.write(b"".join(render(self._answer, head, self._state.date.at(self._sent_s))))
        self._finish(status)
        self._transport.write_eof()
        self._timer = asyncio.get_running_loop().call_later(DRAIN_S, self._transport.abort)

    def _close(self) -> None:
        self._ignores_input = True
        self._transport.close()

    def _finish(self, status: int) -> None:
        self._record(status)
        self._head = None

    def _record(self, status: int) -> None:
        head, state = self._head, self._state
        assert head is not None
        state.answered_requests += 1
        if state.log is not None:
            # Log the time before the last write, not after it, nor when the end of a client that left a large answer is
            # noticed. On a busy machine the client may have begun its politeness delay before this process runs again.
            # Its next request would then look early by that time.
            state.log.add(
                self._requested_s,
                max(self._requested_s, min(self._sent_s, self._client_ended_s)),
                self._client,
                self._address,
                head.host,
                head.target,
                status,
                head.headers,
            )
