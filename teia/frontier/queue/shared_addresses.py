"""Addresses that many sites share: content delivery networks and shared hosting.

Names on one address share its delay, because they are probably one machine. With a thousand sites at an address,
each would get one page every thousand delays, for ever; and an address of so many sites is built to answer more
than one request every few seconds. So up to `courtesy.shared_sites` registered domains delay the address as if it
were one server. Beyond that the delay is divided:

    delay = max(shared_rest_s, delay_s x shared_sites / sites), never more than delay_s

This is the rate at which `shared_sites` servers would be requested together, and never more than 1 / shared_rest_s
requests a second. An address in a network that the operator names (`courtesy.cdn_nets`) has the delay
`shared_rest_s` from the first request on. Each host still waits its own full delay by name, and one request at a
time goes to an address.

A slow answer lengthens the delay of the address as it does the host's, because the shared machine may be
overloaded. In a named network it does not: there the slow machine is the origin behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from teia.config.sections import CourtesySettings
from teia.errors import WrongValue

MAX_SITES = 4_096
"""Number of sites of one address that are distinguished; more make no difference to any sensible delay."""

RECORDED_FROM = 3
"""Number of sites of one address from which on it is recorded; most addresses have one."""

CDN_SITES = 1 << 30
"""Number of sites assumed for an address in a named network."""


class Networks:
    """The networks of `courtesy.cdn_nets`."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._networks = tuple(_network(text) for text in texts)
        # A cache for each object: new settings begin with an empty one.
        self._cached_check = lru_cache(maxsize=65_536)(self._check)

    def __contains__(self, address: str) -> bool:
        return bool(self._networks) and self._cached_check(address)

    def _check(self, address: str) -> bool:
        try:
            number = ip_address(address.strip("[]"))
        except ValueError:
            return False
        return any(number in network for network in self._networks if network.version == number.version)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text.strip())
    except ValueError as error:
        raise WrongValue("courtesy.cdn_nets", text, f"must be a network, such as 104.16.0.0/13: {error}") from error


def shared_delay_s(courtesy: CourtesySettings, sites: int) -> float:
    """Return our own delay for an address of so many sites, however fast it answers."""
    delay_s = courtesy.delay_s
    if sites <= courtesy.shared_sites:
        return delay_s
    return min(delay_s, max(courtesy.shared_rest_s, delay_s * courtesy.shared_sites / sites))


def address_delay_s(courtesy: CourtesySettings, sites: int, response_s: float) -> float:
    """Return an address's delay after an answer that took `response_s`; 0 for the user's own hosts (`delay_s` = 0)."""
    if courtesy.delay_s == 0:
        return 0.0
    delay_s = shared_delay_s(courtesy, sites)
    return delay_s if sites >= CDN_SITES else max(delay_s, courtesy.response_factor * response_s)
