"""Politeness delays: the time at which each server and address may be requested again.

A *server* here is a host name, all its ports and schemes together; an *address* is an IP address that names resolve
to. Both are targets with a delay. From the last byte of an answer (or from the error) to the next request sent to
the same target, the crawler waits

    max(delay, response_factor x last response time, Crawl-delay, Retry-After)        (C2, T5, A7)

seconds. The delay of a small host is `small_site_factor` times as long, because small sites often run on weak machines;
every host counts as small until it is known to have many URLs. The delay is longer where the operator set a longer one
for a host, and shorter where its owner agreed (host_rules.py). One request at a time is under way (`per_host` more,
only for the user's own hosts). robots.txt, redirect hops and retries are requests like any other.

With `delay_s = 0`, which a user sets for their own hosts, neither delay nor factor apply; the delays that the
server itself requests (Crawl-delay, Retry-After) still do.

Crawl-delay and Retry-After come from one server and delay it by name. The address waits for our own delay alone:
where a thousand sites share an address, one of them in trouble must not block the others for a day. An address that
so many sites share has a shorter delay than a server (shared_addresses.py).

Times are ticks of the clock, so a jump of the calendar shortens no delay. Invariant: a target with `busy > 0` is
never ready beyond `per_host` requests, and `ready_at` only moves later
(tests/frontier/queue/test_politeness.py::test_no_two_requests_closer_than_the_delay).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from teia.config.sections import CourtesySettings
from teia.frontier.queue.host_rules import delay_of, host_delays
from teia.frontier.queue.shared_addresses import CDN_SITES, MAX_SITES, Networks, address_delay_s, shared_delay_s
from teia.urls import site_of

MAX_BACK_OFF_S = 86_400.0
FIRST_BACK_OFF_S = 60.0
FORGIVEN_AFTER_S = 1_800.0
# 60 s doubled eleven times is more than MAX_BACK_OFF_S; the limit keeps the power small.
_MAX_DOUBLINGS = 11


@dataclass(eq=False, slots=True, weakref_slot=True)
class DelayTarget:
    """A server or an address, with its delay. There is one object for each, so that all its users see the same state.

    `sites` are the registered domains that were requested at an address; `known_sites` is their number before this
    run. `is_small`: the server is not known to have more than `small_site_urls` URLs.
    """

    name: str
    ready_at: float = 0.0
    busy: int = 0
    last_end: float = float("-inf")
    crawl_delay_s: float = 0.0
    crawl_delays_s: dict[Hashable, float] | None = None
    last_response_s: float = 0.0
    last_delay_s: float = 0.0
    refusals: int = 0
    backs_off_until: float = float("-inf")
    sites: set[str] | None = None
    known_sites: int = 0
    is_small: bool = True

    @property
    def site_count(self) -> int:
        """Number of sites that share an address, as far as is known."""
        return max(self.known_sites, len(self.sites or ()))

    @property
    def needs_no_delay(self) -> bool:
        """True if it was requested, and could be requested again at once."""
        return self.last_end > float("-inf") and self.last_delay_s == 0

    def is_free(self, now: float, per_host: int) -> bool:
        return self.busy < per_host and now >= self.ready_at

    def is_forgiven(self, now: float) -> bool:
        """Tell whether half an hour passed without a refusal, counted from the end of the back-off."""
        return now - self.backs_off_until > FORGIVEN_AFTER_S


@dataclass(slots=True)
class Politeness:
    """The delays of all targets requested lately, by any collection.

    `forget_expired` deletes targets whose delay ended and that are not busy, so memory follows the number of hosts
    being visited, not the number ever seen. A target that other code still references is found again, not created
    again: two objects for one server would let it be requested twice at once.
    """

    courtesy: CourtesySettings
    networks: Networks = field(init=False)
    servers: dict[str, DelayTarget] = field(default_factory=dict)
    addresses: dict[str, DelayTarget] = field(default_factory=dict)
    _held_servers: WeakValueDictionary[str, DelayTarget] = field(default_factory=WeakValueDictionary)
    _held_addresses: WeakValueDictionary[str, DelayTarget] = field(default_factory=WeakValueDictionary)

    _delays_s: Mapping[str, float] = field(init=False)
    _crashed_at: float | None = None

    def __post_init__(self) -> None:
        self.networks = Networks(self.courtesy.cdn_nets)
        self._delays_s = host_delays(self.courtesy.host_delays)

    def apply_courtesy(self, courtesy: CourtesySettings) -> None:
        """Use other courtesy settings.

        A longer delay applies to delays already running, a shorter one from the next on.
        """
        self.courtesy = courtesy
        self.networks = Networks(courtesy.cdn_nets)
        self._delays_s = host_delays(courtesy.host_delays)
        for server in self.servers.values():
            self._delay_from(server, server.last_end, self.delay_s(server))
        for address in self.addresses.values():
            self._delay_from(address, address.last_end, shared_delay_s(courtesy, self.sites_at(address)))

    def server(self, host: str) -> DelayTarget:
        target = self.servers.get(host)
        if target is None:
            # A forgotten target that a queue still references must come back as the same object.
            target = self._held_servers.get(host) or DelayTarget(host)
            self.servers[host] = self._held_servers[host] = target
            if self._crashed_at is not None:
                self._delay_from(target, self._crashed_at, self.delay_s(target))
        return target

    def address(self, address: str) -> DelayTarget:
        target = self.addresses.get(address)
        if target is None:
            target = self._held_addresses.get(address) or DelayTarget(address)
            self.addresses[address] = self._held_addresses[address] = target
            if self._crashed_at is not None:
                self._delay_from(target, self._crashed_at, self._longest_delay_s)
        return target

    @property
    def _longest_delay_s(self) -> float:
        """The delay of an address whose hosts are not known."""
        return self.courtesy.delay_s * max(1.0, self.courtesy.small_site_factor)

    def begin_request(self, server: DelayTarget, address: DelayTarget) -> None:
        # A target may have been forgotten between its choice and this request.
        self.servers[server.name] = server
        self.addresses[address.name] = address
        server.busy += 1
        address.busy += 1
        if address.sites is None:
            address.sites = set()
        if len(address.sites) < MAX_SITES:
            address.sites.add(site_of(server.name))

    def sites_at(self, address: DelayTarget) -> int:
        """Return the number of sites that share an address; enough for any rule in a network the operator listed."""
        return CDN_SITES if address.name in self.networks else address.site_count

    def end_request(
        self, server: DelayTarget, address: DelayTarget, started: float, ended: float, retry_after_s: float = 0.0
    ) -> float:
        """Count the end of a request and return the server's delay; `retry_after_s` delays the server alone."""
        server.busy -= 1
        address.busy -= 1
        server.last_response_s = ended - started
        server.last_end = address.last_end = ended
        server.last_delay_s = max(self.delay_s(server), retry_after_s)
        address.last_delay_s = self._address_delay_s(server, address)
        # `ready_at` only moves later, also if parallel answers end out of order.
        server.ready_at = max(server.ready_at, ended + server.last_delay_s)
        address.ready_at = max(address.ready_at, ended + address.last_delay_s)
        return server.last_delay_s

    def apply_crawl_delay(self, server: DelayTarget, crawl_delay_s: float, source: Hashable = "") -> None:
        """Apply a Crawl-delay, also to the delay already running after the robots.txt that names it.

        A server may have several robots.txt (`source`): one for each scheme and port, and for each address that
        collections give its name. The longest delay applies.
        """
        # A robots.txt without a Crawl-delay withdraws its own alone.
        if crawl_delay_s or server.crawl_delays_s:
            delays_s = {**(server.crawl_delays_s or {}), source: crawl_delay_s}
            server.crawl_delays_s = {each: delay_s for each, delay_s in delays_s.items() if delay_s} or None
            server.crawl_delay_s = max(delays_s.values())
        server.last_delay_s = max(server.last_delay_s, server.crawl_delay_s)
        server.ready_at = max(server.ready_at, server.last_end + server.crawl_delay_s)

    def delay_s(self, server: DelayTarget) -> float:
        """Return a server's delay after an answer, from its last response time and its Crawl-delay."""
        return max(self._own_delay_s(server), server.crawl_delay_s, self._delays_s.get(server.name, 0.0))

    def _own_delay_s(self, server: DelayTarget) -> float:
        delay_s = delay_of(self.courtesy, server.name, is_small=server.is_small)
        if delay_s == 0:
            return 0.0
        return max(delay_s, self.courtesy.response_factor * server.last_response_s)

    def _address_delay_s(self, server: DelayTarget, address: DelayTarget) -> float:
        """Return an address's delay after an answer of a server.

        It is shorter than usual where the server's owner agreed to that, unless another site is known at the
        address.
        """
        sites = self.sites_at(address)
        delay_s = address_delay_s(self.courtesy, sites, server.last_response_s)
        return min(delay_s, self._own_delay_s(server)) if sites <= 1 else delay_s

    def back_off(self, server: DelayTarget, now: float, jitter: float) -> float:
        """Return the back-off after a 429 or 503 that named no time: 60 s doubled each time, up to a day.

        `jitter` is a draw from [0, 1): up to a tenth is added, so that hosts do not come back together.
        Half an hour without a refusal forgives. Refusals of requests that were under way together are one.
        """
        if now < server.backs_off_until:
            return server.backs_off_until - now
        if server.is_forgiven(now):
            server.refusals = 0
        back_off_s = FIRST_BACK_OFF_S * 2.0 ** min(server.refusals, _MAX_DOUBLINGS) * (1 + jitter / 10)
        server.refusals += 1
        server.backs_off_until = now + min(MAX_BACK_OFF_S, back_off_s)
        return min(MAX_BACK_OFF_S, back_off_s)

    def delay_after_crash(self, hosts_and_addresses: list[tuple[str, str]], now: float) -> None:
        """Make every target that may have been requested just before a crash wait its full delay from now.

        That counts as the end of a request, so a Crawl-delay that is read from disk later lengthens this delay.
        """
        for host, address in hosts_and_addresses:
            server = self.server(host)
            self._delay_from(server, now, self.delay_s(server))
            if address:
                self._delay_from(self.address(address), now, max(self._own_delay_s(server), self.courtesy.delay_s))

    def delay_all_after_crash(self, now: float) -> None:
        """Make every server and address wait its full delay from now, also those that become known later.

        There are hosts on disk that may have been requested just before a crash, and too many to have them in memory.
        """
        self._crashed_at = now
        for server in self.servers.values():
            self._delay_from(server, now, self.delay_s(server))
        for address in self.addresses.values():
            self._delay_from(address, now, self._longest_delay_s)

    @staticmethod
    def _delay_from(target: DelayTarget, now: float, delay_s: float) -> None:
        target.last_end = max(target.last_end, now)
        target.last_delay_s = max(target.last_delay_s, delay_s)
        target.ready_at = max(target.ready_at, now + delay_s)

    def forget_expired(self, now: float) -> None:
        """Drop targets that need no memory: idle, ready, forgiven, without Crawl-delay and with few sites."""
        max_sites = self.courtesy.shared_sites
        for targets in (self.servers, self.addresses):
            for name, target in list(targets.items()):
                # A Crawl-delay and the sites of a shared address would be lost with the object.
                is_plain = not target.crawl_delay_s and target.site_count <= max_sites
                if is_plain and not target.busy and now > target.ready_at and target.is_forgiven(now):
                    del targets[name]
