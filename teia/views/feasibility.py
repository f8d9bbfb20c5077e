"""Feasibility of a pass over a host: its duration at a delay, and the delay that makes it a week (C2).

pass       pages x (delay + time of an answer)
weekly     the delay at which a pass takes a week; and how many pages fit into a week at the current delay
plan       how many visits of a week go to known pages, where they are kept fresh, and how many to new ones
"""

from __future__ import annotations

from dataclasses import dataclass

from teia.config.sections import RefreshSettings
from teia.crawler.keep_fresh.bound import WEEK_S
from teia.crawler.keep_fresh.host_plan import SHORTEST_SLOT_S
from teia.views.hosts import HostLine


@dataclass(frozen=True, slots=True)
class Feasibility:
    """Visits that a politeness delay allows. `week_delay_s` is None if the server itself is too slow."""

    pages: int
    delay_s: float
    response_s: float
    pass_s: float
    fits_in_week: bool
    week_pages: int
    week_delay_s: float | None


def feasibility_of(line: HostLine, delay_s: float | None = None, pages: int | None = None) -> Feasibility:
    """Compute it for a host: for all its pages and its current delay, unless the arguments say otherwise."""
    wanted = line.visited + line.waiting if pages is None else pages
    rest_s = line.rest_s if delay_s is None else delay_s
    slot_s = rest_s + line.response_s
    pass_s = wanted * slot_s
    week_delay_s = WEEK_S / wanted - line.response_s if wanted else None
    return Feasibility(
        pages=wanted,
        delay_s=rest_s,
        response_s=line.response_s,
        pass_s=pass_s,
        fits_in_week=pass_s <= WEEK_S,
        week_pages=wanted if slot_s <= 0 else min(wanted, int(WEEK_S / slot_s)),
        week_delay_s=week_delay_s if week_delay_s is not None and week_delay_s > 0 else None,
    )


@dataclass(frozen=True, slots=True)
class WeekPlan:
    """Forecast of the visits of a host's next week, if nothing changes."""

    known: int
    new: int


def week_plan(line: HostLine, settings: RefreshSettings) -> WeekPlan | None:
    """Forecast a week of live crawling; None if pages are not kept fresh, none was visited, or the host is parked.

    Known pages get `refresh.share` of the visits while new ones wait, else all; no page is visited more often than
    every `least_s`. New pages are those that wait now, each once; suspects are held back and not fetched.
    """
    if not settings.keep or not line.visited or line.parked:
        return None
    visits = WEEK_S / max(line.slot_s, SHORTEST_SLOT_S)
    most = line.visited * WEEK_S / settings.least_s
    new = min(visits - min(visits * settings.share, most), float(line.waits.new + line.waits.retry))
    return WeekPlan(round(min(visits - new, most)), round(new))
