"""A crawl order: the pages with the fewest links to them come first, and among these the shallow ones.

Popular pages are found early in any order; this one shows early what few pages link to.

    teia crawl https://example.org/ --data archive --order least-linked
"""

from __future__ import annotations

DEPTHS = 64


def least_linked(depth: int, in_links: int) -> int:
    """Return the place of a URL in the queue of its host; smaller is sooner. Equal ones keep the order they came in."""
    return in_links * DEPTHS + min(depth, DEPTHS - 1)
