"""Names to addresses through a name server (cares.py), with a cache.

The host files and search domains of the machine are not read: a crawl should not depend on the machine it runs on, and
`--resolve` states exceptions explicitly.

IPv4 is preferred: AAAA is queried only for a name without an A record. It halves the queries, and our address for a
name does not depend on whether this machine has IPv6 today. As long as a name keeps the address we use, we keep using
it, in whichever order the server lists its addresses, so that kept connections stay useful.

A time-out is a reason to query again, never "no such host".
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from teia.clock import Clock
from teia.fetch.destination import Failure, Resolution, resolve_here, split_address

if TYPE_CHECKING:
    from teia.fetch.cares import NameServer

# Seconds that an answer lives in the cache: good ones within floor and ceiling, failures see `_life_s`.
TTL_FLOOR_S = 30.0
TTL_CEILING_S = 3_600.0
NO_NAME_S = 600.0
FAILURE_S = 60.0
FAILURE_CEILING_S = 3_600.0
MAX_CACHED_NAMES = 50_000
LOOKUPS_AT_ONCE = 500
LOOKUP_LIMIT_S = 20.0
SILENT_LIMIT_S = 6.0
"""Longest look-up in seconds while no name server has ever answered: the caller should learn of that soon."""

MAX_ADDRESSES = 64
_FIRST_TRY_S = 2.0
_TRIES = 4  # c-ares shortens its waits on a fast server, so two tries may be over in half a second
_HIGHEST_DOUBLING = 10


@dataclass(slots=True)
class _CacheEntry:
    resolution: Resolution
    failures: int = 0


class CaresResolver:
    """c-ares behind a cache.

    Good answers live for the shortest TTL of their CNAME chain, within 30 s and an hour; c-ares does not give us the
    SOA, so we choose the life of a refusal: 10 minutes for a name that does not exist, 1 minute doubled up to an hour
    for a server that fails. The cache forgets the least recently used name. Concurrent look-ups of one name wait for
    the same answer.
    """

    def __init__(
        self,
        clock: Clock,
        server: str | None = None,
        *,
        max_names: int = MAX_CACHED_NAMES,
        lookups_at_once: int = LOOKUPS_AT_ONCE,
        first_try_s: float = _FIRST_TRY_S,
        tries: int = _TRIES,
        lookup_limit_s: float = LOOKUP_LIMIT_S,
    ) -> None:
        self._clock = clock
        self._server = _server_for_cares(server) if server else None
        self._max_names = max_names
        self._lookup_slots = asyncio.Semaphore(lookups_at_once)
        self._first_try_s, self._tries, self._lookup_limit_s = first_try_s, tries, lookup_limit_s
        self._cares: NameServer | None = None
        self._cache: OrderedDict[str, _CacheEntry] = OrderedDict()
        self._lookups: dict[str, asyncio.Task[Resolution]] = {}
        self._has_answered = False

    def find_cached(self, name: str) -> Resolution | None:
        entry = self._cache.get(name)
        # Expired entries stay: `_store` needs their failure count and the address in use.
        if entry is not None and entry.resolution.expires_s > self._clock.ticks_s():
            self._cache.move_to_end(name)
            return entry.resolution
        return resolve_here(name) if entry is None else None

    async def resolve(self, name: str) -> Resolution:
        known = self.find_cached(name)
        if known is not None:
            return known
        task = self._lookups.get(name)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._resolve_now(name))
            self._lookups[name] = task
        # One caller may give up without taking the answer away from the others.
        return await asyncio.shield(task)

    async def close(self) -> None:
        tasks = list(self._lookups.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._lookups.clear()
        if self._cares is not None:
            await self._cares.close()
            self._cares = None

    async def _resolve_now(self, name: str) -> Resolution:
        try:
            # The time limit begins inside the semaphore, so waiting for a place is not counted as a slow name server.
            async with self._lookup_slots:
                limit_s = self._lookup_limit_s if self._has_answered else min(self._lookup_limit_s, SILENT_LIMIT_S)
                try:
                    async with asyncio.timeout(limit_s):
                        addresses, ttl_s, failure = await self._lookup(name)
                except TimeoutError:
                    addresses, ttl_s, failure = (), 0.0, Failure.TIMEOUT
            # Any answer, SERVFAIL included, shows that a name server is there: from now on the long limit holds.
            self._has_answered = self._has_answered or failure is not Failure.TIMEOUT
            return self._store(name, addresses, ttl_s, failure)
        finally:
            self._lookups.pop(name, None)

    async def _lookup(self, name: str) -> tuple[tuple[str, ...], float, Failure | None]:
        found = await self._query(name, "A")
        if found[2] is Failure.NO_ADDRESS:
            return await self._query(name, "AAAA")
        return found

    async def _query(self, name: str, kind: str) -> tuple[tuple[str, ...], float, Failure | None]:
        if self._cares is None:
            from teia.fetch.cares import NameServer  # which a crawl of addresses, or by `--resolve`, does without

            self._cares = NameServer(self._server, self._first_try_s, self._tries)
        addresses, ttl_s, failure = await self._cares.query(name, kind)
        return addresses[:MAX_ADDRESSES], ttl_s, failure

    def _store(self, name: str, addresses: tuple[str, ...], ttl_s: float, failure: Failure | None) -> Resolution:
        before = self._cache.pop(name, None)
        failures = before.failures + 1 if before and failure and failure.is_temporary else 0
        life_s = _life_s(failure, ttl_s, failures)
        if before and before.resolution.addresses:
            addresses = _with_first(addresses, before.resolution.addresses[0])
        resolution = Resolution(addresses, self._clock.ticks_s() + life_s, failure)
        self._cache[name] = _CacheEntry(resolution, failures)
        if len(self._cache) > self._max_names:
            self._cache.popitem(last=False)
        return resolution


def _life_s(failure: Failure | None, ttl_s: float, failures: int) -> float:
    if failure is None:
        return min(max(ttl_s, TTL_FLOOR_S), TTL_CEILING_S)
    if failure.is_temporary:
        return min(FAILURE_S * 2.0 ** min(failures, _HIGHEST_DOUBLING), FAILURE_CEILING_S)
    return NO_NAME_S


def _with_first(addresses: tuple[str, ...], current: str) -> tuple[str, ...]:
    if current not in addresses:
        return addresses
    return (current, *(address for address in addresses if address != current))


def _server_for_cares(server: str) -> str:
    address, port = split_address(server, "fetch.dns")
    return f"[{address}]:{port or 53}"
