"""In which order a host's new URLs are taken (A6).

An order gives a URL its *rank* in the host's queue: smaller is sooner. It sees what the frontier knows when the URL is
found: its depth, how often it has been linked to, and a number that grows with every URL of the cell. That number can
be read back from the rank, so a URL that is ranked again, because a shorter way or more links to it appeared, keeps
its turn among equals.
"""

from __future__ import annotations

from collections.abc import Callable

from teia.errors import ConfigError

Order = Callable[[int, int, int], int]
"""(depth, in_links, sequence) -> rank"""

_SEQUENCE_BITS = 40
_MAX_DEPTH = (1 << 22) - 1
_MAX_IN_LINKS = (1 << 22) - 1


def breadth(depth: int, _in_links: int, sequence: int) -> int:
    """Shallow pages first, and among equals those found first."""
    return (min(depth, _MAX_DEPTH) << _SEQUENCE_BITS) | sequence


def depth_first(_depth: int, _in_links: int, sequence: int) -> int:
    """Those found last first."""
    return -sequence


def backlinks(_depth: int, in_links: int, sequence: int) -> int:
    """Those most linked to first (F1)."""
    return ((_MAX_IN_LINKS - min(in_links, _MAX_IN_LINKS)) << _SEQUENCE_BITS) | sequence


def sequence_of(rank: int) -> int:
    """Return the number a rank was made with, whichever order made it."""
    return -rank if rank < 0 else rank & ((1 << _SEQUENCE_BITS) - 1)


ORDERS: dict[str, Order] = {"breadth": breadth, "depth": depth_first, "backlinks": backlinks}


def order_named(name: str) -> Order:
    """Return an order by its name on the command line."""
    try:
        return ORDERS[name]
    except KeyError:
        raise ConfigError(f"order = {name!r}: must be one of {', '.join(ORDERS)}") from None
