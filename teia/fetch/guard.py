"""The address guard: the one place that decides whether a socket may be opened to an address and a port.

Guards fail by placement, not by list: so one check, on the resolved address, for everything in teia that opens a
connection. The text of a URL is never judged here; `127.1`, `0x7f.1` and names that point inside are all the same by
the time they arrive as an address.

The tables are our own, from the IANA special-purpose registries, because `ipaddress.is_global` leaves several of their
ranges out. IPv6 is refused unless it is global unicast (2000::/3), so unassigned ranges are refused too. An IPv6
address that carries an IPv4 one (mapped, NAT64, 6to4, Teredo, ISATAP) is refused by its range or its contents; where a
range was allowed by the operator, the IPv4 address inside must still pass by itself.

`allow_nets` is the operator's exception (`--allow-net 127.0.0.0/8`): inside these networks the address rule is lifted,
and any port may be used but those of services that a crawler must never talk to and those where teia itself listens.

`caches` are the operator's cache proxies (`signals.proxy`, `signals.caches`), address and port. They are near, so they
may be on this machine or in its own network; but they are reached by requests that are meant for a cache alone
(`is_cache`), and such requests reach nothing else. No page can lead to one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from teia.errors import ConfigError

Address = IPv4Address | IPv6Address

REMEMBERED_CHECKS = 65_536
OWN_PORTS = (8700,)
"""Default port of `teia serve`."""

OF_TEIA, OF_OTHERS = "is a port of teia itself", "belongs to another service"
"""Refusals that no setting lifts."""

FORBIDDEN_NETS: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "carrier-grade NAT"),
    ("127.0.0.0/8", "loopback"),
    ("168.63.129.16/32", "cloud host agent"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "protocol assignments"),
    ("192.0.2.0/24", "documentation"),
    ("192.31.196.0/24", "AS112"),
    ("192.52.193.0/24", "multicast tunnels"),
    ("192.88.99.0/24", "6to4 relays"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "AS112"),
    ("198.18.0.0/15", "benchmarks"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::/96", "IPv4-compatible"),
    ("::ffff:0:0/96", "IPv4-mapped"),
    ("::ffff:0:0:0/96", "IPv4-translated"),
    ("64:ff9b::/96", "NAT64"),
    ("64:ff9b:1::/48", "local NAT64"),
    ("100::/64", "discard"),
    ("100:0:0:1::/64", "dummy prefix"),
    ("2001::/32", "Teredo"),
    ("2001::/23", "protocol assignments"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "6to4"),
    ("2620:4f:8000::/48", "AS112"),
    ("3ffe::/16", "6bone"),
    ("3fff::/20", "documentation"),
    ("5f00::/16", "segment routing"),
    ("fc00::/7", "unique local"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")

_BROWSER_PORTS = (
    "1 7 9 11 13 15 17 19-23 25 37 42 43 53 69 77 79 87 95 101-104 109-111 113 115 117 119 123 135 137-139 143 161 179 "
    "389 427 445 465 512-515 526 530-532 540 548 554 556 563 587 601 636 873 989 990 993 995 1719 1720 1723 2049 3659 "
    "4045 4190 5060 5061 6000-6063 6566 6665-6669 6679 6697 10080"
)
_SERVICE_PORTS = (
    "1080 1099 1433 1434 1521 1883 2181 2375-2380 3128 3306 3389 4222 4369 5432 5433 5671 5672 5900-5909 5984-5986 "
    "6222 6379-6381 6432 6443 7000-7001 7199 7473 7474 7687 8086 8222 8300-8302 8500 9042 9092 9160 9200 9300 9418 "
    "10250 10255 11211 11434 15672 16379 26257 26379 27017-27019 28015 28017"
)


def _ports(text: str) -> Iterator[int]:
    for item in text.split():
        first, _, last = item.partition("-")
        yield from range(int(first), int(last or first) + 1)


CACHES_MAY_BE = frozenset({"loopback", "private", "carrier-grade NAT", "unique local"})
CACHE_PORTS = frozenset({1080, 3128})
"""Ports of those below where a cache may listen."""

FORBIDDEN_PORTS = frozenset(_ports(f"{_BROWSER_PORTS} {_SERVICE_PORTS}"))
"""The bad ports of the Fetch standard, then databases, queues, proxies, consoles and the control planes of clusters."""


class _Ranges:
    """Disjoint ranges of one family, for one bisection instead of one test per network."""

    def __init__(self, nets: Iterable[tuple[IPv4Network | IPv6Network, str]]) -> None:
        # Cut the number line at every network's edges; each piece gets the name of the narrowest network over it.
        narrow_last = sorted(nets, key=lambda item: item[0].prefixlen)
        edges = sorted({edge for net, _ in narrow_last for edge in (int(net[0]), int(net[-1]) + 1)})
        self._starts = edges
        self._names = [next((name for net, name in reversed(narrow_last) if _holds(net, e)), "") for e in edges]

    def find(self, number: int) -> str:
        """Return the name of the narrowest network that holds the address; empty if there is none."""
        index = bisect_right(self._starts, number) - 1
        return self._names[index] if index >= 0 else ""


def _holds(net: IPv4Network | IPv6Network, number: int) -> bool:
    return int(net[0]) <= number <= int(net[-1])


def _split_families(nets: Iterable[tuple[str, str]]) -> tuple[_Ranges, _Ranges]:
    parsed = [(ip_network(net), name) for net, name in nets]
    return (
        _Ranges(item for item in parsed if item[0].version == 4),
        _Ranges(item for item in parsed if item[0].version == 6),
    )


_FORBIDDEN_4, _FORBIDDEN_6 = _split_families(FORBIDDEN_NETS)


def embedded(address: IPv6Address) -> Iterator[IPv4Address]:
    """Yield every IPv4 address that some router or stack may take out of an IPv6 one and send packets to.

    A NAT64 prefix may hold the address in other places than the last 32 bits (RFC 6052). The place cannot be seen from
    outside, so the prefixes as such are refused.
    """
    number = int(address)
    low = IPv4Address(number & 0xFFFF_FFFF)
    high_96 = number >> 32
    if number > 1 and high_96 in (0, 0xFFFF, 0xFFFF_0000, 0x64_FF9B << 64):  # compatible, mapped, translated, NAT64
        yield low
    if number >> 80 == 0x64_FF9B_0001:
        yield low
    if number >> 112 == 0x2002:
        yield IPv4Address(number >> 80 & 0xFFFF_FFFF)
    if number >> 96 == 0x2001_0000:  # Teredo: server, and client with every bit turned
        yield IPv4Address(number >> 64 & 0xFFFF_FFFF)
        yield IPv4Address(int(low) ^ 0xFFFF_FFFF)
    if high_96 & 0xFDFF_FFFF == 0x5EFE:  # ISATAP, under any prefix
        yield low


class AddressGuard:
    """The guard. `check` returns None where a connection may be opened, else the reason in a few words."""

    def __init__(
        self,
        allow_nets: Sequence[str] = (),
        own_ports: Iterable[int] = OWN_PORTS,
        caches: Iterable[tuple[str, int]] = (),
    ) -> None:
        try:
            self._allowed_4, self._allowed_6 = _split_families((net.strip(), net) for net in allow_nets)
        except ValueError as error:
            raise ConfigError(f"fetch.allow_nets: {error}; write networks such as 127.0.0.0/8 or fd00::/8") from error
        self._own_ports = frozenset(own_ports)
        self._caches = frozenset((ip_address(address), port) for address, port in caches)
        # Safe to cache: the tables never change after construction. Every request calls `check` at least twice.
        self._remembered = lru_cache(maxsize=REMEMBERED_CHECKS)(self._check)

    def check(self, address: str, port: int, *, is_cache: bool = False) -> str | None:
        return self._remembered(address, port, is_cache)

    def check_all(self, addresses: Iterable[str], port: int) -> str | None:
        """Judge a name by all its records: one forbidden address forbids the name."""
        return next((reason for reason in (self.check(address, port) for address in addresses) if reason), None)

    def _check(self, address: str, port: int, is_cache: bool) -> str | None:
        try:
            parsed = ip_address(address)
        except ValueError:
            return f"{address[:64]!r} is not an address"
        if isinstance(parsed, IPv6Address) and parsed.scope_id is not None:
            return f"{parsed} has an interface name"
        # The cache's own place is reserved: an `allow_nets` that covers it must not let pages lead there.
        if is_cache or (parsed, port) in self._caches:
            return self._check_cache(parsed, port, is_cache)
        allowed = self._is_allowed(parsed)
        return self._check_address(parsed, allowed) or self._check_port(port, allowed)

    def _check_cache(self, address: Address, port: int, is_cache: bool) -> str | None:
        if not is_cache:
            return f"{address} port {port} is reserved for the cache proxy"
        if (address, port) not in self._caches:
            return f"{address} port {port} is not the cache proxy of signals.proxy or signals.caches"
        if port in self._own_ports:
            return f"port {port} {OF_TEIA}"
        if port in FORBIDDEN_PORTS - CACHE_PORTS or not 1 <= port <= 65_535:
            return f"port {port} {OF_OTHERS}"
        kind = (_FORBIDDEN_4 if address.version == 4 else _FORBIDDEN_6).find(int(address))
        return self._check_address(address, self._is_allowed(address) or kind in CACHES_MAY_BE)

    def _is_allowed(self, address: Address) -> bool:
        ranges = self._allowed_4 if address.version == 4 else self._allowed_6
        return bool(ranges.find(int(address)))

    def _check_address(self, address: Address, allowed: bool) -> str | None:
        if not allowed:
            kind = (_FORBIDDEN_4 if address.version == 4 else _FORBIDDEN_6).find(int(address))
            if kind:
                return f"{address} is {kind}"
            if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
                return f"{address} is not global unicast"
        if isinstance(address, IPv6Address):
            # Also inside an allowed IPv6 network: `--allow-net 64:ff9b::/96` must not open 10.0.0.0/8 through NAT64.
            for inner in embedded(address):
                reason = self._check_address(inner, self._is_allowed(inner))
                if reason:
                    return f"{address} contains an address: {reason}"
        return None

    def _check_port(self, port: int, allowed: bool) -> str | None:
        if port in self._own_ports:
            return f"port {port} {OF_TEIA}"
        # Before `allowed`: no exception of the operator opens these ports.
        if port in FORBIDDEN_PORTS:
            return f"port {port} {OF_OTHERS}"
        if allowed and 1 <= port <= 65_535:
            return None
        if port in (80, 443) or 1024 <= port <= 65_535:
            return None
        return f"port {port} is not a web port"
