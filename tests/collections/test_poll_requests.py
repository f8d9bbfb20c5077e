"""Requests as the crawler handles them: in order, again while they are pending, and on a full disk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from teia.clock import VirtualClock
from teia.collections.edits import Edit
from teia.collections.inbox import DAY_S, FetchRobots, GiveCommand, Inbox, RequestAnswer, RunBulkAction, VisitPage
from teia.collections.poll_requests import OpenCrawl, poll_requests
from teia.errors import DiskFull
from teia.frontier.cell.bulk import BulkAction, BulkSelection
from teia.records import Command

DROP = BulkSelection(BulkAction.DROP)


class Target:
    """A target whose crawl does what it is given at once, and notes it; without a crawl, it runs actions offline."""

    def __init__(self, inbox: Inbox, *, is_open: bool) -> None:
        self.inbox, self.is_open = inbox, is_open
        self.done: list[object] = []

    def open_crawl(self, name: str) -> OpenCrawl | None:
        def bulk(number: int, mark: str, chosen: BulkSelection) -> int:
            self.done.append(mark)
            return 7

        def visit(number: int, url: str) -> bool:
            self.done.append(url)
            return self.done.count(url) > 1  # queued by the second look

        requests = SimpleNamespace(accept=visit, bulk=SimpleNamespace(accept=bulk))
        crawl: Any = SimpleNamespace(committer=SimpleNamespace(visit_requests=requests))
        crawler: Any = SimpleNamespace(reread_robots=lambda *_: False)
        return OpenCrawl(crawler, crawl) if self.is_open and name == "main" else None

    async def execute(self, name: str, command: Command) -> bool:
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
