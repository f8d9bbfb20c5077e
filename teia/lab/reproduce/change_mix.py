"""P7: Wolf's mix of change processes, as the lab's worlds draw it, and Wolf's comparison of policies under it.

The paper gives three shares and no parameters. So the shares are compared with the paper, and the gaps between changes
with the theory of each process. A gap is measured in units of its page's mean gap (1 / rate), which makes pages of all
rates one sample. Each page gives the same number of gaps, not all up to a horizon: a horizon would leave out the
longest ones, and with Pareto gaps these determine the mean.

Wolf compared the planned visits with two policies of Cho: all pages alike, and in proportion to their changes. Here a
planner knows the mean rate of each page and takes it for Poisson, whatever its process is. The experiment shows whether
the order of the policies stays.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
from numpy.typing import NDArray

from teia.clock import WallClock
from teia.lab.reproduce.refresh_worlds import NAMES as PAPER_NAMES
from teia.lab.reproduce.refresh_worlds import POLITENESS_S, UNITS, Size, Unit, draw_paper_world
from teia.lab.reproduce.registry import ExperimentInput, Figure, PlotLine, ResultRow, Results, Table, experiment
from teia.lab.simulate.changes import ProcessName
from teia.lab.simulate.run import SimulationSettings, simulate
from teia.lab.world.change import PARETO, POISSON, REGULAR, ChangeHistories
from teia.lab.world.spec import ChangesSpec
from teia.lib.message import Message
from teia.refresh.model import RefreshWorld
from teia.refresh.policies import find_policy

Floats = NDArray[np.float64]

NAMES = {POISSON: "Poisson", PARETO: "Pareto", REGULAR: "quasi-deterministic"}
PUBLISHED_SHARES = {POISSON: 0.6, PARETO: 0.3, REGULAR: 0.1}
PAGES = 100_000
QUICK_PAGES = 5_000
GAPS_PER_PAGE = 15
COMPARED, COMPARED_QUICK = Size(100_000, 200), Size(2_000, 4)
RIVALS = ("uniform", "proportional")
"""Policies of Cho that Wolf's is compared with."""

COMPARED_POLICIES = ("m-wolf", *RIVALS, "psp", "edf")
POLICY_NAMES = {"uniform": "uniform", "proportional": "proportional"} | PAPER_NAMES
PROCESSES: dict[ProcessName, str] = {"mix": "Wolf's mix", "poisson": "Poisson"}
LENGTHS = np.union1d(np.logspace(-2, 2, 81), np.linspace(0.85, 1.15, 61))
"""Lengths at which distributions are compared; closer together around 1, where all quasi-deterministic gaps lie."""


@experiment(
    "P7",
    title="Wolf's mix of change processes",
    paper="the polite scheduling paper, section 1.1, on the simulations of Wolf et al. (WWW 2002)",
)
def change_mix(run: ExperimentInput) -> Results:
    """Draw a world's pages and compare their shares with the paper, their gaps with theory."""
    spec = ChangesSpec()
    pages = QUICK_PAGES if run.quick else PAGES
    run.progress(f"P7: drawing {GAPS_PER_PAGE} gaps of each of {pages:,} pages")
    gaps = draw(ChangeHistories(spec, run.seed, pages), pages)
    yield shares_table(gaps)
    yield gaps_table(gaps, spec)
    yield gaps_figure(gaps, spec)
    yield compare_policies(run, COMPARED_QUICK if run.quick else COMPARED)


def compare_policies(run: ExperimentInput, size: Size) -> Table:
    """Draw changes by Wolf's mix, and by Poisson processes of the same rates, under each policy."""
    rows, drawn = [], {}
    for unit in UNITS:
        for delay_s in (0.0, POLITENESS_S):
            run.progress(f"P7: policies under the mix, rates per {unit}, P = {delay_s:g} s, {size}")
            world = draw_paper_world(run.random(7), size, unit, 1.0)
            world = replace(world, politeness_s=np.full(world.servers, delay_s))
            for name in COMPARED_POLICIES:
                for process in PROCESSES:
                    stale = drawn_staleness(world, name, process, run.seed)
                    drawn[unit, delay_s, name, process] = stale
                    rows.append(ResultRow((unit, f"{delay_s:g}", POLICY_NAMES[name], PROCESSES[process]), stale))
    columns = ("rates per", "P, s", "policy", "changes")
    return Table("policies", "Policies under the mix: staleness", columns, tuple(rows), note=_verdict(drawn, size))


def drawn_staleness(world: RefreshWorld, policy: str, process: ProcessName, seed: int) -> float:
    """Return the staleness of one day with drawn changes."""
    settings = SimulationSettings(world.horizon_s, sampled=True, process=process, seed=seed)
    sampled = simulate(world, find_policy(policy), settings, WallClock()).sampled
    assert sampled is not None
    return sampled


def _verdict(drawn: dict[tuple[Unit, float, str, ProcessName], float], size: Size) -> str:
    """Compare Wolf's policy with Cho's two under both processes, with the numbers of this run."""
    worlds = sorted({key[:2] for key in drawn})
    wins = {
        process: sum(
            drawn[unit, delay_s, "m-wolf", process] < drawn[unit, delay_s, rival, process]
            for unit, delay_s in worlds
            for rival in RIVALS
        )
        for process in PROCESSES
    }
    change = [drawn[*key[:3], "mix"] / drawn[key] - 1 for key in drawn if key[3] == "poisson"]
    return (
        f"{size}, theta 1, one day from fresh copies, R = {size.budget:,}. The paper: Wolf's policy was better than the"
        f" two of Cho for most parameters; it gives no numbers. Here M-Wolf is better in {wins['mix']} of"
        f" {len(worlds) * len(RIVALS)} comparisons under the mix and in {wins['poisson']} under Poisson. The mix"
        f" changes staleness by {min(change):+.0%} to {max(change):+.0%}: less where visits are more frequent than"
        " changes, more elsewhere. Without a third phase, M-Wolf's visits are due at the same instants and wait for"
        " each other. Wolf's planner knew the instants at which quasi-deterministic pages may change; these planners"
        " know mean rates."
    )


def draw(changes: ChangeHistories, pages: int) -> dict[int, Floats]:
    """Return the gaps of all pages by process, one row a page. The time before a page's first change is not a gap."""
    drawn: dict[int, list[list[float]]] = {process: [] for process in NAMES}
    for page in range(pages):
        change_process = changes.change_process(0, page)
        times = (time for time, _ in islice(changes.events(0, page, math.inf), GAPS_PER_PAGE + 1))
        drawn[change_process.process].append(
            [(later - earlier) * change_process.rate_per_day for earlier, later in pairwise(times)]
        )
    return {process: np.array(rows) for process, rows in drawn.items()}


def shares_table(gaps: dict[int, Floats]) -> Table:
    pages = sum(len(rows) for rows in gaps.values())
    rows = tuple(ResultRow((NAMES[each],), len(gaps[each]) / pages, PUBLISHED_SHARES[each]) for each in NAMES)
    sizes = f"{pages:,} pages; a share of 0.6 scatters by {math.sqrt(0.6 * 0.4 / pages):.2g} (one standard deviation)."
    return Table("shares", "Share of pages by change process", ("process",), rows, note=sizes)


def gaps_table(gaps: dict[int, Floats], spec: ChangesSpec) -> Table:
    """Compare mean, median and coefficient of variation of each process with theory."""
    rows = []
    for process, name in NAMES.items():
        sample = gaps[process]
        variation = float(sample.std() / sample.mean())
        rows += [
            ResultRow((name, "mean"), float(sample.mean()), 1.0),
            ResultRow((name, "median"), float(np.median(sample)), median(process, spec)),
            ResultRow((name, "coefficient of variation"), variation, coefficient_of_variation(process, spec)),
        ]
    note = (
        f"The Pareto gaps have shape {spec.pareto_shape:g}, the quasi-deterministic ones are up to "
        f"{spec.jitter:.0%} of their period early or late. A Pareto gap of shape 2 or less has no finite variance: its "
        "coefficient of variation grows with the sample, and its mean settles slowly."
    )
    title = "Gaps between changes, in units of the page's mean gap"
    return Table("gaps", title, ("process", "measure"), tuple(rows), compared_with=Message("theory"), note=note)


def median(process: int, spec: ChangesSpec) -> float:
    if process == POISSON:
        return math.log(2)
    if process == PARETO:
        return shortest_pareto_gap(spec) * 2 ** (1 / spec.pareto_shape)
    return 1.0


def coefficient_of_variation(process: int, spec: ChangesSpec) -> float | None:
    """Return standard deviation over mean; None where it is infinite."""
    if process == POISSON:
        return 1.0
    if process == REGULAR:
        # The standard deviation of a uniform distribution over [-j, j].
        return spec.jitter / math.sqrt(3)
    shape = spec.pareto_shape
    # A Pareto distribution has a finite variance only if its shape is above 2.
    return 1 / math.sqrt(shape * (shape - 2)) if shape > 2 else None


def shortest_pareto_gap(spec: ChangesSpec) -> float:
    """Return the scale that makes the mean 1."""
    return (spec.pareto_shape - 1) / spec.pareto_shape


def survival(process: int, spec: ChangesSpec) -> Floats:
    """Return the theoretical share of gaps longer than each of LENGTHS."""
    if process == POISSON:
        return np.exp(-LENGTHS)
    if process == PARETO:
        return np.minimum(1.0, shortest_pareto_gap(spec) / LENGTHS) ** spec.pareto_shape
    return np.clip((1 + spec.jitter - LENGTHS) / (2 * spec.jitter), 0.0, 1.0)


def gaps_figure(gaps: dict[int, Floats], spec: ChangesSpec) -> Figure:
    """Draw the share of gaps longer than a length; with both axes logarithmic, Pareto is a straight line."""
    series: list[PlotLine] = []
    for process, name in NAMES.items():
        ordered = np.sort(gaps[process], axis=None)
        ours = 1 - np.searchsorted(ordered, LENGTHS, side="right") / len(ordered)
        # Theory is drawn only where ten gaps or more are expected to be longer.
        resolved = 10 / len(ordered)
        series += [
            _positive(name, ours, 0.0),
            _positive(f"{name}, theory", survival(process, spec), resolved, ours=False),
        ]
    title = "How long pages stay as they are"
    axes = ("gap, in units of the page's mean gap", "share of gaps that are longer")
    return Figure("gap-distributions", title, *axes, tuple(series), log_x=True, log_y=True)


def _positive(label: str, shares: Floats, above: float, *, ours: bool = True) -> PlotLine:
    """Leave out values that a logarithmic axis or the size of the sample cannot show."""
    shown = shares > above
    return PlotLine(label, tuple(LENGTHS[shown].tolist()), tuple(shares[shown].tolist()), ours)
