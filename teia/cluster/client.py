"""nats-py's client, made to let go of connections that it gives up.

Two things it does not do by itself. An attempt to reconnect that fails after a server took the connection, as one that
hangs does, leaves its socket open: the next attempt writes over it. And before it reconnects it waits until the old
connection has closed, which first sends what is left in its buffer: where nobody reads that, a server that hangs or a
cable that was pulled, it would wait until the kernel gives up, for a quarter of an hour, with other servers there.
"""

from __future__ import annotations

from nats.aio.client import Client


class TidyClient(Client):
    """A client that cuts a connection off before it looks for another server."""

    async def _attempt_reconnect(self) -> None:
        self.cut_off()
        await super()._attempt_reconnect()

    async def _select_next_server(self) -> None:
        self.cut_off()
        await super()._select_next_server()

    def cut_off(self) -> None:
        """End the connection now, whatever it has not sent."""
        writer = getattr(self._transport, "_io_writer", None)  # a TcpTransport's; we use no other
        if writer is not None:
            writer.transport.abort()
