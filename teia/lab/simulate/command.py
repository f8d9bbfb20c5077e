"""The command `teia lab simulate`: policies side by side in one world, and the bounds beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from teia.clock import Clock
from teia.errors import LabError, UsageError
from teia.lab.simulate.bounds import compute_bounds
from teia.lab.simulate.run import PolicyResult, SimulationSettings, VisitsCallback, simulate
from teia.lab.simulate.timeline import Visits
from teia.refresh.model import DAY_S, Crawlers, RefreshWorld
from teia.refresh.policies import find_policy
from teia.refresh.policy import Policy


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """The parameters of a simulation: policies, days (None: one horizon), and the file for visits."""

    policies: str
    days: float | None = None
    sampled: bool = False
    process: str = "poisson"
    seed: int = 1
    visits: Path | None = None

    def chosen_policies(self) -> list[Policy]:
        names = [name.strip() for name in self.policies.split(",") if name.strip()]
        if not names:
            raise UsageError("--policy: at least one is required")
        return [find_policy(name) for name in dict.fromkeys(names)]

    def settings(self, world: RefreshWorld) -> SimulationSettings:
        """Return the length of the simulation and the kind of changes; a mix always has drawn changes."""
        if self.process not in ("poisson", "mix"):
            raise UsageError(f"--process: {self.process!r} must be poisson or mix")
        if self.days is not None and not 0 < self.days < math.inf:
            raise UsageError(f"--days: {self.days:g} must be > 0")
        length_s = world.horizon_s if self.days is None else self.days * DAY_S
        mixed = self.process == "mix"
        return SimulationSettings(length_s, self.sampled or mixed, "mix" if mixed else "poisson", self.seed)


def with_budget(world: RefreshWorld) -> RefreshWorld:
    """Return the world with the capacity of its crawlers as the budget, where none is set."""
    if world.budget is not None:
        return world
    return replace(world, budget=int(world.crawlers.visits_per_s * world.horizon_s))


def make_crawlers(count: int | None, pages_per_s: str | None) -> Crawlers | None:
    """Return crawlers of one speed, or one of each speed in a list; None if nothing is said of them."""
    if count is None and pages_per_s is None:
        return None
    usual = Crawlers()
    try:
        speeds = [float(speed) for speed in (pages_per_s or str(usual.pages_per_s)).split(",")]
    except ValueError:
        speeds = []
    if not speeds or not all(map(math.isfinite, speeds)):
        raise UsageError(f"--pages-per-s: {pages_per_s} must be > 0, or several such numbers with commas between them")
    if len(speeds) == 1:
        return Crawlers(usual.count if count is None else count, speeds[0])
    if count not in (None, len(speeds)):
        raise UsageError(f"--pages-per-s: {len(speeds)} speeds for {count} crawlers")
    return Crawlers.of_speeds(speeds)


def compare(
    world: RefreshWorld,
    names: Sequence[str],
    request: SimulationRequest,
    clock: Clock,
    progress: Callable[[str], None],
    reached: Callable[[float], None] = lambda _: None,
) -> dict[str, Any]:
    """Carry out every policy and return the data of the JSON output; `names` are the pages', if visits are written.

    `progress` receives a description of the current step, `reached` the completed share of the whole.
    """
    policies, world = request.chosen_policies(), with_budget(world)
    settings = request.settings(world)
    results: dict[str, dict[str, Any]] = {}
    plan_s = simulate_s = 0.0
    for at, policy in enumerate(policies):
        progress(f"{policy.name}: {len(world):,} pages for {settings.length_s / DAY_S:g} days")
        with _open_visits_writer(request, policy, names, several=len(policies) > 1) as on_visits:
            # The bounds are one more part of the progress, after the policies.
            outcome = simulate(
                world, policy, settings, clock, on_visits=on_visits, reached=_share_of(reached, at, len(policies) + 1)
            )
        results[policy.name] = _result(outcome, settings)
        plan_s += outcome.plan_s
        simulate_s += outcome.simulate_s
    progress("bounds")
    started_s = clock.ticks_s()
    bounds = compute_bounds(world, settings.length_s)
    return {
        "policies": results,
        "bounds": bounds,
        "seconds": {
            "plan": round(plan_s, 4),
            "simulate": round(simulate_s, 4),
            "bounds": round(clock.ticks_s() - started_s, 4),
        },
        "pages": len(world),
        "servers": world.servers,
        "crawlers": {
            "count": world.crawlers.count,
            "pages_per_s": world.crawlers.pages_per_s,
            "each_pages_per_s": list(world.crawlers.speeds),
        },
        "horizon_s": world.horizon_s,
        "length_s": settings.length_s,
        "budget": world.budget,
        "process": settings.process,
        "seed": settings.seed,
    }


def _share_of(reached: Callable[[float], None], at: int, parts: int) -> Callable[[float], None]:
    """Convert the progress of one of several parts, counted from 0, to a share of the whole."""
    return lambda share: reached((at + share) / parts)


def _result(outcome: PolicyResult, settings: SimulationSettings) -> dict[str, Any]:
    result: dict[str, Any] = {
        "staleness": outcome.staleness,
        "visits": outcome.visits,
        "bytes": outcome.bytes,
        "late_p99_s": round(outcome.lateness.quantile_s(0.99), 3),
        "age_s": outcome.age_s,
        "embarrassment": outcome.embarrassment,
        "seconds": {"plan": round(outcome.plan_s, 4), "simulate": round(outcome.simulate_s, 4)},
    }
    if settings.length_s > DAY_S:
        result |= {"staleness_by_day": outcome.by_day, "staleness_second_half": outcome.second_half_staleness}
    if outcome.sampled is not None:
        result["staleness_sampled"] = outcome.sampled
    return result


@contextmanager
def _open_visits_writer(
    request: SimulationRequest, policy: Policy, names: Sequence[str], *, several: bool
) -> Iterator[VisitsCallback | None]:
    """Yield a function that writes visits to a file, or None; with several policies each has its own file."""
    if request.visits is None:
        yield None
        return
    path = request.visits.with_stem(f"{request.visits.stem}-{policy.name}") if several else request.visits
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            file.write("page,time\n")

            def write_visits(visits: Visits) -> None:
                pages, times = visits.page.tolist(), visits.time_s.tolist()
                file.writelines(f"{names[page]},{time!r}\n" for page, time in zip(pages, times, strict=True))

            yield write_visits
    except OSError as error:
        raise LabError(f"{path}: cannot be written: {error.strerror}") from error
