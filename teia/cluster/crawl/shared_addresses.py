"""Leases on addresses that hosts of several nodes share: one node at a time sends requests to an address.

Each address in use has a key in the bucket `addr`. It names the node that holds the lease, the nodes that wait
for it, the delay before the next node's first request, and the number of sites that each node found there
(frontier/queue/shared_addresses.py). Every write is conditional on the one before it, so two nodes never both hold the
lease.

The first node that meets an address gets the lease. As long as no other node wants it, one write is all, for any number
of requests. Another node that needs the address adds itself to the waiting nodes and nudges the holder, which hands
the lease over when its request has ended, with the remaining delay. Nudges are plain messages and may be lost; a
waiting node polls once a second.

No lease runs out by a clock of its own. A lease depends on its node's session: a node that was declared dead has sent
no request since (session.py), so the next node takes the lease from it and delays the address as long as may be needed.
While NATS is away leases stay where they are. NATS forgets a key that was not written for a day; a node does not rely
on one half as old.

A read may be out of date, so reads decide nothing: a lease is taken and handed over by conditional writes, and a node
never believes to hold a lease that it has handed over itself. The crawler's loop calls `begin`, `finish` and
`end_requests`; everything else happens in the cluster's loop.
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
from teia.lib.undecodable import UNDECODABLE

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.js.kv import KeyValue

VERSION = 1
BUCKET = "addr"
KEY_TTL_S = 86_400
"""Time for which NATS keeps a key that is not written."""

RENEW_S = KEY_TTL_S / 2
FORGET_S = 3_600.0
"""Time without use after which a lease is forgotten here; the key still names its holder."""

HOLD_S = 0.5
"""Time after which a lease that others wait for is handed over, when a request has ended or none was begun."""

UNWRITTEN_FACTOR = 2.0
"""Factor over the usual delay, or the one in the key, up to which a delay is not written into the key.

So a node that takes the lease from a dead node multiplies the delay by this factor.
"""

POLL_S = 0.02
MAX_POLL_S = 0.25
"""First and longest wait before a host polls for its address again: a little longer each time."""

RETRY_S = 1.0
AT_ONCE = 64
MAX_WANTED = 100_000
# Error codes of NATS: the key has changed, or another write to it is under way.
_WRONG_LAST = frozenset({10071, 10164})
_log = logging.getLogger(__name__)


class AddressLease(msgspec.Struct, frozen=True):
    """The content of an address's key. The next holder delays the address by `delay_s` from its reading."""

    node: str
    instance: str
    delay_s: float = msgspec.field(default=0.0, name="rest_s")
    waiting: tuple[str, ...] = ()
    """The nodes that wait for the lease, the next one first."""
    sites: dict[str, int] = {}
    """Number of sites that each node has fetched from there."""
    version: int = VERSION


@dataclass(slots=True)
class _Lease:
    """An address whose lease is ours. Times are ticks; `written_at` is from before the claim was written."""

    claim: AddressLease
    revision: int
    got_at: float
    ready_at: float
    written_at: float
    sites: set[str]
    busy: int = 0
    was_used: bool = False
    delay_s: float = 0.0
    usual_delay_s: float = 0.0
    """Usual delay of the hosts that we fetched there: shorter than others' if all their owners agreed to that."""
    is_handing_over: bool = False
    """True while the lease is being handed over: no request is begun until the outcome is known."""

    def is_over(self, now: float) -> bool:
        """Tell whether another node may have the lease: a request was made, or there was time for one."""
        since = self.got_at if self.was_used else max(self.got_at, self.ready_at)
        return not self.busy and now >= since + HOLD_S


@dataclass(slots=True)
class _WantedAddress:
    """An address that a host of ours waits for."""

    since: float
    retry_at: float
    is_new: bool = True


@dataclass(slots=True)
class _ReleasedLease:
    """A lease that we have handed over: the revision of that write, and the sites that we had fetched there."""

    revision: int
    sites: set[str] = field(default_factory=set)


class AddressLeases:
    """The leases of one node in one session; see the module."""

    def __init__(self, clock: Clock, session: NodeSession, usual_delay_s: float, replicas: int) -> None:
        self.usual_delay_s = usual_delay_s
        self.messages = 0
        self.sent_bytes = 0
        self.key_prefix = ""
        """Prefix of the keys of an isolated node, which shares leases with no other node."""
        self._clock = clock
        self._session = session
        self._replicas = replicas
        self._lock = Lock()
        self._leases: dict[str, _Lease] = {}
        self._recalled: set[str] = set()
        self._long_delays: set[str] = set()
        self._wanted: dict[str, _WantedAddress] = {}
        self._to_check: set[str] = set()
        self._released: dict[str, _ReleasedLease] = {}
        self._queued_at: dict[str, float] = {}
        """Time at which we last added ourselves to the waiting nodes; a claim that names us is younger."""
        self._since = clock.ticks_s()
        self._forget_at = self._since + FORGET_S
        self._event = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bucket: KeyValue | None = None

    # -- the crawler's side --------------------------------------------------------------------------------

    def begin(self, address: str, site: str, usual_delay_s: float | None = None) -> float:
        """Begin a request to an address: return 0, or the time of the next try. A begun request needs `finish`.

        `usual_delay_s` is the host's delay, if it differs from the usual one.
        """
        now = self._clock.ticks_s()
        with self._lock:
            lease = self._leases.get(address)
            if lease is not None and not lease.is_handing_over and now - lease.written_at < RENEW_S:
                if now < lease.ready_at:
                    return lease.ready_at
                lease.busy += 1
                lease.was_used = True
                lease.usual_delay_s = max(
                    lease.usual_delay_s, self.usual_delay_s if usual_delay_s is None else usual_delay_s
                )
                if len(lease.sites) < MAX_SITES:
                    lease.sites.add(site)
                return 0.0
            wanted = self._wanted.get(address)
            if wanted is None and len(self._wanted) < MAX_WANTED:
                self._wanted[address] = _WantedAddress(now, now, is_new=address not in self._queued_at)
                self._wake()
            waited_s = 0.0 if wanted is None else now - wanted.since
        return now + min(MAX_POLL_S, max(POLL_S, waited_s / 4))

    def finish(self, address: str, ready_at: float, delay_s: float) -> None:
        """Note the end of a request: the time of the next allowed request, and the delay after an answer."""
        with self._lock:
            lease = self._leases.get(address)
            if lease is None:
                return
            lease.busy = max(0, lease.busy - 1)
            lease.ready_at = max(lease.ready_at, ready_at)
            lease.delay_s = delay_s
            # If this node dies, the next one must know it.
            if delay_s > UNWRITTEN_FACTOR * max(self.usual_delay_s, lease.claim.delay_s):
                self._long_delays.add(address)
                self._wake()
            elif address in self._recalled:
                self._wake()

    def end_requests(self) -> None:
        """Treat all requests as ended or cut off just now; from now on hosts may move to other nodes."""
        now = self._clock.ticks_s()
        with self._lock:
            for lease in self._leases.values():
                # Alone at an address, a shorter delay that the owner agreed to holds; otherwise the usual one.
                usual_delay_s = (
                    lease.usual_delay_s
                    if self._site_count(lease) <= 1
                    else max(lease.usual_delay_s, self.usual_delay_s)
                )
                lease.sites.clear()
                if lease.busy:
                    lease.busy = 0
                    lease.ready_at = max(lease.ready_at, now + max(usual_delay_s, lease.delay_s))
            for released in self._released.values():
                released.sites.clear()
            self._wanted.clear()

    def sites_at(self, address: str) -> int:
        """Return the number of sites that share an address, as far as this node and the others have fetched them."""
        lease = self._leases.get(address)
        return 0 if lease is None or not lease.claim.sites else self._site_count(lease)

    def _site_count(self, lease: _Lease) -> int:
        others = sum(count for name, count in lease.claim.sites.items() if name != self._session.node.name)
        return others + len(lease.sites)

    def _wake(self) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just ended
                self._loop.call_soon_threadsafe(self._event.set)

    # -- the cluster's side --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Seek leases and pass them on until cancelled, or until the session is lost."""
        self._loop = asyncio.get_running_loop()
        while not self._session.is_lost:
            try:
                await self._run()
            except Exception as error:  # noqa: BLE001  # after any error of NATS it is tried again
                _log.warning("address leases: %r", error)
                await self._clock.sleep(RETRY_S)

    async def _run(self) -> None:
        wire, clock = self._session.wire, self._clock
        self._bucket = await open_bucket(wire, clock, BUCKET, self._replicas)
        subject = _nudge_subject(self._session.node.name)
        subscription = await wire.retry(lambda: wire.client.subscribe(subject, cb=self._on_nudge), clock)
        try:
            while not self._session.is_lost:
                self._event.clear()
                await self._run_round()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S if self._recalled else RETRY_S):
                        await self._event.wait()
        finally:
            with contextlib.suppress(Exception):
                await subscription.unsubscribe()

    async def _on_nudge(self, message: Msg) -> None:
        if len(self._to_check) < MAX_WANTED:
            self._to_check.add(message.data.decode("ascii", "replace")[:64])
            self._event.set()

    async def _run_round(self) -> None:
        """Do everything that is due, once."""
        now = self._clock.ticks_s()
        with self._lock:
            to_check, self._to_check = self._to_check, set()
            to_check |= {each for each, wanted in self._wanted.items() if wanted.retry_at <= now}
            for each in to_check & self._wanted.keys():
                self._wanted[each].retry_at = now + RETRY_S
            self._recalled &= self._leases.keys()
            over = [each for each in self._recalled if self._leases[each].is_over(now)]
            for each in over:
                # Under the lock that `begin` takes: no request is begun from here on.
                self._leases[each].is_handing_over = True
            long_delays, self._long_delays = self._long_delays & self._leases.keys(), set()
            self._forget(now)
        await self._for_each(self._check, to_check)
        await self._for_each(self._hand_over, over)
        await self._for_each(self._publish_delay, long_delays.difference(over))

    def _forget(self, now: float) -> None:
        """Forget leases that were not used for long; with the lock held."""
        if now < self._forget_at:
            return
        self._forget_at = now + FORGET_S / 10
        for each in [
            each for each, lease in self._leases.items() if not lease.busy and now - lease.ready_at > FORGET_S
        ]:
            del self._leases[each]

    async def _for_each(self, action: Callable[[str], Awaitable[None]], addresses: Iterable[str]) -> None:
        """Run an action for many addresses, some at a time. A failed one is repeated later."""
        left = list(addresses)
        while left:
            some, left = left[:AT_ONCE], left[AT_ONCE:]
            for done in await asyncio.gather(*map(action, some), return_exceptions=True):
                if isinstance(done, Exception) and not isinstance(done, NoAnswer):
                    _log.warning("address lease: %r", done)

    async def _check(self, address: str) -> None:
        """Read who holds a lease: accept ours, take a free one, or wait for it."""
        wanted = self._wanted.get(address)
        # Most addresses are new to the cluster: creating the key saves a read.
        if wanted is not None and wanted.is_new:
            wanted.is_new = False
            if await self._acquire(address, 0, AddressLease(*self._own_id), 0.0):
                return
        claim, revision = await self._read(address)
        name = self._session.node.name
        if claim is not None and (claim.node, claim.instance) == self._own_id:
            await self._accept_own(address, claim, revision)
        elif wanted is None:
            return
        elif claim is None:
            await self._acquire(address, revision, AddressLease(*self._own_id), 0.0)
        elif self._session.is_over(claim.node, claim.instance):
            # Its holder is dead and may have sent a request just before, with a delay that it had not written
            # yet.
            delay_s = max(claim.delay_s, self.usual_delay_s)
            ours = AddressLease(*self._own_id, delay_s, self._live_waiters(claim), self._site_counts(claim, address))
            await self._acquire(address, revision, ours, UNWRITTEN_FACTOR * delay_s)
        elif name in claim.waiting:
            await self._nudge(claim.node, address)
        else:
            queued = msgspec.structs.replace(claim, waiting=(*self._live_waiters(claim), name))
            sent = self._clock.ticks_s()
            if await self._write(address, queued, revision):
                self._queued_at[address] = sent
                await self._nudge(claim.node, address)

    @property
    def _own_id(self) -> tuple[str, str]:
        return self._session.node.name, self._session.instance

    def _live_waiters(self, claim: AddressLease) -> tuple[str, ...]:
        alive = self._session.alive_in_all_collections()
        return tuple(name for name in claim.waiting if name in alive and name != self._session.node.name)

    def _site_counts(self, claim: AddressLease, address: str) -> dict[str, int]:
        alive, lease = self._session.alive_in_all_collections(), self._leases.get(address)
        others = {name: count for name, count in claim.sites.items() if name in alive}
        return others | {self._session.node.name: 0 if lease is None else len(lease.sites)}

    async def _accept_own(self, address: str, claim: AddressLease, revision: int) -> None:
        """Accept a lease whose key names this node: it was handed to it, or other nodes wait for it."""
        with self._lock:
            released, lease = self._released.get(address), self._leases.get(address)
            if released is not None and revision <= released.revision:
                return  # this read is older than our handing it over
            is_fresh = lease is not None and self._clock.ticks_s() - lease.written_at < RENEW_S
            if lease is not None and is_fresh:
                if revision >= lease.revision:
                    lease.claim, lease.revision = claim, revision
                    if claim.waiting:
                        self._recalled.add(address)
                self._wanted.pop(address, None)
                return
        # It was handed to this node after it waited for it; that write is young enough to rely on.
        written_at = self._queued_at.get(address)
        if lease is None and written_at is not None:
            self._record_lease(address, claim, revision, claim.delay_s, written_at)
        else:
            await self._acquire(address, revision, claim, claim.delay_s if lease is None else 0.0)

    async def _acquire(self, address: str, last: int, claim: AddressLease, delay_s: float) -> bool:
        """Write that the lease is ours, if the key has not changed."""
        sent = self._clock.ticks_s()
        revision = await self._write(address, claim, last)
        if revision:
            self._record_lease(address, claim, revision, delay_s, sent)
        return bool(revision)

    def _record_lease(
        self, address: str, claim: AddressLease, revision: int, delay_s: float, written_at: float
    ) -> None:
        now = self._clock.ticks_s()
        with self._lock:
            released, before = self._released.pop(address, None), self._leases.get(address)
            lease = _Lease(
                claim, revision, now, now + delay_s, written_at, set() if released is None else released.sites
            )
            if before is not None:  # renewed
                lease.ready_at, lease.busy, lease.sites = (
                    max(lease.ready_at, before.ready_at),
                    before.busy,
                    before.sites,
                )
                lease.usual_delay_s = before.usual_delay_s
            self._leases[address] = lease
            self._wanted.pop(address, None)
            if claim.waiting:
                self._recalled.add(address)

    async def _hand_over(self, address: str) -> None:
        """Hand the lease over to the next waiting node."""
        lease = self._leases.get(address)
        if lease is None:
            return
        alive, waiters = self._session.alive_in_all_collections(), self._live_waiters(lease.claim)
        # The nodes that waited are gone.
        if not waiters:
            with self._lock:
                lease.is_handing_over = False
                self._recalled.discard(address)
            return
        sent = self._clock.ticks_s()
        claim = self._next_claim(address, lease, waiters, alive, sent)
        revision = await self._write(address, claim, lease.revision)
        if revision:
            with self._lock:
                del self._leases[address]
                self._released[address] = _ReleasedLease(revision, lease.sites)
                self._queued_at[address] = sent
            await self._nudge(claim.node, address)
            return
        now, revision = await self._read(address)  # another node began to wait meanwhile, or it is handed over already
        with self._lock:
            if now is None or (now.node, now.instance) != self._own_id:
                del self._leases[address]
                self._released[address] = _ReleasedLease(max(revision, lease.revision), lease.sites)
            elif revision >= lease.revision:
                lease.claim, lease.revision = now, revision

    def _next_claim(
        self, address: str, lease: _Lease, waiters: tuple[str, ...], alive: dict[str, NodeState], now: float
    ) -> AddressLease:
        """Return the key's content when the lease is handed over; a node that used it waits again at once."""
        to, *others = waiters
        if lease.was_used:
            others.append(self._session.node.name)
        delay_s = max(0.0, lease.ready_at - now)
        return AddressLease(to, alive[to].instance, delay_s, tuple(others), self._site_counts(lease.claim, address))

    async def _publish_delay(self, address: str) -> None:
        """Write into the key that an address has a longer delay than usual, for the next holder if this node dies."""
        lease = self._leases.get(address)
        if lease is None or lease.is_handing_over:
            return
        sent, claim = self._clock.ticks_s(), msgspec.structs.replace(lease.claim, delay_s=lease.delay_s)
        revision = await self._write(address, claim, lease.revision)
        with self._lock:
            if revision:
                lease.claim, lease.revision, lease.written_at = claim, revision, sent
            else:
                # The key has changed: it is read again.
                self._to_check.add(address)

    # -- the key -------------------------------------------------------------------------------------------

    async def _read(self, address: str) -> tuple[AddressLease | None, int]:
        """Return the content of an address's key, and its revision; nothing if there is none. May be out of date."""
        from nats.js.errors import KeyNotFoundError

        bucket = self._bucket
        assert bucket is not None
        try:
            entry = await self._session.wire.request(bucket.get(self.key_prefix + key_of(address)))
        except KeyNotFoundError:
            return None, 0
        try:
            claim = msgspec.json.decode(entry.value or b"", type=AddressLease)
        except UNDECODABLE as error:
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
            stored = await wire.request(
                wire.js.publish(
                    f"$KV.{BUCKET}.{self.key_prefix}{key_of(address)}", data, headers=headers, msg_ttl=KEY_TTL_S
                )
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
        await self._session.wire.request(self._session.wire.client.publish(_nudge_subject(node), address.encode()))


def key_of(address: str) -> str:
    """Return an address as a key, in hexadecimal: dots have a meaning for NATS, and colons are not allowed."""
    try:
        return ip_address(address.strip("[]")).packed.hex()
    except ValueError:
        raise ClusterError(f"{address!r} is not an address") from None


def _nudge_subject(node: str) -> str:
    return f"teia.turns.{node}"
