"""The DevTools protocol over two pipes: commands with answers, and events.

Messages are JSON objects that end with a zero octet. The browser has just run a hostile page, so a message that cannot
be read ends the connection. One that is too long, such as a request with a body of many megabytes, is left out: its
page waits for it in vain, and no other page does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from teia.errors import TeiaError
from teia.lib.undecodable import UNDECODABLE

MAX_MESSAGE_BYTES = 64 * 2**20

Event = Callable[[str, dict[str, Any]], None]
"""Function that receives the name of an event and its parameters."""


class BrowserGone(TeiaError):
    """The browser, or the page's process, has ended."""


class CommandFailed(TeiaError):
    """The browser refused a command."""


class _Message(msgspec.Struct):
    id: int = 0
    method: str = ""
    sessionId: str = ""  # noqa: N815  # the protocol's own name
    params: dict[str, Any] = {}
    result: dict[str, Any] = {}
    error: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_Message).decode
_encode = msgspec.json.Encoder().encode


class DevTools(asyncio.Protocol):
    """A connection to one browser. Events go to the function registered for their session."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._is_skipping = False
        self._answers: dict[int, tuple[str, asyncio.Future[dict[str, Any]]]] = {}
        self._listeners: dict[str, Event] = {}
        self._last_id = 0
        self._output: asyncio.WriteTransport | None = None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def attach(self, output: asyncio.WriteTransport) -> None:
        """Send commands to this pipe."""
        self._output = output

    def listen(self, session: str, on_event: Event) -> None:
        self._listeners[session] = on_event

    def end_session(self, session: str) -> None:
        """Forget a session: the commands that wait for its answers fail, its events are ignored."""
        self._listeners.pop(session, None)
        for number, (of_session, answer) in list(self._answers.items()):
            if of_session == session:
                del self._answers[number]
                _fail(answer)

    async def send(self, method: str, session: str = "", /, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        return await self.post(method, session, **parameters)

    def post(self, method: str, session: str = "", /, **parameters: Any) -> asyncio.Future[dict[str, Any]]:
        """Send a command; the future has its result."""
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        # Nobody may be interested in the answer; then its failure is no error of ours.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        if self.closed.done() or self._output is None:
            _fail(answer)
            return answer
        self._last_id += 1
        command = {"id": self._last_id, "method": method, "params": parameters}
        if session:
            command["sessionId"] = session
        self._answers[self._last_id] = (session, answer)
        self._output.write(_encode(command) + b"\0")
        return answer

    # -- asyncio.Protocol ----------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._is_skipping:
            _, end, data = data.partition(b"\0")
            self._is_skipping = not end
        self._buffer += data
        # Only the new octets can hold the end of a message.
        if b"\0" not in data:
            if len(self._buffer) > MAX_MESSAGE_BYTES:
                self._buffer.clear()
                self._is_skipping = True
            return
        *messages, rest = bytes(self._buffer).split(b"\0")
        self._buffer = bytearray(rest)
        for each in messages:
            try:
                message = _decode(each)
            except UNDECODABLE:
                self.close()
                return
            self._receive(message)

    def _receive(self, message: _Message) -> None:
        if message.id:
            _, answer = self._answers.pop(message.id, ("", None))
            if answer is None or answer.done():
                return
            if message.error is not None:
                answer.set_exception(CommandFailed(str(message.error.get("message", "refused"))[:200]))
            else:
                answer.set_result(message.result)
            return
        listener = self._listeners.get(message.sessionId)
        if listener is not None:
            listener(message.method, message.params)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.close()

    def close(self) -> None:
        """Fail everything that waits; the owner ends the process."""
        if not self.closed.done():
            self.closed.set_result(None)
        for _, answer in self._answers.values():
            _fail(answer)
        self._answers.clear()


def _fail(answer: asyncio.Future[dict[str, Any]]) -> None:
    if not answer.done():
        answer.set_exception(BrowserGone("the browser has ended"))
