"""What people are shown of a schedule: the dates that the coordinator goes by (UX check 14), runs, and warnings."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from teia.cli.crawl.control import show
from teia.cli.crawl.run_crawl import _check_scheduled
from teia.cli.output import PlainConsole
from teia.clock import VirtualClock, iso_utc
from teia.collections.calendar import parse_schedule
from teia.collections.control_file import CrawlReports
from teia.collections.overview import schedule_keys, schedule_overview
from teia.collections.scheduled_runs import EndReason, RunLog
from teia.config.load import to_toml
from teia.config.sections import CollectionSettings, Config, CourtesySettings, ScheduleSettings
from teia.crawler.keep_fresh.visit_all_again import RoundAccount
from teia.errors import UsageError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import PageRow
from teia.frontier.cell.schema import STATE_DONE
from teia.store.root import Root, open_root
from tests.frontier.cells import HOST, add_links, found, items, page, settle

CONFIG = Config(
    CollectionSettings(seeds=("http://a.test/",)),
    courtesy=CourtesySettings(delay_s=5.0),
    schedule=ScheduleSettings("2026-10-17 02:00", "Europe/Lisbon", "7 days", "4 hours"),
)
NOW_S = datetime(2026, 10, 18, tzinfo=UTC).timestamp()


def made(folder: Path, config: Config = CONFIG) -> Root:
    root = open_root(folder / "data", create=True)
    root.create_collection("main", to_toml(config), 1)
    return root


def test_the_dates_shown_are_those_of_the_schedule_over_a_change_of_the_clocks(tmp_path: Path) -> None:
    agenda = schedule_overview(made(tmp_path), "main", VirtualClock(NOW_S))
    schedule = parse_schedule(CONFIG.schedule)
    assert schedule is not None
    starts, at_s = [], NOW_S
    for _ in range(5):  # as the coordinator does, one after the other
        at_s = schedule.next_start(at_s) or 0.0
        starts.append(at_s)
    assert agenda.starts == tuple(map(iso_utc, starts))
    assert agenda.shown[:2] == ("Sat 24 Oct 2026 02:00 (Europe/Lisbon)", "Sat 31 Oct 2026 02:00 (Europe/Lisbon)")
    assert (agenda.starts[0][11:16], agenda.starts[1][11:16]) == ("01:00", "02:00")
    assert agenda.words == "Every 7 days at 02:00 (Europe/Lisbon) from Saturday 17 Oct 2026 on, 4 hours at most."


def test_runs_are_shown_the_open_one_apart_from_the_last(tmp_path: Path) -> None:
    root = made(tmp_path)
    book = RunLog(root.path / "control.sqlite")
    first = book.begin("main", NOW_S - 604_800, NOW_S - 604_790)
    book.note(first, RoundAccount(100, 80, 3), NOW_S - 604_000, NOW_S - 604_100)
    book.end(first, EndReason.DEADLINE, NOW_S - 604_000)
    book.begin("main", NOW_S, NOW_S + 1)
    book.close()
    agenda = schedule_overview(root, "main", VirtualClock(NOW_S + 10))
    assert agenda.run is not None
    assert (agenda.run.number, agenda.run.ended, agenda.running) == (2, None, False)
    (last,) = agenda.last
    assert (last.number, last.why, last.known, last.visited, last.left, last.new) == (1, "deadline", 100, 80, 20, 3)
    said = schedule_keys(root, "main", VirtualClock(NOW_S + 10))
    assert (said["run"]["number"], said["next_run"]) == (2, agenda.starts[0])


def test_a_run_is_not_the_last_one_after_a_crawl_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = made(tmp_path, replace(CONFIG, schedule=ScheduleSettings()))
    with RunLog(root.control) as book, CrawlReports(root.control) as reports:
        book.end(book.begin("main", NOW_S, NOW_S), EndReason.FINISHED, NOW_S + 9)
        assert schedule_keys(root, "main", VirtualClock(NOW_S + 10))["run"]["number"] == 1
        assert schedule_overview(root, "main", VirtualClock(NOW_S + 10)).later == 0
        reports.note_run("main", reports.begin_run("main", NOW_S + 20), NOW_S + 30, "finished")
    assert schedule_keys(root, "main", VirtualClock(NOW_S + 40)) == {}, "run 1 is not what the collection did last"
    agenda = schedule_overview(root, "main", VirtualClock(NOW_S + 40))
    assert ([run.number for run in agenda.last], agenda.later) == ([1], 2)
    show(agenda, PlainConsole())
    assert "run 2 was begun by a command; `teia runs` lists all" in capsys.readouterr().err


def test_a_run_is_written_down_once_whoever_reads_it(tmp_path: Path) -> None:
    root = made(tmp_path)
    book, other = RunLog(root.path / "control.sqlite"), RunLog(root.path / "control.sqlite")
    begun = book.begin("main", NOW_S, NOW_S + 1)
    assert other.last("main") == begun
    book.end(begun, EndReason.FINISHED, NOW_S + 9)
    assert [run.is_open for run in other.recent("main", 5)] == [False]
    assert other.last("another") is None
    book.close()
    other.close()


def test_it_says_when_nobody_would_do_it(tmp_path: Path) -> None:
    root = made(tmp_path)
    (note,) = schedule_overview(root, "main", VirtualClock(NOW_S)).notes
    assert note.startswith("no crawler is waiting for the next run: start `teia crawl --scheduled")
    due = schedule_overview(root, "main", VirtualClock(datetime(2026, 10, 24, 2, tzinfo=UTC).timestamp())).notes
    assert due[0].startswith("a run is due, but no crawler is running")
    control = CrawlReports(root.path / "control.sqlite")
    control.begin("main", NOW_S)  # by this process, which is alive
    control.close()
    assert schedule_overview(root, "main", VirtualClock(NOW_S)).notes == ()


def test_it_says_when_a_run_cannot_reach_all_pages(tmp_path: Path) -> None:
    """UX 2.5: pages x rest is more than the deadline."""
    root = made(tmp_path, replace(CONFIG, courtesy=CourtesySettings(delay_s=3_600.0)))
    cell = FrontierCell(root.collection("main").cells()[0].frontier)
    add_links(cell, *(found(page(number)) for number in range(5)))
    for item in items(cell):
        settle(cell, item, STATE_DONE, learnt=PageRow(200, digest=b"d"))
    cell.close()
    notes = schedule_overview(root, "main", VirtualClock(NOW_S)).notes
    assert (
        notes[-1]
        == f"5 known pages of {HOST} at one every 3600 s take 5 h 0 min: runs will stop before they are complete"
    )


def test_without_a_schedule_there_is_nothing_to_show_and_nothing_to_serve(tmp_path: Path) -> None:
    root = made(tmp_path, replace(CONFIG, schedule=ScheduleSettings()))
    agenda = schedule_overview(root, "main", VirtualClock(NOW_S))
    assert (agenda.words, agenda.starts, agenda.notes, agenda.next_run) == ("", (), (), None)
    assert schedule_keys(root, "main", VirtualClock(NOW_S)) == {}
    with pytest.raises(UsageError, match=r"has a schedule; set one with `teia set schedule\.start="):
        _check_scheduled(root, None)
