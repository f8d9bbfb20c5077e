"""nats-py's client, changed to close connections that it gives up.

The client lacks two things. A reconnect that fails after the server accepted the connection, as with a server that
hangs, leaves its socket open: the next attempt overwrites it. And before it reconnects it waits until the old
connection has closed, which first sends the rest of its buffer. If the peer reads nothing, because its server hangs or
a cable was pulled, the client would wait until the kernel gives up, for a quarter of an hour, although other servers
are there.
"""

from __future__ import annotations

from nats.aio.client import Client


class TidyClient(Client):
    """A client that aborts a connection before it looks for another server."""

    async def _attempt_reconnect(self) -> None:
        self.abort()
        await super()._attempt_reconnect()

    async def _select_next_server(self) -> None:
        self.abort()
        await super()._select_next_server()

    def abort(self) -> None:
        """Abort the connection now, and drop what it has not sent."""
        writer = getattr(self._transport, "_io_writer", None)  # a TcpTransport's; we use no other
        if writer is not None:
            writer.transport.abort()
