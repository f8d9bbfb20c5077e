"""A machine that loses documents to its own time-outs sends fewer requests at once (T4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
import uvloop

from teia.clock import Clock, WallClock
from teia.collections.account import summarize
from teia.collections.settings import configure
from teia.crawler import own_timeouts, start
from teia.crawler.own_timeouts import ADDRESSES, JUDGED, LEAST, OwnTimeouts
from teia.fetch.fetcher import FetchRequest
from teia.frontier.queue.retry import RETRY_RULES, RetryRule
from teia.records import Fetched, Outcome
from teia.store.root import open_root
from teia.views.alerts import Disk, find_alerts
from tests.faults.harness import ReadingPool, TableFetcher

HOSTS = [f"h{number}.test" for number in range(24)]
CARRIED = 12
"""Requests at once that the machine of a test carries."""


def judge(cap: OwnTimeouts, now: float, timeouts: int, addresses: int = ADDRESSES, in_flight: int = 64) -> int:
    """The cap after as many requests as are judged together, the first of them time-outs."""
    for number in range(JUDGED):
        cap.note_answer(f"127.0.0.{number % addresses}", now, now + 1.0, in_flight, is_timeout=number < timeouts)
    return cap.cap


def test_time_outs_at_many_addresses_halve_the_requests_and_quiet_raises_them() -> None:
    cap = OwnTimeouts(100)
    assert judge(cap, 0.0, 9) == 100, "some servers are slow"
    assert judge(cap, 10.0, 60, addresses=ADDRESSES - 1) == 100, "one provider may have failed"
    assert judge(cap, 20.0, 10) == 32, "half of what was under way"
    assert (cap.lost, cap.share) == (10, 0.32)
    assert judge(cap, 20.5, 50) == 32, "requests that began before the change say nothing of it"
    assert judge(cap, 30.0, 10, in_flight=32) == 16
    assert judge(cap, 40.0, 100, in_flight=16) == judge(cap, 50.0, 100, in_flight=8) == LEAST
    assert judge(cap, 60.0, 5) == LEAST, "neither good nor bad"
    assert [judge(cap, 70.0 + step, 2) for step in range(4)] == [10, 12, 15, 18]
    for step in range(20):
        judge(cap, 100.0 + step, 0)
    assert cap.cap == 100
    assert OwnTimeouts(4).cap == judge(OwnTimeouts(4), 0.0, 100) == 4, "never above what the settings allow"


class WeakMachine(TableFetcher):
    """Reads answers too late while more requests are under way than it carries."""

    most = 0
    answer_s = 0.02
    """On a busy machine a millisecond is over before the next requests are sent, and few are under way at once."""

    def start(self, request: FetchRequest, done: Callable[[Fetched], None]) -> None:
        def late(fetched: Fetched) -> None:
            timed_out = Fetched(fetched.url, Outcome.TIMEOUT, 0, fetched.started_s, fetched.ended_s)
            done(timed_out if self.in_flight >= CARRIED else fetched)

        super().start(request, late)
        self.most = max(self.most, self.in_flight)


def test_crawl_on_a_weak_machine_sends_fewer_requests_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = " ".join(f'<a href="/{number}">to {number}</a>' for number in range(12))
    pages = {f"http://{host}/{path}": links.encode() for host in HOSTS for path in ["", *map(str, range(12))]}
    machines: list[WeakMachine] = []

    def fetcher(_guard: object, _limits: object, clock: Clock, *_: object, **__: object) -> WeakMachine:
        machines.append(WeakMachine(pages, clock))
        return machines[-1]

    monkeypatch.setattr(start, "CurlFetcher", fetcher)
    monkeypatch.setattr(start, "ChildPool", ReadingPool)
    monkeypatch.setattr(own_timeouts, "JUDGED", 20)
    # On a busy machine three tries may be over before the cap falls.
    monkeypatch.setitem(RETRY_RULES, Outcome.TIMEOUT, RetryRule(20, 1))

    async def work() -> None:
        root = open_root(tmp_path / "data", create=True)
        flags = {
            "collection.seeds": [f"http://{host}/" for host in HOSTS],
            "collection.cells": 1,
            "scope.include": ["suffix:.test"],
            "courtesy.delay_s": 0.0,
            "courtesy.retry_wait_s": 0.01,
            "sites.aliases": False,
            "fetch.resolve": [f"{host}=127.77.93.{number}" for number, host in enumerate(HOSTS, 1)],
            "fetch.allow_nets": ["127.77.0.0/16"],
            "index.enabled": False,
        }
        config = configure(root, "main", None, {}, flags).config
        async with start.open_crawler(root, [config], WallClock(), 1) as crawler:
            async with asyncio.timeout(30):
                await crawler.run()
            account = asdict(summarize(crawler.crawls[0], 1.0))
        assert machines[0].most > CARRIED
        assert account["lost_here"] >= ADDRESSES
        assert crawler.own_timeouts.lost == account["lost_here"]
        (alert,) = [each for each in find_alerts(account, None, Disk(1.0, 0.0)) if each.kind == "own_timeouts"]
        assert (alert.value, alert.limit) == (account["lost_here"], account["parallel_requests"])
        assert account["pages"] == len(pages), "what was lost is fetched again"

    uvloop.run(work())
