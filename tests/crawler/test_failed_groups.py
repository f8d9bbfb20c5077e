"""A group whose commit failed is handed over again, with all that it was asked to do."""

from __future__ import annotations

from teia.crawler.commit import CommitGroup
from teia.crawler.running_collection import REFILLS_PER_GROUP, Crawl, CrawlState


class Queue:
    """As much of a host's queue as is looked at."""

    def __init__(self) -> None:
        self.refill = 10
        self.loaded: set[int] = set()


def test_hosts_whose_buffers_a_failed_group_should_have_filled_still_need_a_refill() -> None:
    """A full disk, or a full stream in a cluster, made hosts wait for ever: their URLs were never read again."""
    crawl = Crawl.__new__(Crawl)
    queues = [Queue() for _ in range(REFILLS_PER_GROUP + 2)]
    crawl.state = CrawlState.RUNNING
    crawl._group, crawl._rereads_buffers, crawl._must_reevaluate, crawl.keeps_fresh = CommitGroup(), False, False, False
    crawl._low_buffers = dict.fromkeys(queues)  # type: ignore[assignment]
    crawl.compiled = None  # type: ignore[assignment]
    first = [order[0] for order in crawl.take_group(1.0, 0.0).refills]
    again = [order[0] for order in crawl.take_group(2.0, 0.0).refills]
    assert first == again == queues[:REFILLS_PER_GROUP]
    assert list(crawl._low_buffers) == queues[REFILLS_PER_GROUP:]
