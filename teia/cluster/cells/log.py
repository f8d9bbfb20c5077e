"""The log of a cell in NATS: its owner and its commits.

One stream a collection, `TEIA_<collection>`, with four subjects a cell:

    <collection>.log.7     the records of cell 7. The last one names the owner of the cell. Each is written on condition
                           that the one before is still the last, so of two owners the server refuses one
    <collection>.part.7    beginnings of bodies that are too large for one message; they precede their record
    <collection>.links.7   links for cell 7 that other cells found
    <collection>.snap.7    pointer to the last snapshot

A commit is one atomic batch: links, parts, and last the conditional record. NATS stores it whole or not at all. If no
answer comes (`NoAnswer`) the outcome is unknown, and the last record is read until NATS answers. If it has our own
commit id, the batch was stored. If it has the old sequence number, it was not. Anything else means that another node
owns the cell now.

A record's `last` is the sequence number of the one before it, so a reader notices a gap. Everything here is retried as
long as `is_over` is false: while NATS is away no tries are counted, and nothing is lost. An owner's records are written
one after another, whichever task writes them: a lock orders commits and snapshots.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from teia.clock import Clock
from teia.cluster.nats.wire import NoAnswer, Wire
from teia.errors import ClusterError, DiskFull
from teia.frontier.cell.journal import NEWEST_FORMAT
from teia.lib.undecodable import UNDECODABLE

if TYPE_CHECKING:
    from nats.aio.msg import Msg

VERSION = 1
MAX_BODY_BYTES = 512 * 1024
"""Most bytes of a body in one message; NATS takes a megabyte."""

MAX_MESSAGES = 1_000
"""Most messages that NATS takes in one batch, the record included."""

MAX_CELLS = 900
"""Most cells of a collection: the links of one page then fit into a batch, for any cells they lead to."""

MAX_BATCH_BYTES = 64 << 20
RETRY_S = 0.05
LONG_RETRY_S = 0.5
LISTEN_S = 2.0
"""Time within which a listener notices that it should end."""

QUIET_S = 2.0
"""Heartbeat of an ordered consumer; after twice this it notices that its server is gone."""

DEAF_S = 10.0
"""Silence after which records that must come are subscribed to anew: more than twice the heartbeats of a consumer."""

_LAST_SUBJECT = "Nats-Expected-Last-Subject-Sequence"
_GIVER = "Teia-Node"
"""Header of a message in a batch: the node that sent it."""

# Error codes of NATS: another record is the last one; the stream has no room.
_WRONG_LAST = 10071
_FULL = {10077, 10047}
_TRY_AGAIN = {10164, 10176, 10008, 10014, 10023}
"""Error codes after which a write is retried.

Another conditional write is under way; a batch lost its leader; there is no leader, or none that can write now.
"""


class CellLost(ClusterError):
    """Another node owns the cell now, or our session is over; uncommitted work must be dropped."""

    def __init__(self, cell: int, why: str) -> None:
        super().__init__(f"cell {cell} is not owned by this node any more: {why}")
        self.cell = cell


class TooLarge(ClusterError):
    """A commit is more than NATS takes at once. Nothing was stored; the same in parts may fit."""


class NumberTaken(ClusterError):
    """A cell that was to be split off has a log already. Nothing was stored; the caller's agreement is out of date."""


class LogGone(ClusterError):
    """Records that follow the known ones were purged: they are in a snapshot."""


class StreamFull(DiskFull):
    """NATS has no room for a record; nothing was stored, and the write may be retried when there is room."""


class LogRecord(msgspec.Struct, array_like=True, frozen=True):
    """One record of a cell's log, as MessagePack. `epoch` is the sequence number of the epoch's first record."""

    version: int
    kind: str
    """Kind of record: `epoch` begins an epoch, `commit` has changes, `release` ends an epoch, `snapshot` names one."""
    node: str
    instance: str
    commit: str
    epoch: int = 0
    last: int = 0
    to: str = ""
    parts: int = 0
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A record at its place in the stream, with its complete body."""

    seq: int
    record: LogRecord
    body: bytes


@dataclass(frozen=True, slots=True)
class LinkBatch:
    """Links for a cell, at their place in the stream; `giver` is empty if an older node sent them.

    `published_s` is the time at which NATS stored them, by the clock of its server.
    """

    seq: int
    data: bytes
    giver: str = ""
    published_s: float = 0.0


NewCell = tuple[int, bytes, int]
"""A cell that is split off another (split.py): its number, the pointer to its first snapshot, and a record number.

The snapshot covers the other cell's log up to that record. The new cell's own log begins after it.
"""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(LogRecord).decode


def stream_name(collection: str) -> str:
    return f"TEIA_{collection}"


async def create_stream(wire: Wire, clock: Clock, collection: str, replicas: int, max_bytes: int = 0) -> None:
    """Create a collection's stream, if it is new. A full stream refuses writes: old records may not have been read."""
    from nats.js import api
    from nats.js.errors import NotFoundError

    with contextlib.suppress(NotFoundError):
        await wire.retry(lambda: wire.js.stream_info(stream_name(collection)), clock)
        return  # the operator of NATS may have changed its size

    config = api.StreamConfig(
        name=stream_name(collection),
        subjects=[f"{collection}.{kind}.*" for kind in ("log", "part", "links", "snap")],
        retention=api.RetentionPolicy.LIMITS,
        discard=api.DiscardPolicy.NEW,
        storage=api.StorageType.FILE,
        num_replicas=replicas,
        max_bytes=max_bytes or -1,
        allow_atomic=True,
        # Old records may be purged, once a snapshot has them; none may be deleted alone.
        deny_delete=True,
        # A direct get may be answered by a replica that is behind.
        allow_direct=False,
    )
    await wire.retry(lambda: wire.js.add_stream(config), clock)


class CellLog:
    """The log of one cell as one node writes it: `take`, then `append`; see the module."""

    def __init__(
        self,
        wire: Wire,
        clock: Clock,
        collection: str,
        cell: int,
        node: str,
        instance: str,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self.cell = cell
        self.instance = instance
        self.epoch = 0
        self.last = 0
        self.messages = 0
        self.sent_bytes = 0
        self.unsaved_bytes = 0
        """Bytes of records that are in no snapshot, as far as this node has written or read them."""
        self.has_room: Callable[[], bool] = lambda: True
        """True if commits may be written; the last part of an almost full stream is for snapshots."""
        self.changes_format: Callable[[], int] = lambda: NEWEST_FORMAT
        """Newest format of changes that all nodes can read (frontier/cell/journal.py)."""
        self._write_lock = asyncio.Lock()
        self._wire = wire
        self._clock = clock
        self._collection = collection
        self._stream = stream_name(collection)
        self._node = node
        self._is_over = is_over
        self._lost_reason = ""

    # -- reading -------------------------------------------------------------------------------------------

    def _subject(self, kind: str, cell: int | None = None) -> str:
        return f"{self._collection}.{kind}.{self.cell if cell is None else cell}"

    async def head(self) -> LogEntry | None:
        """Return the last record, without the parts of its body; None if the log is empty. May be out of date."""
        from nats.js.errors import NotFoundError

        try:
            message = await self._wire.request(self._wire.js.get_msg(self._stream, subject=self._subject("log")))
        except NotFoundError:
            return None
        record = self._decode_record(message.seq or 0, message.data or b"")
        return LogEntry(message.seq or 0, record, record.body)

    def _decode_record(self, seq: int, data: bytes) -> LogRecord:
        try:
            record = _decode(data)
        except UNDECODABLE as error:
            raise ClusterError(f"record {seq} of {self._subject('log')} cannot be read: {error}") from error
        if record.version != VERSION:
            raise ClusterError(
                f"{self._subject('log')} was written by another version of teia (records of version "
                f"{record.version}, this one reads {VERSION}); run the same version on all nodes"
            )
        return record

    async def replay(self, after: int, until: int) -> AsyncIterator[LogEntry]:
        """Yield the records that follow `after`, up to and with `until`, which must be one of them."""
        last, patience_s = after, DEAF_S
        while last < until and not self._is_over():
            before, heard_at, parts = last, self._clock.ticks_s(), list[bytes]()

            def is_deaf() -> bool:
                # More is to come. The client may have lost its subscription in an outage without noticing.
                return self._clock.ticks_s() - heard_at > patience_s  # noqa: B023

            async with contextlib.aclosing(self._follow(["log", "part"], last, is_deaf)) as messages:
                async for kind, message in messages:
                    heard_at = self._clock.ticks_s()
                    if kind == "part":
                        parts.append(message.data)
                        continue
                    entry = self._entry_after(last, message, parts)
                    parts.clear()
                    self.unsaved_bytes += len(entry.body)
                    yield entry
                    last, heard_at = entry.seq, self._clock.ticks_s()  # without the time that the caller took
                    if last >= until:
                        return
            # Over a slow line a message may take longer than that.
            patience_s = DEAF_S if last > before else 2 * patience_s
        if last < until:
            raise CellLost(self.cell, "the session ended before its log was read")

    def _entry_after(self, last: int, message: Msg, parts: Sequence[bytes]) -> LogEntry:
        """Return the record in a message with its whole body; LogGone if it does not follow the last one."""
        seq = message.metadata.sequence.stream
        record = self._decode_record(seq, message.data)
        if record.last != last:
            raise LogGone(
                f"the records of {self._subject('log')} between {last} and {seq} are missing; a snapshot is needed to"
                " continue"
            )
        body = b"".join([*parts[len(parts) - record.parts :], record.body]) if record.parts else record.body
        return LogEntry(seq, record, body)

    async def links(self, after: int, is_over: Callable[[], bool] = lambda: False) -> AsyncGenerator[LinkBatch, None]:
        """Yield links that other cells found for this cell, until `is_over`; the client may swallow a cancellation."""
        async with contextlib.aclosing(self._follow(["links"], after, is_over)) as messages:
            async for _, message in messages:
                stored = message.metadata
                giver = (message.headers or {}).get(_GIVER, "")
                yield LinkBatch(stored.sequence.stream, message.data, giver, stored.timestamp.timestamp())

    async def _follow(
        self, kinds: Sequence[str], after: int, is_over: Callable[[], bool] = lambda: False
    ) -> AsyncGenerator[tuple[str, Msg], None]:
        """Yield the cell's messages with their kinds, in order; during an outage it waits."""
        from nats import errors
        from nats.js import api

        config = api.ConsumerConfig(
            filter_subjects=[self._subject(kind) for kind in kinds],
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=after + 1,
        )
        js = self._wire.js
        subscription = await self._retry(
            lambda: js.subscribe("", stream=self._stream, ordered_consumer=True, idle_heartbeat=QUIET_S, config=config)
        )
        try:
            while not self._is_over() and not is_over():
                try:
                    message: Msg = await subscription.next_msg(timeout=LISTEN_S)
                except (errors.TimeoutError, TimeoutError):
                    continue
                yield message.subject.split(".")[-2], message
        finally:
            with contextlib.suppress(Exception):
                await subscription.unsubscribe()

    async def _retry(self, request: Callable[[], Awaitable[Any]]) -> Any:  # Any: the client's own kinds of answers
        """Repeat a request until NATS answers."""
        while True:
            try:
                return await self._wire.request(request())
            except NoAnswer:
                if self._is_over():
                    raise
                await self._clock.sleep(LONG_RETRY_S)

    # -- writing -------------------------------------------------------------------------------------------

    async def take(self, head: LogEntry | None) -> int:
        """Become the cell's owner after the last record seen; return the epoch. The slower of two gets CellLost."""
        self.last = 0 if head is None else head.seq
        self._lost_reason = ""
        self.epoch = await self._store("epoch", [])
        return self.epoch

    async def append(
        self, body: bytes, links: Sequence[tuple[int, bytes]] = (), new_cell: NewCell | None = None
    ) -> int:
        """Commit links for other cells and a record with this body, all or nothing; return the record's number.

        `new_cell` is a cell that is split off this one: its first records are in the same batch, on condition that its
        log is new (`NumberTaken`).
        """
        pieces = [body[at : at + MAX_BODY_BYTES] for at in range(0, len(body), MAX_BODY_BYTES)] or [b""]
        before = [(self._subject("links", cell), data) for cell, data in links]
        before += self._first_records(new_cell) if new_cell is not None else []
        before += [(self._subject("part"), piece) for piece in pieces[:-1]]
        # NATS would refuse such a batch; the caller commits it in parts.
        if len(before) >= MAX_MESSAGES or sum(len(data) for _, data in before) > MAX_BATCH_BYTES:
            raise TooLarge(f"a commit of {len(body):,} bytes and {len(links)} link messages is too large for NATS")
        if not self.has_room():
            raise StreamFull(
                f"the stream {self._stream} is almost full; commits continue when snapshots have freed space"
            )
        seq = await self._store("commit", before, parts=len(pieces) - 1, body=pieces[-1])
        self.unsaved_bytes += len(body)
        return seq

    def _first_records(self, new_cell: NewCell) -> list[tuple[str, bytes]]:
        """Return the first records of a new cell: its snapshot pointer, and a release, so that it has no owner."""
        number, pointer, seq = new_cell
        first = LogRecord(VERSION, "release", self._node, self.instance, secrets.token_hex(8), seq, seq)
        return [(self._subject("snap", number), pointer), (self._subject("log", number), _encode(first))]

    async def has_log(self, cell: int) -> bool:
        """Tell whether a cell, split off this one or another, has a log. May be out of date."""
        from nats.js.errors import NotFoundError

        try:
            await self._wire.request(self._wire.js.get_msg(self._stream, subject=self._subject("log", cell)))
        except NotFoundError:
            return False
        return True

    async def publish_pointer(self, pointer: bytes) -> int:
        """Publish a snapshot as the cell's: its pointer and a record, both or none. A stale owner gets CellLost."""
        return await self._store("snapshot", [(self._subject("snap"), pointer)])

    async def pointer(self) -> bytes | None:
        """Return the pointer of the last `publish_pointer`; None if there was none. May be out of date."""
        from nats.js.errors import NotFoundError

        try:
            message = await self._wire.request(self._wire.js.get_msg(self._stream, subject=self._subject("snap")))
        except NotFoundError:
            return None
        return message.data or b""

    async def release(self, to: str = "") -> None:
        """Give the cell up cleanly; another node may take it at once."""
        await self._store("release", [], to=to)
        self._lost_reason = "given up"

    async def purge(self, below: int) -> None:
        """Purge records before `below`, which a snapshot holds, and all pointers but the last.

        `below` is never after the last record: that record names the cell's owner, and an empty subject starts again at
        0.
        """
        if below > self.last:
            raise ClusterError(f"record {self.last} of {self._subject('log')} is the last and cannot be purged")
        for kind in ("log", "part") if below else ():  # zero means all of them to the server
            await self._wire.request(self._wire.js.purge_stream(self._stream, subject=self._subject(kind), seq=below))
        await self._wire.request(self._wire.js.purge_stream(self._stream, subject=self._subject("snap"), keep=1))

    async def last_links(self) -> int:
        """Return the number of the last message for this cell that waits in the stream; 0 if there is none."""
        from nats.js.errors import NotFoundError

        try:
            message = await self._wire.request(self._wire.js.get_msg(self._stream, subject=self._subject("links")))
        except NotFoundError:
            return 0
        return message.seq or 0

    async def purge_links(self, until: int) -> None:
        """Purge links that were taken into the cell; `until` is the last of them."""
        subject = self._subject("links")
        await self._wire.request(self._wire.js.purge_stream(self._stream, subject=subject, seq=until + 1))

    def _record(self, kind: str, *, to: str = "", parts: int = 0, body: bytes = b"") -> LogRecord:
        epoch = 0 if kind == "epoch" else self.epoch
        commit = secrets.token_hex(8)
        return LogRecord(VERSION, kind, self._node, self.instance, commit, epoch, self.last, to, parts, body)

    async def _store(
        self, kind: str, before: Sequence[tuple[str, bytes]], *, to: str = "", parts: int = 0, body: bytes = b""
    ) -> int:
        """Publish a record and its batch, after earlier writes, and repeat until the outcome is certain."""
        async with self._write_lock:
            return await self._publish_until_certain(self._record(kind, to=to, parts=parts, body=body), before)

    async def _publish_until_certain(self, record: LogRecord, before: Sequence[tuple[str, bytes]]) -> int:
        data = _encode(record)
        while True:
            # Checked before every try: once the session is over, another node may own the cell.
            if self._lost_reason or self._is_over():
                raise CellLost(self.cell, self._lost_reason or "the session has ended")
            try:
                seq, code, why = await self._publish(data, before)
            except NoAnswer:
                code, why = 0, "no response"
            if not code and why != "no response":
                break
            if code in _FULL:
                raise StreamFull(f"the stream {self._stream} is full; increase its limit to continue ({why})")
            if code in _TRY_AGAIN or "inflight" in why:
                await self._clock.sleep(RETRY_S)
                continue
            if code not in {0, _WRONG_LAST}:
                raise ClusterError(f"NATS rejected a record for {self._subject('log')}: {why} ({code})")
            # No answer, or another record is last, which may be this node's: a try whose answer was lost.
            found = await self._find_stored(record)
            if found:
                seq = found
                break
            # This log is unchanged, so it was the condition on a new cell's log that failed.
            if code == _WRONG_LAST:
                await self._check_new_log(before)
        self.last = seq
        self.messages += 1 + len(before)
        self.sent_bytes += len(data) + sum(len(each) for _, each in before)
        return seq

    async def _find_stored(self, record: LogRecord) -> int:
        """Return the number of a record, or 0 if it was not stored.

        CellLost if another node's record is there instead.
        """
        while True:
            try:
                head = await self.head()
                break
            except NoAnswer:
                if self._is_over():
                    raise CellLost(self.cell, "the session ended before NATS responded") from None
                await self._clock.sleep(LONG_RETRY_S)
        if head is not None and head.record.commit == record.commit:
            return head.seq
        if (0 if head is None else head.seq) <= self.last:
            # The old record is still the last one: the batch was not stored and is sent again.
            await self._clock.sleep(RETRY_S)
            return 0
        assert head is not None
        self._lost_reason = f"{head.record.node} owns it since {head.record.epoch or head.seq}"
        raise CellLost(self.cell, self._lost_reason)

    async def _check_new_log(self, before: Sequence[tuple[str, bytes]]) -> None:
        """Raise NumberTaken if a batch was refused because the new cell's log exists."""
        for cell in (int(subject.rpartition(".")[2]) for subject, _ in before if self._is_first_record(subject)):
            with contextlib.suppress(NoAnswer):
                if await self.has_log(cell):
                    raise NumberTaken(f"cell {cell} already exists; the agreement is outdated")

    def _is_first_record(self, subject: str) -> bool:
        """Tell whether a message of a batch is the first one of another cell's log."""
        return subject.startswith(f"{self._collection}.log.")

    async def _publish(self, data: bytes, before: Sequence[tuple[str, bytes]]) -> tuple[int, int, str]:
        """Send a batch once; return (sequence number, error code, description from NATS)."""
        condition = {_LAST_SUBJECT: str(self.last)}
        if not before:
            return await self._request(self._subject("log"), data, condition)
        batch = secrets.token_hex(11)
        for number, (subject, payload) in enumerate(before, 1):
            headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number), _GIVER: self._node}
            headers |= {_LAST_SUBJECT: "0"} if self._is_first_record(subject) else {}
            # The first message is acknowledged: an error shows before the rest is sent.
            if number == 1:
                _, code, why = await self._request(subject, payload, headers)
                if code:
                    return 0, code, why
            else:
                await self._wire.request(self._wire.client.publish(subject, payload, headers=headers))
                # A batch may have a thousand messages; the session must be renewed meanwhile.
                await asyncio.sleep(0)
        headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(len(before) + 1), "Nats-Batch-Commit": "1"}
        return await self._request(self._subject("log"), data, condition | headers)

    async def _request(self, subject: str, data: bytes, headers: dict[str, str]) -> tuple[int, int, str]:
        client, answer_s = self._wire.client, self._wire.answer_s
        answer = await self._wire.request(client.request(subject, data, timeout=answer_s, headers=headers))
        response = json.loads(answer.data) if answer.data else {}
        error = response.get("error")
        if error:
            return 0, int(error.get("err_code") or error.get("code") or -1), str(error.get("description", ""))
        return int(response.get("seq", 0)), 0, ""
