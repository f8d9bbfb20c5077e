"""What a crawl says of this moment: bounded, and true."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from teia.clock import VirtualClock
from teia.collections.control_file import CrawlReports
from teia.crawler.live_activity import SHOWN_DONE, SHOWN_NOW, LiveRequests, states_of
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.schedule import HostQueue, HostState
from teia.records import Fetched
from teia.store.root import Root
from tests.crawler.webs import ScriptedWeb, crawl_web, html, text_of
from tests.waiting import until


def visit(number: int, waited_s: float | None = None, delay_s: float | None = None) -> ActiveVisit:
    queue = HostQueue(f"h{number}.test", number, 0, 0, DelayTarget(f"h{number}.test"))
    item = QueuedUrl(f"http://h{number}.test/{'x' * 1_000}", number, 0, 0, 1, 0.0)
    made = ActiveVisit(queue, item, started=float(number), delay_before_s=delay_s, waited_s=waited_s)
    made.fetched, made.outcome = Fetched(item.url, "200", 200, 10.0, 10.5), "200"
    return made


def test_the_shown_requests_are_bounded_however_many_there_are() -> None:
    live, clock = LiveRequests(), VirtualClock(1_000.0)
    for number in range(500):
        live.note_start(visit(number))
        live.conclude(visit(number))
    told = live.account([], clock)
    assert told["under_way"] == 500
    assert (len(told["now"]), len(told["done"])) == (SHOWN_NOW, SHOWN_DONE)
    assert [each["number"] for each in told["done"]][:2] == [500, 499], "the newest first"
    assert told["done"][0]["ms"] == 500
    assert max(len(each["url"]) for each in told["now"] + told["done"]) < 600


def test_a_request_that_ended_is_no_longer_under_way() -> None:
    live, one = LiveRequests(), visit(1)
    live.note_start(one)
    live.note_end(one)
    live.note_end(one)
    assert live.account([], VirtualClock(0.0))["under_way"] == 0


def test_the_closest_delay_is_the_one_with_the_least_to_spare() -> None:
    live = LiveRequests()
    assert live.account([], VirtualClock(0.0))["closest_s"] is None
    for waited_s, delay_s in ((9.0, 5.0), (5.003, 5.0), (60.0, 60.0005), (7.0, 5.0)):
        live.note_start(visit(1, waited_s, delay_s))
    assert live.closest == (60.0, 60.0005)
    assert live.early == 0, "half a millisecond is the clock's"
    live.note_start(visit(2, 4.9, 5.0))
    told = live.account([], VirtualClock(0.0))
    assert (told["early"], told["closest_s"], told["closest_of_s"]) == (1, 4.9, 5.0)


def test_hosts_are_counted_by_what_they_do() -> None:
    def host(state: HostState, ready_at: float = 0.0, busy: int = 0) -> HostQueue:
        return HostQueue("x.test", 1, 0, 0, DelayTarget("x.test", ready_at=ready_at, busy=busy), state=state)

    hosts = [
        host(HostState.WAITING),
        host(HostState.WAITING, ready_at=11.0),
        host(HostState.WAITING, ready_at=12.0),
        host(HostState.FETCHING, busy=1),
        host(HostState.IDLE, ready_at=99.0),
    ]
    assert states_of(hosts, 10.0) == {"ready": 1, "resting": 2, "fetching": 1, "idle": 1}


def test_counting_hosts_takes_a_small_part_of_the_time() -> None:
    """A count that took a second is not repeated for a hundred."""
    live, clock, counted = LiveRequests(), VirtualClock(0.0), 0

    class Slow(list[Any]):
        def __iter__(self) -> Any:
            nonlocal counted
            counted += 1
            asyncio.run(clock.advance(1.0))
            return super().__iter__()

    for _ in range(50):
        live.account(Slow(), clock)
        asyncio.run(clock.advance(1.0))
    assert counted == 1


def test_a_running_crawl_tells_what_it_just_did(tmp_path: Path) -> None:
    """T7: what others see of a crawl without asking it."""
    pages = {f"/{n}": html(text=text_of(n)) for n in range(30)} | {"/": html(*(f"/{n}" for n in range(30)))}
    seen: list[dict[str, Any]] = []

    def look(root: Root) -> None:
        control = CrawlReports(root.path / "control.sqlite")

        def account() -> dict[str, Any] | None:
            run = control.running_crawl("main")
            return dict(run.account) if run is not None and (run.account.get("live") or {}).get("done") else None

        seen.append(until(account, "the account has requests that are done"))
        control.close()

    crawl_web(ScriptedWeb({"x.test": pages}), tmp_path, "x.test/", meanwhile=look, courtesy__delay_s=0.1)
    (account,) = seen
    live = account["live"]
    assert live["early"] == 0
    assert live["closest_s"] is None or live["closest_s"] >= live["closest_of_s"] == 0.1
    assert sum(live["hosts"].values()) == account["hosts"]
    assert all("x.test" in each["url"] for each in live["done"])
    control = CrawlReports(tmp_path / "data" / "control.sqlite")
    assert control.points("main", 5.0, 0.0), "and how it went is kept"
    control.close()
