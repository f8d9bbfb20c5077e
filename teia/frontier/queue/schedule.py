"""The hosts with URLs to fetch, and the choice of the next one.

A `HostQueue` is one host of one collection: a short buffer of its next URLs (the others are on disk) and a state:

    IDLE      nothing in the buffer, or its crawl may not start it; woken by `wake`
    WAITING   has URLs; its server or address is delayed or busy, or other hosts have waited longer
    FETCHING  requests under way, and not in line for another: its limit is reached, or it has no more URLs

The next host is the one whose head URL has waited longest among those whose server is free (KLWF, C1); orders that
compare the URLs of all hosts, such as `backlinks`, decide before the waiting time does (`Order.precedence`). A host
waits in three places, one after the other: in the line of its server, in the line of its address, and in `_ready`, a
heap for each collection. Lines are first come, first called. So two collections that know the same server, and
hundreds of names on one address, take turns however old their URLs are; in a collection whose order is `by_age`, the
oldest URL of a line goes first instead. One host at a time is called from a line, when the target is free. A line that
must wait for a delay has one entry in `_timers`; a line at a busy target has none, because the end of the request
checks it. So a request costs a few heap operations, however many hosts wait for the same address.

Between collections the waiting time of the first host of each decides. In a collection whose order `is_strict` (plain
LWF) a host goes only if no other host of the collection has an older URL.

At most `max_hosts` servers are engaged (fetching, or delayed after a fetch) at a time (T4); hosts called beyond
that wait in `_over_limit`, in the order of `_ready`.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum

from teia.config.sections import CourtesySettings
from teia.frontier.cell.rows import IdentityCheck, ProbeResult, QueuedUrl
from teia.frontier.queue.order import Order, breadth
from teia.frontier.queue.politeness import DelayTarget, Politeness
from teia.records import Outcome


class HostState(Enum):
    """Disjoint states of a `HostQueue`; the module's docstring describes the transitions."""

    IDLE = "idle"
    WAITING = "waiting"
    FETCHING = "fetching"


@dataclass(eq=False, slots=True)
class HostQueue:
    """The next URLs of one host in one collection.

    `loaded` are the keys in memory: in the buffer, under way or waiting for their commit. `exhausted`: the disk had
    no more than these when it was last read. `prerequisites` go before the buffer: robots.txt and its redirects, a
    probe. `requests` and `received_bytes` are totals, `failures` counts those in a row. A host is not requested while
    `parked` is set; its text is the reason.

    `buffer` and `prerequisites` are lists: an empty deque takes 620 bytes, and there may be 100,000 hosts. `called_at`
    are the targets in whose lines its turn has come. `is_unresolved`: its name had no address when it was last
    needed; `is_unresolvable`: the name servers are sure of that. `alias_of` is the main name, if this host is an alias
    of it (A7). `ready_key` is its key in a heap of `HostSchedule`, while it is in one. `soft404_probe` is the answer to
    URLs that do not exist, once `is_probed`; before, `repeats` counts pages in a row that equal the one before.
    `identity` is the comparison of answers to two User-Agents (T9). `users` counts its visits that are under way or not
    committed, and the times at which it is looked at again; a host that has none of them may leave memory. It came
    into memory at `came_at`.
    `comes_first`: its last request was for its robots.txt, so that the connection is kept for its next one.
    """

    host: str
    host_id: int
    cell: int
    collection: int
    server: DelayTarget
    state: HostState = HostState.IDLE
    buffer: list[QueuedUrl] = field(default_factory=list)
    prerequisites: list[QueuedUrl] = field(default_factory=list)
    loaded: set[int] = field(default_factory=set)
    exhausted: bool = False
    address: str = ""
    refill: int = 8
    knows_robots: bool = False
    hold_until: float = 0.0
    parked: str = ""
    requests: int = 0
    received_bytes: int = 0
    failures: int = 0
    last_failure: Outcome = Outcome.CONNECT
    called_at: tuple[DelayTarget, ...] = ()
    is_unresolved: bool = False
    is_unresolvable: bool = False
    alias_of: str = ""
    order: Order = breadth
    ready_key: tuple[int, float] | None = None
    soft404_probe: ProbeResult | None = None
    is_probed: bool = False
    repeats: int = 0
    last_simhash: int = 0
    identity: IdentityCheck | None = None
    users: int = 0
    came_at: float = 0.0
    comes_first: bool = False

    @property
    def is_finished(self) -> bool:
        """True if it has no URL now and nothing in memory that its rows on disk would not restore."""
        may_have_more = self.host_id and not self.exhausted
        has_work = self.users or self.buffer or self.prerequisites or may_have_more
        # Failures in a row and the check of an identity are known in memory alone.
        must_stay = self.failures or self.parked or (self.identity is not None and self.identity.was_begun)
        return self.state is HostState.IDLE and not has_work and not must_stay

    @property
    def key(self) -> tuple[int, float]:
        """The place of its head URL among those of other hosts: precedence by the order, then the time it came."""
        head = self.head
        assert head is not None
        return self.order.precedence(head.lane, head.rank) if head.purpose == "page" else -1, head.since_s

    @property
    def head(self) -> QueuedUrl | None:
        if self.prerequisites:
            return self.prerequisites[0]
        return self.buffer[0] if self.buffer else None

    def pop(self) -> QueuedUrl:
        """Take the next URL; it stays `loaded` until its visit is committed."""
        return self.prerequisites.pop(0) if self.prerequisites else self.buffer.pop(0)


ReadyEntry = tuple[tuple[int, float], int, HostQueue]
"""A called host in a heap: its key, a number that breaks ties, the host."""


class HostSchedule:
    """The choice of the next host to request. All times are ticks, except `since_s` which is only compared."""

    def __init__(self, politeness: Politeness, max_hosts: int) -> None:
        self.politeness = politeness
        self._max_hosts = max_hosts
        self._per_host = politeness.courtesy.per_host
        # Breaks ties in the heaps, which must never compare hosts.
        self._order = itertools.count()
        self._lines: dict[DelayTarget, list[HostQueue]] = {}
        self._called: set[DelayTarget] = set()  # a host of its line was called and is in `_ready` or on its way there
        self._with_timer: set[DelayTarget] = set()  # its line is in `_timers`
        self._timers: list[tuple[float, int, DelayTarget | HostQueue]] = []
        self._ready: dict[int, list[ReadyEntry]] = {}
        self._over_limit: dict[int, list[ReadyEntry]] = {}
        self._by_age: dict[int, list[tuple[float, int, HostQueue]]] = {}  # hosts with URLs, of strict orders
        # End of the delay of each engaged server; infinity while a request is under way.
        self._engaged: dict[str, float] = {}
        self._engaged_ends: list[tuple[float, str]] = []

    def apply_courtesy(self, courtesy: CourtesySettings) -> None:
        """Use other courtesy settings from now on; running delays may grow, none is cut short."""
        self.politeness.apply_courtesy(courtesy)
        self._max_hosts, self._per_host = courtesy.max_hosts, courtesy.per_host

    # -- hosts come and go ---------------------------------------------------------------------------------

    def wake(self, queue: HostQueue) -> None:
        """Put a host that has URLs again, or room for one more request, in line."""
        may_have_more = queue.state is HostState.FETCHING and queue.server.busy < self._per_host
        if queue.head is not None and (queue.state is HostState.IDLE or may_have_more):
            self._wait(queue)

    def _wait(self, queue: HostQueue) -> None:
        queue.state = HostState.WAITING
        queue.called_at = ()
        self._note_age(queue)
        if queue.hold_until:
            heapq.heappush(self._timers, (queue.hold_until, next(self._order), queue))
        else:
            self._join_line(queue, queue.server)

    def _address(self, queue: HostQueue) -> DelayTarget:
        return self.politeness.address(queue.address)

    # -- lines ---------------------------------------------------------------------------------------------

    def _join_line(self, queue: HostQueue, target: DelayTarget) -> None:
        line = self._lines.get(target)
        if line is None:
            self._lines[target] = [queue]
        elif queue.comes_first:
            line.insert(0, queue)
        else:
            line.append(queue)
        self._set_timer(target)

    def _set_timer(self, target: DelayTarget) -> None:
        """Schedule the call of the next host in a target's line for the end of the target's delay."""
        # One timer for each line, and none while the target is busy: the end of the request calls this again.
        if (
            target in self._lines
            and target not in self._called
            and target not in self._with_timer
            and target.busy < self._per_host
        ):
            self._with_timer.add(target)
            heapq.heappush(self._timers, (target.ready_at, next(self._order), target))

    def _call_due(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            waiter = heapq.heappop(self._timers)[2]
            if isinstance(waiter, DelayTarget):
                self._call_next(waiter, now)
            else:
                self._join_line(waiter, waiter.server)

    def _call_next(self, target: DelayTarget, now: float) -> None:
        """Call the next host of a line, unless its target is busy after all or its delay was lengthened."""
        self._with_timer.remove(target)
        if not target.is_free(now, self._per_host):
            self._set_timer(target)
            return
        line = self._lines.get(target)
        if line is None:
            return  # its hosts were withdrawn
        queue = line[0]
        if queue.order.by_age:
            others = (each for each in line if each.collection == queue.collection and each.head is not None)
            queue = min(others, key=lambda each: each.key, default=queue)
        line.remove(queue)
        if not line:
            del self._lines[target]
        self._mark_called(queue, target)
        # Without a known address the server alone decides; `is_free` looks at the address later.
        address = self._address(queue) if queue.address else target
        if queue.head is None:
            self._make_idle(queue)
        elif address in queue.called_at:
            self._make_ready(queue)
        # No other host waits for the address: this one is called there at once, without a line. Where age decides,
        # hosts that are called at the same time all join the line first.
        elif not queue.order.by_age and self._is_unclaimed(address) and address.is_free(now, self._per_host):
            self._mark_called(queue, address)
            self._make_ready(queue)
        else:
            self._join_line(queue, address)

    def _mark_called(self, queue: HostQueue, target: DelayTarget) -> None:
        self._called.add(target)
        queue.called_at = (*queue.called_at, target)

    def _is_unclaimed(self, target: DelayTarget) -> bool:
        return target not in self._lines and target not in self._called

    def _make_ready(self, queue: HostQueue) -> None:
        queue.ready_key = queue.key
        self._push(self._ready, (queue.ready_key, next(self._order), queue))

    def _push(self, heaps: dict[int, list[ReadyEntry]], entry: ReadyEntry) -> None:
        heapq.heappush(heaps.setdefault(entry[2].collection, []), entry)

    def head_changed(self, queue: HostQueue) -> None:
        """Move a host whose head URL was replaced while it was called."""
        if queue.ready_key is not None and queue.head is not None and queue.ready_key != queue.key:
            self._make_ready(queue)  # its earlier entry is void, because it has another key

    def _release(self, queue: HostQueue) -> None:
        """Give the turn to the next host in each line that called this one."""
        queue.ready_key = None
        for target in queue.called_at:
            self._called.remove(target)
            self._set_timer(target)

    def _make_idle(self, queue: HostQueue) -> None:
        self._release(queue)
        queue.state = HostState.IDLE

    def withdraw(self, queues: Collection[HostQueue]) -> list[HostQueue]:
        """Make hosts idle that wait in a line or until a time of their own; return these. Others stay as they are."""
        wanted = {queue for queue in queues if queue.state is HostState.WAITING}
        withdrawn: list[HostQueue] = []
        targets = {queue.server for queue in wanted} | {self._address(queue) for queue in wanted if queue.address}
        for target in targets & self._lines.keys():
            stay: list[HostQueue] = []
            for queue in self._lines[target]:
                (withdrawn if queue in wanted else stay).append(queue)
            if stay:
                self._lines[target] = stay
            else:
                del self._lines[target]
        if any(queue.hold_until for queue in wanted):
            held = {each[2] for each in self._timers if isinstance(each[2], HostQueue) and each[2] in wanted}
            self._timers = [each for each in self._timers if each[2] not in held]
            heapq.heapify(self._timers)
            withdrawn += [queue for queue in wanted if queue in held]
        for queue in withdrawn:
            self._make_idle(queue)
            queue.called_at = ()
        return withdrawn

    # -- the next host -------------------------------------------------------------------------------------

    def next_host(self, now: float) -> HostQueue | None:
        """Return the host to request now, already out of line, or None.

        The caller starts a request or gives the host back.
        """
        self._disengage(now)
        waiting: set[int] = set()
        while True:
            self._call_due(now)
            heap = self._longest_waiting(waiting)
            if not heap:
                return None
            entry = heapq.heappop(heap)
            queue = entry[2]
            if entry[0] != queue.ready_key:
                continue  # void: the host has another head, or was released
            if queue.head is None:
                self._make_idle(queue)
            elif queue.order.is_strict and self._is_overtaking(queue):
                # All others of the collection that are called have younger URLs still.
                self._push(self._ready, entry)
                waiting.add(queue.collection)
            elif not self._has_room_for(queue.host):
                # It stays called at its targets, so that hosts behind it do not overtake it.
                self._push(self._over_limit, entry)
            else:
                self._release(queue)
                if self._may_start(queue, now):
                    return queue
                self._wait(queue)

    def _longest_waiting(self, without: Collection[int]) -> list[ReadyEntry]:
        """Return the heap whose top comes first; hosts in `_over_limit` count only while there is room.

        Within a collection keys decide, between collections waiting times alone: orders cannot be compared. The
        collections in `without` do not count.
        """
        has_room = len(self._engaged) < self._max_hosts
        best: list[ReadyEntry] = []
        for number, ready in self._ready.items():
            if number in without:
                continue
            over = self._over_limit.get(number) if has_room else None
            heap = over if over and (not ready or over[0] < ready[0]) else ready
            if heap and (not best or (heap[0][0][1], heap[0][1]) < (best[0][0][1], best[0][1])):
                best = heap
        return best

    def _note_age(self, queue: HostQueue) -> None:
        if queue.order.is_strict and queue.head is not None:
            heap = self._by_age.setdefault(queue.collection, [])
            heapq.heappush(heap, (queue.head.since_s, next(self._order), queue))

    def _is_overtaking(self, queue: HostQueue) -> bool:
        """Tell whether another host of the collection has an older URL, whether or not it may be requested now."""
        assert queue.head is not None
        heap = self._by_age[queue.collection]
        while heap:
            since_s, _, oldest = heap[0]
            if oldest.state is not HostState.IDLE and oldest.head is not None and oldest.head.since_s == since_s:
                return since_s < queue.head.since_s
            heapq.heappop(heap)
        return False

    def _may_start(self, queue: HostQueue, now: float) -> bool:
        """Tell whether the host may still go: since its call no delay was lengthened and no hold was set."""
        return queue.hold_until <= now and all(target.is_free(now, self._per_host) for target in queue.called_at)

    def _has_room_for(self, host: str) -> bool:
        return host in self._engaged or len(self._engaged) < self._max_hosts

    def _disengage(self, now: float) -> None:
        while self._engaged_ends and self._engaged_ends[0][0] <= now:
            _, host = heapq.heappop(self._engaged_ends)
            # Otherwise an old entry: the server was engaged again since, and ends later.
            if self._engaged.get(host, float("inf")) <= now:
                del self._engaged[host]

    def is_free(self, queue: HostQueue, now: float) -> bool:
        """Tell whether the host's server and address may be requested now.

        Its address may have become known only just now; then it must not overtake the hosts that wait in its line.
        """
        address = self._address(queue)
        is_its_turn = address in queue.called_at or self._is_unclaimed(address)
        return is_its_turn and queue.server.is_free(now, self._per_host) and address.is_free(now, self._per_host)

    def put_back(self, queue: HostQueue, *, held: bool = False) -> None:
        """Put a host that was not requested after all (URL refused, name being resolved, address busy) back in line.

        A `held` host has URLs but its crawl may not start them; it is idle until `wake`.
        """
        if queue.head is None or held:
            queue.state = HostState.IDLE
        else:
            self._wait(queue)

    # -- requests begin and end ----------------------------------------------------------------------------

    def begin_request(self, queue: HostQueue, *, is_followed: bool = False) -> None:
        """Count a request that was sent; one of the user's own hosts may be requested again at once.

        After one that `is_followed` the host is the first in line for its address.
        """
        queue.comes_first = is_followed
        self.politeness.begin_request(queue.server, self._address(queue))
        self._engaged[queue.host] = float("inf")
        queue.state = HostState.FETCHING
        self._note_age(queue)
        self.wake(queue)

    def end_request(
        self, queue: HostQueue, address: str, started: float, ended: float, retry_after_s: float = 0.0
    ) -> float:
        """Count the end of a request; return the delay that follows."""
        target = self.politeness.address(address)
        delay_s = self.politeness.end_request(queue.server, target, started, ended, retry_after_s)
        if queue.server.busy == 0:
            # Engaged until its delay ends: `max_hosts` limits servers, not requests.
            self._engaged[queue.host] = queue.server.ready_at
            heapq.heappush(self._engaged_ends, (queue.server.ready_at, queue.host))
        self._set_timer(queue.server)
        self._set_timer(target)
        # WAITING if the host was put in line for another request meanwhile (`per_host` above 1).
        if queue.state is HostState.FETCHING:
            queue.state = HostState.IDLE
            self.wake(queue)
        return delay_s

    def next_event(self) -> float:
        """Return the earliest time at which `next_host` may find a host; infinity if no delay is running."""
        if any(self._ready.values()):
            return 0.0
        due = self._timers[0][0] if self._timers else float("inf")
        room = self._engaged_ends[0][0] if any(self._over_limit.values()) and self._engaged_ends else float("inf")
        return min(due, room)

    @property
    def engaged(self) -> int:
        """Number of servers fetching or delayed after a fetch, when `next_host` last ran."""
        return len(self._engaged)
