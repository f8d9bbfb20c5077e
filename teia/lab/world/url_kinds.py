"""The kinds of URLs: a page, or one of the failures of Tarântula's table (T8).

The table counts 796,629 answers of the Portuguese web in 2001. A world gives its URLs the same shares. Only *leaves* of
a host's tree may be something else than a page, because every other page is the only way to the pages below it. So the
shares are raised by the ratio of all URLs to leaves. `Odds` holds the result as thresholds over 24 random bits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from teia.errors import ConfigError
from teia.lab.world.spec import WorldSpec


class UrlKind(StrEnum):
    """The kind of a URL of a world. The first block is in a host's tree; the rest is beside it."""

    PAGE = "page"
    PDF = "pdf"
    ORPHAN = "orphan"  # a page that only the sitemap names
    EXCLUDED = "excluded"  # a page that robots.txt forbids (-7)
    MOVED = "301"
    FOUND = "302"
    CHOICES = "300"
    NO_CONTENT = "204"
    BAD_REQUEST = "400"
    UNAUTHORIZED = "401"
    FORBIDDEN = "403"
    NOT_FOUND = "404"
    SERVER_ERROR = "500"
    BAD_GATEWAY = "502"
    UNAVAILABLE = "503"
    RESET = "reset"  # the connection is cut (-11)
    SILENT = "silent"  # no answer (-10)
    GARBAGE = "garbage"  # not HTTP (-1)
    TOO_LARGE = "too_large"  # (-4)
    FORBIDDEN_TYPE = "forbidden_type"  # an archive or a sound (-3)

    ROBOTS = "robots"
    SITEMAP = "sitemap"
    FEED = "feed"
    IMAGE = "image"
    STYLE = "style"
    CALENDAR = "calendar"  # a trap
    PARK = "park"  # a page of a trap park that belongs to the park itself
    NOWHERE = "nowhere"  # no such URL; answered 404


TABLE: dict[UrlKind, int] = {
    UrlKind.PAGE: 676_261,
    UrlKind.FOUND: 50_263,
    UrlKind.RESET: 31_086,
    UrlKind.FORBIDDEN_TYPE: 12_691,
    UrlKind.NOT_FOUND: 11_624,
    UrlKind.MOVED: 7_212,
    UrlKind.SILENT: 4_819,
    UrlKind.TOO_LARGE: 1_142,
    UrlKind.EXCLUDED: 414,
    UrlKind.FORBIDDEN: 329,
    UrlKind.BAD_REQUEST: 276,
    UrlKind.GARBAGE: 270,
    UrlKind.UNAUTHORIZED: 180,
    UrlKind.SERVER_ERROR: 40,
    UrlKind.CHOICES: 15,
    UrlKind.NO_CONTENT: 3,
    UrlKind.BAD_GATEWAY: 2,
    UrlKind.UNAVAILABLE: 2,
}
"""T8's Table 1, by the behaviour of a server that Tarântula counts there."""

TOTAL = sum(TABLE.values())
ERRORS = tuple(kind for kind in TABLE if kind not in {UrlKind.PAGE, UrlKind.EXCLUDED, UrlKind.FORBIDDEN_TYPE})
WITH_BODY = frozenset({UrlKind.PAGE, UrlKind.PDF, UrlKind.ORPHAN, UrlKind.EXCLUDED})
"""Kinds that answer 200 with a text that changes."""

REDIRECTS = frozenset({UrlKind.MOVED, UrlKind.FOUND})
RANGE = 1 << 24
_PAGE = UrlKind.PAGE  # looking a member up in its class costs more than drawing it
_MOST = 0.3
"""Largest share of such leaves on the few hosts of a small world that can have orphans, or excluded pages."""


@dataclass(frozen=True, slots=True)
class Odds:
    """The possible kinds of a leaf. `bounds[i]` is the end of kind `i`; from `odd_below` on, a leaf is a page.

    Orphans come first and kinds with a special path next, so that a link needs one comparison to know that its target
    is ordinary.
    """

    bounds: tuple[int, ...]
    kinds: tuple[UrlKind, ...]
    orphan_below: int
    special_path_below: int
    odd_below: int

    def kind(self, bits: int) -> UrlKind:
        """Return the kind that belongs to 24 random bits."""
        return _PAGE if bits >= self.odd_below else self.kinds[bisect_right(self.bounds, bits)]


@dataclass(frozen=True, slots=True)
class Leaves:
    """Numbers of leaves by the kinds they may have, over all hosts of a world."""

    slots: int
    leaves: int
    with_robots: int  # leaves of hosts that can exclude pages
    with_sitemap: int  # leaves of hosts that can have orphans


def make_odds(spec: WorldSpec, count: Leaves, *, has_robots: bool, has_sitemap: bool) -> Odds:
    """Return the odds of the leaves of a host, such that all hosts together show the shares of the spec."""
    shares = [
        (UrlKind.ORPHAN, _raised(spec.links.orphans, count.slots, count.with_sitemap, _MOST) if has_sitemap else 0.0),
        (UrlKind.EXCLUDED, _raised(spec.robots.excluded, count.slots, count.with_robots, _MOST) if has_robots else 0.0),
        (UrlKind.PDF, _raised(spec.text.pdfs, count.slots, count.leaves)),
    ]
    more = {UrlKind.UNAVAILABLE: spec.errors.unavailable}
    shares += [
        (kind, _raised(spec.errors.scale * TABLE[kind] / TOTAL + more.get(kind, 0.0), count.slots, count.leaves))
        for kind in (UrlKind.FORBIDDEN_TYPE, *ERRORS)
    ]
    return _odds(shares)


def _raised(share: float, slots: int, leaves: int, most: float = inf) -> float:
    return min(most, share * slots / leaves) if leaves else 0.0


def _odds(shares: Iterable[tuple[UrlKind, float]]) -> Odds:
    bounds: list[int] = []
    kinds: list[UrlKind] = []
    total = 0.0
    for kind, share in shares:
        total += share
        bounds.append(round(total * RANGE))
        kinds.append(kind)
    if total > 1.0:
        raise ConfigError(
            f"errors, PDFs, orphans and excluded pages would be {total:.2f} of all leaf pages: reduce errors.scale,"
            " text.pdfs, links.orphans or robots.excluded"
        )
    special = kinds.index(UrlKind.FORBIDDEN_TYPE)
    return Odds(tuple(bounds), tuple(kinds), bounds[0], bounds[special], bounds[-1])
