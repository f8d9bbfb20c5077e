"""One suite for both kinds of ownership: one machine, and a node that owns all cells of the same collection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from teia.cluster.cells.site_homes import long_delays
from teia.cluster.crawl.commit import CellExchange, ClusterCells
from teia.cluster.crawl.ownership import NodeOwnership
from teia.config.sections import CourtesySettings
from teia.crawler.commit import CommitGroup, CommitResult
from teia.crawler.ownership import OneMachine, Ownership
from teia.crawler.running_collection import REFILL_PAUSE_S
from teia.crawler.visit import ActiveVisit
from teia.errors import StoreError
from teia.frontier.cell.rows import FoundUrl, QueuedUrl, tail_of
from teia.frontier.queue.ledger import DelayEntry
from teia.frontier.queue.politeness import DelayTarget, Politeness
from teia.frontier.queue.schedule import HostQueue, HostSchedule
from teia.records import Fetched
from teia.urls import key_of
from tests.crawler.offline import OfflineCrawl, offline_crawl
from tests.crawler.test_commit import repeat_every_commit

ADDRESS = "192.0.2.1"
WEB = {
    "http://a.test/": "<a href=/1>one</a><a href=http://b.test/>b</a>",
    "http://a.test/1": "one",
    "http://b.test/": "b",
}


def one_machine(_: OfflineCrawl) -> Ownership:
    return OneMachine()


def node(offline: OfflineCrawl) -> Ownership:
    """A node whose session is healthy and whose leases are all granted."""
    crawl, cells = offline.crawl, ClusterCells(dict(enumerate(offline.crawl.committer.cells)))
    exchange = CellExchange(crawl.committer, cells, (0, 512), offline.clock)
    leases: Any = SimpleNamespace(begin=lambda *_: 0.0, sites_at=lambda _: 1, finish=lambda *_: None)
    shares: Any = SimpleNamespace(remaining_share=lambda _: 1_000)
    return NodeOwnership(crawl, exchange, lambda _: True, offline.clock, {}, leases, shares, None)


class Owned:
    """A crawl with one kind of ownership."""

    def __init__(self, offline: OfflineCrawl, make: Callable[[OfflineCrawl], Ownership]) -> None:
        self.offline, self.crawl = offline, offline.crawl
        self.ownership = self.crawl.ownership = make(offline)
        self.schedule = HostSchedule(Politeness(CourtesySettings()), 100)
        self.queue = self.crawl.host_queue("a.test", 1, self.schedule)
        self.queue.address = ADDRESS

    @property
    def now(self) -> float:
        return self.offline.clock.ticks_s()

    def visit(self) -> ActiveVisit:
        """Begin a request to the host and return its visit."""
        item = QueuedUrl("http://a.test/", key_of("http://a.test/"), 0, 0, 0, 0.0)
        assert self.crawl.may_start(self.queue, item)
        assert self.ownership.begin_request(self.queue, self.schedule, self.now)
        visit = ActiveVisit(self.queue, item, ADDRESS, fetched=Fetched(item.url, "200", 200, 0.0, 0.0))
        self.crawl.note_start(visit)
        return visit


@pytest.fixture(params=[one_machine, node])
def owned(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Owned]:
    with offline_crawl(WEB, tmp_path, "http://a.test/", limits__pages=50) as offline:
        yield Owned(offline, request.param)


def test_an_owned_host_can_be_visited_again_and_again(owned: Owned) -> None:
    """Nothing of a visit that has ended counts any more, however many there were."""
    assert owned.ownership.owns("a.test")
    address = owned.schedule.politeness.address(ADDRESS)
    for _ in range(20):
        visit = owned.visit()
        owned.crawl.note_answer(visit, address, owned.now)
        assert owned.crawl.open_pages == 1
        owned.crawl.forget(visit)
    assert owned.crawl.open_pages == 0


def test_a_node_asks_once_more_right_before_it_sends_a_request(tmp_path: Path) -> None:
    """It may have been stopped since it began the visit, for longer than its session lasts."""
    with offline_crawl(WEB, tmp_path, "http://a.test/") as offline:
        owned, is_ours = Owned(offline, node), [True, False]
        owned.ownership._may_fetch = lambda _: is_ours.pop(0)
        assert one_machine(offline).may_send(owned.queue) is None
        may_send = owned.ownership.may_send(owned.queue)
        assert may_send is not None
        assert [may_send(), may_send()] == [True, False]


def test_a_visit_given_up_without_an_answer_leaves_nothing_behind(owned: Owned) -> None:
    for _ in range(20):
        owned.crawl.forget(owned.visit())
    assert owned.crawl.open_pages == 0


def test_a_full_group_is_committed_and_an_empty_one_is_not(owned: Owned) -> None:
    crawl, later = owned.crawl, owned.now + REFILL_PAUSE_S
    crawl._seeds, crawl._must_reevaluate = [], False
    assert not crawl.wants_commit(later)
    for _ in range(crawl.config.commit.every_pages):
        crawl.conclude(ActiveVisit(owned.queue, QueuedUrl("http://a.test/", 0, 0, 0, 0, 0.0)), later)
    assert crawl.wants_commit(later)


def test_a_visit_waits_a_moment_for_others_to_be_committed_with(tmp_path: Path) -> None:
    """T11: one transaction for many visits; a transaction for each would make the database the bottleneck."""
    with offline_crawl(WEB, tmp_path, "http://a.test/") as offline:
        owned = Owned(offline, one_machine)
        crawl, ended = owned.crawl, owned.now + REFILL_PAUSE_S
        crawl._seeds, crawl._must_reevaluate = [], False
        owned.visit()
        crawl.conclude(owned.visit(), ended)
        assert not crawl.wants_commit(ended + crawl.config.commit.every_s / 2), "another visit is under way"
        assert crawl.wants_commit(ended + 2 * crawl.config.commit.every_s)


def test_a_buffer_that_is_low_waits_for_the_next_commit_unless_it_is_nearly_empty(tmp_path: Path) -> None:
    """T11: a commit for every low buffer made groups of 70 pages instead of 256, which cost a third more a page."""
    with offline_crawl(WEB, tmp_path, "http://a.test/") as offline:
        crawl, every_s = offline.crawl, offline.crawl.config.commit.every_s
        queue = HostQueue("a.test", 1, 0, 0, DelayTarget("a.test"), refill=64)
        crawl._seeds, crawl._must_reevaluate, crawl.last_group = [], False, 100.0
        queue.buffer += [QueuedUrl("http://a.test/", 0, 0, 0, 0, 0.0)] * 32
        crawl.refill_if_low(queue)
        assert [crawl.wants_commit(100.0 + wait_s) for wait_s in (every_s / 2, 2 * every_s)] == [False, True]
        del queue.buffer[8:]
        crawl.refill_if_low(queue)
        assert crawl.wants_commit(100.0 + every_s / 2)
        assert [order[0] for order in crawl.take_group(101.0, 0.0).refills] == [queue]


def test_a_group_whose_commit_failed_is_committed_again_at_once(owned: Owned) -> None:
    crawl = owned.crawl
    crawl.take_group(owned.now, 0.0)
    assert crawl.wants_commit(owned.now)


def test_a_commit_without_news_keeps_hosts_and_their_delays(owned: Owned) -> None:
    crawl, ready_at = owned.crawl, owned.queue.server.ready_at
    crawl._group = CommitGroup()
    crawl.apply_commit(CommitResult(), owned.schedule, owned.offline.clock)
    owned.ownership.tick(owned.now)
    assert crawl.queues["a.test"] is owned.queue
    assert owned.queue.server.ready_at == ready_at


def test_an_observer_hears_of_every_visit_from_start_to_end(owned: Owned) -> None:
    class Log:
        def __init__(self) -> None:
            self.heard: list[str] = []

        def note_start(self, visit: ActiveVisit) -> None:
            self.heard.append(f"start {visit.address}")

        def note_answer(self, visit: ActiveVisit, address: object) -> None:
            self.heard.append(f"answer {visit.address}")

        def note_end(self, visit: ActiveVisit) -> None:
            self.heard.append(f"end {visit.address}")

    log: Any = Log()
    owned.ownership.observers = (*owned.ownership.observers, log)  # type: ignore[misc]
    visit = owned.visit()
    owned.crawl.note_answer(visit, owned.schedule.politeness.address(ADDRESS), owned.now)
    owned.crawl.forget(visit)
    assert log.heard == [f"start {ADDRESS}", f"answer {ADDRESS}", f"end {ADDRESS}"]


# ---- the commit, with the steps of each kind ------------------------------------------------------------------------


def test_pages_and_links_to_all_cells_are_committed(owned: Owned) -> None:
    """The whole web is crawled, each page once, over both cells."""
    assert sorted(owned.offline.run()) == sorted(WEB)
    assert sum(cell.frontier.queued for cell in owned.crawl.committer.cells) == 0
    assert sum(cell.frontier.known for cell in owned.crawl.committer.cells) == len(WEB)


def test_a_commit_that_failed_on_a_full_disk_is_repeated_and_counts_once(
    owned: Owned, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeat_every_commit(monkeypatch, owned.crawl.committer)
    assert sorted(owned.offline.run()) == sorted(WEB)
    assert sum(cell.frontier.known for cell in owned.crawl.committer.cells) == len(WEB)


def test_an_error_that_no_step_can_handle_ends_the_commit(owned: Owned, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise StoreError("the database is damaged")

    monkeypatch.setattr(owned.crawl.committer, "_commit_cell", fail)
    with pytest.raises(StoreError):
        owned.offline.run(1)


def test_seeds_are_committed_once(owned: Owned) -> None:
    seeds = [FoundUrl("c.test", key_of("http://c.test/"), tail_of("http://c.test/", "c.test"), 0, in_links=0)]
    known = sum(cell.frontier.known for cell in owned.crawl.committer.cells)
    for _ in range(2):
        owned.crawl.committer.commit(CommitGroup(seeds=list(seeds)))
    assert sum(cell.frontier.known for cell in owned.crawl.committer.cells) == known + 1


# ---- delays for the next owner --------------------------------------------------------------------------------------


def test_a_retry_after_is_in_the_cell_also_if_its_visit_is_committed_later(tmp_path: Path) -> None:
    """The answer came before a commit and was read after it: the cell's next owner requested the host at once."""
    with offline_crawl(WEB, tmp_path, "http://a.test/") as offline:
        owned = Owned(offline, node)
        assert isinstance(owned.ownership, NodeOwnership)
        exchange, until_s = owned.ownership.exchange, offline.clock.now_s() + 120.0
        cell, visits = exchange.cell_of("a.test"), [owned.visit()]
        assert cell is not None
        exchange.start(CommitGroup([], delays=[DelayEntry("server", "a.test", until_s, 120.0)]))
        exchange.start(CommitGroup(visits))
        with cell.frontier.transaction():
            exchange.leave_cell(cell, visits)
        assert long_delays(cell.frontier, offline.clock.now_s()) == {"a.test": until_s}
