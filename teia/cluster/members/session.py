"""A node's session: the public proof that it lives, and the right of others to declare it dead.

Each node has one key in the bucket `nodes`, with its name. It is renewed every `beat_s` by compare-and-set. No TTL is
involved, so that an outage of NATS longer than any lease kills no node. `silence_s` (T) after the last change a node
may be *declared* dead, by compare-and-set on the revision that was seen. If it lives after all, that fails and nothing
has happened. If it succeeds, the node's next renewal fails, and the node knows.

Three rules keep an outage from looking like deaths, and dead nodes from continuing to work:

- A node that declares must have renewed its own session at `PROOFS` beats since the other was due, so NATS was there,
  and for long enough that others could reach it too. It then declares when the silence is T old, not at its own next
  beat.
- A node may work until `deadline`, which counts from *before* its last successful renewal was sent and ends a margin
  before T. Past it the node sends no more requests to the web and keeps trying to renew; if the key is still its own,
  it continues as before.
- When the session is lost everything that depends on it is dropped in the same step, before anything else is tried.

Time is `Clock.ticks_s`, which continues while a machine is suspended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Self

import msgspec

from teia.clock import Clock
from teia.cluster.members.instances import Instances
from teia.cluster.nats.wire import NoAnswer, Wire
from teia.errors import ClusterError
from teia.frontier.cell.journal import STATEMENTS
from teia.lib.undecodable import UNDECODABLE

if TYPE_CHECKING:
    from nats.js.kv import KeyValue

VERSION = 1
BUCKET = "nodes"
AGAIN_S = 0.1
PROOFS = 4
"""Beats with a successful renewal of our own since another's was due, before that node may be declared dead.

After an outage that leaves others three beats to come back too; a client needs two seconds for each server that hangs.
"""

POLL_S = 0.5
"""Wait before an unanswered renewal or declaration is repeated, if a beat is longer."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """T, the time between renewals, and the margin before T at which a node stops.

    T has to exceed the time in which NATS elects a leader (6 to 9 s), or each election stops the crawl.
    """

    silence_s: float = 15.0
    beat_s: float = 3.0
    margin_s: float = 3.0

    def __post_init__(self) -> None:
        if not 0 < self.beat_s < self.silence_s - self.margin_s < self.silence_s:
            raise ClusterError(
                f"a session cannot be renewed every {self.beat_s:g} s and expire after {self.silence_s:g} s"
            )

    @classmethod
    def for_silence(cls, silence_s: float) -> Self:
        """Return the pace for a T: a fifth of it from beat to beat, and a fifth as margin."""
        return cls(silence_s, silence_s / 5, silence_s / 5)


class NodeState(msgspec.Struct, frozen=True):
    """The content of a session's key. A record with another `version` is shown, never declared dead."""

    name: str
    instance: str
    state: str = "alive"
    """`alive`, `left` after a clean stop, `dead` when another node declared it."""
    by: str = ""
    collection: str = ""
    region: str = ""
    capacity: float = 1.0
    load: dict[str, float] = {}
    cells: dict[str, int] = {}
    """Number of known URLs in each cell that it owns."""
    queued: dict[str, int] = {}
    """Number of queued URLs in each cell."""
    stored: dict[str, int] = {}
    """Number of pages stored in each cell, by all its owners (cluster/crawl/limits.py)."""
    received: dict[str, tuple[int, int]] = {}
    """By node: batches of its links that were merged here, and those that wait (cluster/crawl/arrivals.py)."""
    claims: int = 0
    """Number of pages that it may still store until its next report."""
    busy: str = "normal"
    """Load state: idle, normal or overloaded (A5)."""
    is_done: bool = False
    """True if it saw that nothing is left to do anywhere."""
    indexed: list[int] = []
    """Split-off cells whose pages it has in its index (cluster/search/forget_after_split.py)."""
    ready: list[int] = []
    """Cells that it is to own and has copies of, up to their logs (cluster/cells/copy_ahead.py)."""
    follows: str = ""
    """The instance that had its name before (instances.py)."""
    reads_format: int = STATEMENTS
    """Newest format of changes that it can read (frontier/cell/journal.py); older nodes do not report it."""
    spending: list[float] = []
    """What it would spend of the budget for all nodes, by price (crawler/keep_fresh/crawl_budget.py)."""
    landmarks: dict[str, float] = {}
    """Round trips in milliseconds to each landmark (cluster/placing/landmarks.py)."""
    version: int = VERSION

    @property
    def is_alive(self) -> bool:
        return self.state == "alive"


@dataclass(slots=True)
class _Seen:
    """The state of another node as one observer knows it."""

    node: NodeState
    revision: int
    changed_at: float
    proofs: int = 0
    was_busy: bool = False
    """True if this instance of it was seen alive and not done."""


@dataclass(slots=True)
class NodeSession:
    """One node's session and its view of the others; see the module. Made by `join` (join.py)."""

    wire: Wire
    clock: Clock
    pace: Pace
    bucket: KeyValue
    node: NodeState
    on_lost: Callable[[str], None]
    """Called at once when the session is lost, with the reason; must not wait for anything."""
    reported: NodeState | None = None
    """The state in the last renewal; `node` is the state for the next one."""
    revision: int = 0
    deadline: float = 0.0
    is_lost: bool = False
    last_join_at: float = 0.0
    """Time at which a node was last seen to come."""
    instances: Instances = field(default_factory=Instances)
    landmarks: dict[str, float] = field(default_factory=dict)
    """Round trips for the next report."""
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _stopping: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    # -- view of the cluster --------------------------------------------------------------------------------

    @property
    def instance(self) -> str:
        return self.node.instance

    @property
    def may_work(self) -> bool:
        """True if a request may be sent to the web now."""
        return not self.is_lost and self.clock.ticks_s() < self.deadline

    @property
    def has_watched(self) -> bool:
        """True if the others are known: our own key, younger than theirs when the watch began, was delivered."""
        return self.instances.own_key_at > -inf

    def nodes(self) -> dict[str, NodeState]:
        """Return every node that was ever seen, this one included, by name."""
        return {name: seen.node for name, seen in list(self._seen.items())} | {self.node.name: self.node}

    def alive(self) -> dict[str, NodeState]:
        """Return the nodes of our collection that are not known to have left or died."""
        ours = self.node.collection
        return {name: node for name, node in self.nodes().items() if node.is_alive and node.collection == ours}

    def alive_in_all_collections(self) -> dict[str, NodeState]:
        """Return the nodes of all collections that are not known to have left or died."""
        return {name: node for name, node in self.nodes().items() if node.is_alive}

    def common_format(self) -> int:
        """Return the newest format of changes that all nodes of our collection can read; safe from any thread.

        A node that died counts as well: it may come back with the teia it had, and must be able to read the log.
        """
        if not self.has_watched:
            return STATEMENTS
        ours = [node for node in self.nodes().values() if node.collection == self.node.collection]
        return min(node.reads_format for node in ours if node.state != "left")

    def is_over(self, name: str, instance: str) -> bool:
        """Tell whether the instance of a node that wrote something is over; of our own name all others are."""
        if name == self.node.name:
            return self.is_lost or instance != self.instance
        return self.instances.is_over(name, instance, self.clock.ticks_s(), self.pace.silence_s)

    def report_ages(self) -> dict[str, float]:
        """Return the seconds since the last report of each other node."""
        now = self.clock.ticks_s()
        return {name: now - seen.changed_at for name, seen in list(self._seen.items())}

    def set_report(
        self,
        load: dict[str, float],
        cells: dict[str, int],
        queued: dict[str, int] | None = None,
        busy: str = "idle",
        stored: dict[str, int] | None = None,
        claims: int = 0,
        received: dict[str, tuple[int, int]] | None = None,
        spending: list[float] | None = None,
    ) -> None:
        """Set the load and cells that the next renewal reports."""
        self.node = msgspec.structs.replace(
            self.node, load=load, cells=cells, queued=queued or {}, busy=busy, stored=stored or {}, claims=claims,
            landmarks=self.landmarks, received=received or {}, spending=spending or [],
        )  # fmt: skip

    def others_report_done(self) -> bool:
        """Tell whether another node reports that all is done; a report from an earlier run does not count."""
        ours = [seen for seen in list(self._seen.values()) if seen.node.collection == self.node.collection]
        return any(seen.node.is_done and seen.was_busy for seen in ours)

    async def report_done(self) -> None:
        """Report at once, and from now on, that all is done everywhere."""
        self.node = msgspec.structs.replace(self.node, is_done=True)
        await self.renew()

    async def report_now(self) -> None:
        """Report the present state at once, if NATS answers; if not, with the next renewal."""
        with contextlib.suppress(ClusterError):
            await self.renew()

    async def report_ready(self, cells: list[int]) -> None:
        """Report at once the cells that could be handed over to this node now."""
        self.node = msgspec.structs.replace(self.node, ready=cells)
        await self.renew()

    def wake(self) -> None:
        """Wake the task that waits for a change."""
        self._changed.set()

    async def wait_for_change(self, within_s: float) -> None:
        """Return when a node came, left or died, or after a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._changed.wait()
        self._changed.clear()

    # -- beginning and end ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Start to renew and to watch."""
        loop = asyncio.get_running_loop()
        # Three tasks, so that none has to wait for another one's answer.
        works = (self._renew_for_ever(), self._watch_for_ever(), self._declare_for_ever())
        self._tasks = [loop.create_task(work) for work in works]

    async def leave(self) -> None:
        """End the session cleanly, so that others need not wait for T."""
        await self.abandon()
        left = msgspec.structs.replace(self.node, state="left")
        with contextlib.suppress(ClusterError):
            if not self.is_lost and not await self._write(left) and not self.is_lost:
                await self._write(left)  # a renewal that was given up a moment ago had been stored
        self.is_lost = True

    async def abandon(self) -> None:
        """Stop renewing without a report, as a death would."""
        self._stopping = True
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            while not task.done():  # the client may swallow a cancellation
                task.cancel()
                await asyncio.wait({task}, timeout=0.1)

    # -- renewing ------------------------------------------------------------------------------------------

    async def _renew_for_ever(self) -> None:
        logged_at = -self.pace.beat_s
        while not self._stopping and not self.is_lost:
            sent, wait_s = self.clock.ticks_s(), self.pace.beat_s
            try:
                if await self.renew():
                    self._note_proof()
            except NoAnswer as error:
                # No answer: tried again long before the next beat.
                wait_s = min(wait_s, POLL_S)
                if sent - logged_at >= self.pace.beat_s:
                    logged_at = sent
                    _log.info("session not renewed: %s", error)
            except ClusterError as error:
                self._lose(str(error))
            except Exception as error:  # noqa: BLE001  # after any error of NATS it is tried again
                _log.warning("session not renewed: %r", error)
            await self.clock.sleep(max(0.05, wait_s - (self.clock.ticks_s() - sent)))

    async def renew(self) -> bool:
        """Renew once; return whether it succeeded. NoAnswer if NATS is silent; a lost session calls `on_lost`."""
        return await self._write(self.node)

    async def _write(self, reported: NodeState) -> bool:
        from nats.js.errors import KeyWrongLastSequenceError

        # Before the message is sent: others count T from its arrival, which is later.
        sent = self.clock.ticks_s()
        try:
            revision = await self.wire.request(self.bucket.update(reported.name, encode(reported), last=self.revision))
        except KeyWrongLastSequenceError:
            await self._check_own_key()
            return False
        self.reported = reported
        self.note_renewal(revision, sent)
        return True

    def _note_proof(self) -> None:
        """Count a beat at which NATS was there. Renewals between two beats do not count: three may take a moment.

        A renewal before another node's own was due does not count for that node either: NATS may have gone away in
        between.
        """
        now = self.clock.ticks_s()
        for seen in self._seen.values():
            seen.proofs += now - seen.changed_at >= self.pace.beat_s

    def note_renewal(self, revision: int, sent: float) -> None:
        """Record a new revision of our key; the deadline counts from the time the message was sent."""
        self.revision = revision
        self.deadline = sent + self.pace.silence_s - self.pace.margin_s

    async def _check_own_key(self) -> None:
        """Read our key after a refused renewal: an earlier one may have been stored and its answer lost."""
        from nats.js.errors import KeyNotFoundError

        try:
            entry = await self.wire.request(self.bucket.get(self.node.name))
        except KeyNotFoundError:
            self._lose("its key was deleted")
            return
        now = decode(entry.value or b"")
        if now is not None and now.instance == self.instance and now.is_alive:
            self.revision = entry.revision or self.revision  # the next renewal extends the deadline
            return
        declared_by = "an unknown node" if now is None else now.by or now.name
        self._lose(
            f"declared {now.state if now is not None and now.instance == self.instance else 'over'} by {declared_by}"
        )

    def _lose(self, why: str) -> None:
        if not self.is_lost:
            # First the flags: everything that `on_lost` calls must see a lost session.
            self.is_lost, self.deadline = True, 0.0
            _log.warning("session lost node=%s why=%s", self.node.name, why)
            self.on_lost(why)
            self._changed.set()

    # -- watching others -----------------------------------------------------------------------------------

    async def _watch_for_ever(self) -> None:
        while not self._stopping:
            try:
                await self._watch()
            except Exception as error:  # noqa: BLE001  # after any error of NATS it is tried again
                _log.info("nodes not watched: %r", error)
            await self.clock.sleep(self.pace.beat_s)

    async def _watch(self) -> None:
        self.instances.own_key_at = -inf
        watcher = await self.wire.request(self.bucket.watchall())
        try:
            async for entry in watcher:
                if entry is not None and entry.operation:  # deleted or purged, by an operator
                    self.note_deleted(entry.key)
                elif entry is not None:
                    self.note_state(entry.key, decode(entry.value or b""), entry.revision or 0)
        finally:
            with contextlib.suppress(Exception):
                await watcher.stop()  # type: ignore[no-untyped-call]

    def note_state(self, name: str, node: NodeState | None, revision: int) -> None:
        """Record the present value of a key."""
        if name == self.node.name:
            self.instances.own_key_at = self.clock.ticks_s()
            return
        before = self._seen.get(name)
        # The watch may deliver a value that is older than this node's declaration.
        if before is not None and revision <= before.revision:
            return
        if node is None or node.name != name:
            _log.warning("the key of node=%s cannot be read, and is ignored", name[:63])
            return
        self.instances.note(node)
        was_busy = before is not None and before.was_busy and before.node.instance == node.instance
        was_busy = was_busy or (node.is_alive and not node.is_done)
        self._seen[name] = _Seen(node, revision, self.clock.ticks_s(), was_busy=was_busy)
        if before is None or (before.node.instance, before.node.state) != (node.instance, node.state):
            _log.info("node=%s state=%s", name, node.state)
            self.last_join_at = self.clock.ticks_s() if node.is_alive else self.last_join_at
            self._changed.set()

    def note_deleted(self, name: str) -> None:
        """Forget the node of a deleted key. If it lives, its next renewal fails and it joins again."""
        self.instances.note_deleted(name)
        if self._seen.pop(name, None) is not None:
            _log.warning("the key of node=%s was deleted, and the node is removed", name)
            self._changed.set()

    async def _declare_for_ever(self) -> None:
        while not self._stopping and not self.is_lost:
            try:
                for name, seen in self._silent().items():
                    await self._declare(name, seen)
            except Exception as error:  # noqa: BLE001  # after any error of NATS it is tried again
                _log.info("silent nodes not declared dead: %r", error)
            await self.clock.sleep(self._next_silence_s())

    def _silent(self) -> dict[str, _Seen]:
        """Return the nodes that may be declared dead now, as they were last seen."""
        now = self.clock.ticks_s()
        return {
            name: seen for name, seen in self._seen.items()
            # Silent for T, and NATS could be reached at so many of this node's beats meanwhile.
            if self._may_be_declared(seen) and now - seen.changed_at >= self.pace.silence_s and seen.proofs >= PROOFS
        }  # fmt: skip

    @staticmethod
    def _may_be_declared(seen: _Seen) -> bool:
        return seen.node.is_alive and seen.node.version == VERSION

    def _next_silence_s(self) -> float:
        """Return the seconds until the silence of a node may be T old."""
        soon_s, now = min(self.pace.beat_s, POLL_S), self.clock.ticks_s()
        ends = [
            seen.changed_at + self.pace.silence_s - now for seen in self._seen.values() if self._may_be_declared(seen)
        ]
        return max(AGAIN_S, min([soon_s, *(end_s for end_s in ends if end_s > 0)]))

    async def _declare(self, name: str, seen: _Seen) -> None:
        """Declare a node dead, if its key has not changed since it was seen."""
        from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError

        dead = msgspec.structs.replace(seen.node, state="dead", by=self.node.name)
        with contextlib.suppress(NoAnswer):
            try:
                revision = await self.wire.request(self.bucket.update(name, encode(dead), last=seen.revision))
            except KeyWrongLastSequenceError:  # it lives, or another node was faster, or its key left no trace
                with contextlib.suppress(KeyNotFoundError):
                    await self.wire.request(self.bucket.get(name))
                    return
                self.note_deleted(name)
                return
            _log.warning("declared dead node=%s", name)
            self.note_state(name, dead, revision)


encode = msgspec.json.Encoder().encode


def decode(value: bytes) -> NodeState | None:
    try:
        return msgspec.json.decode(value, type=NodeState)
    except UNDECODABLE:
        return None
