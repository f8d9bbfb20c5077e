"""The Sydney strategy: breadth-first with a short queue (A6; Castillo 2006, after section 5.4.1 of the paper).

Each host has a primary and a secondary queue. Of the new links that a page has to a host, at most t go to the
primary one, drawn at random; the others wait *aside* and are taken when the primary queue of their host is empty. A
URL is *new* if it was not visited and is not in the primary queue, so one that waits aside has another chance with
every page that links to it.

In the paper the page waits, to be fetched again later for its remaining links. That keeps URLs out of memory at the
price of requesting the same page twice. Our URLs are on disk and are known by then, so the links wait instead, and
no page is requested twice. The sample is per host because queues are: a link that waits aside at a host without
other URLs is taken at once anyway.

The draw is a hash of seed, page and URL: the same crawl draws the same links, also after a restart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace

import xxhash

from teia.frontier.cell.rows import FoundUrl
from teia.frontier.queue.order import ASIDE


def draw(seed: int, page: int, key: int) -> int:
    """Return a pseudo-random number for a link of a page; the links with the smallest numbers go ahead."""
    return xxhash.xxh3_64_intdigest(b"%d %d %d" % (seed, page, key))


def sample_links(
    found: Iterable[FoundUrl], links: int, seed: int, is_new: Callable[[FoundUrl], bool]
) -> list[FoundUrl]:
    """Set aside the surplus links of each page, in the order of the pages. URLs without a linking page go ahead."""
    marked: list[FoundUrl] = []
    by_page: dict[tuple[int, str], list[FoundUrl]] = defaultdict(list)
    for item in found:
        if item.hint is None:
            marked.append(item)
        else:
            by_page[item.hint.page, item.host].append(item)
    # A URL that one page sends ahead is no longer new for the pages after it.
    ahead: set[tuple[str, int]] = set()
    for (page, host), of_page in by_page.items():
        new = of_page
        # Few links all go ahead, without a look at the disk.
        if len(of_page) > links:
            new = [item for item in of_page if (host, item.key) not in ahead and is_new(item)]
            new.sort(key=lambda item, page=page: draw(seed, page, item.key))  # type: ignore[misc]  # bound now
        ahead.update((host, item.key) for item in new[:links])
        aside = {item.key for item in new[links:]}
        marked += [_set_aside(item) if item.key in aside else item for item in of_page]
    return marked


def _set_aside(item: FoundUrl) -> FoundUrl:
    assert item.hint is not None
    return replace(item, hint=item.hint._replace(score=ASIDE))
