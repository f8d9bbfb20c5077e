"""libcurl's multi interface on an event loop: sockets in, finished transfers out.

All of libcurl's sockets are in an epoll set of our own, and the loop watches only that set's descriptor. Where
`pycurl.AsyncCurlMulti` has one loop reader per socket and one future per transfer, a change of interest is one system
call here, and one wake-up of the loop serves every socket that is ready. Figures: docs/decisions/0006-fetch.md.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import Any

import pycurl

EVENTS_AT_ONCE = 512
"""Sockets served before the loop gets its turn again."""

Curl = Any
"""A pycurl.Curl; the package ships no types."""


class CurlDriver:
    """Runs transfers and hands each one back with libcurl's code and message, outside of any libcurl call.

    A transfer that arrived whole comes with the descriptor of its kept connection, or -1 if none is kept.
    The driver belongs to the loop it was made on. Nothing here may raise into libcurl.
    """

    def __init__(self, finished: Callable[[Curl, int, str, int], None], max_connects: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._finished = finished
        self._epoll = select.epoll()
        self._watched: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0
        self._due_s: float | None = None
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, max_connects)
        # No HTTP/2 multiplexing: one connection carries one request at a time.
        self._multi.setopt(pycurl.M_PIPELINING, 0)
        self._loop.add_reader(self._epoll.fileno(), self._on_ready)

    def add(self, curl: Curl) -> None:
        """Begin a transfer; libcurl requests a turn at once through its timer, and one turn serves all that wait."""
        self._multi.add_handle(curl)

    def remove(self, curl: Curl) -> None:
        """Take a transfer away before its end; its connection is closed."""
        self._multi.remove_handle(curl)

    def close(self) -> None:
        """Release all sockets; transfers must have been removed."""
        self._loop.remove_reader(self._epoll.fileno())
        if self._timer is not None:
            self._timer.cancel()
        self._multi.close()
        self._epoll.close()

    # ---- requests of libcurl -----------------------------------------------------------------------------------------

    def _on_socket(self, what: int, fd: int, _multi: object, _data: object) -> None:
        if what == pycurl.POLL_REMOVE:
            self._forget(fd)
            return
        events = select.EPOLLIN if what & pycurl.POLL_IN else 0
        if what & pycurl.POLL_OUT:
            events |= select.EPOLLOUT
        if fd in self._watched:
            self._epoll.modify(fd, events)
        else:
            self._epoll.register(fd, events)
            self._watched.add(fd)

    def _forget(self, fd: int) -> None:
        if fd not in self._watched:
            return
        self._watched.discard(fd)
        try:
            self._epoll.unregister(fd)
        except OSError:
            return  # closed already, and the kernel has forgotten it by itself

    def _on_timer(self, wait_ms: int) -> None:
        """Set the timer for libcurl, which moves it several times a transfer; ours is only replaced by an earlier one.

        libcurl does not repeat itself if we come too early, so `_due_s` is kept and an early timer is set again.
        """
        if wait_ms < 0:
            self._due_s = None
            return
        self._due_s = self._loop.time() + wait_ms / 1000
        if self._timer is None or self._timer_s > self._due_s:
            self._set_timer(self._due_s)

    def _set_timer(self, due_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_s = self._loop.call_at(due_s, self._on_time), due_s

    # ---- events ------------------------------------------------------------------------------------------------------

    def _on_time(self) -> None:
        self._timer = None
        if self._due_s is None:
            return
        if self._loop.time() < self._due_s:
            self._set_timer(self._due_s)
            return
        self._due_s = None
        self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        self._collect()

    def _on_ready(self) -> None:
        action = self._multi.socket_action
        for fd, events in self._epoll.poll(0, EVENTS_AT_ONCE):
            if fd not in self._watched:  # taken away while an earlier one of this batch was served
                continue
            mask = 0
            # After a hang-up there may be data left to read; libcurl learns of the close by reading to its end.
            if events & (select.EPOLLIN | select.EPOLLHUP):
                mask |= pycurl.CSELECT_IN
            if events & select.EPOLLOUT:
                mask |= pycurl.CSELECT_OUT
            if events & select.EPOLLERR:
                mask |= pycurl.CSELECT_ERR
            action(fd, mask)
        self._collect()

    def _collect(self) -> None:
        _, whole, failed = self._multi.info_read()
        for curl in whole:
            descriptor = curl.getinfo(pycurl.ACTIVESOCKET)  # not known any more once the handle is removed
            self._multi.remove_handle(curl)
            self._finished(curl, 0, "", descriptor)
        for curl, code, message in failed:
            self._multi.remove_handle(curl)
            self._finished(curl, code, message, -1)
