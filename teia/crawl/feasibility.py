"""Can it be done? How long one pass over a host takes at a delay, and what would make it a week (C2).

pass       pages x (rest + how long an answer takes)
weekly     the rest at which a pass takes a week; and how many pages a week has room for at the rest there is
plan       how many visits of a week go to known pages, where they are kept fresh, and how many to new ones
"""

from __future__ import annotations

from dataclasses import dataclass

from teia.config import RefreshSettings
from teia.crawl.hostplan import SHORTEST_SLOT_S
from teia.crawl.hosttable import HostLine
from teia.crawl.standing import WEEK_S


@dataclass(frozen=True, slots=True)
class Feasibility:
    """What a delay allows. `week_delay_s` is None where no delay would do: the server itself answers too slowly."""

    pages: int
    delay_s: float
    response_s: float
    pass_s: float
    fits_in_week: bool
    week_pages: int
    week_delay_s: float | None


def feasibility_of(line: HostLine, delay_s: float | None = None, pages: int | None = None) -> Feasibility:
    """Ask it of a host: of all its pages and as it is treated now, unless something else is asked."""
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
    """The visits of a host's next week, as they will be shared out while things are as they are."""

    known: int
    new: int


def week_plan(line: HostLine, settings: RefreshSettings) -> WeekPlan | None:
    """What the live crawler would do; None where pages are not kept fresh, or none is there, or the host is left alone.

    Known pages have `refresh.share` of the visits while new ones wait, else all; none comes more often than `least_s`.
    New ones are those that wait now, each once; those that are held as suspects are not asked for.
    """
    if not settings.keep or not line.visited or line.parked:
        return None
    visits = WEEK_S / max(line.slot_s, SHORTEST_SLOT_S)
    most = line.visited * WEEK_S / settings.least_s
    new = min(visits - min(visits * settings.share, most), float(line.waits.new + line.waits.retry))
    return WeekPlan(round(min(visits - new, most)), round(new))
