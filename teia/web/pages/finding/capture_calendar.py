"""Calendar of a page's captures: a year at a time, day by day, as in the Wayback Machine and pywb."""

from __future__ import annotations

from calendar import Calendar
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Query

from teia.clock import iso_utc
from teia.errors import UsageError
from teia.frontier.tables.pages import VisitEntry
from teia.lib.message import Message
from teia.urls import from_user
from teia.views.captures import versions
from teia.web import limits
from teia.web.access.roles import Role
from teia.web.server.json_routes import InstallationDep, PageRoutes

TIMES_SHOWN = 200
"""Most captures of one day that are listed."""


@dataclass(frozen=True, slots=True)
class CaptureTime:
    """A capture; `is_version`: its body differs from the capture before."""

    time: str
    is_version: bool


@dataclass(frozen=True, slots=True)
class CaptureDay:
    """A day with captures, in UTC; `captures` are the first of `number`."""

    day: str
    number: int
    versions: int
    captures: tuple[CaptureTime, ...]


@dataclass(frozen=True, slots=True)
class CaptureYear:
    """Number of captures in a year."""

    year: int
    number: int


@dataclass(frozen=True, slots=True)
class CaptureCalendar:
    """Captures of a page in one year; `day` is the day whose captures are listed, empty for none.

    `months` has the weeks of each month, from Monday; 0 stands for days of other months.
    """

    url: str
    collection: str
    year: int
    day: str
    years: tuple[CaptureYear, ...]
    days: tuple[CaptureDay, ...]
    months: tuple[list[list[int]], ...]

    def day_of(self, month: int, day: int) -> CaptureDay | None:
        """Return the captures of a day of the year."""
        name = f"{self.year:04d}-{month:02d}-{day:02d}"
        return next((each for each in self.days if each.day == name), None)

    @property
    def chosen(self) -> CaptureDay | None:
        return next((each for each in self.days if each.day == self.day), None)


def add_routes(pages: PageRoutes) -> None:
    pages.page("/c/{collection}/calendar", "calendar.html", Role.PUBLIC)(calendar)


def calendar(
    installation: InstallationDep,
    collection: str,
    url: Annotated[str, Query(max_length=limits.URL_CHARS)],
    year: Annotated[int, Query(ge=0, le=9_998)] = 0,
    day: Annotated[str, Query(max_length=10)] = "",
) -> CaptureCalendar:
    """Return the captures of a page by day, for one year; by default the year of the last capture."""
    installation.check_captures(collection)
    canonical = from_user(url)
    if canonical is None:
        raise UsageError(Message("{url!r} is not an http or https URL", url=url[:200]))
    with installation.lookup(collection) as lookup:
        entry = lookup.find(canonical)
        visits = [visit for visit in (lookup.visits(entry) if entry is not None else []) if visit.file]
    return make_calendar(canonical, collection, visits, year, day, installation.clock.now_s())


def make_calendar(
    url: str, collection: str, visits: Sequence[VisitEntry], year: int, day: str, now_s: float
) -> CaptureCalendar:
    """Arrange captures, oldest first, by years and days."""
    changed = {visit.time_s for visit in versions(visits)}
    by_day: dict[str, list[CaptureTime]] = defaultdict(list)
    for visit in visits:
        at = datetime.fromtimestamp(visit.time_s, UTC)
        by_day[f"{at:%Y-%m-%d}"].append(CaptureTime(iso_utc(visit.time_s), visit.time_s in changed))
    counts: dict[int, int] = defaultdict(int)
    for name, captures in by_day.items():
        counts[int(name[:4])] += len(captures)
    shown = year or max(counts, default=datetime.fromtimestamp(now_s, UTC).year)
    days = tuple(
        CaptureDay(name, len(found), sum(each.is_version for each in found), tuple(found[:TIMES_SHOWN]))
        for name, found in sorted(by_day.items())
        if int(name[:4]) == shown
    )
    years = tuple(CaptureYear(each, counts[each]) for each in sorted(counts))
    months = tuple(Calendar().monthdayscalendar(shown, month) for month in range(1, 13))
    return CaptureCalendar(url, collection, shown, day, years, days, months)
