"""The seam of name resolution: `Resolver` and its results. libcurl never resolves anything.

dns.py has the resolver.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from ipaddress import ip_address
from typing import Protocol


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
