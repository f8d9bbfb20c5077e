"""Beyond P6: the same policies for weeks, where "all is fresh at the beginning" is no longer true.

PSP plans every day as if all copies were fresh that morning. So it visits the same pages every day, and those that its
plan leaves out are never visited again. The study shows the cost of that and the alternatives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from teia.lab.reproduce.refresh_worlds import UNIT_S, Unit, run_policy
from teia.lab.reproduce.registry import ExperimentInput, Figure, PlotLine, ResultRow, Results, Table
from teia.lab.simulate.bounds import steady_optimum
from teia.lib.message import Message
from teia.refresh.model import DAY_S, RefreshWorld
from teia.refresh.scenario import draw_world


@dataclass(frozen=True, slots=True)
class Case:
    """A world and a number of days; `others` are the results of another program, in the order of MEASURES."""

    name: str
    pages: int
    servers: int
    politeness_s: float
    unit: Unit
    days: int
    others: tuple[float | None, ...]

    def world(self, run: ExperimentInput) -> RefreshWorld:
        return draw_world(
            run.random(9, self.pages, int(self.politeness_s)),
            pages=self.pages,
            servers=self.servers,
            horizon_s=DAY_S,
            politeness_s=self.politeness_s,
            rate_unit_s=UNIT_S[self.unit],
            # P6's capacity: ten crawlers at ten pages a second over a million pages.
            budget=int(8.64 * self.pages),
        )


MEASURES: Final = (
    "long-run optimum",
    "EDF",
    "index",
    "PSP, one plan for the whole time",
    "PSP, a plan for 7 days",
    "round robin",
    "PSP every day",
    "PSP every day, from actual ages",
    "rateUpdate (F2)",
)
# Round robin ignored R in the other program. That matters where R binds, so it is left out of the first two.
_SLOW_DAY = (0.06403, 0.06403, None, 0.06404, 0.06488, None, 0.10569)
_SLOW_HOUR = (0.50133, 0.50136, None, 0.50157, 0.50383, None, 0.50746)
_STARVED_DAY = (0.34425, 0.34428, 0.34431, 0.34487, 0.37016, 0.35433, 0.57972)
_SMALL_DAY = (0.06629, 0.06632, 0.06631, 0.06643, 0.06706, 0.07212, 0.08985)
_SMALL_HOUR = (0.56523, 0.56534, 0.56535, 0.56566, 0.56665, 0.58621, 0.57185)

CASES: Final = (
    Case("20k/40, P 15 s", 20_000, 40, 15.0, "day", 40, _SLOW_DAY),
    Case("20k/40, P 15 s", 20_000, 40, 15.0, "hour", 8, _SLOW_HOUR),
    Case("2k/10, P 600 s", 2_000, 10, 600.0, "day", 60, _STARVED_DAY),
    Case("2k/10, P 75 s", 2_000, 10, 75.0, "day", 20, _SMALL_DAY),
    Case("2k/10, P 75 s", 2_000, 10, 75.0, "hour", 10, _SMALL_HOUR),
)
SHOWN_CASE = CASES[2]
"""Case whose days are drawn: servers so slow that a pass over all pages takes days."""


def many_days(run: ExperimentInput) -> Results:
    """Measure staleness over the second half of the days, and day by day for one world."""
    rows: list[ResultRow] = []
    lines: tuple[PlotLine, ...] = ()
    for case in (SHOWN_CASE,) if run.quick else CASES:
        run.progress(f"P6: {case.days} days of {case.name}, rates per {case.unit}")
        found, by_day = measure_case(case.world(run), case.days)
        for measure, staleness in found.items():
            # The other program has no results for the last two measures.
            index = MEASURES.index(measure)
            other = case.others[index] if index < len(case.others) else None
            rows.append(ResultRow((case.name, case.unit, str(case.days), measure), staleness, other))
        if case is SHOWN_CASE:
            lines = by_day
    note = (
        "Staleness over the second half of the days. All copies are fresh at the beginning, crawlers are fast"
        " enough, R is 8.64 visits per page and day. A plan for one day, repeated (PSP every day), never visits a"
        " page that it leaves out once. A long plan, or one based on the actual ages of copies, repairs most of"
        " this; a queue by due time (EDF) and the value of a visit (index) reach the long-run optimum. The other"
        " program drew other worlds. PSP every day never settles, so its number depends on which days are counted."
    )
    columns = ("world", "rates per", "days", "policy")
    yield Table("many-days", "Many days", columns, tuple(rows), compared_with=Message("another program"), note=note)
    title = f"Day by day: {SHOWN_CASE.name}, rates per {SHOWN_CASE.unit}"
    yield Figure("many-days", title, "day", "staleness", lines)


def measure_case(world: RefreshWorld, days: int) -> tuple[dict[str, float], tuple[PlotLine, ...]]:
    """Return each measure over the second half of the days, and the policies' staleness day by day."""
    week = replace(world, horizon_s=7 * DAY_S, budget=7 * _budget(world))
    whole = replace(world, horizon_s=days * DAY_S, budget=days * _budget(world))
    outcomes = {
        "EDF": run_policy(world, "edf", days),
        "index": run_policy(world, "index", days),
        "PSP, one plan for the whole time": run_policy(whole, "psp", days),
        "PSP, a plan for 7 days": run_policy(week, "psp", days),
        "round robin": run_policy(world, "round-robin", days),
        "PSP every day": run_policy(world, "psp", days),
        "PSP every day, from actual ages": run_policy(world, "psp-aged", days),
        "rateUpdate (F2)": run_policy(world, "rate-update", days),
    }
    best = steady_optimum(world)
    found = {MEASURES[0]: best} | {name: each.second_half_staleness for name, each in outcomes.items()}
    numbers = tuple(float(day + 1) for day in range(days))
    shown = ("EDF", "PSP every day", "PSP every day, from actual ages", "PSP, a plan for 7 days", "round robin")
    lines = tuple(PlotLine(name, numbers, tuple(outcomes[name].by_day)) for name in shown)
    return found, (*lines, PlotLine(MEASURES[0], numbers, (best,) * days, ours=False))


def _budget(world: RefreshWorld) -> int:
    assert world.budget is not None
    return world.budget
