"""Requests as the crawler handles them: in order, again while they are pending, and on a full disk."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from teia.clock import VirtualClock, WallClock
from teia.collections.control_file import (
    DAY_S,
    FetchRobots,
    GiveCommand,
    Inbox,
    RequestAnswer,
    RunBulkAction,
    VisitPage,
)
from teia.collections.poll_requests import OpenCrawl, poll_requests, serve_requests
from teia.crawler.loop import Crawler
from teia.errors import ConfigError, DiskFull, StoreError, TeiaError
from teia.frontier.cell.bulk import BulkAction, BulkSelection
from teia.records import Command, Edit
from teia.store.root import open_root

DROP = BulkSelection(BulkAction.DROP)


class Target:
    """A target whose crawl does what it is given at once, and notes it; without a crawl, it runs actions offline."""

    def __init__(self, inbox: Inbox, *, is_open: bool) -> None:
        self.inbox, self.is_open = inbox, is_open
        self.done: list[object] = []
        self.failures: dict[Command, TeiaError] = {}

    def open_crawl(self, name: str) -> OpenCrawl | None:
        def bulk(mark: str, chosen: BulkSelection) -> int:
            self.done.append(mark)
            return 7

        def visit(url: str, _: float) -> bool:
            self.done.append(url)
            return self.done.count(url) > 1  # queued by the second look

        visits, bulks = SimpleNamespace(accept=visit), SimpleNamespace(accept=bulk)
        crawl: Any = SimpleNamespace(committer=SimpleNamespace(visit_requests=visits, bulk=bulks))
        crawler: Any = SimpleNamespace(reread_robots=lambda *_: False)
        return OpenCrawl(crawler, crawl) if self.is_open and name == "main" else None

    async def execute(self, name: str, command: Command) -> bool:
        if command in self.failures:
            raise self.failures[command]
        self.done.append(command)
        return name == "main"

    async def change(self, name: str, edits: Sequence[Edit]) -> RequestAnswer | None:
        raise NotImplementedError

    async def run_bulk_offline(self, name: str) -> None:
        for each in self.inbox.pending(name, RunBulkAction):
            self.done.append(each.body.mark)
            self.inbox.finish(each.id, 1.0, RequestAnswer(urls=3))


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path / "control.sqlite")


def poll(inbox: Inbox, target: Target, now_s: float = 0.0) -> None:
    asyncio.run(poll_requests(inbox, target, VirtualClock(now_s)))


def test_two_actions_without_a_crawl_are_done_in_one_poll(inbox: Inbox) -> None:
    for mark in ("first", "second"):
        inbox.send("main", RunBulkAction(mark, DROP), 0.0)
    target = Target(inbox, is_open=False)
    poll(inbox, target)
    assert target.done == ["first", "second"]
    assert [each.progress for each in inbox.recent("main", RunBulkAction, 9)] == [3, 3]


def test_an_action_waits_until_the_end_of_the_one_before_is_recorded(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    for mark in ("first", "second"):
        inbox.send("main", RunBulkAction(mark, DROP), 0.0)
    target = Target(inbox, is_open=True)
    with monkeypatch.context() as full:
        full.setattr(Inbox, "finish", no_room)
        poll(inbox, target)
        poll(inbox, target)
        assert target.done == ["first", "first"], "or it would overwrite the progress in the cells"
    poll(inbox, target)
    assert target.done[2:] == ["first", "second"]


def no_room(*_: object) -> None:
    raise DiskFull("no room")


def test_a_command_is_executed_on_a_full_disk_and_the_ones_behind_it_too(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in (Command.PAUSE, Command.STOP):
        inbox.send("main", GiveCommand(command), 0.0)
    monkeypatch.setattr(Inbox, "finish", no_room)
    target = Target(inbox, is_open=True)
    poll(inbox, target)
    assert target.done == [Command.PAUSE, Command.STOP]


def test_a_request_stays_pending_until_it_is_done_and_where_nobody_serves_its_collection(inbox: Inbox) -> None:
    visit, other = inbox.send("main", VisitPage("http://a.test/"), 0.0), inbox.send("b", GiveCommand(Command.STOP), 0.0)
    target = Target(inbox, is_open=True)
    poll(inbox, target)
    assert [each.id for each in inbox.all_pending()] == [visit, other]
    poll(inbox, target)
    assert [each.id for each in inbox.all_pending()] == [other]


def test_a_robots_request_is_given_up_after_a_day_and_a_visit_is_not(inbox: Inbox) -> None:
    inbox.send("b", FetchRobots("http://b.test"), 0.0)
    inbox.send("b", VisitPage("http://b.test/"), 0.0)
    target = Target(inbox, is_open=True)
    poll(inbox, target, DAY_S - 1)
    assert len(inbox.all_pending()) == 2
    poll(inbox, target, DAY_S + 1)
    assert [each.body for each in inbox.all_pending()] == [VisitPage("http://b.test/")]


def test_an_unreadable_request_is_answered_with_an_error_and_the_others_are_done(
    inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(sqlite3.connect(inbox.path)) as db, db:
        sql = "INSERT INTO requests (collection, kind, body, requested_s) VALUES ('main', 'command', '{}', 0)"
        unreadable = db.execute(sql).lastrowid or 0
    inbox.send("main", GiveCommand(Command.PAUSE), 0.0)
    target = Target(inbox, is_open=True)
    for _ in range(2):
        poll(inbox, target)
    assert (target.done, inbox.all_pending()) == ([Command.PAUSE], [])
    found = inbox.get(unreadable)
    assert found is not None
    assert found.answer is not None
    assert "cannot read the request" in found.answer.error
    assert len(caplog.records) == 1


def test_a_request_that_fails_is_answered_with_the_error_and_the_ones_behind_it_are_done(inbox: Inbox) -> None:
    failing = inbox.send("main", GiveCommand(Command.PAUSE), 0.0)
    inbox.send("main", GiveCommand(Command.STOP), 0.0)
    target = Target(inbox, is_open=True)
    target.failures[Command.PAUSE] = ConfigError("not allowed")
    poll(inbox, target)
    found = inbox.get(failing)
    assert found is not None
    assert found.answer == RequestAnswer(error="not allowed")
    assert (target.done, inbox.all_pending()) == ([Command.STOP], [])


def test_after_a_temporary_failure_a_request_stays_pending_and_only_later_commands_for_its_collection_wait(
    inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = [inbox.send("main", GiveCommand(command), 0.0) for command in (Command.PAUSE, Command.RESUME)]
    inbox.send("main", RunBulkAction("mark", DROP), 0.0)
    target = Target(inbox, is_open=True)
    target.failures[Command.PAUSE] = DiskFull("no room")
    for _ in range(3):
        poll(inbox, target)
    assert target.done == ["mark"]
    assert [each.id for each in inbox.all_pending()] == numbers
    assert len(caplog.records) == 1, "logged once, not at every poll"
    target.failures.clear()
    poll(inbox, target)
    assert target.done == ["mark", Command.PAUSE, Command.RESUME], "in their order"


def test_a_round_that_fails_is_logged_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    root, crawler = open_root(tmp_path / "data", create=True), SimpleNamespace(crawls=[])
    rounds = list[int]()

    def locked(_: Inbox) -> list[Any]:
        rounds.append(len(rounds))
        if len(rounds) < 3:
            raise StoreError("the database is locked")
        raise asyncio.CancelledError

    monkeypatch.setattr(Inbox, "all_pending", locked)
    with suppress(asyncio.CancelledError):
        asyncio.run(serve_requests(cast(Crawler, crawler), root, WallClock()))
    assert (len(rounds), len(caplog.records)) == (3, 1)
