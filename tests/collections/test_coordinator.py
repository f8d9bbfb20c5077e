"""Due schedules become runs (T3): real crawls of scripted webs, on a clock that leaps over the days of waiting."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from teia.clock import WallClock
from teia.collections.calendar import next_starts, parse_schedule
from teia.collections.control_file import GiveCommand, Inbox
from teia.collections.coordinator import Coordinator
from teia.collections.scheduled_runs import CrawlTask, RunLog, ScheduledRun
from teia.collections.settings import change, configure, parse_edit
from teia.lab.server.requestlog import RequestLogEntry, read_log
from teia.lab.server.serve import LabServer
from teia.lab.server.witness import early_requests
from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.records import Command
from teia.store.root import Root, open_root
from teia.transfer.read_all import audit_fetch_log
from tests.crawler.webs import Page, ScriptedWeb, html, text_of
from tests.waiting import until, until_async

START = "2026-11-21 02:00"
START_S = datetime(2026, 11, 21, 2, tzinfo=UTC).timestamp()
DAY_S = 86_400.0
PAGES = 8
DELAY_S = 0.05


class LeapingClock:
    """The machine's time from another date on. Its calendar can be told to leap; rests take as long as they take."""

    def __init__(self, now_s: float) -> None:
        self._clock = WallClock()
        self._ahead_s = now_s - self._clock.now_s()

    def now_s(self) -> float:
        return self._clock.now_s() + self._ahead_s

    def ticks_s(self) -> float:
        return self._clock.ticks_s()

    def leap_to(self, at_s: float) -> None:
        self._ahead_s += max(0.0, at_s - self.now_s())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.05))  # so that it looks again soon after a leap


def site(pages: int = PAGES) -> dict[str, Page]:
    names = [f"/{number}" for number in range(1, pages)]
    return {"/": html(*names), **{name: html(text=text_of(number)) for number, name in enumerate(names, 1)}}


@dataclass
class Served:
    """What came of serving schedules: what was said, what the server saw, and the runs by collection."""

    said: list[str] = field(default_factory=list)
    entries: list[RequestLogEntry] = field(default_factory=list)
    runs: dict[str, list[ScheduledRun]] = field(default_factory=dict)
    violations: int = 0

    def visits(self, host: str = "a.test") -> list[str]:
        paths = [entry.path for entry in self.entries if entry.host == host]
        return [path for path in paths if path != "/robots.txt" and "teia-probe" not in path]


def pages_of(coordinator: Coordinator, name: str) -> int:
    """How many pages a collection has had in what it does now."""
    return coordinator.controllers[name].counts.pages if name in coordinator.controllers else 0


def run_of(coordinator: Coordinator) -> int:
    """The number of the last run."""
    controller = coordinator.controllers.get("main")
    return controller.run.number if controller is not None and controller.run is not None else 0


async def stop_in_the_middle(coordinator: Coordinator, _: LeapingClock, root: Root) -> None:
    await until_async(lambda: pages_of(coordinator, "main") >= 3)
    coordinator.stop()


Listener = Callable[[Coordinator, LeapingClock, str], None]


def serve(
    web: ScriptedWeb,
    folder: Path,
    listener: Listener,
    collections: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    now_s: float = START_S - DAY_S,
    port: int = 0,
    run_now: bool = False,
    meanwhile: Callable[[Coordinator, LeapingClock, Root], Awaitable[None]] | None = None,
    **settings: Any,
) -> tuple[Served, int]:
    """Serve schedules until `listener`, who hears every line, stops it or they are over; returns also the port."""
    folder.mkdir(exist_ok=True)
    flags = {"schedule.start": START, "schedule.zone": "UTC", "schedule.every": "1 day"}
    flags |= {key.replace("__", "."): value for key, value in settings.items()}
    own = collections or {"main": {}}
    return uvloop.run(_serve(web, folder, listener, own, flags, now_s, port, run_now, meanwhile))


async def _serve(
    web: ScriptedWeb,
    folder: Path,
    listener: Listener,
    collections: Mapping[str, Mapping[str, Any]],
    flags: Mapping[str, Any],
    now_s: float,
    port: int,
    run_now: bool,
    meanwhile: Callable[[Coordinator, LeapingClock, Root], Awaitable[None]] | None,
) -> tuple[Served, int]:
    log, served, clock = folder / "requests.jsonl", Served(), LeapingClock(now_s)
    log.unlink(missing_ok=True)
    root = open_root(folder / "data", create=True)
    async with LabServer(web, WallClock(), port=port, dns="127.77.255.91:0", log=log) as lab:
        shared = {
            "collection.seeds": [lab.url("a.test", "/")],
            "collection.cells": 2,
            "scope.include": ["suffix:.test"],
            "courtesy.delay_s": DELAY_S,
            "courtesy.retry_wait_s": 0.1,
            "index.enabled": False,
            "parse.children": 1,
            "fetch.dns": lab.dns,
            "fetch.allow_nets": ["127.77.0.0/16"],
        }
        for name, own in collections.items():
            configure(root, name, None, {}, {**shared, **flags, **own})

        def heard(line: str) -> None:
            served.said.append(line)
            listener(coordinator, clock, line)

        def read(name: str) -> Any:
            return configure(root, name, None, {}, {"fetch.dns": lab.dns}).config

        with root.locked():
            coordinator = Coordinator(root, lambda: list(collections), read, clock, run_now=run_now, report=heard)
            async with asyncio.timeout(60):
                beside = [] if meanwhile is None else [meanwhile(coordinator, clock, root)]
                await asyncio.gather(coordinator.serve(), *beside)
        book = RunLog(root.path / "control.sqlite")
        served.runs = {name: book.recent(name, 10)[::-1] for name in collections}
        book.close()
    served.entries = read_log(log)
    if served.entries:
        courtesy = read(next(iter(collections))).courtesy
        served.violations = sum(audit_fetch_log(root, name, courtesy).violations for name in collections)
    return served, lab.port


def leap(coordinator: Coordinator, clock: LeapingClock, line: str) -> None:
    """Leap to the next start as soon as there is nothing to do before it."""
    if "waits until" in line:
        clock.leap_to(min(controller.due_task.until_s for controller in coordinator.controllers.values()))


def leap_until(number: int) -> Listener:
    """The same, and stop after so many runs."""

    def listener(coordinator: Coordinator, clock: LeapingClock, line: str) -> None:
        if f"run {number} ended" in line:
            coordinator.stop()
        elif not any(
            controller.run and controller.run.number == number for controller in coordinator.controllers.values()
        ):
            leap(coordinator, clock, line)

    return listener


# ---- periods --------------------------------------------------------------------------------------------------------


def test_three_periods_happen_and_each_visits_every_page_once(tmp_path: Path) -> None:
    """T3, F2: a run visits all known pages again, and finds what is new; its dates are those that people are shown."""
    pages = site()
    asked = Counter[str]()

    def home(_: WorldRequest) -> WorldAnswer:
        asked["/"] += 1
        more = ["/new"] if asked["/"] > 1 else []
        return html(*(f"/{number}" for number in range(1, PAGES)), *more)

    web = ScriptedWeb({"a.test": {**pages, "/": home, "/new": html(text=text_of(99))}})
    served, _ = serve(web, tmp_path, leap_until(3))
    runs = served.runs["main"]
    schedule = parse_schedule(configure(open_root(tmp_path / "data"), None, None, {}, {}).config.schedule)
    assert schedule is not None
    assert [run.due_s for run in runs] == next_starts(schedule, START_S - DAY_S, 3)
    assert [(run.number, run.why, run.known, run.visited, run.new, run.left) for run in runs] == [
        (1, "finished", 0, 0, PAGES, 0),
        (2, "finished", PAGES, PAGES, 1, 0),
        (3, "finished", PAGES + 1, PAGES + 1, 0, 0),
    ]
    visits = Counter(served.visits())
    assert visits == Counter({"/": 3, **{f"/{number}": 3 for number in range(1, PAGES)}, "/new": 2})
    assert all(run.began_s - run.due_s < 30 and (run.ended_s or 0.0) > run.began_s for run in runs)
    assert early_requests(served.entries, DELAY_S, lambda entry: entry.host) == []
    assert served.violations == 0


def test_a_deadline_cuts_a_run_and_what_it_did_not_reach_comes_first_in_the_next(tmp_path: Path) -> None:
    """T1: `stop_after`. Also after many short runs every page has been visited."""
    pages = site(12)

    async def leap_in_runs_2_and_3(coordinator: Coordinator, clock: LeapingClock, root: Root) -> None:
        for number in (2, 3):
            await until_async(partial(lambda wanted: run_of(coordinator) == wanted, number))
            await until_async(lambda: pages_of(coordinator, "main") >= 4)
            clock.leap_to(START_S + (number - 1) * DAY_S + 3_600)

    web = ScriptedWeb({"a.test": pages})
    served, _ = serve(web, tmp_path, leap_until(4), meanwhile=leap_in_runs_2_and_3, schedule__stop_after="1 hour")
    first, second, third, fourth = served.runs["main"]
    assert (first.why, second.why, third.why, fourth.why) == ("finished", "deadline", "deadline", "finished")
    assert (second.known, second.deadline_s) == (12, START_S + DAY_S + 3_600)
    assert 4 <= second.visited <= 7
    assert second.left == 12 - second.visited
    reached = served.visits()[12:]
    cut = len(reached) - 12 - third.visited
    assert set(reached[cut : cut + 4]).isdisjoint(reached[: second.visited])
    assert (fourth.visited, fourth.left) == (12, 0)
    assert any("run 2 ended (deadline)" in line and "not reached" in line for line in served.said)


# ---- interruptions --------------------------------------------------------------------------------------------------


def test_a_run_that_was_interrupted_goes_on_and_is_not_begun_anew(tmp_path: Path) -> None:
    """Stopped in the middle of its window; every page is visited once in the run, before and after."""
    web = ScriptedWeb({"a.test": site()})
    first, port = serve(web, tmp_path, leap, meanwhile=stop_in_the_middle)
    (run,) = first.runs["main"]
    assert run.is_open
    assert 3 <= run.new < PAGES
    again, _ = serve(web, tmp_path, leap_until(1), now_s=START_S + 7_200, port=port)
    (run,) = again.runs["main"]
    assert (run.number, run.why, run.new) == (1, "finished", PAGES)
    assert Counter(first.visits() + again.visits()) == Counter(dict.fromkeys(site(), 1))


def test_a_run_whose_window_passed_while_nobody_crawled_is_closed_as_interrupted(tmp_path: Path) -> None:
    web = ScriptedWeb({"a.test": site()})
    first, port = serve(web, tmp_path, leap, meanwhile=stop_in_the_middle, schedule__stop_after="1 hour")
    seen_s = first.runs["main"][0].seen_s
    later, _ = serve(web, tmp_path, leap_until(2), now_s=START_S + 7_200, port=port)
    one, two = later.runs["main"]
    assert (one.why, one.ended_s) == ("interrupted", seen_s)
    assert (two.why, two.due_s) == ("finished", START_S + DAY_S)
    assert Counter(first.visits() + later.visits()).keys() == site().keys()


# ---- several collections --------------------------------------------------------------------------------------------


def test_collections_that_are_due_together_share_the_delays_of_their_servers(tmp_path: Path) -> None:
    """The second one becomes due while the first runs: both go on, and the server is not asked twice as often."""
    web = ScriptedWeb({"a.test": site(16)})

    async def leap_in_the_middle(coordinator: Coordinator, clock: LeapingClock, root: Root) -> None:
        await until_async(lambda: pages_of(coordinator, "one") >= 5)
        clock.leap_to(START_S + 600)

    def listener(coordinator: Coordinator, clock: LeapingClock, line: str) -> None:
        if all(controller.run and not controller.run.is_open for controller in coordinator.controllers.values()):
            coordinator.stop()
        elif not any(controller.run for controller in coordinator.controllers.values()):
            leap(coordinator, clock, line)

    collections = {"one": {}, "two": {"schedule.start": "2026-11-21 02:10"}}
    served, _ = serve(web, tmp_path, listener, collections, meanwhile=leap_in_the_middle)
    one, two = served.runs["one"][0], served.runs["two"][0]
    assert (one.number, one.why, one.new) == (1, "finished", 16)
    assert (two.number, two.why, two.new) == (1, "finished", 16)
    assert two.began_s < (one.ended_s or 0.0)
    assert set(Counter(served.visits()).values()) == {2}
    assert early_requests(served.entries, DELAY_S, lambda entry: entry.host) == []


def test_a_collection_without_a_schedule_is_crawled_at_once_beside_one_that_waits(tmp_path: Path) -> None:
    web = ScriptedWeb({"a.test": site(5)})

    def listener(coordinator: Coordinator, clock: LeapingClock, line: str) -> None:
        if "run 1 ended" in line:
            coordinator.stop()
        elif coordinator.controllers["plain"].is_over:
            leap(coordinator, clock, line)

    async def then_leap(coordinator: Coordinator, clock: LeapingClock, root: Root) -> None:
        await until_async(lambda: "plain" in coordinator.controllers and coordinator.controllers["plain"].is_over)
        clock.leap_to(START_S)

    collections = {"plain": {"schedule.start": ""}, "timed": {}}
    served, _ = serve(web, tmp_path, listener, collections, meanwhile=then_leap)
    assert served.runs["plain"] == []
    assert len(served.visits()) == 10


# ---- by hand --------------------------------------------------------------------------------------------------------


def test_a_run_at_once_visits_everything_again_and_is_the_only_one(tmp_path: Path) -> None:
    web = ScriptedWeb({"a.test": site(4)})
    first, port = serve(web, tmp_path, leap, run_now=True)
    second, _ = serve(web, tmp_path, leap, run_now=True, port=port, now_s=START_S - 3_600)
    assert [(run.number, run.why, run.visited, run.new) for run in second.runs["main"]] == [
        (1, "finished", 0, 4),
        (2, "finished", 4, 0),
    ]
    assert len(first.visits()) == len(second.visits()) == 4


def test_a_waiting_crawler_can_be_requested_to_run_now(tmp_path: Path) -> None:
    web = ScriptedWeb({"a.test": site(3)})

    async def ask(coordinator: Coordinator, clock: LeapingClock, root: Root) -> None:
        await until_async(lambda: "main" in coordinator.controllers)
        await asyncio.to_thread(tell, root, Command.RUN)

    def listener(coordinator: Coordinator, clock: LeapingClock, line: str) -> None:
        if coordinator.controllers["main"].run is not None:
            leap_until(2)(coordinator, clock, line)

    served, _ = serve(web, tmp_path, listener, meanwhile=ask)
    by_hand, next_one = served.runs["main"]
    assert START_S - DAY_S <= by_hand.due_s < START_S - DAY_S + 30
    assert (by_hand.why, by_hand.deadline_s) == ("finished", START_S)
    assert (next_one.due_s, next_one.visited) == (START_S, 3)


# ---- control --------------------------------------------------------------------------------------------------------


def test_commands_and_changes_are_taken_at_once_while_nothing_is_due(tmp_path: Path) -> None:
    """T7, A10: paused, resumed, moved to another date, and without a schedule in the end, all without a crawler."""
    web, heard = ScriptedWeb({"a.test": site(3)}), list[Any]()

    async def talk(coordinator: Coordinator, clock: LeapingClock, root: Root) -> None:
        await until_async(lambda: "main" in coordinator.controllers)
        heard.append(await asyncio.to_thread(_talk, root))

    def _talk(root: Root) -> Any:
        control, now = Inbox(root.path / "control.sqlite"), WallClock()
        try:
            states = [_state(control, "waiting")]
            for command, state in ((Command.PAUSE, "paused"), (Command.RESUME, "waiting")):
                _told(control, command)
                states.append(_state(control, state))
            changed = change(root, "main", [parse_edit("schedule.start=2026-11-21 05:00")], now)
            change(root, "main", [parse_edit("schedule.start=")], now)
            return states, changed
        finally:
            control.close()

    served, _ = serve(web, tmp_path, lambda *_: None, meanwhile=talk)
    states, changed = heard[0]
    assert states == ["waiting", "paused", "waiting"]
    assert (changed.running, changed.now) == (True, ("schedule.start",))
    assert served.said[-1] == "main: waits until Sat 21 Nov 2026 05:00 (UTC)"
    assert served.runs["main"] == []
    assert served.visits() == []


def tell(root: Root, command: Command) -> None:
    control = Inbox(root.path / "control.sqlite")
    _told(control, command)
    control.close()


def _told(control: Inbox, command: Command) -> None:
    control.send("main", GiveCommand(command), 0.0)
    until(lambda: not control.pending("main", GiveCommand), f"{command} is done")


def _state(control: Inbox, wanted: str) -> str:
    """The state of the account, once it is the one that is wanted."""

    def state() -> str:
        run = control.running_crawl("main")
        return "" if run is None else str(run.account.get("state"))

    until(lambda: state() == wanted, f"the account says {wanted}", state=state)
    return state()


def test_a_start_that_comes_while_paused_is_made_up_for_on_resume(tmp_path: Path) -> None:
    web = ScriptedWeb({"a.test": site(3)})

    async def talk(coordinator: Coordinator, clock: LeapingClock, root: Root) -> None:
        await until_async(lambda: "main" in coordinator.controllers)
        await asyncio.to_thread(tell, root, Command.PAUSE)
        clock.leap_to(START_S + 60)
        await asyncio.sleep(0.5)  # nothing happens for a while
        assert coordinator.controllers["main"].run is None
        await asyncio.to_thread(tell, root, Command.RESUME)

    def listener(coordinator: Coordinator, _: LeapingClock, line: str) -> None:
        if "run 1 ended" in line:
            coordinator.stop()

    served, _ = serve(web, tmp_path, listener, meanwhile=talk)
    assert [(run.due_s, run.why) for run in served.runs["main"]] == [(START_S, "finished")]


# ---- kept fresh in between ------------------------------------------------------------------------------------------


def test_between_runs_pages_are_kept_fresh_where_that_is_wanted(tmp_path: Path) -> None:
    web = ScriptedWeb({"a.test": site(4)})

    async def wait_for_revisits(coordinator: Coordinator, clock: LeapingClock, root: Root) -> None:
        await until_async(
            lambda: (
                "main" in coordinator.controllers
                and coordinator.controllers["main"].due_task.task is CrawlTask.KEEP_FRESH
            )
        )
        await until_async(lambda: coordinator.controllers["main"].counts.requests >= 12)
        clock.leap_to(START_S + DAY_S)

    served, _ = serve(
        web,
        tmp_path,
        leap_until(2),
        meanwhile=wait_for_revisits,
        schedule__keep_fresh=True,
        refresh__least_s=0.1,
    )
    one, two = served.runs["main"]
    assert (one.why, one.new, two.why, two.known, two.visited) == ("finished", 4, "finished", 4, 4)
    assert len(served.visits()) >= 4 + 12 + 4
    assert any("is kept fresh until" in line for line in served.said)
    assert early_requests(served.entries, DELAY_S, lambda entry: entry.host) == []
