"""Distances between clients and servers: latency and bandwidth by region (A4, A12).

On loopback all distances are zero. So a client's region follows from the address it binds to, a server's from its
number.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from math import exp
from statistics import NormalDist

from teia.lab.world.draws import unit
from teia.lab.world.hosts import WorldHost
from teia.lab.world.spec import RegionsSpec

_REMEMBERED_CLIENTS = 4096


def format_countries(hosts: Iterable[WorldHost], names: tuple[str, ...]) -> str:
    """Return the regions of servers in the format of `teia node --countries`: a network and its region in each line."""
    regions = {host.address: host.region for host in hosts}
    return "".join(f"{address}/32,{names[region]}\n" for address, region in regions.items())


class Regions:
    """Computes the transfer time of an answer."""

    def __init__(self, spec: RegionsSpec) -> None:
        self.names = spec.names
        self._latency_s, self._bytes_per_s, self._spread = spec.latency_s, spec.bytes_per_s, spec.spread
        self._drawn: dict[tuple[int, int], float] = {}
        pairs = (entry.split("=") for entry in spec.clients)
        networks = [(ip_network(network), spec.names.index(region)) for network, region in pairs]
        # The narrowest network first, because the first match is used.
        self._networks = sorted(networks, key=lambda pair: pair[0].prefixlen, reverse=True)
        self._known: dict[str, int] = {}

    @property
    def is_instant(self) -> bool:
        """True if no answer is ever delayed here."""
        return not self._latency_s and not self._bytes_per_s

    def client_region(self, address: str) -> int:
        """Return a client's region: that of the narrowest network it is in, else the first."""
        region = self._known.get(address)
        if region is None:
            region = self._find_region(address)
            if len(self._known) >= _REMEMBERED_CLIENTS:
                self._known.clear()
            self._known[address] = region
        return region

    def delay_s(self, client: str, host: WorldHost, size_bytes: int) -> float:
        """Return latency plus the time the bytes take."""
        origin = self.client_region(client)
        latency_s = self._latency_s[origin][host.region] * self._factor(origin, host) if self._latency_s else 0.0
        bytes_per_s = self._bytes_per_s[origin][host.region] if self._bytes_per_s else 0.0
        return latency_s + (size_bytes / bytes_per_s if bytes_per_s else 0.0)

    def _factor(self, origin: int, host: WorldHost) -> float:
        """Return the latency of a server as a multiple of that of its region, the same at every request."""
        if not self._spread:
            return 1.0
        factor = self._drawn.get((origin, host.index))
        if factor is None:
            # 0 has no quantile.
            place = max(unit(host.salt, host.index, "latency", origin), 1e-9)
            factor = self._drawn[origin, host.index] = exp(self._spread * NormalDist().inv_cdf(place))
        return factor

    def _find_region(self, address: str) -> int:
        try:
            parsed = ip_address(address)
        except ValueError:
            return 0
        return next((region for network, region in self._networks if parsed in network), 0)
