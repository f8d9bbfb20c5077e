"""In which order a host's new URLs are taken (A6).

An order gives a URL its *rank* in the host's queue: smaller is sooner. It sees what the frontier knows when the URL is
found: its depth, how often it has been linked to, a number that grows with every URL of the cell, and a *score*, which
is what some orders know beside these. The number can be read back from the rank, so a URL that is ranked again, because
a shorter way, more links or a better score appeared, keeps its turn among equals. The best rank a URL ever had counts.

    breadth    shallow pages first
    depth      those found last first
    backlinks  those most linked to first
    pagerank   those with the highest PageRank first; it is computed outside and renewed now and then (rerank.py), and
               estimated from the number of links for what was found since
    focused    those that promise most first; a parse child says how much (crawl/focus.py), trails.py remembers it
    sydney     breadth, but of a page's new links only some go ahead; the others wait aside (sydney.py)

Orders rank within a host. Between hosts it is the URL that has waited longest (schedule.py); `focused` lets what
promises more count as having waited longer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log2
from typing import NamedTuple

from teia.config import SydneySettings
from teia.errors import ConfigError

Rank = Callable[[int, int, int, int], int]
"""(depth, in_links, sequence, score) -> rank"""

TOP_SCORE = 100
ASIDE = 0
"""The score of a link that waits in Sydney's secondary queue; all others have the top score."""

NO_KIND = -1
_SEQUENCE_BITS = 40
_MAX_DEPTH = (1 << 22) - 1
_MAX_IN_LINKS = (1 << 22) - 1
_MAX_ASIDE_DEPTH = (1 << 21) - 1
_ASIDE_BIT = 61
_MAX_FOCUSED_DEPTH = (1 << 15) - 1
_SCORE_BITS_AT = _SEQUENCE_BITS + 15

GIVEN = 1 << _SEQUENCE_BITS
"""The bit of a rank of `pagerank` that was not estimated: more links do not change it until there are new scores."""

LEVEL_BITS_AT = _SEQUENCE_BITS + 1
LEVELS_A_DOUBLING = 16
MAX_LEVEL = 1023
"""PageRank is ranked by steps of 4%, so that new scores move few URLs; 64 doublings are more than any web has."""


class Hint(NamedTuple):
    """What the page that names a URL says of it, for orders that want to know more than depth and number of links.

    `score`: how much it promises, of TOP_SCORE. `off_topic`: how many irrelevant pages in a row lead to it, the naming
    page included. `via`: what kind of page names it, NO_KIND for a seed. `page`: the key of that page (Sydney).
    """

    score: int = TOP_SCORE
    off_topic: int = 0
    via: int = NO_KIND
    page: int = 0


NO_HINT = Hint()


def better(one: Hint | None, other: Hint | None) -> Hint | None:
    """Merge what two pages say of a URL: the best of each. A URL that somebody asked for (None) needs no promise."""
    if one is None or other is None:
        return None
    ahead = other if other.score > one.score else one
    return ahead._replace(off_topic=min(one.off_topic, other.off_topic))


@dataclass(frozen=True, slots=True)
class Order:
    """An order: its rule, and what it needs the frontier to do for it.

    `wants_hints`: links are to come with a `Hint`. `keeps_trails`: hints are kept, because they are asked for when the
    URL is read. `sampled` of a page's new links to a host go ahead (0: all), drawn by `seed`. `restless`: what is found
    may come before what is buffered, so buffers are read again when something is found. A rank that has the bit `fixed`
    is not changed by links.
    """

    name: str
    rank: Rank
    wants_hints: bool = False
    keeps_trails: bool = False
    restless: bool = False
    sampled: int = 0
    seed: int = 0
    fixed: int = 0


# ---- ranks ----------------------------------------------------------------------------------------------------------


def _breadth(depth: int, _in_links: int, sequence: int, _score: int) -> int:
    return (min(depth, _MAX_DEPTH) << _SEQUENCE_BITS) | sequence


def _depth_first(_depth: int, _in_links: int, sequence: int, _score: int) -> int:
    return -sequence


def _backlinks(_depth: int, in_links: int, sequence: int, _score: int) -> int:
    return ((_MAX_IN_LINKS - min(in_links, _MAX_IN_LINKS)) << _SEQUENCE_BITS) | sequence


def by_authority(link_worth: float) -> Rank:
    """The rule of `pagerank` for URLs without a score: each link is worth so many times what a page without any has."""

    def rank(_depth: int, in_links: int, sequence: int, _score: int) -> int:
        level = min(round(LEVELS_A_DOUBLING * log2(1 + link_worth * in_links)), MAX_LEVEL)
        return ((MAX_LEVEL - level) << LEVEL_BITS_AT) | sequence

    return rank


def _focused(depth: int, _in_links: int, sequence: int, score: int) -> int:
    return ((TOP_SCORE - score) << _SCORE_BITS_AT) | (min(depth, _MAX_FOCUSED_DEPTH) << _SEQUENCE_BITS) | sequence


def _sydney(depth: int, _in_links: int, sequence: int, score: int) -> int:
    aside = (score == ASIDE) << _ASIDE_BIT
    return aside | (min(depth, _MAX_ASIDE_DEPTH) << _SEQUENCE_BITS) | sequence


def is_aside(rank: int) -> bool:
    """Whether a rank of Sydney's is one of the secondary queue."""
    return bool(rank >> _ASIDE_BIT)


def sequence_of(rank: int) -> int:
    """Return the number a rank was made with, whichever order made it."""
    return -rank if rank < 0 else rank & ((1 << _SEQUENCE_BITS) - 1)


# ---- names ----------------------------------------------------------------------------------------------------------

breadth = Order("breadth", _breadth)
depth_first = Order("depth", _depth_first)
backlinks = Order("backlinks", _backlinks)
pagerank = Order("pagerank", by_authority(1.0), restless=True, fixed=GIVEN)
focused = Order("focused", _focused, wants_hints=True, keeps_trails=True, restless=True)
sydney = Order("sydney", _sydney, wants_hints=True, restless=True, sampled=SydneySettings().links, seed=1)

ORDERS: dict[str, Order] = {order.name: order for order in (breadth, depth_first, backlinks, pagerank, focused, sydney)}


def order_named(name: str, settings: SydneySettings | None = None) -> Order:
    """Return an order by its name on the command line, with the collection's settings where it has any."""
    try:
        order = ORDERS[name]
    except KeyError:
        raise ConfigError(f"order = {name!r}: must be one of {', '.join(ORDERS)}") from None
    if settings is not None and order.sampled:
        return replace(order, sampled=settings.links, seed=settings.seed)
    return order
