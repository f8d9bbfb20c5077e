"""When runs begin: dates, periods and deadlines on the calendar (T1), without a crawl and without time passing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from math import inf
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import assume, given
from hypothesis import strategies as some

from teia.collections.calendar import PERIODS, Period, Schedule, describe_schedule, next_starts, parse_schedule
from teia.config.sections import ScheduleSettings
from teia.errors import ConfigError

DAY_S = 86_400.0


def schedule(start: str, every: str = "once", zone: str = "UTC", **more: object) -> Schedule:
    found = parse_schedule(ScheduleSettings(start=start, every=every, zone=zone, **more))  # type: ignore[arg-type]
    assert found is not None
    return found


def local(found: Schedule, number: int, after: str = "1970-01-01") -> list[str]:
    """The next starts as a clock on the wall shows them."""
    after_s = datetime.fromisoformat(after).replace(tzinfo=found.zone).timestamp()
    starts = next_starts(found, after_s, number)
    return [datetime.fromtimestamp(each, found.zone).strftime("%Y-%m-%d %H:%M") for each in starts]


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


# ---- the calendar ---------------------------------------------------------------------------------------------------


def test_a_weekly_run_keeps_its_time_of_day_over_daylight_saving() -> None:
    """UX check 14: the same dates on both sides of a change, 02:00 by the clock on the wall in summer and winter."""
    found = schedule("2026-10-10 02:00", "7 days", "Europe/Lisbon")
    assert local(found, 4) == ["2026-10-10 02:00", "2026-10-17 02:00", "2026-10-24 02:00", "2026-10-31 02:00"]
    gaps = [after - before for before, after in pairwise(next_starts(found, 0.0, 4))]
    assert gaps == [7 * DAY_S, 7 * DAY_S, 7 * DAY_S + 3_600]


def test_hours_are_time_that_passes() -> None:
    found = schedule("2026-10-24 12:00", "12 hours", "Europe/Lisbon")
    assert local(found, 4) == ["2026-10-24 12:00", "2026-10-25 00:00", "2026-10-25 11:00", "2026-10-25 23:00"]
    assert {after - before for before, after in pairwise(next_starts(found, 0.0, 50))} == {12 * 3_600.0}


def test_a_time_that_the_clocks_jump_over_comes_an_hour_later_by_the_clock() -> None:
    """In Lisbon 01:00 became 02:00 on 29 March 2026: there is no 01:30 that day, and the run is not left out."""
    found = schedule("2026-03-28 01:30", "1 day", "Europe/Lisbon")
    assert local(found, 3) == ["2026-03-28 01:30", "2026-03-29 02:30", "2026-03-30 01:30"]


def test_a_time_that_comes_twice_is_taken_the_first_time_and_once() -> None:
    """In Lisbon 02:00 became 01:00 on 25 October 2026: 01:30 comes twice."""
    found = schedule("2026-10-24 01:30", "1 day", "Europe/Lisbon")
    starts = next_starts(found, 0.0, 3)
    assert local(found, 3) == ["2026-10-24 01:30", "2026-10-25 01:30", "2026-10-26 01:30"]
    assert starts[1] - starts[0] == DAY_S
    assert starts[2] - starts[1] == DAY_S + 3_600


def test_where_a_day_was_left_out_there_is_one_start_and_not_two() -> None:
    """Samoa went from 29 to 31 December 2011."""
    found = schedule("2011-12-28 02:00", "1 day", "Pacific/Apia")
    starts = next_starts(found, 0.0, 4)
    assert local(found, 4) == ["2011-12-28 02:00", "2011-12-29 02:00", "2011-12-31 02:00", "2012-01-01 02:00"]
    assert all(after - before == DAY_S for before, after in pairwise(starts))


def test_the_31st_is_the_last_day_of_shorter_months_and_the_31st_again_after() -> None:
    found = schedule("2027-12-31 08:00", "1 month")
    days = [each[:10] for each in local(found, 5)]
    assert days == ["2027-12-31", "2028-01-31", "2028-02-29", "2028-03-31", "2028-04-30"]


def test_once_is_once() -> None:
    assert local(schedule("2026-11-21 02:00"), 5) == ["2026-11-21 02:00"]
    assert schedule("2026-11-21 02:00").next_start(at("2026-11-21 02:00")) is None


def test_until_is_the_last_day_on_which_a_run_begins() -> None:
    found = schedule("2026-11-21 02:00", "1 day", until="2026-11-23")
    assert local(found, 9) == ["2026-11-21 02:00", "2026-11-22 02:00", "2026-11-23 02:00"]
    assert local(schedule("2026-11-21 02:00", "1 day", until="2026-11-23 01:00"), 9)[-1] == "2026-11-22 02:00"
    assert found.last_start(at("2027-01-01")) == at("2026-11-23 02:00")


def test_a_run_ends_at_its_deadline_or_when_the_next_begins() -> None:
    found = schedule("2026-11-21 02:00", "1 day", stop_after="4 hours")
    assert found.deadline(at("2026-11-21 02:00")) == at("2026-11-21 06:00")
    assert schedule("2026-11-21 02:00", "1 day").deadline(at("2026-11-21 02:00")) == at("2026-11-22 02:00")
    assert schedule("2026-11-21 02:00").deadline(at("2026-11-21 02:00")) == inf
    lisbon = schedule("2026-03-28 02:00", "1 day", "Europe/Lisbon", stop_after="24 hours")
    assert lisbon.deadline(at("2026-03-28 02:00", "Europe/Lisbon")) == at("2026-03-29 02:00", "Europe/Lisbon")


def test_a_schedule_of_long_ago_is_found_at_once() -> None:
    """A start in 1970 with a period of a minute has thirty million starts behind it; none of them is counted."""
    found = schedule("1970-01-01 00:00", "1 minute")
    assert found.last_start(at("2026-11-21 02:00") + 59) == at("2026-11-21 02:00")
    assert next_starts(schedule("1970-01-31 00:00", "1 month"), at("2026-11-21"), 1) == [at("2026-11-30")]


def test_the_end_of_the_calendar_is_the_end_of_the_schedule() -> None:
    found = schedule("8999-12-01 00:00", "1 month")
    assert len(next_starts(found, 0.0, 20)) == 13
    assert len(next_starts(schedule("9000-12-30 00:00", "10000 weeks"), 0.0, 20)) == 1


# ---- what always holds ----------------------------------------------------------------------------------------------

ZONES = sorted(available_timezones())
schedules = some.builds(
    lambda first, zone, period, hours: Schedule(
        first, ZoneInfo(zone), period, inf, first.replace(tzinfo=UTC).timestamp() + hours * 3_600
    ),
    first=some.datetimes(datetime(1975, 1, 1), datetime(2036, 1, 1)),  # noqa: DTZ001  # on the calendar of a zone
    zone=some.sampled_from(ZONES),
    period=some.builds(Period, some.integers(1, 40), some.sampled_from(PERIODS)),
    hours=some.floats(0, 200_000),
)


@given(schedules, some.timedeltas(timedelta(days=-400), timedelta(days=4_000)))
def test_starts_rise_and_none_is_before_the_first_or_after_the_last(found: Schedule, passed: timedelta) -> None:
    now_s = found.first.replace(tzinfo=found.zone).timestamp() + passed.total_seconds()
    starts = next_starts(found, now_s, 20)
    assert all(before < after for before, after in pairwise([now_s, *starts]))
    first_s = found.first.replace(tzinfo=found.zone).timestamp()
    assert all(first_s <= each <= found.until_s for each in starts)


@given(schedules, some.timedeltas(timedelta(0), timedelta(days=300)))
def test_every_caller_gets_the_same_next_starts(found: Schedule, passed: timedelta) -> None:
    """Starts counted from the first one, starts after an instant and the last before it are one list."""
    assume(found.period is not None and found.period.unit != "minute")  # there would be too many to count them all
    now_s = found.first.replace(tzinfo=found.zone).timestamp() + passed.total_seconds()
    before = list(takewhile(lambda each: each <= now_s, found.starts()))
    after = list(islice((each for each in found.starts() if each > now_s), 3))
    assert next_starts(found, now_s, 3) == after
    assert found.last_start(now_s) == (before[-1] if before else None)


@given(schedules)
def test_days_weeks_and_months_keep_the_time_of_day(found: Schedule) -> None:
    """But for a start that the clocks jump over."""
    if found.period is None or found.period.unit in {"hour", "minute"}:
        return
    for start_s in next_starts(found, 0.0, 10):
        shown = datetime.fromtimestamp(start_s, found.zone)
        wanted = shown.replace(hour=found.first.hour, minute=found.first.minute, tzinfo=found.zone, fold=0)
        is_there = datetime.fromtimestamp(wanted.timestamp(), found.zone).time() == wanted.time()
        assert not is_there or shown.time() == found.first.time()


# ---- nonsense -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"start": "tomorrow"}, "schedule.start = 'tomorrow': must be a date and time, such as 2026-11-21 02:00"),
        ({"start": "2026-02-30 02:00"}, "day is out of range for month"),
        ({"start": "2026-11-21T02:00Z"}, "set the time zone in schedule.zone"),
        ({"start": "1066-10-14"}, "must be between 1970 and 9000"),
        ({"start": "2026-11-21", "zone": "America/Sao_Paolo"}, "did you mean 'America/Sao_Paulo'?"),
        ({"start": "2026-11-21", "zone": "../../etc/passwd"}, "unknown time zone"),
        ({"start": "2026-11-21", "every": "fortnight"}, "must be once, or a number of minutes, hours, days"),
        ({"start": "2026-11-21", "every": "0 days"}, "must be between 1 and 10,000 days"),
        ({"start": "2026-11-21", "every": "-1 days"}, "must be once, or a number of"),
        ({"start": "2026-11-21", "every": "99999999 weeks"}, "must be between 1 and 10,000 weeks"),
        ({"start": "2026-11-21", "stop_after": "1 month"}, "schedule.stop_after = '1 month': must be a number of"),
        (
            {"start": "2026-11-21", "every": "7 days", "stop_after": "8 days"},
            "is longer than schedule.every = '7 days'; a run must end before the next one starts",
        ),
        ({"start": "2026-11-21", "every": "1 month", "stop_after": "31 days"}, "is longer than schedule.every"),
        ({"start": "2026-11-21 02:00", "until": "2026-11-20"}, "is before schedule.start"),
        ({"zone": "Mars/Olympus"}, "unknown time zone"),
    ],
)
def test_nonsense_is_refused_in_one_line(values: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_schedule(ScheduleSettings(**values))  # type: ignore[arg-type]
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_without_a_start_there_is_no_schedule() -> None:
    assert parse_schedule(ScheduleSettings()) is None
    assert parse_schedule(ScheduleSettings(every="7 days")) is None


@pytest.mark.parametrize(
    ("text", "period"),
    [("week", Period(1, "week")), ("12 h", Period(12, "hour")), ("30min", Period(30, "minute")), ("Once", None)],
)
def test_amounts_are_written_as_people_do(text: str, period: Period | None) -> None:
    assert schedule("2026-11-21", text).period == period


# ---- in words -------------------------------------------------------------------------------------------------------


def test_a_schedule_is_read_back_in_words() -> None:
    found = schedule("2026-11-21 02:00", "7 days", "America/Sao_Paulo", stop_after="4 hours", keep_fresh=True)
    assert describe_schedule(found) == (
        "Every 7 days at 02:00 (America/Sao_Paulo) from Saturday 21 Nov 2026 on, 4 hours at most,"
        " kept fresh in between."
    )
    assert describe_schedule(schedule("2026-11-21 02:00")) == "Once, on Saturday 21 Nov 2026 at 02:00 (UTC)."
    assert describe_schedule(schedule("2026-11-21 02:00", "hour", until="2026-11-22")) == (
        "Every hour from Saturday 21 Nov 2026 02:00 (UTC) on, until 22 Nov 2026."
    )
