"""Killable children for work that may crash, hang or exhaust memory: `job(payload: bytes) -> bytes`.

A child is *starting* (requested), *working* or *idle* (born, with or without items), or *dying* (its socket has closed
or it was killed, and the zygote has not yet reported its end). It has at most `WINDOW` items, sent together while they
wait, and does them one by one. If it dies, the item it had started is to blame and is tried once more; the others go to
the next child. An item that costs two children, or five that were killed from outside, is `LostAnswer`. Every submitted
item is answered exactly once, with bytes or with `LostAnswer`.

Other processes may also kill or stop children, or children may not start at all. A watch kills children that do not
begin their items, and a zygote that does not report a child's end. A pool with a `probe`, an item that any child
can do, distinguishes such trouble from bad items: before an item is lost, and after several deaths in a row, one
child is given the probe. If that fails no item is to blame: all wait, `trouble` holds the reason, and the probe is
tried again after a delay that grows. A pool without a probe gives up and loses all items.

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
from teia.config.sections import LimitSettings
from teia.errors import ParseError
from teia.lib.entry_points import name_of
from teia.parse.children.child import DONE, FROM_CHILD, OUT_OF_MEMORY, STARTED, TO_CHILD, JobLoader, LostAnswer
from teia.parse.children.spawn import ZygoteProcess
from teia.parse.children.zygote import DEATH, LIMITS, PACKET_BYTES, PID

WINDOW = 16
WINDOW_BYTES = 4 * 2**20
BATCH_WAIT_S = 0.01
TRIES = 2
KILLS = 5
"""Deaths by SIGKILL that an item is tried through. Its job does not kill itself; the out-of-memory killer, or a person,
does, so two such deaths are no proof against the item that happened to be under way."""

WATCH_S = 0.25
START_S = 30.0
STALL_S = 10.0
"""Time after which a child that does not begin an item, or a zygote that does not answer, is killed."""

MAX_FAILED_STARTS = 5
"""Number of children in a row that die before they start anything, after which none is expected to work."""

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
"""Waits of a pool in trouble before it tries another child; the wait doubles."""

_RECEIVE_BYTES = 65_536
_KILLED = f"signal {signal.SIGKILL:d}"


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """Limits of one item. Wall time is generous: it is for jobs that sleep, processor time for those that spin."""

    cpu_s: float = 10.0
    wall_s: float = 60.0
    memory_bytes: int = 512 * 2**20

    @classmethod
    def from_settings(cls, limits: LimitSettings) -> ChildLimits:
        return cls(limits.parse_cpu_s, 6 * limits.parse_cpu_s, limits.parse_memory_bytes)


Done = Callable[[bytes | LostAnswer], None]


@dataclass(slots=True, eq=False)
class _Item:
    ticket: int
    parts: tuple[bytes, ...]
    size: int
    done: Done
    tries: int = 0
    kills: int = 0

    @property
    def is_exhausted(self) -> bool:
        return self.tries >= TRIES or self.kills >= KILLS


@dataclass(slots=True, eq=False)
class _Child:
    """One child, as the pool sees it. `items` are in the order it does them; `started` is the present one.

    `since_s` is the time of the last message from it, or from the zygote about it, or of the first item after a
    pause.
    """

    connection: socket.socket
    pid: int = 0
    items: deque[_Item] = field(default_factory=deque)
    items_bytes: int = 0
    started: _Item | None = None
    started_s: float = 0.0
    unsent: deque[memoryview] = field(default_factory=deque)
    unread: bytearray = field(default_factory=bytearray)
    killed_for: str = ""
    since_s: float = 0.0
    has_started_anything: bool = False
    is_dying: bool = False


class ChildPool:
    """A fixed number of children for one job. All methods belong to the event loop's thread."""

    def __init__(
        self,
        job: JobLoader,
        children: int,
        limits: ChildLimits,
        clock: Clock,
        zygote: ZygoteProcess | None = None,
        probe: bytes | None = None,
    ) -> None:
        self._job = job
        self._probe = probe
        self._size = max(1, children)
        self._limits = limits
        self._clock = clock
        self._queue: deque[_Item] = deque()
        self._queue_bytes = 0
        self._children: list[_Child] = []
        self._starting: deque[_Child] = deque()
        self._tickets = 0
        self._flush: asyncio.Handle | None = None
        self._watch: asyncio.Handle | None = None
        self._zygote = zygote
        self._control: socket.socket | None = None
        self._ready: asyncio.Future[None] | None = None
        self._failed_starts = 0
        self._broken = ""
        self._closed = False
        self._suspects: list[tuple[_Item, str]] = []
        self._is_probing = False
        self._prober: _Child | None = None
        self._retry: asyncio.Handle | None = None
        self._wait_s = FIRST_WAIT_S
        self._zygote_since_s = 0.0
        self._import_error = ""
        self.trouble = ""
        """Reason why no child works at present; only in a pool with a probe."""
        self.lost_children = 0

    # ---- for callers ------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Number of items that have not been answered."""
        with_children = sum(len(child.items) for child in self._children if child is not self._prober)
        return len(self._queue) + len(self._suspects) + with_children

    @property
    def is_probing(self) -> bool:
        """True while it is unknown if any child works; submitted items wait."""
        return self._is_probing

    @property
    def waiting_bytes(self) -> int:
        """Payload bytes of the items that have not been answered."""
        return (
            self._queue_bytes
            + sum(item.size for item, _ in self._suspects)
            + sum(child.items_bytes for child in self._children)
        )

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the living children."""
        return tuple(child.pid for child in self._children if child.pid and not child.is_dying)

    async def start(self) -> None:
        """Start the zygote, unless one was given, and its children; raise ParseError if the job cannot be imported.

        A zygote that something kills before it is ready is replaced, like one that dies later.
        """
        try:
            while not await self._has_started():
                self._zygote = None
        except BaseException:
            await self.close()
            raise
        self._failed_starts = 0
        self._watch = asyncio.get_running_loop().call_later(WATCH_S, self._watch_wall_time)
        if self._control is None:  # it died between its first message and now, when no watch could replace it
            self._start_again()

    async def _has_started(self) -> bool:
        """Wait until the zygote is ready; return False if it was killed, which is worth another try."""
        self._listen_to(self._zygote or ZygoteProcess.start(self._job))
        assert self._ready is not None
        try:
            await asyncio.wait_for(asyncio.shield(self._ready), START_S)
        except TimeoutError:
            raise ParseError(
                f"parse processes did not start within {START_S:.0f} s; check the load of the machine"
            ) from None
        except ParseError:
            if self._import_error or self._failed_starts >= MAX_FAILED_STARTS:
                raise
            return False
        return True

    def submit(self, *parts: bytes, done: Done) -> None:
        """Queue a payload for the job; `done` is called once, later, with the answer or with `LostAnswer`.

        The payload may come in parts, so that a large one need not be copied into one.
        """
        if self._closed or self._broken:
            # Never call `done` inside `submit`: callers rely on it being called later.
            asyncio.get_running_loop().call_soon(done, LostAnswer(self._broken or "closed"))
            return
        # Tickets are u32 on the wire; at most WINDOW of them are out per child, so a wrap does no harm.
        self._tickets = (self._tickets + 1) & 0xFFFFFFFF
        item = _Item(self._tickets, parts, sum(map(len, parts)), done)
        self._queue.append(item)
        self._queue_bytes += item.size
        self._plan_flush()

    async def close(self) -> None:
        """End all children; items without an answer are lost. Takes a second at most, even if children hang."""
        if self._closed:
            return
        self._closed = True
        for handle in (self._flush, self._watch, self._retry):
            if handle is not None:
                handle.cancel()
        for child in self._children:
            self._disconnect(child)
        self._disconnect_zygote()
        if self._zygote is not None:
            await asyncio.to_thread(self._zygote.end)
        self._fail_all("closed")

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
        if self._is_probing:
            return
        ready = [child for child in self._children if child.pid and not child.is_dying]
        for child in sorted(ready, key=lambda each: len(each.items)):
            if not self._queue:
                return
            # No child is given more than its share while another is idle.
            share = -(-len(self._queue) // len(ready))
            self._send_batch(child, max(1, share))

    def _send_batch(self, child: _Child, most: int) -> None:
        was_idle = not child.unsent
        # The stall watch counts from the first item after a pause, not from the last message before it.
        if not child.items:
            child.since_s = self._clock.ticks_s()
        room = min(WINDOW - len(child.items), most)
        while self._queue and room > 0 and child.items_bytes < WINDOW_BYTES:
            item = self._queue.popleft()
            self._queue_bytes -= item.size
            child.items.append(item)
            child.items_bytes += item.size
            child.unsent.append(memoryview(TO_CHILD.pack(item.size, item.ticket)))
            child.unsent.extend(map(memoryview, filter(None, item.parts)))
            room -= 1
        # Otherwise a writer is registered already, and the order of frames must stay.
        if was_idle and child.unsent:
            self._write(child)

    def _write(self, child: _Child) -> None:
        """Send as much as the socket accepts; the rest when it accepts more."""
        try:
            sent = child.connection.sendmsg(list(child.unsent))
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # the reader sees the same end and handles it
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
        # All frames are taken out before any answer is delivered: a callback may submit, close or kill.
        for item, answer in self._decode_answers(child):
            item.done(answer)
        # Refill before the child runs dry, so that it need not wait for a turn of this loop.
        if self._queue and len(child.items) <= WINDOW // 4:
            self._send_waiting_now()

    def _send_waiting_now(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
        self._send_waiting()

    def _decode_answers(self, child: _Child) -> list[tuple[_Item, bytes | LostAnswer]]:
        """Take the complete frames out of the received bytes."""
        found: list[tuple[_Item, bytes | LostAnswer]] = []
        unread, position = child.unread, 0
        while len(unread) - position >= FROM_CHILD.size:
            kind, ticket, length = FROM_CHILD.unpack_from(unread, position)
            end = position + FROM_CHILD.size + length
            if len(unread) < end:
                break
            if not child.items or child.items[0].ticket != ticket:
                # Frames come in the order of the items; anything else was not written by our code.
                self._kill(child, "protocol")
                break
            child.since_s = self._clock.ticks_s()
            if kind == STARTED:
                child.started, child.started_s = child.items[0], child.since_s
                child.has_started_anything = True
            else:
                item = child.items.popleft()
                child.items_bytes -= item.size
                child.started = None
                result = bytes(unread[position + FROM_CHILD.size : end])
                found.append((item, result if kind == DONE else LostAnswer(result.decode("utf-8", "replace"))))
            position = end
        del unread[:position]
        return found

    # ---- the life of children ---------------------------------------------------------------------------------------

    def _listen_to(self, zygote: ZygoteProcess) -> None:
        loop = asyncio.get_running_loop()
        self._zygote, self._control = zygote, zygote.control
        self._ready = loop.create_future()
        self._zygote_since_s = self._clock.ticks_s()
        loop.add_reader(zygote.control, self._read_zygote)

    def _start_again(self) -> None:
        """Start a zygote in place of a dead one."""
        try:
            zygote = ZygoteProcess.start(self._job)
        except OSError as error:
            self._zygote = None
            self._fail(f"the process that forks parse processes cannot be started: {error}")
        else:
            self._listen_to(zygote)

    def _read_zygote(self) -> None:
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
                self._register_child(PID.unpack_from(packet, 1)[0])
            elif kind == b"D":
                self._handle_death(*DEATH.unpack_from(packet, 1))
            elif kind == b"R":
                self._set_ready(None)
                self._request_children()
            elif kind == b"X":
                self._import_error = f"parse job {name_of(self._job)} cannot be imported: {packet[1:].decode()}"
                self._set_ready(ParseError(self._import_error))
            else:
                self._handle_zygote_exit()
                return

    def _set_ready(self, error: ParseError | None) -> None:
        if self._ready is None or self._ready.done():
            return
        if error is None:
            self._ready.set_result(None)
        elif self._watch is None:
            self._ready.set_exception(error)
        else:  # no caller awaits a zygote that was started in place of another
            self._ready.cancel()

    def _request_children(self) -> None:
        """Request the missing children; while it is unknown if any works, only one."""
        while not self._closed and not self._broken and self._control is not None:
            if self._prober is not None or len(self._children) >= self._size:
                return
            child = self._request_child()
            if child is None:
                return
            if self._is_probing:
                self._prober = child

    def _request_child(self) -> _Child | None:
        assert self._control is not None
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            self._fail(f"parse processes cannot be started: {error}")
            return None
        ours.setblocking(False)
        child = _Child(ours, since_s=self._clock.ticks_s())
        self._children.append(child)
        self._starting.append(child)
        # The zygote gets a copy of `theirs`; ours must be closed, or the child's end would never be seen.
        with theirs, contextlib.suppress(OSError):  # a dead zygote is noticed by its own end
            limits = LIMITS.pack(self._limits.cpu_s, self._limits.memory_bytes)
            socket.send_fds(self._control, [b"F" + limits], [theirs.fileno()])
        return child

    def _register_child(self, pid: int) -> None:
        # The zygote forks in the order of requests, so births come in that order too.
        child = self._starting.popleft()
        child.pid, child.since_s = pid, self._clock.ticks_s()
        asyncio.get_running_loop().add_reader(child.connection, self._read, child)
        if child is self._prober:
            self._send_probe(child)
        elif self._queue:
            self._send_waiting_now()

    def _watch_wall_time(self) -> None:
        self._watch = asyncio.get_running_loop().call_later(WATCH_S, self._watch_wall_time)
        now_s = self._clock.ticks_s()
        for child in self._children:
            if child.started is not None and now_s - child.started_s > self._limits.wall_s:
                self._kill(child, "wall")
            elif child.pid and child.items and child.started is None and now_s - child.since_s > STALL_S:
                self._kill(child, "stalled")
        if self._is_zygote_silent(now_s) and self._zygote is not None:
            self._zygote.process.kill()  # its children die with it, and its end is noticed

    def _is_zygote_silent(self, now_s: float) -> bool:
        """Tell whether the zygote owes a message: that it is ready, of a birth, or of a death."""
        if self._control is None or self._ready is None:
            return False
        if not self._ready.done():
            return now_s - self._zygote_since_s > START_S
        owed = (child for child in self._children if child.is_dying or not child.pid)
        return any(now_s - child.since_s > STALL_S for child in owed)

    def _kill(self, child: _Child, reason: str) -> None:
        child.killed_for = child.killed_for or reason
        self._end_child(child)

    def _end_child(self, child: _Child) -> None:
        """Stop using a child; the zygote will report its death."""
        if child.is_dying:
            return
        child.is_dying, child.since_s = True, self._clock.ticks_s()
        self._disconnect(child)
        if self._control is not None:
            with contextlib.suppress(OSError):
                # The zygote kills: only it knows that the pid was not reaped and given to another process.
                self._control.send(b"K" + PID.pack(child.pid))

    def _disconnect(self, child: _Child) -> None:
        loop = asyncio.get_running_loop()
        if child.connection.fileno() >= 0:
            loop.remove_reader(child.connection)
            loop.remove_writer(child.connection)
            child.connection.close()

    def _handle_death(self, pid: int, status: int) -> None:
        """Blame the present item of a dead child, requeue its other items, and replace it."""
        child = next((each for each in self._children if each.pid == pid), None)
        if child is None:
            return
        if not child.is_dying:
            # Answers sent before the death count; what is left then is the item to blame.
            self._read_remaining_answers(child)
            self._disconnect(child)
        self._children.remove(child)
        self.lost_children += 1
        reason = _reason(child, status)
        self._failed_starts = 0 if child.has_started_anything else self._failed_starts + 1
        if child is self._prober:
            child.items.clear()
            self._fail(f"parse processes die ({reason})")
            return
        self._requeue(child, reason)
        if self._failed_starts >= MAX_FAILED_STARTS and not self._is_probing:
            self._start_probing(f"parse processes die at once ({reason})")
        self._request_children()

    def _read_remaining_answers(self, child: _Child) -> None:
        """Read the answers that a child sent before it died."""
        with contextlib.suppress(OSError):
            while received := child.connection.recv(_RECEIVE_BYTES):
                child.unread += received
        for item, answer in self._decode_answers(child):
            item.done(answer)

    def _requeue(self, child: _Child, reason: str) -> None:
        blamed, others = child.started, [item for item in child.items if item is not child.started]
        again = others
        if blamed is not None:
            if reason == _KILLED:
                blamed.kills += 1
            else:
                blamed.tries += 1
            again = others if blamed.is_exhausted else [*others, blamed]
        # To the front, in their order: these items have waited longest. The blamed one comes last of them.
        self._queue.extendleft(reversed(again))
        self._queue_bytes += sum(item.size for item in again)
        child.items.clear()
        child.items_bytes = 0
        if blamed is None or not blamed.is_exhausted:
            return
        if self._probe is None or self._closed:
            blamed.done(LostAnswer(reason))
        else:
            self._suspects.append((blamed, reason))
            self._start_probing(reason)

    # ---- trouble ----------------------------------------------------------------------------------------------------

    def _start_probing(self, why: str) -> None:
        """Test with the next child if any works. A pool without a probe assumes that none does."""
        if self._probe is None:
            self._break(why)
        else:
            self._is_probing = True

    def _send_probe(self, child: _Child) -> None:
        assert self._probe is not None
        self._tickets = (self._tickets + 1) & 0xFFFFFFFF
        child.items.append(_Item(self._tickets, (self._probe,), 0, self._probed))
        child.unsent.append(memoryview(TO_CHILD.pack(len(self._probe), self._tickets)))
        child.unsent.append(memoryview(self._probe))
        child.since_s = self._clock.ticks_s()
        self._write(child)

    def _probed(self, answer: bytes | LostAnswer) -> None:
        """Continue after a child did the probe or reported an error on it: the suspects are to blame."""
        if isinstance(answer, LostAnswer) and self._closed:
            return
        self._is_probing, self._prober, self._failed_starts = False, None, 0
        self.trouble, self._wait_s = "", FIRST_WAIT_S
        # The probe worked, so the fault lies with the items.
        suspects, self._suspects = self._suspects, []
        for item, reason in suspects:
            item.done(LostAnswer(reason))
        self._request_children()
        self._plan_flush()

    def _fail(self, why: str) -> None:
        """Record that there are no working children, and try again later; no item is suspected any longer."""
        if self._closed:
            return
        if self._probe is None:
            self._break(why)
            return
        self._is_probing, self._prober, self.trouble = True, None, self._import_error or why
        for item, _ in self._suspects:
            # The probe failed too, so the deaths proved nothing against these items.
            item.tries = item.kills = 0
            self._queue.append(item)
            self._queue_bytes += item.size
        self._suspects.clear()
        if self._retry is not None:
            self._retry.cancel()
        self._retry = asyncio.get_running_loop().call_later(self._wait_s, self._try_again)
        self._wait_s = min(LONGEST_WAIT_S, 2 * self._wait_s)

    def _try_again(self) -> None:
        self._retry = None
        if self._control is None:
            self._import_error = ""
            self._start_again()
        else:
            self._request_children()

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _handle_zygote_exit(self) -> None:
        """Handle the zygote's death, with which the kernel killed its children: restart, or give up at start."""
        self._set_ready(ParseError("parse processes cannot be started; see the lines above"))
        self._disconnect_zygote()
        if self._closed:
            return
        was_probing, self._prober = self._prober is not None, None
        children, self._children = self._children, []
        self._starting.clear()
        for child in children:
            self._disconnect(child)
            if was_probing and child.items and child.items[0].done == self._probed:
                child.items.clear()
            child.started = None  # none of the items is to blame
            self._requeue(child, "zygote died")
        self._failed_starts += 1
        if self._zygote is not None:
            self._zygote.end()
        if self._watch is None:  # at the start: the caller of `start` gets the error
            return
        if self._is_probing or self._failed_starts >= MAX_FAILED_STARTS:
            self._fail("the process that forks parse processes keeps dying")
        else:
            self._start_again()

    def _disconnect_zygote(self) -> None:
        if self._control is not None:
            asyncio.get_running_loop().remove_reader(self._control)
            self._control.close()
            self._control = None

    def _break(self, why: str) -> None:
        self._broken = why
        self._fail_all(why)

    def _fail_all(self, why: str) -> None:
        items = [item for child in self._children for item in child.items] + list(self._queue)
        items += [item for item, _ in self._suspects]
        self._children.clear()
        self._suspects.clear()
        self._queue.clear()
        self._queue_bytes = 0
        for item in items:
            item.done(LostAnswer(why))


def _reason(child: _Child, status: int) -> str:
    """Return the reason of a child's death in a word."""
    if child.killed_for:
        return child.killed_for
    if status == -signal.SIGPROF:
        return "cpu"
    if status == OUT_OF_MEMORY:
        return "memory"
    return f"signal {-status}" if status < 0 else f"exit {status}"
