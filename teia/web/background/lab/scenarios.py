"""Pages that a plan is made for (`teia lab plan`): given as CSV, reused from an earlier run, or an example.

They are parsed before the run is queued, so that the form can show a broken row at once. The run stores them as a file
of its own, so that a reader of the report can repeat the plan.
"""

from __future__ import annotations

import io
from functools import cache

import numpy as np

from teia.config.sections import POLICIES
from teia.lib.csvtext import CsvWriter
from teia.lib.message import Message
from teia.refresh.model import DAY_S
from teia.refresh.scenario import Scenario, WrongScenario, draw_world, parse_scenario
from teia.web.background.lab.forms import FILES_FOLDER, MOST_PLANNED, PLAN, FormReader, Mistake, PlanFields, RunRequest
from teia.web.background.lab.runs import StoredRuns, UnknownRun

SCENARIO, TIMETABLE = "scenario.csv", "plan.csv"
EXAMPLE = "example"
EXAMPLE_PAGES, EXAMPLE_SERVERS, EXAMPLE_SEED = 240, 6, 7
MAX_REUSABLE = 8
"""Number of earlier runs offered for reuse of their pages."""


def reusable_runs(stored: StoredRuns) -> list[int]:
    """Return runs whose pages are still stored, newest first."""
    return [run.number for run in stored.all() if SCENARIO in run.files][:MAX_REUSABLE]


@cache
def example() -> str:
    """Return made-up pages drawn as in P6.

    A few servers have many pages, the others few; rates lie between 0.01 and 1 a day.
    """
    rng = np.random.default_rng(EXAMPLE_SEED)
    world = draw_world(
        rng,
        pages=EXAMPLE_PAGES,
        servers=EXAMPLE_SERVERS,
        horizon_s=DAY_S,
        politeness_s=0.0,
        weights="zipf:1",
        budget=1,
    )
    out = io.StringIO()
    rows = CsvWriter(out)
    rows.writerow(("page", "server", "weight", "rate_per_day"))
    for server in range(world.servers):
        for row in range(int(world.starts[server]), int(world.starts[server + 1])):
            # The weights of a world add up to 1; here their mean is 1, which is easier to read.
            weight, rate = EXAMPLE_PAGES * float(world.weight[row]), DAY_S * float(world.rate[row])
            rows.writerow((int(world.page[row]), f"server-{server + 1}", f"{weight:.4g}", f"{rate:.4g}"))
    return out.getvalue()


def plan_request(fields: PlanFields, stored: StoredRuns) -> tuple[RunRequest | None, list[Mistake]]:
    """Validate the form of a plan; return a run request or the errors."""
    parameters = fields.model_dump()
    reader = FormReader(parameters, PLAN)
    text, scenario = _scenario(fields, stored, reader)
    found = {name: reader.number(name, f"--{name.replace('_', '-')}") for name in PLAN}
    reader.choice("policy", "--policy", POLICIES, "psp")
    visits = 0.0
    if scenario is not None and not reader.problems:
        visits = _visits(reader, len(scenario.servers), found)
    if reader.problems or scenario is None:
        return None, reader.problems
    files = ("--scenario", f"{FILES_FOLDER}/{SCENARIO}", "--out", f"{FILES_FOLDER}/{TIMETABLE}")
    arguments = ("lab", "plan", *files, *reader.arguments, "--json")
    if fields.scenario.strip():
        parameters["pages_of"] = ""
    parameters["scenario"] = ""  # stored as a file of the run instead
    work = visits + len(scenario.pages)
    return RunRequest("plan", parameters, arguments, 0, "plan", work, {SCENARIO: text}), []


def _scenario(fields: PlanFields, stored: StoredRuns, reader: FormReader) -> tuple[str, Scenario | None]:
    """Return the pages as text and parsed; record an error if there are none or one is broken.

    Typed text takes precedence over `pages_of`, which a form always has.
    """
    chosen = fields.pages_of.strip()
    given = example() if chosen == EXAMPLE else _scenario_of_run(chosen, stored) if chosen else ""
    if chosen and not given:
        reader.add_error("pages_of", Message("must be empty, example, or the number of a stored run of plans"))
        return "", None
    text = fields.scenario if fields.scenario.strip() else given
    if not text:
        reader.add_error("scenario", Message("choose a file, or enter pages here"))
        return "", None
    try:
        return text, parse_scenario(text, SCENARIO)
    except WrongScenario as error:
        reader.add_error("scenario", error.why)
        return "", None


def _scenario_of_run(chosen: str, stored: StoredRuns) -> str:
    try:
        return stored.file(int(chosen), SCENARIO).decode("utf-8", "replace") if chosen.isascii() else ""
    except (UnknownRun, ValueError):
        return ""


def _visits(reader: FormReader, servers: int, found: dict[str, float | None]) -> float:
    """Return the most visits that the plan can have; record an error if a file cannot list them."""
    horizon_s, delay_s, budget = 3_600.0 * (found["horizon_h"] or 24.0), found["politeness_s"], found["budget"]
    if not delay_s and budget is None:
        reader.add_error("budget", Message("is required where servers have no delay"))
        return 0.0
    # A server takes one visit per delay; the budget is for all servers together.
    most = min(servers * horizon_s / delay_s if delay_s else float("inf"), float("inf") if budget is None else budget)
    if most > MOST_PLANNED:
        allowed = MOST_PLANNED * (delay_s or 1.0) / servers / 3_600.0
        reader.add_error(
            "horizon_h",
            Message(
                "{n:,.0f} visits exceed the maximum of a plan: choose {hours:.3g} hours, or a budget",
                n=most,
                hours=allowed,
            ),
        )
    return most
