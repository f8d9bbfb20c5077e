"""What a schedule asks for at an instant (T3): no clock, no disk, no crawl."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from math import inf

from teia.collections.calendar import Schedule, parse_schedule
from teia.collections.scheduled_runs import CrawlTask, DueTask, ScheduledRun, find_due_task
from teia.config.sections import ScheduleSettings

DAY_S, HOUR_S = 86_400.0, 3_600.0
START_S = datetime(2026, 11, 21, 2, tzinfo=UTC).timestamp()


def daily(**more: object) -> Schedule:
    settings = ScheduleSettings(start="2026-11-21 02:00", zone="UTC", every="1 day", **more)  # type: ignore[arg-type]
    found = parse_schedule(settings)
    assert found is not None
    return found


def run(due_s: float, ended_s: float | None = None) -> ScheduledRun:
    return ScheduledRun("main", 1, due_s, due_s + 1, due_s + 2, ended_s=ended_s)


def test_before_its_first_start_a_collection_waits_also_if_it_is_to_be_kept_fresh() -> None:
    assert find_due_task(daily(keep_fresh=True), None, START_S - 1) == DueTask(CrawlTask.WAIT, START_S)


def test_a_start_is_a_run_until_its_deadline() -> None:
    found = daily(stop_after="4 hours")
    assert find_due_task(found, None, START_S) == DueTask(CrawlTask.RUN, START_S + 4 * HOUR_S, START_S)
    assert find_due_task(found, run(START_S), START_S + 4 * HOUR_S - 1).task is CrawlTask.RUN
    assert find_due_task(found, run(START_S), START_S + 4 * HOUR_S) == DueTask(CrawlTask.WAIT, START_S + DAY_S)


def test_a_start_is_served_once() -> None:
    done = run(START_S, START_S + HOUR_S)
    assert find_due_task(daily(), done, START_S + 2 * HOUR_S) == DueTask(CrawlTask.WAIT, START_S + DAY_S)
    assert find_due_task(daily(), done, START_S + DAY_S) == DueTask(CrawlTask.RUN, START_S + 2 * DAY_S, START_S + DAY_S)


def test_a_clock_that_is_set_back_does_not_repeat_a_run() -> None:
    done = run(START_S + DAY_S, START_S + DAY_S + HOUR_S)
    assert find_due_task(daily(), done, START_S + 10) == DueTask(CrawlTask.WAIT, START_S + DAY_S)
    assert find_due_task(daily(), done, START_S + DAY_S + 10) == DueTask(CrawlTask.WAIT, START_S + 2 * DAY_S)


def test_a_missed_start_is_made_up_for_while_its_window_is_open_and_only_the_last_one() -> None:
    found = daily(stop_after="4 hours")
    missed = find_due_task(found, run(START_S, START_S + HOUR_S), START_S + 5 * DAY_S + HOUR_S)
    assert missed == DueTask(CrawlTask.RUN, START_S + 5 * DAY_S + 4 * HOUR_S, START_S + 5 * DAY_S)
    assert find_due_task(found, None, START_S + 5 * DAY_S + 5 * HOUR_S) == DueTask(CrawlTask.WAIT, START_S + 6 * DAY_S)


def test_an_open_run_goes_on_and_is_not_begun_for_another_start() -> None:
    found = daily(stop_after="4 hours")
    assert find_due_task(found, run(START_S), START_S + 3 * HOUR_S).due_s == START_S
    late = find_due_task(found, run(START_S), START_S + DAY_S + HOUR_S)
    assert (late.task, late.due_s) == (CrawlTask.RUN, START_S + DAY_S)


def test_without_a_deadline_a_run_gives_way_to_the_next() -> None:
    assert find_due_task(daily(), run(START_S), START_S + HOUR_S).until_s == START_S + DAY_S


def test_between_runs_pages_are_kept_fresh_and_after_the_last_until_the_end() -> None:
    found, done = daily(keep_fresh=True, until="2026-11-22"), run(START_S, START_S + HOUR_S)
    assert find_due_task(found, done, START_S + 2 * HOUR_S) == DueTask(CrawlTask.KEEP_FRESH, START_S + DAY_S)
    last = run(START_S + DAY_S, START_S + DAY_S + HOUR_S)
    assert find_due_task(found, last, START_S + DAY_S + 2 * HOUR_S) == DueTask(CrawlTask.KEEP_FRESH, found.until_s)
    assert find_due_task(found, last, found.until_s + 1) == DueTask(CrawlTask.NOTHING)
    once = replace(found, period=None, until_s=inf)
    assert find_due_task(once, done, START_S + 2 * HOUR_S) == DueTask(CrawlTask.KEEP_FRESH, inf)


def test_after_its_last_run_there_is_nothing_to_do() -> None:
    found = daily(until="2026-11-21")
    assert find_due_task(found, run(START_S, START_S + HOUR_S), START_S + 2 * HOUR_S) == DueTask(CrawlTask.NOTHING)


def test_without_a_schedule_a_collection_is_crawled_and_a_run_by_hand_goes_to_its_end() -> None:
    assert find_due_task(None, None, START_S) == DueTask(CrawlTask.CRAWL)
    assert find_due_task(None, run(START_S), START_S + 90 * DAY_S) == DueTask(CrawlTask.RUN, inf, START_S)
