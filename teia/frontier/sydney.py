"""The Sydney strategy: breadth-first with a short queue (A6; Castillo 2006, as section 5.4.1 of the paper tells it).

Each host has a primary and a secondary queue. Of the new links that a page has to a host, at most t go to the primary
one, drawn by chance; the others wait *aside* and are taken when the primary queue of their host is empty. *New* is a
URL that was not visited and is not in the primary queue, so one that waits aside has another chance with every page
that names it.

In the paper it is the page that waits, to be fetched again later for the rest of its links. That keeps URLs out of
memory at the price of asking a server twice for the same page. Our URLs lie on disk and are known by then, so the links
wait instead, and no server is asked twice. The sample is per host because queues are: a link that waits aside at a host
which has nothing else is taken at once anyway.

Chance is a hash of seed, page and URL: the same crawl draws the same links, also after a restart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import xxhash

from teia.frontier.order import ASIDE

if TYPE_CHECKING:
    from teia.frontier.cell import Found


def draw(seed: int, page: int, key: int) -> int:
    """A number for a link of a page; those with the smallest go ahead."""
    return xxhash.xxh3_64_intdigest(b"%d %d %d" % (seed, page, key))


def sampled(found: Iterable[Found], links: int, seed: int, is_new: Callable[[Found], bool]) -> list[Found]:
    """Set aside what is too much of each page, in the order the pages come. What no page names goes ahead."""
    marked: list[Found] = []
    by_page: dict[tuple[int, str], list[Found]] = defaultdict(list)
    for item in found:
        if item.hint is None:
            marked.append(item)
        else:
            by_page[item.hint.page, item.host].append(item)
    ahead: set[tuple[str, int]] = set()
    for (page, host), of_page in by_page.items():
        new = of_page
        if len(of_page) > links:
            new = [item for item in of_page if (host, item.key) not in ahead and is_new(item)]
            new.sort(key=lambda item, page=page: draw(seed, page, item.key))  # type: ignore[misc]  # bound now
        ahead.update((host, item.key) for item in new[:links])
        aside = {item.key for item in new[links:]}
        marked += [_set_aside(item) if item.key in aside else item for item in of_page]
    return marked


def _set_aside(item: Found) -> Found:
    assert item.hint is not None
    return replace(item, hint=item.hint._replace(score=ASIDE))
