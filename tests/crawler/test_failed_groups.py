"""What a group is asked to do: all of it again after a failed commit, and nothing twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from teia.crawler.commit import REFILL_S, CommitGroup
from teia.crawler.running_collection import REFILLS_PER_GROUP, Crawl, CrawlState
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.queue.waiting_hosts import HostsOnDisk
from tests.contract.test_ownership import Owned, one_machine
from tests.crawler.offline import offline_crawl


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
    crawl.compiled, crawl._on_disk = None, HostsOnDisk()  # type: ignore[assignment]
    first = [order[0] for order in crawl.take_group(1.0, 0.0).refills]
    again = [order[0] for order in crawl.take_group(2.0, 0.0).refills]
    assert first == again == queues[:REFILLS_PER_GROUP]
    assert list(crawl._low_buffers) == queues[REFILLS_PER_GROUP:]


def test_a_buffer_is_filled_once_by_a_commit_so_that_its_host_keeps_its_other_urls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy crawl ended as finished with up to 100 of 3,500 URLs queued, on one machine and on nodes.

    A host that was checked again, and then filled with its last URLs, was low and without more URLs. The next commit
    read its new URLs twice. The first time the buffer was full, so that it grew; the second time it was not full any
    more, and the host left memory with URLs on disk.
    """
    web = {"http://a.test/": "".join(f"<a href=/{number}>page</a>" for number in range(40))}
    with offline_crawl(web, tmp_path, "http://a.test/") as offline:
        owned, crawl, groups = Owned(offline, one_machine), offline.crawl, list[CommitGroup]()
        monkeypatch.setattr(offline, "_commit", groups.append)
        offline.run(1)
        (visit,) = groups[0].visits
        visit.queue, crawl._seeds = owned.queue, []
        crawl.note_start(visit)
        crawl.conclude(visit, owned.now)
        crawl._check_now(owned.queue)
        owned.queue.exhausted = True
        group = crawl.take_group(owned.now, 0.0)
        crawl.apply_commit(crawl.committer.commit(group), owned.schedule, offline.clock)
        assert 0 < len(owned.queue.buffer) < 40
        assert not owned.queue.exhausted, "it has more URLs on disk"


def test_buffers_that_a_commit_has_no_time_to_fill_come_first_in_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart with a million URLs the first request waited four seconds until 512 buffers were full."""
    hosts = [f"{letter}.test" for letter in "abcde"]
    with offline_crawl({}, tmp_path, "http://a.test/") as offline:
        owned, crawl, clock = Owned(offline, one_machine), offline.crawl, offline.clock
        crawl._low_buffers = {crawl.host_queue(host, 1, owned.schedule): None for host in hosts}

        def refill_slowly(*_: Any) -> tuple[list[QueuedUrl], None]:
            asyncio.run(clock.advance(0.6 * REFILL_S))
            return [], None

        monkeypatch.setattr(crawl.committer, "_refill", refill_slowly)
        filled = []
        while crawl._low_buffers:
            result = crawl.committer.commit(crawl.take_group(owned.now, 0.0))
            filled.append([queue.host for queue, _, _ in result.refilled])
            crawl.apply_commit(result, owned.schedule, clock)
        assert filled == [hosts[:2], hosts[2:4], hosts[4:]]
