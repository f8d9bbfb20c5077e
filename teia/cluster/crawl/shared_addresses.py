"""Leases on addresses that hosts of several nodes share: one node at a time sends requests to an address.

Each address in use has a key in the bucket `addr`. It names the node that holds the lease (the *turn*), the nodes that
wait for it, the delay before the next node's first request, and the number of sites that each node found there
(frontier/queue/shared_addresses.py). Every write is conditional on the one before it, so two nodes never both hold the
lease.

The first node that meets an address gets the lease. As long as no other node wants it, one write is all, for any number
of requests. Another node that needs the address puts itself in line and nudges the holder, which passes the lease on
when its request has ended, with the rest of the delay. Nudges are plain messages and may be lost; a waiting node looks
for itself once a second.

No lease runs out by a clock of its own. A lease depends on its node's session: a node that was declared dead has sent
no request since (session.py), so the next node takes the lease from it and delays the address as long as may be needed.
While NATS is away leases stay where they are. NATS forgets a key that was not written for a day; a node does not rely
on one half as old.

A read may be out of date, so reads decide nothing: a lease is taken and passed on by conditional writes, and a node
never believes to hold a lease that it has passed on itself. The crawler's loop calls `begin`, `finished` and `settle`;
everything else happens in the cluster's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address
from threading import Lock
from typing import TYPE_CHECKING

import msgspec

from teia.clock import Clock
from teia.cluster.members.session import NodeSession, NodeState
from teia.cluster.nats.wire import NoAnswer, open_bucket
from teia.errors import ClusterError
from teia.frontier.queue.shared_addresses import MAX_SITES

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.js.kv import KeyValue

VERSION = 1
BUCKET = "addr"
KEPT_S = 86_400
"""Time for which NATS keeps a key that is not written."""

RENEW_S = KEPT_S / 2
FORGET_S = 3_600.0
"""Time without use after which a lease is forgotten here; the key still names its holder."""

TURN_S = 0.5
"""Time after which a lease that others wait for is passed on, when a request has ended or none was begun."""

UNTOLD = 2.0
"""Factor over the usual delay, or the one in the key, up to which a delay is not written into the key.

So a node that takes the lease from a dead node multiplies the delay by this factor.
"""

LOOK_S = 0.02
LONGEST_LOOK_S = 0.25
"""First and longest wait before a host looks for its address again: a little later each time."""

SEEK_AGAIN_S = 1.0
AT_ONCE = 64
MAX_SOUGHT = 100_000
# Error codes of NATS: the key has changed, or another write to it is under way.
_WRONG_LAST = frozenset({10071, 10164})
_log = logging.getLogger(__name__)


class AddressLease(msgspec.Struct, frozen=True):
    """The content of an address's key. The next holder delays the address by `rest_s` from its reading."""

    node: str
    instance: str
    rest_s: float = 0.0
    waiting: tuple[str, ...] = ()
    """The nodes in line for the lease, the next one first."""
    sites: dict[str, int] = {}
    """Number of sites that each node has fetched from there."""
    version: int = VERSION


@dataclass(slots=True)
class _Turn:
    """An address whose lease is ours. Times are ticks; `written_at` is from before the claim was written."""

    claim: AddressLease
    revision: int
    got_at: float
    ready_at: float
    written_at: float
    sites: set[str]
    busy: int = 0
    has_asked: bool = False
    rest_s: float = 0.0
    usual_s: float = 0.0
    """Usual delay of the hosts that we fetched there: shorter than others' if all their owners agreed to that."""
    is_passing: bool = False
    """True while the lease is being passed on: no request is begun until the outcome is known."""

    def is_over(self, now: float) -> bool:
        """Tell whether another node may have the lease: a request was made, or there was time for one."""
        since = self.got_at if self.has_asked else max(self.got_at, self.ready_at)
        return not self.busy and now >= since + TURN_S


@dataclass(slots=True)
class _Sought:
    """An address that a host of ours waits for."""

    since: float
    try_at: float
    is_new: bool = True


@dataclass(slots=True)
class _Past:
    """A lease that we have passed on: the revision of that write, and the sites that we had fetched there."""

    revision: int
    sites: set[str] = field(default_factory=set)


class AddressLeases:
    """The leases of one node in one session; see the module."""

    def __init__(self, clock: Clock, session: NodeSession, usual_s: float, replicas: int) -> None:
        self.usual_s = usual_s
        self.messages = 0
        self.sent_bytes = 0
        self.apart = ""
        """Prefix of the keys of an isolated node, which shares leases with no other node."""
        self._clock = clock
        self._session = session
        self._replicas = replicas
        self._lock = Lock()
        self._turns: dict[str, _Turn] = {}
        self._recalled: set[str] = set()
        self._slow: set[str] = set()
        self._sought: dict[str, _Sought] = {}
        self._looks: set[str] = set()
        self._past: dict[str, _Past] = {}
        self._lined_at: dict[str, float] = {}
        """Time at which we last wrote ourselves in line; a claim that names us is younger."""
        self._since = clock.ticks_s()
        self._forget_at = self._since + FORGET_S
        self._event = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bucket: KeyValue | None = None

    # -- the crawler's side --------------------------------------------------------------------------------

    def begin(self, address: str, site: str, usual_s: float | None = None) -> float:
        """Begin a request to an address: return 0, or the time of the next try. A begun request must be `finished`.

        `usual_s` is the host's delay, if it differs from the usual one.
        """
        now = self._clock.ticks_s()
        with self._lock:
            turn = self._turns.get(address)
            if turn is not None and not turn.is_passing and now - turn.written_at < RENEW_S:
                if now < turn.ready_at:
                    return turn.ready_at
                turn.busy += 1
                turn.has_asked = True
                turn.usual_s = max(turn.usual_s, self.usual_s if usual_s is None else usual_s)
                if len(turn.sites) < MAX_SITES:
                    turn.sites.add(site)
                return 0.0
            sought = self._sought.get(address)
            if sought is None and len(self._sought) < MAX_SOUGHT:
                self._sought[address] = _Sought(now, now, is_new=address not in self._lined_at)
                self._wake()
            waited_s = 0.0 if sought is None else now - sought.since
        return now + min(LONGEST_LOOK_S, max(LOOK_S, waited_s / 4))

    def finished(self, address: str, ready_at: float, rest_s: float) -> None:
        """Note the end of a request: the time of the next allowed request, and the delay after an answer."""
        with self._lock:
            turn = self._turns.get(address)
            if turn is None:
                return
            turn.busy = max(0, turn.busy - 1)
            turn.ready_at = max(turn.ready_at, ready_at)
            turn.rest_s = rest_s
            if rest_s > UNTOLD * max(self.usual_s, turn.claim.rest_s):  # if this node dies, the next one must know it
                self._slow.add(address)
                self._wake()
            elif address in self._recalled:
                self._wake()

    def settle(self) -> None:
        """Treat all requests as ended or cut off just now; from now on hosts may move to other nodes."""
        now = self._clock.ticks_s()
        with self._lock:
            for turn in self._turns.values():
                # Alone at an address, a shorter delay that the owner agreed to holds; otherwise the usual one.
                usual_s = turn.usual_s if self._sites_of(turn) <= 1 else max(turn.usual_s, self.usual_s)
                turn.sites.clear()
                if turn.busy:
                    turn.busy = 0
                    turn.ready_at = max(turn.ready_at, now + max(usual_s, turn.rest_s))
            for past in self._past.values():
                past.sites.clear()
            self._sought.clear()

    def sites_at(self, address: str) -> int:
        """Return the number of sites that share an address, as far as this node and the others have fetched them."""
        turn = self._turns.get(address)
        return 0 if turn is None or not turn.claim.sites else self._sites_of(turn)

    def _sites_of(self, turn: _Turn) -> int:
        others = sum(count for name, count in turn.claim.sites.items() if name != self._session.node.name)
        return others + len(turn.sites)

    def _wake(self) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just ended
                self._loop.call_soon_threadsafe(self._event.set)

    # -- the cluster's side --------------------------------------------------------------------------------

    async def tend(self) -> None:
        """Seek leases and pass them on until cancelled, or until the session is lost."""
        self._loop = asyncio.get_running_loop()
        while not self._session.is_lost:
            try:
                await self._tend()
            except Exception as error:  # noqa: BLE001  # after any error of NATS it is tried again
                _log.warning("address leases: %r", error)
                await self._clock.sleep(SEEK_AGAIN_S)

    async def _tend(self) -> None:
        wire, clock = self._session.wire, self._clock
        self._bucket = await open_bucket(wire, clock, BUCKET, self._replicas)
        subject = _nudges_for(self._session.node.name)
        subscription = await wire.insist(lambda: wire.client.subscribe(subject, cb=self._nudged), clock)
        try:
            while not self._session.is_lost:
                self._event.clear()
                await self._go_round()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S if self._recalled else SEEK_AGAIN_S):
                        await self._event.wait()
        finally:
            with contextlib.suppress(Exception):
                await subscription.unsubscribe()

    async def _nudged(self, message: Msg) -> None:
        if len(self._looks) < MAX_SOUGHT:
            self._looks.add(message.data.decode("ascii", "replace")[:64])
            self._event.set()

    async def _go_round(self) -> None:
        """Do everything that is due, once."""
        now = self._clock.ticks_s()
        with self._lock:
            looks, self._looks = self._looks, set()
            looks |= {each for each, sought in self._sought.items() if sought.try_at <= now}
            for each in looks & self._sought.keys():
                self._sought[each].try_at = now + SEEK_AGAIN_S
            self._recalled &= self._turns.keys()
            over = [each for each in self._recalled if self._turns[each].is_over(now)]
            for each in over:
                # Under the lock that `begin` takes: no request is begun from here on.
                self._turns[each].is_passing = True
            slow, self._slow = self._slow & self._turns.keys(), set()
            self._forget(now)
        await self._do(self._look, looks)
        await self._do(self._pass_on, over)
        await self._do(self._tell, slow.difference(over))

    def _forget(self, now: float) -> None:
        """Forget leases that were not used for long; with the lock held."""
        if now < self._forget_at:
            return
        self._forget_at = now + FORGET_S / 10
        for each in [each for each, turn in self._turns.items() if not turn.busy and now - turn.ready_at > FORGET_S]:
            del self._turns[each]

    async def _do(self, do: Callable[[str], Awaitable[None]], addresses: Iterable[str]) -> None:
        """Run an action for many addresses, some at a time. A failed one is repeated later."""
        left = list(addresses)
        while left:
            some, left = left[:AT_ONCE], left[AT_ONCE:]
            for done in await asyncio.gather(*map(do, some), return_exceptions=True):
                if isinstance(done, Exception) and not isinstance(done, NoAnswer):
                    _log.warning("address lease: %r", done)

    async def _look(self, address: str) -> None:
        """Read who holds a lease: accept ours, take a free one, or stand in line."""
        sought = self._sought.get(address)
        # Most addresses are new to the cluster: creating the key saves a read.
        if sought is not None and sought.is_new:
            sought.is_new = False
            if await self._take(address, 0, AddressLease(*self._ours), 0.0):
                return
        claim, revision = await self._read(address)
        name = self._session.node.name
        if claim is not None and (claim.node, claim.instance) == self._ours:
            await self._is_ours(address, claim, revision)
        elif sought is None:
            return
        elif claim is None:
            await self._take(address, revision, AddressLease(*self._ours), 0.0)
        elif self._session.is_over(claim.node, claim.instance):
            # Its holder is dead and may have sent a request just before, with a delay that it had not written
            # yet.
            rest_s = max(claim.rest_s, self.usual_s)
            ours = AddressLease(*self._ours, rest_s, self._line(claim), self._sites(claim, address))
            await self._take(address, revision, ours, UNTOLD * rest_s)
        elif name in claim.waiting:
            await self._nudge(claim.node, address)
        else:
            in_line = msgspec.structs.replace(claim, waiting=(*self._line(claim), name))
            sent = self._clock.ticks_s()
            if await self._write(address, in_line, revision):
                self._lined_at[address] = sent
                await self._nudge(claim.node, address)

    @property
    def _ours(self) -> tuple[str, str]:
        return self._session.node.name, self._session.instance

    def _line(self, claim: AddressLease) -> tuple[str, ...]:
        alive = self._session.living()
        return tuple(name for name in claim.waiting if name in alive and name != self._session.node.name)

    def _sites(self, claim: AddressLease, address: str) -> dict[str, int]:
        alive, turn = self._session.living(), self._turns.get(address)
        others = {name: count for name, count in claim.sites.items() if name in alive}
        return others | {self._session.node.name: 0 if turn is None else len(turn.sites)}

    async def _is_ours(self, address: str, claim: AddressLease, revision: int) -> None:
        """Accept a lease whose key names this node: it was passed on to it, or other nodes wait for it."""
        with self._lock:
            past, turn = self._past.get(address), self._turns.get(address)
            if past is not None and revision <= past.revision:
                return  # this read is older than our passing it on
            is_fresh = turn is not None and self._clock.ticks_s() - turn.written_at < RENEW_S
            if turn is not None and is_fresh:
                if revision >= turn.revision:
                    turn.claim, turn.revision = claim, revision
                    if claim.waiting:
                        self._recalled.add(address)
                self._sought.pop(address, None)
                return
        # It was passed to this node after it stood in line; that write is young enough to rely on.
        written_at = self._lined_at.get(address)
        if turn is None and written_at is not None:
            self._got(address, claim, revision, claim.rest_s, written_at)
        else:
            await self._take(address, revision, claim, claim.rest_s if turn is None else 0.0)

    async def _take(self, address: str, last: int, claim: AddressLease, rest_s: float) -> bool:
        """Write that the lease is ours, if the key has not changed."""
        sent = self._clock.ticks_s()
        revision = await self._write(address, claim, last)
        if revision:
            self._got(address, claim, revision, rest_s, sent)
        return bool(revision)

    def _got(self, address: str, claim: AddressLease, revision: int, rest_s: float, written_at: float) -> None:
        now = self._clock.ticks_s()
        with self._lock:
            past, before = self._past.pop(address, None), self._turns.get(address)
            turn = _Turn(claim, revision, now, now + rest_s, written_at, set() if past is None else past.sites)
            if before is not None:  # renewed
                turn.ready_at, turn.busy, turn.sites = max(turn.ready_at, before.ready_at), before.busy, before.sites
                turn.usual_s = before.usual_s
            self._turns[address] = turn
            self._sought.pop(address, None)
            if claim.waiting:
                self._recalled.add(address)

    async def _pass_on(self, address: str) -> None:
        """Give the lease to the next in line."""
        turn = self._turns.get(address)
        if turn is None:
            return
        alive, line = self._session.living(), self._line(turn.claim)
        # The nodes that waited are gone.
        if not line:
            with self._lock:
                turn.is_passing = False
                self._recalled.discard(address)
            return
        sent = self._clock.ticks_s()
        claim = self._next_claim(address, turn, line, alive, sent)
        revision = await self._write(address, claim, turn.revision)
        if revision:
            with self._lock:
                del self._turns[address]
                self._past[address] = _Past(revision, turn.sites)
                self._lined_at[address] = sent
            await self._nudge(claim.node, address)
            return
        now, revision = await self._read(address)  # another node stood in line meanwhile, or it is passed on already
        with self._lock:
            if now is None or (now.node, now.instance) != self._ours:
                del self._turns[address]
                self._past[address] = _Past(max(revision, turn.revision), turn.sites)
            elif revision >= turn.revision:
                turn.claim, turn.revision = now, revision

    def _next_claim(
        self, address: str, turn: _Turn, line: tuple[str, ...], alive: dict[str, NodeState], now: float
    ) -> AddressLease:
        """Return the key's content when the lease is passed on; a node that used it stands in line again at once."""
        to, *others = line
        if turn.has_asked:
            others.append(self._session.node.name)
        rest_s = max(0.0, turn.ready_at - now)
        return AddressLease(to, alive[to].instance, rest_s, tuple(others), self._sites(turn.claim, address))

    async def _tell(self, address: str) -> None:
        """Write into the key that an address has a longer delay than usual, for the next holder if this node dies."""
        turn = self._turns.get(address)
        if turn is None or turn.is_passing:
            return
        sent, claim = self._clock.ticks_s(), msgspec.structs.replace(turn.claim, rest_s=turn.rest_s)
        revision = await self._write(address, claim, turn.revision)
        with self._lock:
            if revision:
                turn.claim, turn.revision, turn.written_at = claim, revision, sent
            else:
                # The key has changed: it is read again.
                self._looks.add(address)

    # -- the key -------------------------------------------------------------------------------------------

    async def _read(self, address: str) -> tuple[AddressLease | None, int]:
        """Return the content of an address's key, and its revision; nothing if there is none. May be out of date."""
        from nats.js.errors import KeyNotFoundError

        bucket = self._bucket
        assert bucket is not None
        try:
            entry = await self._session.wire.ask(bucket.get(self.apart + key_of(address)))
        except KeyNotFoundError:
            return None, 0
        try:
            claim = msgspec.json.decode(entry.value or b"", type=AddressLease)
        except msgspec.MsgspecError as error:
            raise ClusterError(f"the cluster's entry for {address} cannot be read: {error}") from error
        if claim.version != VERSION:
            raise ClusterError(
                f"the lease of {address} was written by another version of teia; run the same version on all nodes"
            )
        return claim, entry.revision or 0

    async def _write(self, address: str, claim: AddressLease, last: int) -> int:
        """Write a key if it has not changed; return its revision, or 0 if it has."""
        from nats.js.errors import APIError

        wire, data = self._session.wire, msgspec.json.encode(claim)
        headers = {"Nats-Expected-Last-Subject-Sequence": str(last)}
        self.messages += 1
        self.sent_bytes += len(data)
        try:
            stored = await wire.ask(
                wire.js.publish(f"$KV.{BUCKET}.{self.apart}{key_of(address)}", data, headers=headers, msg_ttl=KEPT_S)
            )
        except APIError as error:
            if error.err_code in _WRONG_LAST:
                return 0
            raise
        return stored.seq

    async def _nudge(self, node: str, address: str) -> None:
        """Tell a node to look at an address; the message may be lost."""
        self.messages += 1
        self.sent_bytes += len(address)
        await self._session.wire.ask(self._session.wire.client.publish(_nudges_for(node), address.encode()))


def key_of(address: str) -> str:
    """Return an address as a key, in hexadecimal: dots have a meaning for NATS, and colons are not allowed."""
    try:
        return ip_address(address.strip("[]")).packed.hex()
    except ValueError:
        raise ClusterError(f"{address!r} is not an address") from None


def _nudges_for(node: str) -> str:
    return f"teia.turns.{node}"
