"""Killable children for work that may crash, hang or eat memory: `job(payload: bytes) -> bytes`.

A child is *starting* (asked for), *working* or *idle* (born, with or without items), or *dying* (its socket has
closed or it was told to die, and the zygote has not yet said how it ended). It has at most `WINDOW` items, sent
together while they wait, and does them one by one. If it dies, the item it had started is to blame and is tried once
more; the others go to the next child. An item that costs two children is `Lost`. Every item submitted is answered
exactly once, with bytes or with `Lost`.

Cost in this process: about 10 us an item, batched (`python -m bench.parse`).
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from teia.clock import Clock
from teia.config import LimitSettings
from teia.errors import ParseError
from teia.parse.child import DONE, FROM_CHILD, OUT_OF_MEMORY, STARTED, TO_CHILD
from teia.parse.spawn import ZygoteProcess
from teia.parse.zygote import DEATH, LIMITS, PACKET_BYTES, PID

WINDOW = 16
WINDOW_BYTES = 4 * 2**20
BATCH_WAIT_S = 0.01
TRIES = 2
WATCH_S = 0.25
START_S = 30.0
MAX_DEATHS_AT_BIRTH = 5
"""So many children in a row that die before they start anything mean that none ever will."""

_RECEIVE_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """What one item may cost. Wall time is generous: it is for jobs that sleep, processor time for those that spin."""

    cpu_s: float = 10.0
    wall_s: float = 60.0
    memory_bytes: int = 512 * 2**20

    @classmethod
    def of(cls, limits: LimitSettings) -> ChildLimits:
        return cls(limits.parse_cpu_s, 6 * limits.parse_cpu_s, limits.parse_memory_bytes)


@dataclass(frozen=True, slots=True)
class Lost:
    """Instead of an answer: why there is none. `cpu`, `wall`, `memory`, `signal N`, `exit N`, `closed`, or an error."""

    reason: str


Done = Callable[[bytes | Lost], None]


@dataclass(slots=True, eq=False)
class _Item:
    ticket: int
    parts: tuple[bytes, ...]
    size: int
    done: Done
    tries: int = 0


@dataclass(slots=True, eq=False)
class _Child:
    """One child as seen from here. `items` are in the order it does them; `started` is the one it is at."""

    connection: socket.socket
    pid: int = 0
    items: deque[_Item] = field(default_factory=deque)
    items_bytes: int = 0
    started: _Item | None = None
    started_s: float = 0.0
    unsent: deque[memoryview] = field(default_factory=deque)
    unread: bytearray = field(default_factory=bytearray)
    killed_for: str = ""
    has_started_anything: bool = False
    is_dying: bool = False


class ChildPool:
    """A fixed number of children for one job. All methods belong to the event loop's thread."""

    def __init__(
        self, job: str, children: int, limits: ChildLimits, clock: Clock, zygote: ZygoteProcess | None = None
    ) -> None:
        self._job = job
        self._size = max(1, children)
        self._limits = limits
        self._clock = clock
        self._queue: deque[_Item] = deque()
        self._queue_bytes = 0
        self._children: list[_Child] = []
        self._unborn: deque[_Child] = deque()
        self._tickets = 0
        self._flush: asyncio.Handle | None = None
        self._watch: asyncio.Handle | None = None
        self._zygote = zygote
        self._control: socket.socket | None = None
        self._ready: asyncio.Future[None] | None = None
        self._deaths_at_birth = 0
        self._broken = ""
        self._closed = False
        self.lost_children = 0

    # ---- for callers ------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Items that have not been answered."""
        return len(self._queue) + sum(len(child.items) for child in self._children)

    @property
    def waiting_bytes(self) -> int:
        """The same, in bytes of payload."""
        return self._queue_bytes + sum(child.items_bytes for child in self._children)

    @property
    def pids(self) -> tuple[int, ...]:
        """Processes of the living children."""
        return tuple(child.pid for child in self._children if child.pid and not child.is_dying)

    async def start(self) -> None:
        """Start the zygote, unless one was given, and its children; ParseError if the job cannot be imported."""
        self._listen_to(self._zygote or ZygoteProcess.start(self._job))
        assert self._ready is not None
        try:
            await asyncio.wait_for(asyncio.shield(self._ready), START_S)
        except TimeoutError:
            await self.close()
            raise ParseError(
                f"parse children did not start within {START_S:.0f} s; is the machine overloaded?"
            ) from None
        except ParseError:
            await self.close()
            raise
        self._watch = asyncio.get_running_loop().call_later(WATCH_S, self._watch_wall_time)

    def submit(self, *parts: bytes, done: Done) -> None:
        """Have the job done on a payload; `done` is called once, later, with the answer or with `Lost`.

        The payload may come in parts, lest a large one be copied to be one.
        """
        if self._closed or self._broken:
            asyncio.get_running_loop().call_soon(done, Lost(self._broken or "closed"))
            return
        self._tickets = (self._tickets + 1) & 0xFFFFFFFF
        item = _Item(self._tickets, parts, sum(map(len, parts)), done)
        self._queue.append(item)
        self._queue_bytes += item.size
        self._plan_flush()

    async def close(self) -> None:
        """End all children; items without an answer are lost. Takes a second at most, whatever they are doing."""
        if self._closed:
            return
        self._closed = True
        for handle in (self._flush, self._watch):
            if handle is not None:
                handle.cancel()
        for child in self._children:
            self._hang_up(child)
        self._hang_up_zygote()
        if self._zygote is not None:
            await asyncio.to_thread(self._zygote.end)
        self._lose_all("closed")

    # ---- sending ----------------------------------------------------------------------------------------------------

    def _plan_flush(self) -> None:
        """Send at once to a child without work; to a busy one when there is a batch, or after a moment."""
        if self._flush is not None:
            return
        loop = asyncio.get_running_loop()
        if len(self._queue) >= WINDOW or any(child.pid and not child.items for child in self._children):
            self._flush = loop.call_soon(self._send_waiting)
        else:
            self._flush = loop.call_later(BATCH_WAIT_S, self._send_waiting)

    def _send_waiting(self) -> None:
        self._flush = None
        ready = [child for child in self._children if child.pid and not child.is_dying]
        for child in sorted(ready, key=lambda each: len(each.items)):
            if not self._queue:
                return
            # No child is given more than its share while another has nothing to do.
            share = -(-len(self._queue) // len(ready))
            self._send_batch(child, max(1, share))

    def _send_batch(self, child: _Child, most: int) -> None:
        was_idle = not child.unsent
        room = min(WINDOW - len(child.items), most)
        while self._queue and room > 0 and child.items_bytes < WINDOW_BYTES:
            item = self._queue.popleft()
            self._queue_bytes -= item.size
            child.items.append(item)
            child.items_bytes += item.size
            child.unsent.append(memoryview(TO_CHILD.pack(item.size, item.ticket)))
            child.unsent.extend(map(memoryview, filter(None, item.parts)))
            room -= 1
        if was_idle and child.unsent:
            self._write(child)

    def _write(self, child: _Child) -> None:
        """Send what the socket takes; the rest when it takes more."""
        try:
            sent = child.connection.sendmsg(list(child.unsent))
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # the reader sees the same end and deals with it
        while child.unsent and sent >= len(child.unsent[0]):
            sent -= len(child.unsent.popleft())
        loop = asyncio.get_running_loop()
        if child.unsent:
            child.unsent[0] = child.unsent[0][sent:]
            loop.add_writer(child.connection, self._write, child)
        else:
            loop.remove_writer(child.connection)

    # ---- receiving --------------------------------------------------------------------------------------------------

    def _read(self, child: _Child) -> None:
        try:
            received = child.connection.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self._end_child(child)
            return
        child.unread += received
        for item, answer in self._answers(child):
            item.done(answer)
        if self._queue and len(child.items) <= WINDOW // 4:
            self._send_waiting_now()

    def _send_waiting_now(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
        self._send_waiting()

    def _answers(self, child: _Child) -> list[tuple[_Item, bytes | Lost]]:
        """Take the complete frames out of what was received."""
        found: list[tuple[_Item, bytes | Lost]] = []
        unread, position = child.unread, 0
        while len(unread) - position >= FROM_CHILD.size:
            kind, ticket, length = FROM_CHILD.unpack_from(unread, position)
            end = position + FROM_CHILD.size + length
            if len(unread) < end:
                break
            if not child.items or child.items[0].ticket != ticket:
                # Frames come in the order of the items; anything else was not written by us.
                self._kill(child, "protocol")
                break
            if kind == STARTED:
                child.started, child.started_s = child.items[0], self._clock.ticks_s()
                child.has_started_anything = True
            else:
                item = child.items.popleft()
                child.items_bytes -= item.size
                child.started = None
                result = bytes(unread[position + FROM_CHILD.size : end])
                found.append((item, result if kind == DONE else Lost(result.decode("utf-8", "replace"))))
            position = end
        del unread[:position]
        return found

    # ---- the life of children ---------------------------------------------------------------------------------------

    def _listen_to(self, zygote: ZygoteProcess) -> None:
        loop = asyncio.get_running_loop()
        self._zygote, self._control = zygote, zygote.control
        self._ready = loop.create_future()
        loop.add_reader(zygote.control, self._hear_zygote)

    def _hear_zygote(self) -> None:
        assert self._control is not None
        while True:
            try:
                packet = self._control.recv(PACKET_BYTES)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            kind = packet[:1]
            if kind == b"B":
                self._begin_child(PID.unpack_from(packet, 1)[0])
            elif kind == b"D":
                self._bury(*DEATH.unpack_from(packet, 1))
            elif kind == b"R":
                self._set_ready(None)
                for _ in range(self._size):
                    self._ask_for_child()
            elif kind == b"X":
                self._set_ready(ParseError(f"parse job {self._job} cannot be imported: {packet[1:].decode()}"))
            else:
                self._lose_zygote()
                return

    def _set_ready(self, error: ParseError | None) -> None:
        if self._ready is None or self._ready.done():
            return
        if error is None:
            self._ready.set_result(None)
        else:
            self._ready.set_exception(error)

    def _ask_for_child(self) -> None:
        assert self._control is not None
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        child = _Child(ours)
        self._children.append(child)
        self._unborn.append(child)
        with theirs, contextlib.suppress(OSError):  # a dead zygote is noticed by its own end
            limits = LIMITS.pack(self._limits.cpu_s, self._limits.memory_bytes)
            socket.send_fds(self._control, [b"F" + limits], [theirs.fileno()])

    def _begin_child(self, pid: int) -> None:
        child = self._unborn.popleft()
        child.pid = pid
        asyncio.get_running_loop().add_reader(child.connection, self._read, child)
        if self._queue:
            self._send_waiting_now()

    def _watch_wall_time(self) -> None:
        now_s = self._clock.ticks_s()
        for child in self._children:
            if child.started is not None and now_s - child.started_s > self._limits.wall_s:
                self._kill(child, "wall")
        self._watch = asyncio.get_running_loop().call_later(WATCH_S, self._watch_wall_time)

    def _kill(self, child: _Child, reason: str) -> None:
        child.killed_for = child.killed_for or reason
        self._end_child(child)

    def _end_child(self, child: _Child) -> None:
        """Have no more to do with a child; the zygote will say when and how it died."""
        if child.is_dying:
            return
        child.is_dying = True
        self._hang_up(child)
        if self._control is not None:
            with contextlib.suppress(OSError):
                self._control.send(b"K" + PID.pack(child.pid))

    def _hang_up(self, child: _Child) -> None:
        loop = asyncio.get_running_loop()
        if child.connection.fileno() >= 0:
            loop.remove_reader(child.connection)
            loop.remove_writer(child.connection)
            child.connection.close()

    def _bury(self, pid: int, status: int) -> None:
        """Blame the item a dead child was at, hand its other items on, and replace it."""
        child = next((each for each in self._children if each.pid == pid), None)
        if child is None:
            return
        if not child.is_dying:
            self._read_last_words(child)
            self._hang_up(child)
        self._children.remove(child)
        self.lost_children += 1
        self._hand_on(child, _reason(child, status))
        self._deaths_at_birth = 0 if child.has_started_anything else self._deaths_at_birth + 1
        if self._deaths_at_birth >= MAX_DEATHS_AT_BIRTH:
            self._break(f"parse children die at once ({_reason(child, status)})")
        elif not self._closed:
            self._ask_for_child()

    def _read_last_words(self, child: _Child) -> None:
        """Take the answers that a child sent before it died and that we have not read."""
        with contextlib.suppress(OSError):
            while received := child.connection.recv(_RECEIVE_BYTES):
                child.unread += received
        for item, answer in self._answers(child):
            item.done(answer)

    def _hand_on(self, child: _Child, reason: str) -> None:
        blamed, others = child.started, [item for item in child.items if item is not child.started]
        again = others
        if blamed is not None:
            blamed.tries += 1
            again = [*others, blamed] if blamed.tries < TRIES else others
        self._queue.extendleft(reversed(again))
        self._queue_bytes += sum(item.size for item in again)
        child.items.clear()
        child.items_bytes = 0
        if blamed is not None and blamed.tries >= TRIES:
            blamed.done(Lost(reason))

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _lose_zygote(self) -> None:
        """The zygote itself is gone, and the kernel has killed its children: begin again, or give up at start."""
        self._set_ready(ParseError("parse children cannot be started; the lines above say why"))
        self._hang_up_zygote()
        if self._closed:
            return
        for child in self._children:
            self._hang_up(child)
            self._hand_on(child, "zygote died")
        self._children.clear()
        self._unborn.clear()
        self._deaths_at_birth += 1
        if self._zygote is not None:
            self._zygote.end()
        if self._deaths_at_birth >= MAX_DEATHS_AT_BIRTH:
            self._break("parse children cannot be kept alive")
        elif self._watch is not None:
            self._listen_to(ZygoteProcess.start(self._job))

    def _hang_up_zygote(self) -> None:
        if self._control is not None:
            asyncio.get_running_loop().remove_reader(self._control)
            self._control.close()
            self._control = None

    def _break(self, why: str) -> None:
        self._broken = why
        self._lose_all(why)

    def _lose_all(self, why: str) -> None:
        items = [item for child in self._children for item in child.items] + list(self._queue)
        self._children.clear()
        self._queue.clear()
        self._queue_bytes = 0
        for item in items:
            item.done(Lost(why))


def _reason(child: _Child, status: int) -> str:
    """Say in a word why a child died."""
    if child.killed_for:
        return child.killed_for
    if status == -signal.SIGPROF:
        return "cpu"
    if status == OUT_OF_MEMORY:
        return "memory"
    return f"signal {-status}" if status < 0 else f"exit {status}"
