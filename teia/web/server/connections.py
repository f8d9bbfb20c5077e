"""Limits of idle connections: their time and their number.

uvicorn counts all connections and answers 503 to every client once there are too many, but it gives a request unlimited
time to arrive. An attacker who opens some hundred connections and sends half a request on each would lock all other
clients out. Here a request has to arrive within `limits.HEADER_S`. When too many connections wait for a request, of one
address or of all, the one that has waited longest is closed. A browser reopens an idle connection that was closed, and
a complete request never waits, so other clients notice nothing.

A client that requests a page and does not read it would lock others out as well: uvicorn regards a response as sent
once it is in our own buffer, and a connection closed then stays open until the buffer is empty. So a connection with an
unread response counts as waiting, even while it closes. It is cut off when the client reads nothing for
`limits.HEADER_S`, or for `limits.STALLED_S` while the response is still being produced.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any
from weakref import WeakKeyDictionary

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from teia.web import limits

_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class WaitingConnections:
    """Connections of one server that wait for a request or a reader, longest waiting first."""

    def __init__(self) -> None:
        self._waiting_since: dict[WatchedConnection, None] = {}
        self._count_by_peer: Counter[str] = Counter()

    def add(self, connection: WatchedConnection) -> None:
        if connection in self._waiting_since:
            return
        self._waiting_since[connection] = None
        self._count_by_peer[connection.peer] += 1
        # An address above its own limit gives up one of its own connections, not one of others.
        if self._count_by_peer[connection.peer] > limits.WAITING_PER_ADDRESS:
            next(each for each in self._waiting_since if each.peer == connection.peer).close_stalled()
        elif len(self._waiting_since) > limits.WAITING:
            next(iter(self._waiting_since)).close_stalled()

    def remove(self, connection: WatchedConnection) -> None:
        if connection in self._waiting_since:
            del self._waiting_since[connection]
            self._count_by_peer[connection.peer] -= 1
            if not self._count_by_peer[connection.peer]:
                del self._count_by_peer[connection.peer]


_WAITING: WeakKeyDictionary[ServerState, WaitingConnections] = WeakKeyDictionary()


class WatchedConnection(H11Protocol):
    """Connection that tracks whether it waits for a request or a reader."""

    def __init__(self, config: Any, server_state: ServerState, *others: Any, **named: Any) -> None:
        super().__init__(config, server_state, *others, **named)
        self._waiting = _WAITING.setdefault(server_state, WaitingConnections())
        self._request_timer: asyncio.TimerHandle | None = None
        self._reader_timer: asyncio.TimerHandle | None = None
        self._has_received = False
        self.peer = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # `pause_writing` is called as soon as one byte is left
        self.peer = self.client[0] if self.client else ""
        self._update_waiting(is_timed=True)

    def data_received(self, data: bytes) -> None:
        self._has_received = True
        super().data_received(data)
        self._update_waiting(is_timed=True)

    def on_response_complete(self) -> None:
        self._has_received = False
        super().on_response_complete()
        self._update_waiting(is_timed=False)  # idle connections have uvicorn's own timeout

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader(self._unread())

    def resume_writing(self) -> None:
        """Resume writing: the client has read everything."""
        self._cancel_reader_timer()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_request_timer()
        self._cancel_reader_timer()
        self._waiting.remove(self)
        super().connection_lost(exc)

    def close_stalled(self) -> None:
        """Close a connection whose request does not arrive, or whose response is not read."""
        self._cancel_request_timer()
        self._waiting.remove(self)
        if self._unread():
            self.transport.abort()  # `close` would wait for the reader
            return
        if self.transport.is_closing():
            return
        # No 408 on an idle connection: the client could take it for the answer to its next request.
        if self._has_received:
            self.transport.write(_TOO_LATE)
        self.transport.close()

    def _update_waiting(self, *, is_timed: bool) -> None:
        if self._is_under_way():
            self._cancel_request_timer()
            self._waiting.remove(self)
            return
        if self.transport.is_closing():
            self._cancel_request_timer()
            if self._unread():
                self._waiting.add(self)
            return
        # Not restarted by more bytes: a request that trickles in must be complete in time, too.
        if is_timed and self._request_timer is None:
            self._request_timer = self.loop.call_later(limits.HEADER_S, self.close_stalled)
        self._waiting.add(self)

    def _is_under_way(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None until the first request, although its type excludes that
        return cycle is not None and not cycle.response_complete and not self.transport.is_closing()

    def _unread(self) -> int:
        """Return the number of unread bytes of a response in the buffer."""
        return self.transport.get_write_buffer_size()

    def _watch_reader(self, unread: int, since_s: float = 0.0) -> None:
        """Abort the connection if the client reads nothing: check later whether the unread bytes have decreased."""
        self._cancel_reader_timer()

        def check() -> None:
            now = self._unread()
            idle_s = since_s + limits.HEADER_S if now >= unread else 0.0
            if idle_s >= (limits.STALLED_S if self._is_under_way() else limits.HEADER_S):
                self.transport.abort()
            else:
                self._watch_reader(now, idle_s)

        self._reader_timer = self.loop.call_later(limits.HEADER_S, check)

    def _cancel_reader_timer(self) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def _cancel_request_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None
