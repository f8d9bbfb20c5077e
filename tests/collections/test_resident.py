"""The crawler that goes by orders: collections made, started, stopped and removed while it serves (T2, T7)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop

from teia.clock import WallClock
from teia.collections.calendar import parse_schedule
from teia.collections.commands import (
    NO_COMMANDS,
    CommandTable,
    StandingCommands,
    give_command,
    is_needed,
    remove_collection,
)
from teia.collections.control_file import CrawlReports, GiveCommand, Inbox
from teia.collections.coordinator import Coordinator
from teia.collections.drafts import create_collection
from teia.collections.resident import StandingCommandFollower
from teia.collections.scheduled_runs import RunLog
from teia.collections.settings import saved
from teia.config.sections import Config, ScheduleSettings
from teia.config.tree import read_tree
from teia.errors import DiskFull
from teia.lab.server.requestlog import RequestLogEntry, read_log
from teia.lab.server.serve import LabServer
from teia.records import Command
from teia.store.root import Root, open_root
from tests.collections.test_coordinator import DELAY_S, site
from tests.crawler.webs import ScriptedWeb
from tests.waiting import until_async

Talk = Callable[[Root, Callable[..., None], Coordinator], Awaitable[None]]


def serve(folder: Path, talk: Talk, pages: int = 8) -> list[RequestLogEntry]:
    """Let a resident serve an empty root while somebody talks to it; returns what the web saw."""
    return uvloop.run(_serve(folder, talk, ScriptedWeb({"a.test": site(pages)})))


async def _serve(folder: Path, talk: Talk, web: ScriptedWeb) -> list[RequestLogEntry]:
    log, clock = folder / "requests.jsonl", WallClock()
    root = open_root(folder / "data", create=True)
    async with LabServer(web, clock, dns="127.77.255.93:0", log=log) as lab:

        def make(name: str, **values: Any) -> None:
            shared = {
                "collection.name": name,
                "collection.seeds": [lab.url("a.test", "/")],
                "collection.cells": 2,
                "courtesy.delay_s": DELAY_S,
                "index.enabled": False,
                "parse.children": 1,
                "fetch.dns": lab.dns,
                "fetch.allow_nets": ["127.77.0.0/16"],
            }
            create_collection(root, read_tree(Config, shared | values), clock)

        def read(name: str) -> Config:
            return saved(root, name).config

        with root.locked():
            follow = partial(StandingCommandFollower, idle_s=1.0)
            resident = Coordinator(root, root.collections, read, clock, poll_s=0.02, follow=follow)
            async with asyncio.timeout(40):
                await asyncio.gather(resident.serve(), talk(root, make, resident))
    return read_log(log)


def visits(entries: list[RequestLogEntry]) -> Counter[str]:
    return Counter(entry.path for entry in entries if entry.path != "/robots.txt" and "teia-probe" not in entry.path)


async def give(root: Root, name: str, command: Command) -> None:
    await asyncio.to_thread(give_command, root, name, command, WallClock())


def is_done(root: Root, name: str) -> bool:
    table = CommandTable(root.path / "control.sqlite")
    try:
        return table.get(name).wanted_s is None
    finally:
        table.close()


def pages_of(resident: Coordinator, name: str) -> int:
    controller = resident.controllers.get(name)
    return 0 if controller is None else controller.counts.pages


def test_a_collection_made_while_it_serves_is_crawled_when_it_is_started(tmp_path: Path) -> None:
    async def talk(root: Root, make: Callable[..., None], resident: Coordinator) -> None:
        await asyncio.sleep(0.2)  # it serves nothing for a while
        make("one")
        await until_async(lambda: "one" in resident.controllers)
        await asyncio.sleep(0.3)  # nothing happens for a while
        assert pages_of(resident, "one") == 0, "nobody has started it"
        await give(root, "one", Command.RUN)
        await until_async(lambda: pages_of(resident, "one") > 0)
        await until_async(lambda: is_done(root, "one"))
        await give(root, "one", Command.RUN)
        await until_async(lambda: is_done(root, "one"))

    entries = serve(tmp_path, talk)
    assert set(visits(entries).values()) == {2}, "started again it visits everything once more"
    assert len(visits(entries)) == 8
    book = RunLog(tmp_path / "data" / "control.sqlite")
    again, run = book.recent("one", 5)
    book.close()
    assert (run.why, run.new) == ("finished", 8)
    assert (again.why, again.known, again.visited) == ("finished", 8, 8)


def test_what_was_stopped_goes_on_when_it_is_started_and_nothing_is_requested_twice(tmp_path: Path) -> None:
    async def talk(root: Root, make: Callable[..., None], resident: Coordinator) -> None:
        make("one")
        make("two")
        for name in ("one", "two"):
            await give(root, name, Command.RUN)
        await until_async(lambda: pages_of(resident, "one") >= 3)
        await give(root, "one", Command.STOP)
        control = CrawlReports(root.path / "control.sqlite")
        await until_async(lambda: control.running_crawl("one") is None)
        control.close()
        await until_async(lambda: pages_of(resident, "two") >= 12)
        await give(root, "one", Command.RUN)
        await until_async(lambda: is_done(root, "one") and is_done(root, "two"))

    entries = serve(tmp_path, talk, pages=16)
    assert set(visits(entries).values()) == {2}, "each of the two visits every page once"


def test_what_was_continued_to_its_end_can_be_started_once_more(tmp_path: Path) -> None:
    """A crawl that is over is over until a user starts it again, not for as long as the process lives."""

    async def talk(root: Root, make: Callable[..., None], resident: Coordinator) -> None:
        make("one", **{"limits.pages": 2})
        await give(root, "one", Command.RUN)
        await until_async(lambda: "one" in resident.controllers and is_done(root, "one"))
        for _ in range(2):  # continues with the queued URLs, up to its limit; then once more
            await give(root, "one", Command.RUN)
            await until_async(lambda: is_done(root, "one"))

    entries = serve(tmp_path, talk, pages=6)
    assert len(visits(entries)) == 6


def test_a_collection_that_is_crawled_is_let_go_of_and_removed(tmp_path: Path) -> None:
    async def talk(root: Root, make: Callable[..., None], resident: Coordinator) -> None:
        make("one")
        make("two")
        for name in ("one", "two"):
            await give(root, name, Command.RUN)
        await until_async(lambda: pages_of(resident, "one") >= 3)
        await asyncio.to_thread(remove_collection, root, "one", WallClock())
        assert root.collections() == ("two",)
        await until_async(lambda: is_done(root, "two"))

    serve(tmp_path, talk, pages=16)
    assert not [path for path in (tmp_path / "data").iterdir() if "one" in path.name]


def test_a_paused_collection_is_not_waited_for(tmp_path: Path) -> None:
    """It leaves by itself, and whoever looks after it starts another one when there is something to do."""

    async def talk(root: Root, make: Callable[..., None], _: Coordinator) -> None:
        make("one")
        for command in (Command.RUN, Command.PAUSE):
            give_command(root, "one", command, WallClock())

    assert serve(tmp_path, talk) == []


def test_a_command_that_could_not_be_recorded_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = list[Command]()

    def no_room(_: CommandTable, name: str, command: Command, now_s: float) -> None:
        attempts.append(command)
        raise DiskFull("no room")

    async def talk(root: Root, make: Callable[..., None], resident: Coordinator) -> None:
        make("one")
        await until_async(lambda: "one" in resident.controllers)
        with Inbox(root.control) as inbox:
            with monkeypatch.context() as full:
                full.setattr(CommandTable, "record", no_room)
                number = inbox.send("one", GiveCommand(Command.PAUSE), WallClock().now_s())
                await until_async(lambda: len(attempts) >= 2)
                assert [each.id for each in inbox.all_pending()] == [number]
            await until_async(lambda: not inbox.all_pending())
        await until_async(lambda: resident.controllers["one"].is_paused)

    serve(tmp_path, talk)


def test_who_is_needed_when() -> None:
    daily = parse_schedule(ScheduleSettings(start="2026-11-21 02:00", zone="UTC", every="1 day"))
    assert daily is not None
    start_s = daily.next_start(0.0)
    assert start_s is not None
    day_s = 86_400.0
    assert not is_needed(NO_COMMANDS, None, None, start_s)
    assert is_needed(StandingCommands(wanted_s=1.0), None, None, start_s)
    assert not is_needed(StandingCommands(wanted_s=1.0, paused_s=2.0), None, None, start_s)
    assert is_needed(NO_COMMANDS, daily, None, start_s - day_s), "it waits for its time"
    stopped = StandingCommands(stopped_s=start_s + 60)
    assert stopped.is_held(daily, start_s + 120)
    assert not stopped.is_held(daily, start_s + day_s), "the next start counts again"
    assert StandingCommands(stopped_s=1.0).is_held(None, 1e12), "without a schedule somebody has to start it"
