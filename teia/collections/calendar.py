"""Start times of a collection's runs: dates, periods and deadlines as calendar arithmetic (T1).

A schedule is read from the section `[schedule]` of the settings; each error there is one line of a ConfigError. `teia
schedule` shows the same dates that the coordinator uses.

    months, weeks, days   are counted on the calendar: a run at 02:00 is at 02:00 in summer and in winter. Months are
                          counted from the first start; a month without that day uses its last day
    hours, minutes        are elapsed time

A start that falls into a clock change (02:30 when 02:00 becomes 03:00) keeps its distance from midnight, so it happens
at 03:30. A start that occurs twice is taken the first time. Where a zone skipped a whole day there is one start, not
two.
"""

from __future__ import annotations

import os
import re
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from difflib import get_close_matches
from itertools import count, islice
from math import inf
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from teia.config.sections import ScheduleSettings
from teia.errors import WrongValue
from teia.lib.message import Message, joined

SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3_600.0, "day": 86_400.0, "week": 604_800.0}
SHORTEST_MONTH_S = 28 * 86_400.0
UNIT_NAMES = {
    "second": (Message("second"), Message("seconds")),
    "minute": (Message("minute"), Message("minutes")),
    "hour": (Message("hour"), Message("hours")),
    "day": (Message("day"), Message("days")),
    "week": (Message("week"), Message("weeks")),
    "month": (Message("month"), Message("months")),
}
WEEKDAYS = (
    *(Message("Monday"), Message("Tuesday"), Message("Wednesday"), Message("Thursday")),
    *(Message("Friday"), Message("Saturday"), Message("Sunday")),
)
SHORT_WEEKDAYS = (
    *(Message("Mon"), Message("Tue"), Message("Wed"), Message("Thu"), Message("Fri"), Message("Sat"), Message("Sun")),
)
MONTHS = (
    *(Message("Jan"), Message("Feb"), Message("Mar"), Message("Apr"), Message("May"), Message("Jun")),
    *(Message("Jul"), Message("Aug"), Message("Sep"), Message("Oct"), Message("Nov"), Message("Dec")),
)
PERIODS = ("minute", "hour", "day", "week", "month")
SHORT_UNITS = {"s": "second", "sec": "second", "min": "minute", "h": "hour", "d": "day", "w": "week"}
MAX_AMOUNT = 10_000
FIRST_YEAR, LAST_YEAR = 1970, 9_000
END_OF_DAY = time(23, 59, 59, 999_999)
MAX_ESTIMATE_ERROR = 3
"""Largest error of a guessed start number: zones are at most a day apart, and months three days."""

_AMOUNT = re.compile(r"(?:(\d{1,9})\s*)?([a-z]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Period:
    """Distance from one start to the next: so many of a unit of PERIODS."""

    number: int
    unit: str

    @property
    def shortest_s(self) -> float:
        """Shortest possible length of the period in seconds, not counting clock changes."""
        return self.number * SECONDS.get(self.unit, SHORTEST_MONTH_S)

    def describe(self) -> Message:
        """Name it: `7 days`, `week`."""
        one, many = UNIT_NAMES[self.unit]
        return one if self.number == 1 else Message("{number} {unit}", number=self.number, unit=many)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A valid schedule. `first` is on the calendar of `zone`; `period` is None for one run alone."""

    first: datetime
    zone: tzinfo
    period: Period | None = None
    stop_after_s: float = inf
    until_s: float = inf
    keep_fresh: bool = False

    def starts(self, after_s: float = -inf) -> Iterator[float]:
        """Yield the starts after an instant, in Unix seconds, each later than the one before."""
        last_s = after_s
        # The estimate may be a little too high, so the search begins some starts earlier.
        for number in count(max(0, self._number_at(after_s) - MAX_ESTIMATE_ERROR)):
            at_s = self._start(number)
            if at_s is None or at_s > self.until_s:
                return
            # Two numbers share one instant where a zone skipped a day.
            if at_s > last_s:
                last_s = at_s
                yield at_s

    def next_start(self, after_s: float) -> float | None:
        return next(self.starts(after_s), None)

    def last_start(self, now_s: float) -> float | None:
        """Return the latest start that is not after an instant; None before the first."""
        latest, before_s = None, min(now_s, self.until_s)
        for number in count(max(0, self._number_at(before_s) - MAX_ESTIMATE_ERROR)):
            at_s = self._start(number)
            if at_s is None or at_s > before_s:
                break
            latest = at_s
        return latest

    def deadline(self, start_s: float) -> float:
        """Return the time at which a run due at `start_s` must end, at latest the next start; infinity if none."""
        following_s = self.next_start(start_s)
        return min(start_s + self.stop_after_s, inf if following_s is None else following_s)

    def format_time(self, at_s: float) -> str:
        """Format an instant as people in the schedule's zone write it."""
        at = datetime.fromtimestamp(at_s, self.zone)
        return Message(
            "{weekday} {date} {clock} ({zone})",
            weekday=SHORT_WEEKDAYS[at.weekday()],
            date=_format_date(at),
            clock=f"{at:%H:%M}",
            zone=str(self.zone),
        )

    def _number_at(self, at_s: float) -> int:
        """Estimate the number of starts before an instant; at most MAX_ESTIMATE_ERROR too many."""
        first_s = self.first.replace(tzinfo=self.zone).timestamp()
        if self.period is None or at_s <= first_s:
            return 0
        passed_s = at_s - first_s
        # The longest month: the estimate is too low rather than too high.
        longest_s = self.period.number * SECONDS.get(self.period.unit, 31 * 86_400.0)
        return int(passed_s // longest_s)

    def _start(self, number: int) -> float | None:
        """Return the start with a number; two numbers may share one instant. None behind the end of the calendar."""
        if self.period is None:
            return self.first.replace(tzinfo=self.zone).timestamp() if number == 0 else None
        steps = number * self.period.number
        try:
            if self.period.unit in {"hour", "minute"}:
                passed = timedelta(seconds=steps * SECONDS[self.period.unit])
                # Elapsed time is counted in UTC, which has no clock changes.
                return (self.first.replace(tzinfo=self.zone).astimezone(UTC) + passed).timestamp()
            if self.period.unit == "month":
                local = _months_later(self.first, steps)
            else:
                local = self.first + timedelta(days=steps * (7 if self.period.unit == "week" else 1))
        except (OverflowError, ValueError):
            return None
        return local.replace(tzinfo=self.zone).timestamp() if local.year <= LAST_YEAR else None


def _months_later(first: datetime, months: int) -> datetime:
    years, month = divmod(first.month - 1 + months, 12)
    year = first.year + years
    return first.replace(year=year, month=month + 1, day=min(first.day, monthrange(year, month + 1)[1]))


# ---- read from the settings -----------------------------------------------------------------------------------------


def parse_schedule(settings: ScheduleSettings) -> Schedule | None:
    """Parse the schedule settings; return None where `start` is empty, raise ConfigError where they are invalid."""
    zone = _parse_zone(settings.zone)
    period = _parse_period(settings.every)
    stop_after_s = _parse_amount("stop_after", settings.stop_after, tuple(SECONDS)) if settings.stop_after else None
    until = _parse_moment("until", settings.until, END_OF_DAY) if settings.until else None
    if not settings.start:
        return None
    first = _parse_moment("start", settings.start, time())
    if until is not None and until < first:
        raise WrongValue(
            "schedule.until",
            settings.until,
            Message("is before schedule.start = {start!r}, so no run would start", start=settings.start),
        )
    stop_s = inf if stop_after_s is None else stop_after_s[0] * SECONDS[stop_after_s[1]]
    if period is not None and stop_s < inf and stop_s > period.shortest_s:
        raise WrongValue(
            "schedule.stop_after",
            settings.stop_after,
            Message(
                "is longer than schedule.every = {every!r}; a run must end before the next one starts",
                every=settings.every,
            ),
        )
    # Of an instant that occurs twice, the second occurrence still counts.
    until_s = inf if until is None else until.replace(tzinfo=zone, fold=1).timestamp()
    return Schedule(first, zone, period, stop_s, until_s, settings.keep_fresh)


def _parse_zone(name: str) -> tzinfo:
    name = name or machine_zone()
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        alike = get_close_matches(name, available_timezones(), n=1)
        usual = Message("write it like America/Sao_Paulo, or UTC")
        hint = Message("did you mean {what!r}?", what=alike[0]) if alike else usual
        raise WrongValue("schedule.zone", name, Message("unknown time zone; {hint}", hint=hint)) from None


def _parse_period(text: str) -> Period | None:
    if text.strip().lower() in {"", "once"}:
        return None
    number, unit = _parse_amount("every", text, PERIODS)
    return Period(number, unit)


def _parse_amount(key: str, text: str, units: tuple[str, ...]) -> tuple[int, str]:
    """Parse `7 days`, `1 week`, `week` or `90 min`."""
    match = _AMOUNT.fullmatch(text.strip().lower())
    word = "" if match is None else match[2]
    unit = SHORT_UNITS.get(word, word.removesuffix("s"))
    number = 0 if match is None else int(match[1] or 1)
    if unit not in units:
        shown = joined(", ", (UNIT_NAMES[each][1] for each in units))
        once = Message("once, or ") if key == "every" else ""
        why = Message("must be {once}a number of {units}, such as 7 days", once=once, units=shown)
        raise WrongValue(f"schedule.{key}", text, why)
    if not 1 <= number <= MAX_AMOUNT:
        amount = Message("{number:,} {unit}", number=MAX_AMOUNT, unit=UNIT_NAMES[unit][1])
        raise WrongValue(f"schedule.{key}", text, Message("must be between 1 and {amount}", amount=amount))
    return number, unit


def _parse_moment(key: str, text: str, of_day: time) -> datetime:
    """Parse a date and time of the calendar; a date alone means the time `of_day` on it."""
    example = "2026-11-21 02:00"
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        why = Message("must be a date and time, such as {example} ({why})", example=example, why=error)
        raise WrongValue(f"schedule.{key}", text, why) from None
    if moment.tzinfo is not None:
        why = Message("write it like {example}; set the time zone in schedule.zone", example=example)
        raise WrongValue(f"schedule.{key}", text, why)
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        why = Message("must be between {low} and {high}", low=FIRST_YEAR, high=LAST_YEAR)
        raise WrongValue(f"schedule.{key}", text, why)
    # A date alone: `fromisoformat` makes midnight of it.
    return datetime.combine(moment.date(), of_day) if len(text.strip()) <= len("2026-11-21") else moment


# ---- in words -------------------------------------------------------------------------------------------------------


def describe_schedule(schedule: Schedule) -> str:
    """Describe it: `Every 7 days at 02:00 (America/Sao_Paulo) from Saturday 21 Nov 2026, 4 hours at most.`"""
    first, zone = schedule.first, str(schedule.zone)
    clock = f"{first:%H:%M}" if not first.second else f"{first:%H:%M:%S}"
    day = joined(" ", (WEEKDAYS[first.weekday()], _format_date(first)))
    if schedule.period is None:
        text = Message("Once, on {date} at {clock} ({zone})", date=day, clock=clock, zone=zone)
    elif schedule.period.unit in {"hour", "minute"}:
        amount, day = schedule.period.describe(), joined(" ", (day, clock))
        text = Message("Every {amount} from {date} ({zone}) on", amount=amount, date=day, zone=zone)
    else:
        amount = schedule.period.describe()
        text = Message(
            "Every {amount} at {clock} ({zone}) from {date} on", amount=amount, clock=clock, zone=zone, date=day
        )
    parts = [text]
    if schedule.stop_after_s < inf:
        parts.append(Message("{amount} at most", amount=format_duration(schedule.stop_after_s)))
    if schedule.until_s < inf:
        last = datetime.fromtimestamp(schedule.until_s, schedule.zone)
        parts.append(Message("until {date}", date=_format_date(last)))
    if schedule.keep_fresh:
        parts.append(Message("kept fresh in between"))
    return Message("{text}.", text=joined(", ", parts))


def _format_date(at: datetime) -> Message:
    return Message("{day} {month} {year}", day=at.day, month=MONTHS[at.month - 1], year=at.year)


def format_duration(seconds: float) -> Message:
    """Format a duration: `4 hours`, `90 minutes`, `1 week`."""
    for unit, unit_s in reversed(SECONDS.items()):
        if seconds % unit_s == 0 and seconds:
            number = int(seconds // unit_s)
            return Message("{number} {unit}", number=number, unit=UNIT_NAMES[unit][number != 1])
    return Message("{number:g} {unit}", number=seconds, unit=UNIT_NAMES["second"][1])


def next_starts(schedule: Schedule, now_s: float, number: int) -> list[float]:
    """Return at most so many next starts after an instant: the dates shown to users and used by the coordinator."""
    return list(islice(schedule.starts(now_s), number))


# ---- the machine's zone ----------------------------------------------------------------------------------------------


LOCALTIME = Path("/etc/localtime")
ZONES = "zoneinfo/"


def machine_zone(localtime: Path = LOCALTIME) -> str:
    """Return the time zone of `TZ`, else that of /etc/localtime; `UTC` where neither names a zone."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if named:
        # `TZ` may also be the path of a zone's file.
        return named.partition(ZONES)[2] or named
    try:
        target = str(localtime.resolve(strict=True))
    except OSError:
        return "UTC"
    return target.partition(ZONES)[2] or "UTC"
