"""Freshness page: the current freshness of the captures, and the best possible (P3, P9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from teia.clock import iso_utc
from teia.collections.account import COARSE_S, FINE_S, points_of, truth_of
from teia.collections.account import MIN_REVISITED as ENOUGH
from teia.collections.control_file import CrawlReports
from teia.crawler.keep_fresh.freshness import LostFreshness
from teia.lib.copy_fields import copy_fields
from teia.web.access.roles import Role
from teia.web.charts.scales import Point, axis_limits
from teia.web.charts.windows import WINDOWS_S, Window, span_of, step_of
from teia.web.parts.collection_state import account_of
from teia.web.parts.freshness_report import freshness_report
from teia.web.server.installation import Installation
from teia.web.server.json_routes import InstallationDep, PageRoutes

SHOWN = 50
MEASURED_POINTS = 60
LEAST_POINTS = 4
LEAST_SPAN = 0.1
"""Least span of the chart's axis; on a smaller one, small differences would look large."""

ESTIMATES = ("fresh", "fresh_error", "possible", "best", "best_error", "uniform")
"""Fields of the report that say little before enough pages were revisited."""


@dataclass(frozen=True, slots=True)
class HostFreshness:
    """One host: its share of the weight, its change and visit rates, and its contribution to lost freshness."""

    host: str
    pages: int
    weight: float
    changes_per_day: float
    visits_last_day: int
    visits_per_day: float
    fresh: float
    best: float
    possible: float
    lost: float
    planned_a_day: float | None = None


@dataclass(frozen=True, slots=True)
class BudgetView:
    """The budget of all hosts together; a visit is made if it keeps a page fresh for `price_hours`, for each unit."""

    a_day: int
    unit: str
    price_hours: float


@dataclass(frozen=True, slots=True)
class PolicyView:
    """Refresh policy of a crawl that keeps its pages fresh. Of `visits_per_day` allowed, `used` were made.

    `budget` is None if there is none.
    """

    keep: bool
    policy: str
    discovery: str
    share: float
    explore: float
    weights: str
    visits_per_day: float
    visits_last_day: int
    used: float | None
    budget: BudgetView | None = None


@dataclass(frozen=True, slots=True)
class FreshnessView:
    """Freshness of a collection by the change rates estimated from its visits, as computed at `counted`.

    `possible` is what no polite policy could exceed now, `best` what none could exceed in the long run. Right after a
    crawl, captures are fresher than they can be kept (`is_settling`). Before `enough` pages were revisited, the
    estimates are null. `series` is (time, fresh, possible) of crawls that keep pages fresh. `truth` is (time, fresh) as
    measured, if the sites belong to a lab (`teia demo`).
    """

    counted: str
    pages: int
    visited_again: int
    enough: int
    fresh: float | None
    fresh_error: float | None
    possible: float | None
    best: float | None
    best_error: float | None
    uniform: float | None
    is_settling: bool
    lost: LostFreshness | None
    well_known: int
    hosts: int
    rows: list[HostFreshness]
    notes: list[str]
    policy: PolicyView
    window: str
    span: tuple[float, float]
    series: list[tuple[float, float | None, float | None]]
    truth: list[tuple[float, float]]

    def line(self, column: int) -> list[Point]:
        """Return one column of the series, for a chart."""
        return [(each[0], each[column]) for each in self.series]

    def uniform_line(self) -> list[Point]:
        """Return the freshness of a uniform policy as a line."""
        return [(each[0], self.uniform) for each in (self.series[0], self.series[-1])] if self.series else []

    def limits(self) -> tuple[float, float]:
        """Return the limits of the chart's axis."""
        values = [value for _, *both in self.series for value in both]
        return axis_limits([*values, self.uniform, *(true for _, true in self.truth)], LEAST_SPAN)


def add_routes(pages: PageRoutes) -> None:
    pages.page("/c/{collection}/freshness", "freshness.html", Role.VIEWER)(freshness)


def freshness(installation: InstallationDep, collection: str, window: Window | None = None) -> FreshnessView:
    """Return the freshness of the captures, the best possible, and the causes of the difference."""
    from teia.views.reports.freshness import few_visits  # it loads the planners, which the report needs as well

    window = window or _covering_window(installation, collection)
    found = freshness_report(installation, collection)
    report, settings = found.value, installation.config(collection).refresh
    told = few_visits(report.visited_again)  # the page says so in its first sentence
    is_enough = report.visited_again >= ENOUGH and report.fresh is not None
    rows = sorted(report.rows, key=lambda row: -row.lost)
    return FreshnessView(
        counted=iso_utc(found.time_s),
        pages=report.pages,
        visited_again=report.visited_again,
        enough=ENOUGH,
        **{name: getattr(report, name) if is_enough else None for name in ESTIMATES},
        is_settling=is_enough and report.fresh > report.best,
        lost=report.lost if is_enough else None,
        well_known=report.well_known,
        hosts=report.hosts,
        rows=[_row(row) for row in rows[:SHOWN]] if is_enough else [],
        notes=[note for note in report.notes if note not in told][:SHOWN],
        policy=copy_fields(
            PolicyView,
            settings,
            visits_per_day=report.granted_a_day,
            visits_last_day=report.requests_a_day,
            used=round(report.requests_a_day / report.granted_a_day, 4) if report.granted_a_day else None,
            budget=copy_fields(BudgetView, report.budget) if report.budget is not None else None,
        ),
        window=window,
        span=span_of(window, installation.clock.now_s()),
        series=series_of(installation, collection, window),
        truth=_truth(installation, collection, window),
    )


def _covering_window(installation: Installation, collection: str) -> Window:
    """Return the default range: a day, or 15 minutes while a day has too few points for a line."""
    with CrawlReports(installation.root.control) as reports:
        has_fine = bool(points_of(reports, collection, FINE_S, 0.0))
        coarse = points_of(reports, collection, COARSE_S, installation.clock.now_s() - WINDOWS_S["24h"])
    return "15min" if has_fine and len(coarse) < LEAST_POINTS else "24h"


def _truth(installation: Installation, collection: str, window: str) -> list[tuple[float, float]]:
    with CrawlReports(installation.root.control) as reports:
        return truth_of(reports, collection, installation.clock.now_s() - WINDOWS_S[window], MEASURED_POINTS)


def _row(row: Any) -> HostFreshness:
    return copy_fields(
        HostFreshness,
        row,
        visits_last_day=row.requests_a_day,
        visits_per_day=round(86_400.0 / row.slot_s, 1) if row.slot_s > 0 else 0.0,
    )


def series_of(
    installation: Installation, collection: str, window: str
) -> list[tuple[float, float | None, float | None]]:
    """Return the history of fresh and possible, for times at which a crawl kept pages fresh."""
    step_s = step_of(window)
    with CrawlReports(installation.root.control) as reports:
        points = points_of(reports, collection, step_s, installation.clock.now_s() - WINDOWS_S[window])
    series: list[tuple[float, float | None, float | None]] = []
    for point in points:
        if series and point.time_s - series[-1][0] > 3 * step_s:
            # A gap in the line for the time in which no crawl ran.
            series.append((point.time_s - step_s, None, None))
        series.append((point.time_s, point.fresh, point.possible))
    return series if any(fresh is not None for _, fresh, _ in series) else []


def live_freshness(installation: Installation, collection: str) -> dict[str, Any]:
    """Return the live part of the page: current and best freshness, as the running crawler reports them."""
    account, _ = account_of(installation, collection)
    reported = account.get("freshness") or {}
    return {name: reported.get(name) for name in ("fresh", "possible", "best")}
