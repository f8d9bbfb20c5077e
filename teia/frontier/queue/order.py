"""Orders in which a host's new URLs are fetched (A6).

An order gives a URL its *rank* in the host's queue: smaller is sooner. It uses the facts known when the URL
is found: the depth, the number of in-links, a sequence number that grows with every URL of the cell, and a *score*
for orders that know more. The sequence number can be read back from the rank. So a URL that is ranked again,
because a shorter path, more links or a better score appeared, keeps its turn among equals. The best rank a URL ever
had counts.

    breadth    shallow pages first
    fifo       the first found first
    klwf       the same, and a retry when it is due; between hosts as the paper has it (C1, below)
    lwf        the same, but no URL overtakes one that has waited longer, even if that one's server is delayed
    depth      the last found first
    backlinks  the most linked to first
    pagerank   the highest PageRank first; it is computed outside and renewed now and then
               (pagerank_scores.py), and estimated from the number of links for URLs found since
    focused    the most promising first; a parse child computes the promise (focus.py), trails.py stores it
    sydney     breadth, but only some of a page's new links go ahead; the others wait aside (sydney.py)

`breadth` and `backlinks` can be mixed with a *preference* for domains and languages (F; `Preference`): URLs of these
domains, and URLs that pages in these languages link to, go before all others; among both the order decides.

Orders rank within a host. Between hosts whose servers are free, the URL that has waited longest is next (schedule.py).
`backlinks` and `pagerank` compare the URLs of all hosts first, and their waiting times among equals; `focused` counts a
more promising URL as having waited longer. A preference is compared between hosts before all that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import log2
from typing import NamedTuple

from teia.config import extensions
from teia.config.extensions import extension_names, load_extension
from teia.config.sections import SydneySettings
from teia.errors import ConfigError

Rank = Callable[[int, int, int, int], int]
"""(depth, in_links, sequence, score) -> rank"""

TOP_SCORE = 100
ASIDE = 0
"""Score of a link that waits in Sydney's secondary queue; all others have the top score."""

NO_KIND = -1
# A rank has 62 bits at most: what the order compares in the high ones, the sequence number in the low 40.
_SEQUENCE_BITS = 40
_LANE_NEW = 0  # LANE_NEW of the schema, which is above this module
_MAX_DEPTH = (1 << 22) - 1
_MAX_IN_LINKS = (1 << 22) - 1
_MAX_ASIDE_DEPTH = (1 << 21) - 1
_ASIDE_BIT = 61
_MAX_FOCUSED_DEPTH = (1 << 15) - 1
_SCORE_BITS_AT = _SEQUENCE_BITS + 15

SCORED_BIT = 1 << _SEQUENCE_BITS
"""Bit of a `pagerank` rank that was not estimated: more links do not change it until there are new scores."""

LEVEL_BITS_AT = _SEQUENCE_BITS + 1
LEVELS_A_DOUBLING = 16
MAX_LEVEL = 1023
"""Greatest level. PageRank is ranked in steps of 4%, so that new scores move few URLs; 64 doublings exceed any web."""


class Hint(NamedTuple):
    """Evidence about a URL from the page that links to it, for orders that need more than depth and in-links.

    `score`: its promise, up to TOP_SCORE. `off_topic`: number of irrelevant pages in a row that lead to it, the
    linking page included. `via`: kind of the linking page, NO_KIND for a seed. `page`: key of that page (Sydney).
    """

    score: int = TOP_SCORE
    off_topic: int = 0
    via: int = NO_KIND
    page: int = 0


NO_HINT = Hint()


def merge_hints(one: Hint | None, other: Hint | None) -> Hint | None:
    """Merge the hints of two pages about a URL: the best of each. A URL that a user requested (None) needs no hint."""
    if one is None or other is None:
        return None
    ahead = other if other.score > one.score else one
    return ahead._replace(off_topic=min(one.off_topic, other.off_topic))


@dataclass(frozen=True, slots=True)
class Preference:
    """Domains and languages whose URLs go first: `.br` is also the domain of `www.example.br`."""

    domains: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()

    @classmethod
    def read(cls, texts: Iterable[str]) -> Preference:
        """Read the texts of `collection.prefer`, whose form was checked with the settings."""
        pairs = [text.partition(":")[::2] for text in texts]
        domains = tuple("." + value.lower().strip(".") for kind, value in pairs if kind == "domain")
        return cls(domains, tuple(value for kind, value in pairs if kind == "language"))

    def is_host_preferred(self, host: str) -> bool:
        return f".{host}".endswith(self.domains)

    def is_language_preferred(self, language: str) -> bool:
        return language.partition("-")[0] in self.languages


NO_PREFERENCE = Preference()


@dataclass(frozen=True, slots=True)
class Order:
    """An order: its rule, and its requirements on the frontier.

    `needs_hints`: links must come with a `Hint`. `stores_trails`: hints are stored, because they are needed when the
    URL is read. `sample_size` of a page's new links to a host go ahead (0: all), drawn by `seed`. `rereads_buffers`:
    a new URL may come before those in the buffer, so buffers are read again when URLs are found. `depends_on_links`:
    a URL that lost links moves back. A rank that has the `fixed_bit` is not changed by links. With a `preference`, the
    ranks of all other URLs have the bit of `is_aside`.

    `by_arrival`: retries take their turn among new URLs by the time they are due. `by_age`: hosts that share a server
    or an address are called by the age of their URLs, not in the order they came. `is_strict`: a URL waits for all that
    have waited longer. `compared_bits`: the rank without so many low bits is compared between hosts (0: none of it).
    """

    name: str
    rank: Rank
    needs_hints: bool = False
    stores_trails: bool = False
    rereads_buffers: bool = False
    depends_on_links: bool = False
    sample_size: int = 0
    seed: int = 0
    fixed_bit: int = 0
    by_arrival: bool = False
    by_age: bool = False
    is_strict: bool = False
    compared_bits: int = 0
    preference: Preference = NO_PREFERENCE

    def precedence(self, lane: int, rank: int) -> int:
        """Return the place of a URL among those of other hosts, before their waiting times count; smaller is sooner."""
        # Retries and revisits go before new URLs, as they do within a host.
        return rank >> self.compared_bits if self.compared_bits and lane == _LANE_NEW else -1

    @property
    def has_preference(self) -> bool:
        return self.preference is not NO_PREFERENCE

    def score_of(self, rank: int) -> int:
        """Return the score that a rank of `breadth` or `backlinks` was made with."""
        return ASIDE if self.has_preference and is_aside(rank) else TOP_SCORE


# ---- ranks ----------------------------------------------------------------------------------------------------------


def _breadth(depth: int, _in_links: int, sequence: int, _score: int) -> int:
    return (min(depth, _MAX_DEPTH) << _SEQUENCE_BITS) | sequence


def _arrival(_depth: int, _in_links: int, sequence: int, _score: int) -> int:
    return sequence


def _depth_first(_depth: int, _in_links: int, sequence: int, _score: int) -> int:
    # Negative, so that the last found comes first; `sequence_of` recognises the sign.
    return -sequence


def _backlinks(_depth: int, in_links: int, sequence: int, _score: int) -> int:
    return ((_MAX_IN_LINKS - min(in_links, _MAX_IN_LINKS)) << _SEQUENCE_BITS) | sequence


def authority_rank(link_worth: float) -> Rank:
    """Return the rule of `pagerank` for URLs without a score.

    `link_worth` is the PageRank that a link adds, in multiples of that of a page without links.
    """

    def rank(_depth: int, in_links: int, sequence: int, _score: int) -> int:
        level = min(round(LEVELS_A_DOUBLING * log2(1 + link_worth * in_links)), MAX_LEVEL)
        return ((MAX_LEVEL - level) << LEVEL_BITS_AT) | sequence

    return rank


def _focused(depth: int, _in_links: int, sequence: int, score: int) -> int:
    return ((TOP_SCORE - score) << _SCORE_BITS_AT) | (min(depth, _MAX_FOCUSED_DEPTH) << _SEQUENCE_BITS) | sequence


def _sydney(depth: int, _in_links: int, sequence: int, score: int) -> int:
    aside = (score == ASIDE) << _ASIDE_BIT
    return aside | (min(depth, _MAX_ASIDE_DEPTH) << _SEQUENCE_BITS) | sequence


def _preferring_backlinks(_depth: int, in_links: int, sequence: int, score: int) -> int:
    # A bit less for the links than `_backlinks` has.
    aside = (score == ASIDE) << _ASIDE_BIT
    return aside | ((_MAX_ASIDE_DEPTH - min(in_links, _MAX_ASIDE_DEPTH)) << _SEQUENCE_BITS) | sequence


def is_aside(rank: int) -> bool:
    """Tell whether a rank belongs to Sydney's secondary queue, or to a URL that is not preferred."""
    return bool(rank >> _ASIDE_BIT)


def sequence_of(rank: int) -> int:
    """Return the number a rank was made with, for any order."""
    # Only `depth` makes negative ranks; all other orders have the number in the low bits.
    return -rank if rank < 0 else rank & ((1 << _SEQUENCE_BITS) - 1)


# ---- names ----------------------------------------------------------------------------------------------------------

breadth = Order("breadth", _breadth)
depth_first = Order("depth", _depth_first)
fifo = Order("fifo", _arrival)
klwf = Order("klwf", _arrival, by_arrival=True, by_age=True)
lwf = Order("lwf", _arrival, by_arrival=True, by_age=True, is_strict=True)
backlinks = Order("backlinks", _backlinks, rereads_buffers=True, depends_on_links=True, compared_bits=_SEQUENCE_BITS)
pagerank = Order(
    "pagerank", authority_rank(1.0), rereads_buffers=True, depends_on_links=True, fixed_bit=SCORED_BIT,
    compared_bits=LEVEL_BITS_AT,
)  # fmt: skip
focused = Order("focused", _focused, needs_hints=True, stores_trails=True, rereads_buffers=True)
sydney = Order("sydney", _sydney, needs_hints=True, rereads_buffers=True, sample_size=SydneySettings().links, seed=1)

ORDERS: dict[str, Order] = {
    order.name: order for order in (breadth, depth_first, backlinks, pagerank, focused, sydney, fifo, klwf, lwf)
}


PREFERRING: dict[str, Rank] = {breadth.name: _sydney, backlinks.name: _preferring_backlinks}
"""Ranks of the orders that can be mixed with a preference; that of breadth has the same form as Sydney's."""


def _offered_order(name: str) -> Order:
    """Return the order that an installed package offers: a function of depth and in-links, smaller is sooner."""
    rule = load_extension(extensions.ORDERS, name)
    if rule is None:
        raise ConfigError(
            f"order = {name!r}: must be one of {', '.join((*ORDERS, *extension_names(extensions.ORDERS)))}"
        )

    def rank(depth: int, in_links: int, sequence: int, _score: int) -> int:
        return (min(max(int(rule(depth, in_links)), 0), _MAX_DEPTH) << _SEQUENCE_BITS) | sequence

    return Order(name, rank, rereads_buffers=True, depends_on_links=True)


def order_named(name: str, settings: SydneySettings | None = None, prefer: Iterable[str] = ()) -> Order:
    """Return an order by its name on the command line, with the collection's settings where it has any."""
    order = ORDERS.get(name) or _offered_order(name)
    if settings is not None and order.sample_size:
        order = replace(order, sample_size=settings.links, seed=settings.seed)
    if texts := sorted(prefer):
        if name not in PREFERRING:
            raise ConfigError(f"collection.prefer works with the orders {' and '.join(PREFERRING)}, not with {name}")
        # In its name, too: queues are ranked anew when it changes (change_order.py).
        order = replace(
            order, name=f"{name} {' '.join(texts)}", rank=PREFERRING[name], needs_hints=True, rereads_buffers=True,
            compared_bits=order.compared_bits or _ASIDE_BIT, preference=Preference.read(texts),
        )  # fmt: skip
    return order
