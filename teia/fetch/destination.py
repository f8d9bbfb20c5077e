"""Address of a host: override or name server, then the guard; the crawler's only way to an address.

A `Destination` holds either a guarded address and port, or an outcome with the reason why there is none. The crawler
resolves again before each request, so an address checked months ago is never used (rebinding). libcurl never resolves
anything; dns.py has the `Resolver`.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from ipaddress import ip_address
from typing import Protocol

from teia.errors import ConfigError
from teia.fetch.guard import AddressGuard
from teia.records import Outcome

REMEMBERED_HOSTS = 65_536
_CACHE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
_WITH_PORT = re.compile(r"(\[[^\]]*\]|[^:\[\]]*):(\d{1,5})")


@dataclass(frozen=True, slots=True)
class AddressOverride:
    """Override of a host's address; `port` None keeps the URL's own."""

    address: str
    port: int | None = None


class AddressOverrides:
    """The operator's own table of names: `--resolve 'PATTERN=ADDRESS[:PORT]'`, instead of a name server's.

    Patterns are shell patterns over the whole host (`*.test`, `www.example.org`), in lower case; the first that matches
    wins. An override changes the destination of packets and nothing else: Host header, certificate name, robots and
    archive keep the URL's own name, and the guard judges the address like any other.
    """

    def __init__(self, rows: Iterable[tuple[str, AddressOverride]] = ()) -> None:
        self._rows = [(re.compile(fnmatch.translate(pattern.lower())), override) for pattern, override in rows]
        self._remembered = lru_cache(maxsize=REMEMBERED_HOSTS)(self._search)

    @classmethod
    def parse(cls, items: Iterable[str]) -> AddressOverrides:
        return cls(_parse_row(item) for item in items)

    def find(self, host: str) -> AddressOverride | None:
        return self._remembered(host) if self._rows else None

    def _search(self, host: str) -> AddressOverride | None:
        return next((override for pattern, override in self._rows if pattern.match(host)), None)


def _parse_row(item: str) -> tuple[str, AddressOverride]:
    # The last `=`: a pattern may contain one, an address cannot.
    pattern, equals, where = item.strip().rpartition("=")
    if not equals or not pattern:
        raise ConfigError(f"fetch.resolve: {item!r} has no pattern; write PATTERN=ADDRESS[:PORT]")
    address, port = split_address(where, "fetch.resolve")
    return pattern, AddressOverride(address, port)


def split_address(text: str, key: str) -> tuple[str, int | None]:
    """Read `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`; the setting's name goes into the message if it is neither."""
    match = _WITH_PORT.fullmatch(text)
    host, port = (match[1], int(match[2])) if match else (text, None)
    try:
        address = str(ip_address(host[1:-1] if host.startswith("[") and host.endswith("]") else host))
    except ValueError as error:
        raise ConfigError(f"{key}: {host!r} is not an address; write ADDRESS[:PORT], such as 127.0.0.1:8800") from error
    if port is not None and not 1 <= port <= 65_535:
        raise ConfigError(f"{key}: {port} is not a port; it must be between 1 and 65535")
    return address, port


def read_caches(proxy: str, named: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Read `signals.proxy` and `signals.caches`: addresses and ports by name; the name of the first is empty."""
    caches = {"": _read_cache(proxy, "signals.proxy")} if proxy else {}
    for item in named:
        name, _, where = item.strip().partition("=")
        if not _CACHE_NAME.fullmatch(name):
            raise ConfigError(
                f"signals.caches: {item!r} has no name; write NAME=ADDRESS:PORT, with a NAME of lower-case letters,"
                " digits and hyphens"
            )
        caches[name] = _read_cache(where, "signals.caches")
    return caches


def _read_cache(text: str, key: str) -> tuple[str, int]:
    address, port = split_address(text, key)
    if port is None:
        raise ConfigError(f"{key}: {text!r} has no port; write ADDRESS:PORT, such as 127.0.0.1:3128")
    return address, port


# ---- names to addresses ----------------------------------------------------------------------------------------------


class Failure(StrEnum):
    """Reason why a name has no address. The last two are temporary; the others are facts about the name."""

    NO_SUCH_NAME = "no such name"
    NO_ADDRESS = "name without an address"
    BAD_NAME = "not a host name"
    TIMEOUT = "name server did not respond"
    SERVER = "name server failed"

    @property
    def is_temporary(self) -> bool:
        return self in {Failure.TIMEOUT, Failure.SERVER}


@dataclass(frozen=True, slots=True)
class Resolution:
    """Result for a name until `expires_s` (of `Clock.ticks_s`): addresses, or the reason why there are none."""

    addresses: tuple[str, ...]
    expires_s: float
    failure: Failure | None = None


class Resolver(Protocol):
    """Turns a canonical host into addresses; never raises for failures of the web."""

    def find_cached(self, name: str) -> Resolution | None:
        """Return the cached result if it is still valid, without a query: the crawler's usual case."""

    async def resolve(self, name: str) -> Resolution:
        """Like `find_cached`, but query a name server if nothing valid is cached."""

    async def close(self) -> None: ...


@lru_cache(maxsize=65_536)
def resolve_here(name: str) -> Resolution | None:
    """Resolve names that need no name server: literals, `localhost` (RFC 6761) and malformed names.

    The WHATWG parser has made an address of everything that ends in a number, so such a name did not come from it.
    """
    try:
        return Resolution((str(ip_address(name.strip("[]"))),), math.inf)
    except ValueError:
        pass
    last_label = name.rstrip(".").rpartition(".")[2].lower()
    if last_label == "localhost":
        return Resolution(("127.0.0.1",), math.inf)
    # 253 is the longest name of the DNS (RFC 1035). IDNs arrive as punycode, so a canonical name is ASCII.
    if not last_label or last_label.isdigit() or last_label.startswith("0x") or len(name) > 253 or not name.isascii():
        return Resolution((), math.inf, Failure.BAD_NAME)
    return None


# ---- addresses to connect to -----------------------------------------------------------------------------------------


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
        self.guard = guard
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
        refusal = self.guard.check_all(resolution.addresses, port)
        if refusal is not None:
            return Destination("", port, Outcome.BLOCKED_ADDRESS, refusal)
        return Destination(resolution.addresses[0], port)
