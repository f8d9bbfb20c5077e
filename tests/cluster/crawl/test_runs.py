"""Schedules on many machines: one run for each start, whoever begins it; nodes wait in between (T1, T3)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from teia.clock import VirtualClock
from teia.cluster.crawl.runs import MAX_RUNS, BetweenRuns, due_task_now, end_run, start_run
from teia.cluster.members.agreement import Agreement, ClusterRun
from teia.collections.scheduled_runs import CrawlTask
from teia.config.load import to_toml
from teia.config.sections import Config
from teia.frontier.cell.cell import FrontierCell
from teia.store.root import CellFolder
from tests.cluster.conftest import Nats
from tests.cluster.kept import found
from tests.cluster.nodes import cluster
from tests.cluster.test_node import DELAY_S, SPEC, check_courtesy, requested_pages
from tests.system.labs import running_lab
from tests.waiting import until

START_S = datetime(2026, 11, 21, 2, tzinfo=UTC).timestamp()
HOUR_S = 3_600.0


def scheduled(**settings: str) -> Config:
    schedule = replace(Config().schedule, start="2026-11-21 02:00", zone="UTC", every="1 day", **settings)
    return replace(Config(), schedule=schedule)


def test_all_nodes_know_what_is_to_be_done_from_the_runs_agreed_on() -> None:
    config = scheduled(stop_after="4 hours")
    run = ClusterRun(START_S, START_S + 1)
    over = ClusterRun(START_S, START_S + 1, START_S + HOUR_S, "finished")
    for runs, at_s, task in (
        ([], START_S - 1, CrawlTask.WAIT),
        ([], START_S + 1, CrawlTask.RUN),
        ([run], START_S + HOUR_S, CrawlTask.RUN),
        ([run], START_S + 5 * HOUR_S, CrawlTask.WAIT),
        ([over], START_S + 2 * HOUR_S, CrawlTask.WAIT),
        ([over], START_S + 24 * HOUR_S, CrawlTask.RUN),
    ):
        assert due_task_now(config, runs, at_s).task is task
    assert due_task_now(Config(), [], START_S).task is CrawlTask.CRAWL
    fresh = replace(config, refresh=replace(config.refresh, keep=True))
    assert due_task_now(fresh, [over], START_S + 2 * HOUR_S).task is CrawlTask.KEEP_FRESH


def test_a_start_has_one_run_whoever_writes_it() -> None:
    agreement = start_run(Agreement("x", to_toml(scheduled()), 1), START_S, START_S + 1)
    assert start_run(agreement, START_S, START_S + 2) == agreement
    (run,) = agreement.runs
    over = end_run(agreement, run, "finished", START_S + 9)
    assert over.runs == [ClusterRun(START_S, START_S + 1, START_S + 9, "finished")]
    assert end_run(over, run, "deadline", START_S + 10) == over
    assert start_run(over, START_S, START_S + 11) == over
    for day in range(1, 2 * MAX_RUNS):
        over = start_run(over, START_S + day, START_S + day)
        over = end_run(over, over.runs[-1], "finished", START_S + day)
    assert len(over.runs) == MAX_RUNS


def test_between_runs_a_node_says_what_it_keeps(tmp_path: Path) -> None:
    """Else it would look as if nobody kept anything, and nothing could be balanced."""
    reports: list[tuple[Any, ...]] = []
    folders = {number: CellFolder(number, tmp_path / str(number)) for number in (3, 5)}
    folders[3].archive.mkdir(parents=True)
    with closing(FrontierCell(folders[3].frontier)) as cell, cell.transaction():
        cell.add_links([found(number) for number in range(9)], 1.0)
        cell.db.execute("INSERT INTO meta VALUES ('stored', 4)")
    session: Any = SimpleNamespace(set_report=lambda *given, stored: reports.append((*given, stored)))
    owner, copies = SimpleNamespace(owned={3: None, 5: None}), SimpleNamespace(folders=folders)
    tell = BetweenRuns(VirtualClock()).report
    asyncio.run(tell(session, owner, copies, {"idle": 0.0}))  # type: ignore[arg-type]
    del owner.owned[5]
    asyncio.run(tell(session, owner, copies, {"idle": 0.0}))  # type: ignore[arg-type]
    assert reports == [
        ({"idle": 0.0, "queued": 9.0}, {"3": 9, "5": 0}, {"3": 9, "5": 0}, {"3": 4, "5": 0}),  # one is on its way
        ({"idle": 0.0, "queued": 9.0}, {"3": 9}, {"3": 9}, {"3": 4}),
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nodes_visit_all_pages_in_every_run_and_wait_in_between(
    own_nats: Nats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every page once a run; the node that began the first run is dead when the second is due."""
    if time.time() % 60 > 40:  # a run that is due should have some time left
        time.sleep(60 - time.time() % 60)  # the calendar of another process
    monkeypatch.setenv("TEIA_SCHEDULE_START", f"{datetime.now(UTC):%Y-%m-%d %H:%M}")
    monkeypatch.setenv("TEIA_SCHEDULE_ZONE", "UTC")
    monkeypatch.setenv("TEIA_SCHEDULE_EVERY", "2 minutes")
    with (
        running_lab(tmp_path, SPEC.format(hosts=8, pages=40), 183) as lab,
        cluster(tmp_path, own_nats, lab, DELAY_S) as nodes,
    ):
        nodes.start("a", once=False)
        nodes.start("b", once=False)
        until(lambda: "run ends: finished" in nodes.log_text("a") + nodes.log_text("b"), within_s=100)
        first = requested_pages(lab)
        assert len(first) >= 30
        assert set(first.values()) == {1}
        nodes.kill("a")
        time.sleep(5)  # nothing is requested for a while
        asked = lab.requests()
        assert sum(requested_pages(lab).values()) == sum(first.values())
        until(lambda: "run ends: finished" in nodes.log_text("b"), within_s=150)
        second = requested_pages(lab, asked)
        print(nodes.log_text("a"), nodes.log_text("b"), Counter(second.values()), sep="\n")
        assert sum(page in second for page in first) >= len(first) - 2
        assert set(second.values()) == {1}
        check_courtesy(lab, 0)
