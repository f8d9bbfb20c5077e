"""Interface to NATS: one connection, its options, and its errors translated in one place.

The client (client.py) tries to reconnect for ever, to any of the servers it knows. It never keeps messages that it
could not send (`pending_size=-1`): a publish delivered minutes later would have no waiting caller. A connection can
look alive while its server is cut off from the others. So all requests go through `Wire.request`, and after two without
an answer the client is made to reconnect, to another server.

Decide nothing by a read: a server that is cut off answers reads for seconds. Conditional writes decide.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from teia.clock import Clock
from teia.errors import ClusterError, MissingComponent
from teia.lib.undecodable import UNDECODABLE

if TYPE_CHECKING:
    from nats.js import JetStreamContext
    from nats.js.kv import KeyValue

    from teia.cluster.nats.client import TidyClient

ANSWER_S = 3.0
CONNECT_S = 2
RECONNECT_S = 0.5
FIRST_CONNECT_S = 5.0
RETRY_WITHIN_S = 30.0
AGAIN_S = 0.1
NO_PEERS = 10_005
"""Code of NATS for a copy that finds no server now: one has just died, or comes back."""

FAILURES_BEFORE_ANOTHER = 2

Answer = TypeVar("Answer")
_log = logging.getLogger(__name__)

Struct = TypeVar("Struct", bound=msgspec.Struct)


class NoAnswer(ClusterError):
    """NATS did not answer in time, or has no leader now; the requested operation may have happened or not."""

    is_temporary = True


class Wire:
    """A connection to NATS and the requests over it; made by `connect`."""

    def __init__(self, client: TidyClient, answer_s: float) -> None:
        self.client = client
        self.answer_s = answer_s
        self.js: JetStreamContext = client.jetstream(timeout=answer_s)
        self._failures = 0

    async def request(self, operation: Awaitable[Answer]) -> Answer:
        """Wait for an answer. Raise `NoAnswer` if none comes; after two such failures connect to another server."""
        from nats import errors
        from nats.js import errors as js_errors

        try:
            # Some waits of the client never end by themselves.
            async with asyncio.timeout(2 * self.answer_s):
                answer = await operation
        except errors.MaxPayloadError as error:
            most = f"{self.client.max_payload:,} bytes"
            raise ClusterError(f"a message is larger than the limit of NATS ({most}); increase max_payload") from error
        except js_errors.BadRequestError as error:
            # A conditional write that lost has no code: its class says all.
            if getattr(error, "err_code", None) != NO_PEERS:
                raise
            raise NoAnswer(
                f"NATS cannot place all copies of a stream ({error.description}); check that all of its servers run"
            ) from error
        except (
            TimeoutError,
            errors.TimeoutError,
            errors.NoRespondersError,
            errors.ConnectionClosedError,
            errors.ConnectionReconnectingError,
            errors.OutboundBufferLimitError,
            errors.StaleConnectionError,
            js_errors.NoStreamResponseError,
            js_errors.ServiceUnavailableError,
            OSError,
        ) as error:
            if self.client.is_closed:
                raise ClusterError(f"NATS has closed the connection ({self.client.last_error or error})") from error
            await self._note_silence()
            raise NoAnswer(
                f"NATS does not respond ({type(error).__name__}); check that a majority of its servers is running"
            ) from error
        self._failures = 0
        return answer

    async def retry(
        self, request: Callable[[], Awaitable[Answer]], clock: Clock, within_s: float = RETRY_WITHIN_S
    ) -> Answer:
        """Repeat a request until there is an answer: new servers and new streams need a moment."""
        until = clock.ticks_s() + within_s
        while True:
            try:
                return await self.request(request())
            except NoAnswer:
                if clock.ticks_s() >= until:
                    raise
                await clock.sleep(RECONNECT_S)

    async def _note_silence(self) -> None:
        self._failures += 1
        if self._failures >= FAILURES_BEFORE_ANOTHER and self.client.is_connected:
            self._failures = 0
            _log.warning("nats does not respond, reconnecting")
            await self.client.force_reconnect()

    async def close(self) -> None:
        """Send what is under way and disconnect."""
        if not await _ended_in_time(self.client.drain(), 2 * self.answer_s):
            await self.end()

    async def end(self) -> None:
        """Disconnect at once."""
        await _ended_in_time(self.client.close(), 2 * self.answer_s)
        self.client.abort()


async def _ended_in_time(closing: Coroutine[Any, Any, None], within_s: float) -> bool:
    """Tell whether the client could disconnect in time.

    Its own reconnecting may cut that short, or it may never end.
    """
    # Not awaited directly, because the client may swallow a cancellation.
    task = asyncio.ensure_future(closing)
    await asyncio.wait({task}, timeout=within_s)
    if not task.done():
        task.cancel()
        return False
    return not task.cancelled() and task.exception() is None


async def connect(
    servers: Sequence[str],
    key: Path | None,
    name: str,
    *,
    ca: Path | None = None,
    answer_s: float = ANSWER_S,
    within_s: float = FIRST_CONNECT_S,
) -> Wire:
    """Connect to one of the servers; ClusterError with the remedy if none accepts the connection."""
    try:
        from nats.errors import AuthorizationError

        from teia.cluster.nats.client import TidyClient
    except ImportError as error:
        raise MissingComponent("nats-py is not installed; install it with `pip install 'teia[cluster]'`") from error
    if key is not None and not key.is_file():  # noqa: ASYNC240  # once, before there is anything to block
        raise ClusterError(f"{key}: key file not found; `teia cluster up` writes one, see --key")
    client, shown = TidyClient(), ", ".join(servers)
    tls = None if ca is None else _tls_context(ca)
    refused = asyncio.Event()
    certificate_errors: list[str] = []

    async def on_error(error: Exception) -> None:
        _log.warning("nats error=%s", error)
        if isinstance(error, ssl.SSLCertVerificationError):
            certificate_errors.append(error.verify_message)
            refused.set()
        elif isinstance(error, AuthorizationError) or "authorization" in str(error).lower():
            refused.set()

    first = client.connect(
        list(servers),
        name=name,
        error_cb=on_error,
        max_reconnect_attempts=-1,
        reconnect_time_wait=RECONNECT_S,  # type: ignore[arg-type]  # a float will do
        connect_timeout=CONNECT_S,
        ping_interval=3,
        max_outstanding_pings=2,
        pending_size=-1,
        nkeys_seed=None if key is None else str(key),
        tls=tls,
    )
    # The client would try for ever: `on_error` notices a refusal, the timeout everything else.
    connecting = asyncio.ensure_future(first)
    refusal = asyncio.ensure_future(refused.wait())
    try:
        await asyncio.wait({connecting, refusal}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        if connecting.done() and connecting.exception() is None:
            return Wire(client, answer_s)
    finally:
        refusal.cancel()
    await _abandon_connecting(connecting, client)
    if certificate_errors:
        raise ClusterError(f"the certificate of NATS at {shown} is not trusted: {certificate_errors[-1]}; see --ca")
    if refused.is_set():
        raise ClusterError(f"NATS at {shown} rejected this key; see --key")
    raise ClusterError(f"NATS at {shown} cannot be reached; check that it is running, and check --nats")


def decode_message(octets: bytes, kind: type[Struct]) -> Struct:
    """Decode a message of another node; ClusterError if it is something else."""
    try:
        return msgspec.msgpack.decode(octets, type=kind)
    except UNDECODABLE as error:
        raise ClusterError(f"a message of another node cannot be read: {error}") from error


def _tls_context(ca: Path) -> ssl.SSLContext:
    """Return a TLS context that trusts servers of this authority, and no others."""
    try:
        return ssl.create_default_context(cafile=str(ca))
    except FileNotFoundError:
        raise ClusterError(f"{ca}: file not found; see --ca") from None
    except (ssl.SSLError, OSError) as error:
        raise ClusterError(f"{ca} contains no certificate; see --ca") from error


async def _abandon_connecting(connecting: asyncio.Future[None], client: TidyClient) -> None:
    """End a client that would try to connect for ever."""
    while not connecting.done():  # it may swallow a cancellation
        connecting.cancel()
        await asyncio.wait({connecting}, timeout=0.1)
    # Retrieved, so that asyncio does not report it later.
    if not connecting.cancelled():
        connecting.exception()
    await _ended_in_time(client.close(), CONNECT_S)
    client.abort()


async def open_bucket(wire: Wire, clock: Clock, name: str, replicas: int) -> KeyValue:
    """Open a key-value bucket, created if it is new. A new bucket is not known to all servers at once."""
    from nats.js.errors import BucketNotFoundError

    until = clock.ticks_s() + RETRY_WITHIN_S
    while True:
        try:
            return await wire.retry(lambda: wire.js.key_value(name), clock)
        except BucketNotFoundError as error:
            if clock.ticks_s() >= until:
                raise NoAnswer(
                    f"NATS does not find the bucket {name} that was just created; check that"
                    " its servers form one cluster"
                ) from error
        await wire.retry(lambda: wire.js.create_key_value(bucket=name, replicas=replicas, history=1), clock)
        await clock.sleep(AGAIN_S)
