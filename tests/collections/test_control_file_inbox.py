"""Requests of every kind: sent, read as they were sent, acknowledged, and forgotten in time."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from teia.clock import WallClock
from teia.collections.control_file import (
    DAY_S,
    KINDS,
    ChangeSettings,
    FetchRobots,
    GiveCommand,
    Inbox,
    JudgeHubCall,
    RemovePages,
    RequestAnswer,
    RequestBody,
    RunBulkAction,
    VisitPage,
)
from teia.errors import StoreError
from teia.frontier.cell.bulk import BulkAction, BulkSelection
from teia.records import Command, Edit, Operator
from teia.signals.websub import HubCall

BODIES: list[RequestBody] = [
    GiveCommand(Command.PAUSE),
    ChangeSettings((Edit("scope.exclude", Operator.ADD, "host:a.test"), Edit("courtesy.delay_s", Operator.SET, 2.5))),
    VisitPage("http://a.test/é?x=%20"),
    RunBulkAction("00ff", BulkSelection(BulkAction.DROP, "a.test", contains="ü", depth=3)),
    FetchRobots("http://a.test"),
    JudgeHubCall("00ff", HubCall("key", signature="sha256=00", body=b"\x00\xff")),
    RemovePages(("host:a.test", "url:http://a.test/é")),
]


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path / "control.sqlite")


def test_every_kind_is_read_as_it_was_sent(inbox: Inbox) -> None:
    assert {type(body) for body in BODIES} == set(KINDS.values())
    numbers = [inbox.send("main", body, 7.0, "ana") for body in BODIES]
    assert [(each.id, each.body, each.who, each.requested_s) for each in inbox.all_pending()] == [
        (number, body, "ana", 7.0) for number, body in zip(numbers, BODIES, strict=True)
    ]


def test_every_request_is_acknowledged_and_its_requester_can_wait_for_that(inbox: Inbox) -> None:
    inbox.begin("main", 0.0)  # by this process, which is alive
    for body in BODIES:
        number = inbox.send("main", body, 7.0)

        def crawler(number: int = number) -> None:
            with Inbox(inbox.path) as other:
                other.finish(number, 8.0, RequestAnswer(now=("a", "b"), urls=3))

        thread = Thread(target=crawler)
        thread.start()
        done = inbox.wait(number, WallClock(), 10.0, "late")
        thread.join()
        assert done is not None
        assert (done.done_s, done.answer, done.progress) == (8.0, RequestAnswer(now=("a", "b"), urls=3), 3)
        assert inbox.pending("main", type(body)) == []


def test_nobody_waits_for_a_crawl_that_does_not_run_or_does_not_answer(inbox: Inbox) -> None:
    number = inbox.send("main", BODIES[0], 7.0)
    assert inbox.wait(number, WallClock(), 10.0, "late") is None
    inbox.begin("main", 0.0)
    with pytest.raises(StoreError, match="late"):
        inbox.wait(number, WallClock(), 0.01, "late")


def test_an_equal_visit_or_robots_request_is_the_pending_one(inbox: Inbox) -> None:
    for body in BODIES:
        first, second = inbox.send("main", body, 7.0), inbox.send("main", body, 8.0)
        assert (first == second) == isinstance(body, (VisitPage, FetchRobots))
        inbox.finish(first, 9.0)
        assert inbox.send("main", body, 10.0) != first


def test_commands_and_changes_are_for_one_crawl_and_the_others_wait_for_the_next(inbox: Inbox) -> None:
    for body in BODIES:
        inbox.send("main", body, 7.0)
    inbox.drop_stale(8.0)
    assert [type(each.body) for each in inbox.all_pending()] == [VisitPage, RunBulkAction, FetchRobots, JudgeHubCall]


def test_old_requests_are_deleted_but_not_visits_and_actions_that_wait(inbox: Inbox) -> None:
    for body in BODIES:
        inbox.finish(inbox.send("main", body, 1.0), 2.0)
        inbox.send("main", body, 1.0)
    for body in BODIES:
        inbox.send("other", body, 3.0 + DAY_S)
    left = [(type(each.body), each.done_s) for kind in KINDS.values() for each in inbox.recent("main", kind, 9)]
    assert left == [(VisitPage, None), (RunBulkAction, None), (RunBulkAction, 2.0)]


def test_a_kind_of_a_later_version_is_left_alone(inbox: Inbox) -> None:
    with closing(sqlite3.connect(inbox.path)) as db, db:
        db.execute("INSERT INTO requests (collection, kind, body, requested_s) VALUES ('main', 'dance', '{}', 0)")
    assert inbox.all_pending() == []


def test_an_unreadable_request_does_not_hide_the_others(inbox: Inbox) -> None:
    with closing(sqlite3.connect(inbox.path)) as db, db:
        db.executemany(
            "INSERT INTO requests (collection, kind, body, requested_s) VALUES ('main', ?, ?, 0)",
            [("command", '{"command": "dance"}'), ("bulk", '{"mark": "00", "selection": {"action": "paint"}}')],
        )
    readable = inbox.send("main", BODIES[3], 7.0)
    assert [each.id for each in inbox.pending("main", RunBulkAction)] == [readable]
    assert [each.id for each in inbox.recent("main", RunBulkAction, 9)] == [readable]
    assert [bool(each.unreadable) for each in inbox.all_pending()] == [True, True, False]
    inbox.drop_stale(8.0)
    assert len(inbox.all_pending()) == 3, "the poll answers it with an error"
