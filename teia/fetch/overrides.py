"""`--resolve 'PATTERN=ADDRESS[:PORT]'`: fixed addresses for matching host names, instead of a name server's.

Patterns are shell patterns over the whole host (`*.test`, `www.example.org`), in lower case; the first that matches
wins. An override changes the destination of packets and nothing else: Host header, certificate name, robots and archive
keep the URL's own name, and the guard judges the address like any other.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address

from teia.errors import ConfigError

REMEMBERED_HOSTS = 65_536
_CACHE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
_WITH_PORT = re.compile(r"(\[[^\]]*\]|[^:\[\]]*):(\d{1,5})")


@dataclass(frozen=True, slots=True)
class AddressOverride:
    """Override of a host's address; `port` None keeps the URL's own."""

    address: str
    port: int | None = None


class AddressOverrides:
    """The operator's own table of names."""

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
