"""Joining a cluster: taking a name that is free, or whose node is over (session.py)."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from teia.clock import Clock
from teia.cluster.members.session import BUCKET, NodeSession, NodeState, Pace, decode, encode
from teia.cluster.nats.wire import NoAnswer, Wire, open_bucket
from teia.errors import ClusterError
from teia.frontier.cell import journal

if TYPE_CHECKING:
    from nats.js.kv import KeyValue

TAKE_NAME_S = 60.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", re.ASCII)


async def join(
    wire: Wire,
    clock: Clock,
    name: str,
    on_lost: Callable[[str], None],
    *,
    pace: Pace | None = None,
    replicas: int = 3,
    region: str = "",
    capacity: float = 1.0,
    collection: str = "",
) -> NodeSession:
    """Become a node of this name. Refused while another process has the name and lives."""
    if not _NAME.fullmatch(name):
        raise ClusterError(
            f"{name[:40]!r} cannot be the name of a node: use only A-Z, a-z, 0-9, _ and -; 63 characters at most"
        )
    pace = pace or Pace()
    bucket = await open_bucket(wire, clock, BUCKET, replicas)
    node = NodeState(
        name, secrets.token_hex(16), region=region, capacity=capacity, collection=collection,
        reads_format=journal.NEWEST_FORMAT,
    )  # fmt: skip
    session = NodeSession(wire, clock, pace, bucket, node, on_lost)
    there = await _entry(session)
    if there is not None and (before := decode(there.value or b"")) is not None:
        session.node = msgspec.structs.replace(node, follows=before.instance)
    # Reads only choose the moment; the conditional write decides.
    await _take_name(session, 0 if there is None else await _when_free(session, there))
    session.start()
    return session


async def _entry(session: NodeSession) -> KeyValue.Entry | None:
    """Return the entry under the session's name; a deleted key is an entry with its last revision and no value."""
    from nats.js.errors import KeyNotFoundError

    try:
        return await session.wire.retry(lambda: session.bucket.get(session.node.name), session.clock)
    except KeyNotFoundError as error:
        marker: KeyValue.Entry | None = error.entry
        return marker


async def _when_free(session: NodeSession, there: KeyValue.Entry) -> int:
    """Wait until a name is free: its node left or is dead, or it does not change for T. Return its last revision."""
    until = session.clock.ticks_s() + session.pace.silence_s
    while True:
        state = decode(there.value or b"")
        # T without a change: the process of this name is dead or cut off.
        if (state is not None and not state.is_alive) or session.clock.ticks_s() >= until:
            return there.revision or 0
        await session.clock.sleep(min(session.pace.beat_s, max(0.0, until - session.clock.ticks_s())))
        now = await _entry(session) or there
        after = decode(now.value or b"")
        if now.revision != there.revision and after is not None and after.is_alive:
            raise _taken(session.node.name)
        there = now


async def _take_name(session: NodeSession, last: int) -> None:
    """Write our instance under the name, if no other node did; repeat until the outcome is certain."""
    from nats.js.errors import KeyWrongLastSequenceError

    # Before the first try: the deadline must not be later than other nodes believe.
    sent, bucket, name = session.clock.ticks_s(), session.bucket, session.node.name
    until = sent + TAKE_NAME_S
    while session.clock.ticks_s() < until:
        with contextlib.suppress(KeyWrongLastSequenceError, NoAnswer):
            session.note_renewal(await session.wire.request(bucket.update(name, encode(session.node), last=last)), sent)
            return
        entry = await _entry(session)
        state = None if entry is None else decode(entry.value or b"")
        if entry is not None and state is not None and state.instance == session.instance:
            session.note_renewal(entry.revision or 0, sent)  # it was stored, and the answer lost
            return
        # Another process was faster.
        if entry is not None and (entry.revision or 0) > last:
            raise _taken(name)
        await session.clock.sleep(0.1)
    raise NoAnswer("NATS does not accept this node: it has no leader; check that a majority of its servers is running")


def _taken(name: str) -> ClusterError:
    return ClusterError(f"another running node has the name {name!r}; stop it, or choose another --name")
