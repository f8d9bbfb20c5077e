"""Address of a host: override or name server, then the guard; the crawler's only way to an address.

A `Destination` holds either a guarded address and port, or an outcome with the reason why there is none. The crawler
resolves again before each request, so an address checked months ago is never used (rebinding).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from teia.fetch.guard import AddressGuard
from teia.fetch.overrides import AddressOverrides
from teia.fetch.resolver import Resolution, Resolver
from teia.records import Outcome


@dataclass(frozen=True, slots=True)
class Destination:
    """An address to connect to, or the reason why there is none. `is_temporary`: a later query may succeed."""

    address: str
    port: int
    outcome: Outcome | None = None
    detail: str = ""
    is_temporary: bool = False


class Destinations:
    """Finds and guards; holds no state of its own."""

    def __init__(self, resolver: Resolver, guard: AddressGuard, overrides: AddressOverrides | None = None) -> None:
        self._resolver = resolver
        self._guard = guard
        self._overrides = overrides or AddressOverrides()

    def find_cached(self, host: str, port: int) -> Destination | None:
        """Return the destination if no name server must be queried; the crawler's usual case, without a task."""
        override = self._overrides.find(host)
        if override is not None:
            return self._guarded(Resolution((override.address,), math.inf), override.port or port)
        resolution = self._resolver.find_cached(host)
        return None if resolution is None else self._guarded(resolution, port)

    async def find(self, host: str, port: int) -> Destination:
        known = self.find_cached(host, port)
        return known or self._guarded(await self._resolver.resolve(host), port)

    def _guarded(self, resolution: Resolution, port: int) -> Destination:
        failure = resolution.failure
        if failure is not None:
            return Destination("", port, Outcome.DNS, failure.value, failure.is_temporary)
        # One forbidden record forbids the name, though only the first address is used (decision 6).
        refusal = self._guard.check_all(resolution.addresses, port)
        if refusal is not None:
            return Destination("", port, Outcome.BLOCKED_ADDRESS, refusal)
        return Destination(resolution.addresses[0], port)
