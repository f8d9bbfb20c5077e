"""Monitor page: the state of a crawl and its open alerts (T7, T8, C5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal

from pydantic import BaseModel, Field

from teia.clock import iso_utc
from teia.collections.account import (
    FINE_S,
    SeriesPoint,
    forecast_catch_up,
    points_of,
    rates_of,
)
from teia.collections.control_file import CrawlReports
from teia.errors import StoreError
from teia.lib.message import Message
from teia.views.alerts import (
    MAX_ABOUT_CHARS,
    alert_severity,
    alert_subject,
    find_alerts,
)
from teia.views.hosts import HostTable
from teia.web.access.roles import Role
from teia.web.charts.windows import WINDOWS_S, Window, span_of, step_of
from teia.web.parts.collection_state import (
    TABLE_PATIENCE_S,
    account_of,
    disk_of,
    freshness_of,
    split_by_dismissal,
    table_of,
)
from teia.web.server.installation import Installation
from teia.web.server.json_routes import API, ActionResult, InstallationDep, PageRoutes, VisitorDep
from teia.web.server.templates import link

WINDOW_S, DAY_S = 900.0, 86_400.0
NOW_POINTS = 4
"""Number of points whose mean is the current rate."""


PAUSED_BY_USER = "asked to"
"""Reason of a pause that a user asked for, in a crawl's account."""

LOGGED_ACTIONS = 50
"""Number of newest log entries among which the user who paused a crawl is searched."""

MEETING_POINTS = 24
"""Two minutes: at the start of a crawl everything grows, so a shorter span predicts nothing."""


def add_routes(pages: PageRoutes) -> None:
    pages.page("/c/{collection}", "monitor.html", Role.VIEWER)(status)
    pages.add("GET", API + "/c/{collection}/status", Role.VIEWER, status)
    pages.add("GET", f"{API}/status", Role.VIEWER, first_status)
    pages.action("/c/{collection}/needs", Role.OPERATOR)(set_aside)


def status(installation: InstallationDep, collection: str, window: Window = "15min") -> dict[str, Any]:
    """Return the state of a crawl, its current activity, and its alerts. Keys of `teia status`, and more."""
    chart = {"window": window, "span": span_of(window, installation.clock.now_s())}
    return {**live_status(installation, collection), **chart, "series": series_of(installation, collection, window)}


def live_status(installation: Installation, collection: str) -> dict[str, Any]:
    """Return the live part of the page: everything but the series."""
    account, run = account_of(installation, collection)
    table = table_of(installation, collection, TABLE_PATIENCE_S)
    points = _points(installation, collection)
    disk = disk_of(installation, collection)
    freshness = freshness_of(installation, collection, account)
    alerts, set_aside_alerts = split_by_dismissal(installation, collection, find_alerts(account, table, disk))
    return {
        # Defaults: an account without a running crawl lacks these keys.
        "live": None,
        "captures": 0,
        **account,
        "freshness": freshness or account.get("freshness"),
        "is_freshness_known": bool(freshness),
        "is_paused_by_user": account["paused_why"] == PAUSED_BY_USER,
        "paused_by": _paused_by(installation, collection, account),
        "is_running": run is not None,
        "updated": iso_utc(run.updated_s if run is not None else points[-1].time_s if points else 0.0),
        "pages_per_s_now": _rate_now(points) if run is not None else 0.0,
        "finish": _estimate_finish(account, table, points, is_running=run is not None),
        "cluster": _whole_cluster(installation, collection),
        "disk": {"free": round(disk.free, 4), "low": round(disk.low, 4)},
        "needs": [{**asdict(alert), "about": alert_subject(alert)} for alert in alerts],
        "dismissed": [
            {**asdict(alert), "about": each.about, "who": each.who, "time": iso_utc(each.time_s)}
            for alert, each in set_aside_alerts
        ],
    }


def _whole_cluster(installation: Installation, collection: str) -> dict[str, Any] | None:
    """Return the sums over all nodes that crawl a collection; None if one machine crawls it alone.

    The other numbers of the page are of this node: `urls_queued` counts the cells that it owns.
    """
    view = installation.cluster.view()
    cells = view.cells_of(collection)
    if len(view.nodes) < 2 or not cells:
        return None
    states = Counter(node.state for node in view.nodes)
    return {
        "here": view.here,
        "nodes": len(view.nodes),
        "dead": states["dead"],
        "silent": states["silent"],
        "pages_per_s": round(sum(node.pages_per_s or 0.0 for node in view.nodes), 2),
        "cells": len(cells),
        "cells_here": sum(cell.keeper == view.here for cell in cells),
        "cells_without_owner": sum(cell.keeper is None for cell in cells),
        "urls_known": sum(cell.urls for cell in cells),
        "urls_queued": sum(cell.queued or 0 for cell in cells),
    }


def _paused_by(installation: Installation, collection: str, account: Mapping[str, Any]) -> str:
    """Return the user of this server who paused a crawl; empty if it runs, or was paused in a terminal."""
    if account["state"] != "paused" or account["paused_why"] != PAUSED_BY_USER:
        return ""
    lines = (line for _, line in installation.accounts.logged_actions(LOGGED_ACTIONS))
    last = next((line for line in lines if line.detail.get("collection") == collection), None)
    return last.who if last is not None and last.what == "pause" else ""


ACTIONS = {"dismiss": Message("dismiss"), "restore": Message("restore")}


class AlertForm(BaseModel):
    """An alert by its kind and subject, and the action: dismiss it or show it again."""

    kind: str = Field(max_length=40)
    about: str = Field(default="", max_length=MAX_ABOUT_CHARS)
    deed: Literal["dismiss", "restore"] = "dismiss"


def set_aside(installation: InstallationDep, visitor: VisitorDep, collection: str, form: AlertForm) -> ActionResult:
    """Dismiss an alert until it is twice as bad, or show it again."""
    account, _ = account_of(installation, collection)
    alerts = find_alerts(
        account, table_of(installation, collection, TABLE_PATIENCE_S), disk_of(installation, collection)
    )
    alert = next((each for each in alerts if (each.kind, alert_subject(each)) == (form.kind, form.about)), None)
    with CrawlReports(installation.root.control) as reports:
        if form.deed == "restore":
            is_known = reports.restore(collection, form.kind, form.about)
        elif is_known := alert is not None:
            now_s = installation.clock.now_s()
            reports.dismiss(collection, form.kind, form.about, alert_severity(alert), visitor.name, now_s)
    if not is_known:
        raise StoreError(Message("there is no such alert now"))
    what = {"kind": form.kind, "about": form.about}
    installation.accounts.log_action(
        visitor.name, Message("warning: {deed}", deed=ACTIONS[form.deed]), collection=collection, **what
    )
    message = (
        Message("dismissed until it is twice as severe")
        if form.deed == "dismiss"
        else Message("the alert is shown again")
    )
    return ActionResult(message, link(f"/c/{collection}"))


def _points(installation: Installation, collection: str) -> list[SeriesPoint]:
    with CrawlReports(installation.root.control) as reports:
        return points_of(reports, collection, FINE_S, installation.clock.now_s() - WINDOW_S)


def _rate_now(points: list[SeriesPoint]) -> float:
    rates = [rate for _, rate in rates_of(points[-NOW_POINTS:], FINE_S, "pages") if rate is not None]
    return round(sum(rates) / len(rates), 2) if rates else 0.0


def _estimate_finish(
    account: Mapping[str, Any], table: HostTable | None, points: list[SeriesPoint], *, is_running: bool
) -> dict[str, Any] | None:
    """Estimate the end of the crawl from its slowest host; the queue's length over the rate would mislead."""
    slowest = table.slowest if table is not None else None
    if slowest is None or not account["urls_queued"]:
        return None
    meeting = forecast_catch_up(points[-MEETING_POINTS:]) if is_running else None
    return {
        "seconds": round(slowest.finish_s, 1),
        "host": slowest.host,
        "urls": slowest.waiting,
        "slot_s": round(slowest.slot_s, 3),
        "grows_per_s": round(meeting.grows_per_s, 3) if meeting is not None else None,
        "is_endless": meeting is not None and meeting.grows_per_s > 0,
    }


def series_of(installation: Installation, collection: str, window: str) -> dict[str, list[list[float | None]]]:
    """Return a time range of requests per second, known and visited URLs, each with its time."""
    step_s = step_of(window)
    with CrawlReports(installation.root.control) as reports:
        points = points_of(reports, collection, step_s, installation.clock.now_s() - WINDOWS_S[window])
    return {
        "rate": [[at, None if rate is None else round(rate, 3)] for at, rate in rates_of(points, step_s)],
        "known": [[each.time_s, each.known] for each in points],
        "visited": [[each.time_s, each.known - each.queued] for each in points],
    }


def first_status(installation: InstallationDep, c: str = "") -> dict[str, Any]:
    """Return the state of a collection's crawl; without a name, of the only one."""
    return status(installation, installation.named_or_only(c))
