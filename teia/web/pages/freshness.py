"""Freshness: how true is the whole, how much truer could it be? (P3, P9)"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from teia.clock import iso_utc
from teia.crawl.control import Control
from teia.crawl.reports.source import looking
from teia.crawl.series import COARSE_S, FINE_S, points_of, truth_of
from teia.crawl.series import ENOUGH_AGAIN as ENOUGH
from teia.durable import write_atomically
from teia.errors import TeiaError
from teia.web.pages.monitor import account_of
from teia.web.roles import Role
from teia.web.scales import Point, around
from teia.web.site import Site
from teia.web.twins import OfSite, Pages

FRESH_S = 30.0
HOSTS = 1_000
SHOWN = 50
MEASURED_POINTS = 60
LEAST_SPAN = 0.1
"""Of the chart's axis: smaller differences would look large."""

Window = Literal["15min", "24h", "7d", "30d"]
WINDOWS_S: dict[str, float] = {"15min": 900.0, "24h": 86_400.0, "7d": 7 * 86_400.0, "30d": 30 * 86_400.0}


@dataclass(frozen=True, slots=True)
class LostPoints:
    """Where the freshness went; with `fresh` they add up to 1."""

    courtesy: float
    learning: float
    schedule: float
    failures: float


@dataclass(frozen=True, slots=True)
class HostFreshness:
    """One host: its share of all weight, how often it changes, was visited and can be, and what it costs the whole."""

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


@dataclass(frozen=True, slots=True)
class Policy:
    """What a crawl that keeps its pages fresh goes by. Of `visits_per_day` that hosts allow, `used` were made."""

    keep: bool
    policy: str
    share: float
    explore: float
    weights: str
    visits_per_day: float
    visits_last_day: int
    used: float | None


@dataclass(frozen=True, slots=True)
class FreshnessView:
    """How fresh a collection is, by the rates that its visits told, as computed at `counted`.

    `possible` is what no polite policy could exceed now, `best` what none could in the long run. Right after
    a crawl copies are fresher than they can be kept (`is_settling`). Before `enough` pages were visited again nothing
    is said. `series` is (time, fresh, possible) of crawls that keep pages fresh. `truth` is (time, fresh) as it was
    measured, where the sites are a lab's (`teia demo`).
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
    lost: LostPoints | None
    well_known: int
    hosts: int
    rows: list[HostFreshness]
    notes: list[str]
    policy: Policy
    window: str
    series: list[tuple[float, float | None, float | None]]
    truth: list[tuple[float, float]]

    def line(self, column: int) -> list[Point]:
        """One column of the series, for a chart."""
        return [(each[0], each[column]) for each in self.series]

    def alike(self) -> list[Point]:
        """What visiting all pages alike would give, as a line."""
        return [(each[0], self.uniform) for each in (self.series[0], self.series[-1])] if self.series else []

    def limits(self) -> tuple[float, float]:
        """Between which values the chart lies."""
        values = [value for _, *both in self.series for value in both]
        return around([*values, self.uniform, *(true for _, true in self.truth)], LEAST_SPAN)


def add_to(pages: Pages) -> None:
    pages.page("/c/{collection}/freshness", "freshness.html", Role.VIEWER)(freshness)


def report_of(site: Site, collection: str) -> Any:
    """The report of a collection's freshness, as it was a while ago."""
    site.check(collection)
    key = ("freshness", collection)

    def make() -> Any:
        from teia.crawl.reports.freshness import freshness as report  # brings what plans are made with

        now_s = site.clock.now_s()
        with looking(site.root, collection) as source:
            found = report(source, HOSTS, site.clock)
        with suppress(TeiaError):
            write_atomically(_stored(site, collection), msgspec.json.encode((now_s, found)))
        return found

    if site.kept.last(key) is None:
        _recall(site, collection)
    return site.kept.get(key, make, FRESH_S, site.patience_s(collection))


def _stored(site: Site, collection: str) -> Path:
    """Where the last report lies: it takes long to find, and a server that starts again has it at once."""
    return site.root.collection(collection).path / "freshness.json"


def _recall(site: Site, collection: str) -> None:
    from teia.crawl.reports.freshness import Freshness

    with suppress(OSError, msgspec.DecodeError):
        text = _stored(site, collection).read_bytes()
        time_s, found = msgspec.json.decode(text, type=tuple[float, Freshness])
        site.kept.remember(("freshness", collection), found, time_s)


def by_host(site: Site, collection: str) -> dict[str, tuple[float | None, float | None]]:
    """By host: how fresh it is and could be, if that is known already."""
    found = site.kept.last(("freshness", collection))
    if found is None or found.value.visited_again < ENOUGH:
        return {}
    return {row.host: (row.fresh, row.possible) for row in found.value.rows}


def freshness(site: OfSite, collection: str, window: Window = "24h") -> FreshnessView:
    """How fresh the copies are, how fresh they could be, and where the difference goes."""
    found = report_of(site, collection)
    report, settings = found.value, site.config(collection).refresh
    is_enough = report.visited_again >= ENOUGH and report.fresh is not None
    rows = sorted(report.rows, key=lambda row: -row.lost)
    return FreshnessView(
        counted=iso_utc(found.time_s),
        pages=report.pages,
        visited_again=report.visited_again,
        enough=ENOUGH,
        fresh=report.fresh if is_enough else None,
        fresh_error=report.fresh_error if is_enough else None,
        possible=report.possible if is_enough else None,
        best=report.best if is_enough else None,
        best_error=report.best_error if is_enough else None,
        uniform=report.uniform if is_enough else None,
        is_settling=is_enough and report.fresh > report.best,
        lost=LostPoints(**asdict(report.lost)) if is_enough else None,
        well_known=report.well_known,
        hosts=report.hosts,
        rows=[_row(row) for row in rows[:SHOWN]] if is_enough else [],
        notes=list(report.notes)[:SHOWN],
        policy=Policy(
            keep=settings.keep,
            policy=settings.policy,
            share=settings.share,
            explore=settings.explore,
            weights=settings.weights,
            visits_per_day=report.granted_a_day,
            visits_last_day=report.requests_a_day,
            used=round(report.requests_a_day / report.granted_a_day, 4) if report.granted_a_day else None,
        ),
        window=window,
        series=series_of(site, collection, window),
        truth=_truth(site, collection, window),
    )


def _truth(site: Site, collection: str, window: str) -> list[tuple[float, float]]:
    with closing(Control(site.root.path / "control.sqlite")) as control:
        return truth_of(control, collection, site.clock.now_s() - WINDOWS_S[window], MEASURED_POINTS)


def _row(row: Any) -> HostFreshness:
    return HostFreshness(
        host=row.host,
        pages=row.pages,
        weight=row.weight,
        changes_per_day=row.changes_per_day,
        visits_last_day=row.requests_a_day,
        visits_per_day=round(86_400.0 / row.slot_s, 1) if row.slot_s > 0 else 0.0,
        fresh=row.fresh,
        best=row.best,
        possible=row.possible,
        lost=row.lost,
    )


def series_of(site: Site, collection: str, window: str) -> list[tuple[float, float | None, float | None]]:
    """How it went: fresh and possible, where a crawl that keeps pages fresh was running."""
    step_s = FINE_S if window == "15min" else COARSE_S
    control = Control(site.root.path / "control.sqlite")
    try:
        points = points_of(control, collection, step_s, site.clock.now_s() - WINDOWS_S[window])
    finally:
        control.close()
    series: list[tuple[float, float | None, float | None]] = []
    for point in points:
        if series and point.time_s - series[-1][0] > 3 * step_s:
            series.append((point.time_s - step_s, None, None))
        series.append((point.time_s, point.fresh, point.possible))
    return series if any(fresh is not None for _, fresh, _ in series) else []


def pair(site: Site, collection: str) -> dict[str, Any]:
    """What changes by itself: how fresh and how fresh at best, by the crawler's own account where one runs."""
    account, _ = account_of(site, collection)
    said = account.get("freshness") or {}
    return {name: said.get(name) for name in ("fresh", "possible", "best")}
