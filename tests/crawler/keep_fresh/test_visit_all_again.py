"""A run that visits all known pages again beside finding new ones (F2), without network and without time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from teia.clock import VirtualClock
from teia.collections.settings import configure
from teia.config.sections import CourtesySettings
from teia.crawler.budgets import Budgets
from teia.crawler.commit import CommitGroup
from teia.crawler.keep_fresh.visit_all_again import RevisitAll, RoundAccount
from teia.crawler.running_collection import Crawl
from teia.crawler.start import open_crawls
from teia.frontier.cell.schema import LANE_DUE, LANE_NEW
from teia.frontier.queue.ledger import Ledger
from teia.frontier.queue.politeness import DelayTarget, Politeness
from teia.frontier.queue.schedule import HostQueue, HostSchedule
from teia.records import Outcome
from teia.store.root import open_root
from tests.crawler.offline import NOW_S, OfflineCrawl, offline_crawl
from tests.crawler.test_commit import repeat_every_commit

WEB = {
    "http://a.test/": "".join(f'<a href="/{number}">{number}</a>' for number in range(8)),
    **{f"http://a.test/{number}": f"page {number}" for number in range(8)},
}
SINCE_S = NOW_S + 100_000


@contextmanager
def a_round(folder: Path, visited: int = 9, **settings: Any) -> Iterator[tuple[Crawl, RevisitAll]]:
    """A collection of which so many pages were visited, opened to visit them all again."""
    with offline_crawl(WEB, folder, "http://a.test/", **settings) as offline:
        offline.run(visited)
    root, clock = open_root(folder / "data"), VirtualClock(SINCE_S)
    config, ledger = configure(root, "main", None, {}, {}).config, Ledger(root.path / "ledger.sqlite")
    with root.locked(), open_crawls(root, [config], ledger, clock, {"main": SINCE_S}) as (crawl,):
        again = crawl.committer.refresh
        assert isinstance(again, RevisitAll)
        yield crawl, again
    ledger.close(clean=True, now_s=clock.now_s())


def queue_of(crawl: Crawl) -> tuple[int, HostQueue]:
    for cell in crawl.committer.cells:
        for host_id, host, *_ in cell.frontier.hosts_with_work():
            return cell.number, HostQueue(host, host_id, cell.number, 0, DelayTarget(host))
    raise AssertionError("nothing waits")


def test_all_known_pages_are_requested_with_the_next_commit(tmp_path: Path) -> None:
    with a_round(tmp_path) as (crawl, again):
        assert again.has_pending_work
        done = crawl.committer.commit(CommitGroup())
        assert not again.has_pending_work
        assert [host for _, host in done.hosts] == ["a.test"]
        assert again.progress == RoundAccount(known=9, is_whole=True)
        assert sum(cell.frontier.queued for cell in crawl.committer.cells) == 9


def test_new_and_known_pages_take_turns(tmp_path: Path) -> None:
    """Neither waits for the end of the other: a run that is cut short finds new pages too."""
    with a_round(tmp_path, visited=5) as (crawl, again):
        crawl.committer.commit(CommitGroup())
        number, queue = queue_of(crawl)
        for limit in (3, 4, 8, 100):
            items = again.next_urls(crawl.committer.cells[number], queue, limit, ()).items
            lanes = [item.lane for item in items]
            assert len(lanes) == min(limit, 9)
            assert lanes[:3] == [LANE_NEW, LANE_DUE, LANE_NEW]


def test_a_used_up_budget_does_not_prevent_revisits(tmp_path: Path) -> None:
    with a_round(tmp_path, visited=5, limits__pages_per_host=5) as (crawl, again):
        crawl.committer.commit(CommitGroup())
        number, _ = queue_of(crawl)
        schedule = HostSchedule(Politeness(CourtesySettings()), 10)
        queue = crawl.host_queue("a.test", 1, schedule)
        queue.requests, crawl.budgets = 5, Budgets()
        assert crawl.budgets.exhausted(queue, crawl.config.limits)
        items = again.next_urls(crawl.committer.cells[number], queue, 100, ()).items
        refused = {item.lane: crawl.refusal(queue, item) for item in items}
        assert refused[LANE_DUE] is None
        assert (refused[LANE_NEW] or ("",))[0] == Outcome.BUDGET


def test_a_commit_that_is_repeated_counts_its_visits_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk made pages count twice: a collection was full before it had as many pages as it may keep."""
    with a_round(tmp_path, visited=5, limits__pages_kept=9) as (crawl, again):
        crawl.committer.commit(CommitGroup())
        repeat_every_commit(monkeypatch, crawl.committer)
        OfflineCrawl(WEB, crawl, VirtualClock(SINCE_S)).run(8)
        assert again.progress == RoundAccount(known=5, visited=5, new=3, is_whole=True)
        assert not again.is_full, "8 of 9 pages are kept"
        OfflineCrawl(WEB, crawl, VirtualClock(SINCE_S)).run(1)
        assert again.is_full
