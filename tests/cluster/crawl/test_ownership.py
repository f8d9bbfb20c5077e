"""The ownership of a node: requests that may begin, and the moment of a commit."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from teia.clock import VirtualClock
from teia.cluster.cells.site_homes import SiteHomes
from teia.cluster.crawl.ownership import AHEAD, GATHER_S, LATE_S, NodeOwnership
from teia.cluster.placing.site_analyzer import Analyzer
from teia.config.sections import Config, CourtesySettings, PlacementSettings
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.schedule import HostQueue


class Asking:
    """A node's ownership as far as it says which requests may begin, and when what was read is committed."""

    def __init__(self, analyzer: Analyzer | None = None, **courtesy: Any) -> None:
        self.clock = VirtualClock()
        config = replace(Config(), courtesy=replace(CourtesySettings(), **courtesy))
        self.crawl: Any = SimpleNamespace(config=config, last_group=-1.0, is_committing=False, uncommitted=[])
        exchange: Any = SimpleNamespace(cells=[], inbox=[], must_merge=False, departures=[])
        self.begun: list[tuple[str, float | None]] = []
        self.hosts: dict[str, Any] = {}
        leases: Any = SimpleNamespace(begin=self._begin, sites_at=lambda _: 0)
        shares: Any = None
        self.ownership = NodeOwnership(self.crawl, exchange, lambda _: True, self.clock, {}, leases, shares, analyzer)
        place = SimpleNamespace(ready_at=0.0, known_sites=0)
        self.schedule: Any = SimpleNamespace(politeness=SimpleNamespace(address=lambda _: place))

    def _begin(self, address: str, site: str, usual_s: float | None) -> float:
        self.begun.append((site, usual_s))
        return 0.0

    def asks(self, host: str) -> bool:
        """Whether a request to the host may begin now; if so it has, and is not committed."""
        queue: Any = self.hosts.setdefault(host, Host(host))
        if not self.ownership.begin_request(queue, self.schedule, self.clock.ticks_s()):
            return False
        self.ownership.note_start(ActiveVisit(queue, cast("Any", None), "192.0.2.1"))
        self.crawl.uncommitted.append(queue)
        return True


class Host:
    """A queue as far as somebody asks whether it may be asked."""

    def __init__(self, host: str) -> None:
        self.host, self.address, self.server = host, "192.0.2.1", SimpleNamespace(ready_at=0.0)


def test_a_host_has_no_more_requests_ahead_of_the_commit_than_may_be_repeated() -> None:
    """One under way and the one before it, for each that may be under way at a time."""
    for per_host in (1, 3):
        asking = Asking(per_host=per_host)
        assert [asking.asks("a.test") for _ in range(AHEAD * per_host + 1)] == [True] * AHEAD * per_host + [False]
        assert asking.asks("b.test")  # another host has its own
        asking.ownership.note_end(ActiveVisit(asking.hosts["a.test"], cast("Any", None), "192.0.2.1"))  # one committed
        assert asking.asks("a.test")
        assert not asking.asks("a.test")
    hasty = Asking(delay_s=0.0)
    assert all(hasty.asks("a.test") for _ in range(10 * AHEAD))  # where nothing rests, speed is what is wanted


def test_a_host_whose_owner_agreed_to_a_shorter_delay_need_not_wait_until_pages_are_gathered() -> None:
    """What it may have ahead is as much as others have; so its pages are committed as soon as it waits for that."""
    asking = Asking(agreed_delays=("fast.test=0.2 Ana Souza",))
    crawl = asking.crawl
    for host, is_waited_for in (("usual.test", False), ("fast.test", True)):
        assert [asking.asks(host) for _ in range(AHEAD + 1)] == [True] * AHEAD + [False]
        asyncio.run(asking.clock.advance(0.1))
        assert asking.clock.ticks_s() - crawl.last_group < GATHER_S
        assert asking.ownership.wants_commit(asking.clock.ticks_s()) is is_waited_for
    assert asking.begun == [("usual.test", 5.0)] * AHEAD + [("fast.test", 0.2)] * AHEAD


def test_nothing_is_requested_while_a_commit_is_late() -> None:
    """While NATS elects, no pages are gathered that another node might have to ask for again."""
    asking = Asking()
    queue, item = HostQueue("a.test", 1, 0, 0, DelayTarget("a.test")), cast("Any", None)
    asking.crawl.last_group, asking.crawl.is_committing = 0.0, True
    assert asking.ownership.may_start(queue, item)
    asyncio.run(asking.clock.advance(asking.crawl.config.courtesy.delay_s + LATE_S))
    assert not asking.ownership.may_start(queue, item)
    asking.crawl.is_committing = False
    assert asking.ownership.may_start(queue, item)


def test_a_site_does_not_leave_while_a_page_of_it_that_the_cache_gave_is_not_committed() -> None:
    analyzer = Analyzer(cast("Any", None), PlacementSettings(), "a", dict, SiteHomes([0], []), VirtualClock())
    observers = Asking(analyzer).ownership.observers
    queue = HostQueue("a.test", 1, 0, 0, DelayTarget("a.test"))
    analyzer.add_queue(queue)
    analyzer._leaving["a.test"] = (7, "")
    visit = ActiveVisit(queue, QueuedUrl("http://a.test/", b"key", 0, 0, 1, 0.0), "127.0.0.1", from_cache=True)
    for each in observers:
        each.note_start(visit)
    assert not analyzer.departures(0.0, 0.0)
    for each in observers:
        each.note_end(visit)
    assert [each.site for each in analyzer.departures(0.0, 0.0)] == ["a.test"]
