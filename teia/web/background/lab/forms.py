"""Fields of the lab's forms: the typed text, its errors, and the command it stands for.

An empty field means the command's own default. The limits are narrower than the command's where a run would not end
within its hour.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from teia.config.sections import POLICIES
from teia.lib.csvtext import csv_text
from teia.lib.message import Message, formatted
from teia.refresh.model import DAY_S
from teia.refresh.scenario import Scenario, WrongScenario, draw_world, parse_scenario
from teia.web import limits
from teia.web.background.lab.runs import FILES_FOLDER, StoredRuns, UnknownRun
from teia.web.language.numbers import whole_number

EXPERIMENTS = {
    "P6": Message("PSP compared with MP2, M-Wolf and the theoretical best"),
    "P7": Message("Wolf's mix of change processes"),
    "A2": Message("Look-ups over Chord, CAN, Pastry and our circle"),
    "A6": Message("The queue of the Sydney strategy"),
    "A12": Message("Isolated, hash, geographic and response-time crawlers"),
    "A16": Message("Parallel crawlers: firewall, cross-over, exchange"),
    "C5": Message("CoBWeb's session statistics"),
    "C7": Message("The cache parasite"),
    "C8": Message("Collectors and the rate of collection"),
    "T8": Message("Tarântula's statuses, servers and documents over time"),
    "F2": Message("Periodic against incremental crawling"),
    "F9": Message("FURB's tables of types, space and times"),
    "F11": Message("FURB's search times"),
}
"""Experiments of `teia lab reproduce`; a test compares the two lists."""

RATE_UNITS = ("day", "hour")
PROCESSES = ("poisson", "mix")
MOST_VISITS = 1e9
"""Most visits of a simulation, over all its policies: about one hour of computing."""
MOST_PLANNED = 400_000
"""Most visits of a plan: the file that lists them is bounded like every file of a run."""

_DISTRIBUTION = re.compile(r"uniform|zipf:(\d{1,2}(\.\d{1,6})?)", re.ASCII)
_DECIMAL = re.compile(r"\d{1,15}([.,]\d{1,9})?", re.ASCII)
Text = Annotated[str, Field(max_length=100)]


@dataclass(frozen=True, slots=True)
class Mistake:
    """Error in one field."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a number field.

    `default` is the form's initial value; empty if the command decides.
    """

    low: float
    high: float
    whole: bool = False
    default: str = ""

    @property
    def description(self) -> str:
        low, high = formatted(self.low, ",g"), formatted(self.high, ",.0f" if self.high >= 1 else "g")
        if self.whole:
            return Message("must be a whole number from {low} to {high}", low=low, high=high)
        return Message("must be a number from {low} to {high}", low=low, high=high)

    @property
    def digits(self) -> int:
        """Number of decimals in the description of the limits."""
        return next(digits for digits in range(6) if round(self.low, digits) == self.low or digits == 5)


SEED = Limits(0, (1 << 32) - 1, whole=True, default="1")
SIMULATE = {
    "pages": Limits(1, 2_000_000, whole=True, default="20000"),
    "servers": Limits(1, 200_000, whole=True, default="40"),
    "theta": Limits(0, 10, default="1"),
    "budget": Limits(0, 10_000_000_000, whole=True),
    "days": Limits(0.01, 3_650),
    "seed": SEED,
    "crawlers": Limits(1, 100_000, whole=True, default="10"),
    "pages_per_s": Limits(0.001, 100_000, default="10"),
    "politeness_s": Limits(0, 604_800, default="15"),
    "horizon_h": Limits(0.1, 8_760, default="24"),
}
WHAT_IF = {
    "delay_s": Limits(0, 604_800),
    "budget": Limits(1, 10_000_000_000, whole=True),
    "nodes": Limits(1, 1_000, whole=True),
    "days": Limits(0.1, 365, default="14"),
    "seed": SEED,
}
REPRODUCE = {"seed": SEED}
PLAN = {
    "horizon_h": Limits(0.1, 8_760, default="24"),
    "politeness_s": Limits(0, 604_800, default="15"),
    "budget": Limits(0, MOST_PLANNED, whole=True),
}
LIMITS: dict[str, dict[str, Limits]] = {
    "plan": PLAN,
    "simulate": SIMULATE,
    "whatif": WHAT_IF,
    "reproduce": REPRODUCE,
}


class _Fields(BaseModel):
    # The API may send numbers as numbers; a form sends text.
    model_config = ConfigDict(coerce_numbers_to_str=True)


class SimulateFields(_Fields):
    """Parameters of a simulated world and the policies to run in it; numbers may be sent as numbers."""

    pages: Text = SIMULATE["pages"].default
    servers: Text = SIMULATE["servers"].default
    theta: Text = SIMULATE["theta"].default
    rates: Text = "uniform"
    rate_unit: Text = "day"
    weights: Text = "uniform"
    budget: Text = ""
    days: Text = ""
    seed: Text = SEED.default
    policies: Annotated[list[Text], Field(max_length=50)] = Field(default_factory=list)
    crawlers: Text = SIMULATE["crawlers"].default
    pages_per_s: Text = SIMULATE["pages_per_s"].default
    politeness_s: Text = SIMULATE["politeness_s"].default
    horizon_h: Text = SIMULATE["horizon_h"].default
    process: Text = "poisson"
    sampled: Text = ""


class WhatIfFields(_Fields):
    """A collection and the settings to change in a what-if; empty fields keep their values."""

    collection: Text = ""
    delay_s: Text = ""
    budget: Text = ""
    policy: Text = ""
    nodes: Text = ""
    days: Text = WHAT_IF["days"].default
    seed: Text = SEED.default


class ReproduceFields(_Fields):
    """An experiment of the papers to reproduce."""

    id: Text = ""
    quick: Text = ""
    seed: Text = SEED.default


class PlanFields(_Fields):
    """Pages to plan visits for, and the parameters of the plan.

    `scenario` is the CSV that `teia lab plan` reads. If it is empty, `pages_of` is `example` or the number of a run
    whose pages to reuse.
    """

    pages_of: Text = ""
    scenario: Annotated[str, Field(max_length=limits.BODY_BYTES)] = ""
    policy: Text = "psp"
    horizon_h: Text = PLAN["horizon_h"].default
    politeness_s: Text = PLAN["politeness_s"].default
    budget: Text = ""


FIELDS: dict[str, type[_Fields]] = {
    "plan": PlanFields,
    "simulate": SimulateFields,
    "whatif": WhatIfFields,
    "reproduce": ReproduceFields,
}


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A validated run request.

    `like` and `work` are the inputs of the time estimate; `files` are written to the run's folder, by name.
    """

    kind: str
    parameters: dict[str, Any]
    arguments: tuple[str, ...]
    seed: int
    like: str
    work: float
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """Shell command that does the same in a folder with the run's files."""
        return shlex.join(["teia", *(word.removeprefix(f"{FILES_FOLDER}/") for word in self.arguments)])


@dataclass(slots=True)
class FormReader:
    """Form being parsed: the command-line words so far, and the errors."""

    fields: Mapping[str, Any]
    limits: Mapping[str, Limits]
    arguments: list[str] = field(default_factory=list)
    problems: list[Mistake] = field(default_factory=list)

    def number(self, name: str, flag: str) -> float | None:
        """Parse an optional number and add its option; record an error if it is not valid."""
        text, limits = str(self.fields[name]).strip() or self.limits[name].default, self.limits[name]
        if not text:
            return None
        value = _number(text, whole=limits.whole)
        if value is None or not limits.low <= value <= limits.high:
            self.add_error(name, limits.description)
            return None
        # The parsed number goes into the command, never the typed text.
        self.arguments += [flag, str(value)]
        return value

    def choice(self, name: str, flag: str, known: Collection[str], default: str = "") -> str:
        text = str(self.fields[name]).strip() or default
        if text and text not in known:
            self.add_error(name, Message("must be one of {choices}", choices=", ".join(known)))
        elif text:
            self.arguments += [flag, text]
        return text

    def distribution(self, name: str, flag: str) -> None:
        text = str(self.fields[name]).strip() or "uniform"
        if _DISTRIBUTION.fullmatch(text) is None:
            self.add_error(name, Message("must be uniform, or zipf:X with a number X from 0 to 99"))
        else:
            self.arguments += [flag, text]

    def add_error(self, name: str, message: str) -> None:
        self.problems.append(Mistake(name, message))


def _number(text: str, *, whole: bool) -> float | None:
    """Parse a number: 1000, 1,000 and 1.000 if it must be whole; 0.5 and 0,5 otherwise."""
    if whole:
        return whole_number(text)
    if _DECIMAL.fullmatch(text) is None:
        return None
    value = float(text.replace(",", "."))
    return int(value) if value.is_integer() else value


def simulate_request(fields: SimulateFields) -> tuple[RunRequest | None, list[Mistake]]:
    """Validate the form of a simulation; return a run request or the errors."""
    parameters = fields.model_dump()
    reader = FormReader(parameters, SIMULATE)
    found = {name: reader.number(name, f"--{name.replace('_', '-')}") for name in SIMULATE}
    reader.distribution("rates", "--rates")
    reader.distribution("weights", "--weights")
    reader.choice("rate_unit", "--rate-unit", RATE_UNITS, "day")
    reader.choice("process", "--process", PROCESSES, "poisson")
    unknown = [name for name in fields.policies if name not in POLICIES]
    # In the order of POLICIES: the same choice is the same command.
    policies = [name for name in POLICIES if name in fields.policies]
    if unknown:
        reader.add_error(
            "policies",
            Message("unknown policy {name!r}; available: {names}", name=unknown[0][:40], names=", ".join(POLICIES)),
        )
    elif not policies:
        reader.add_error("policies", Message("choose at least one"))
    reader.arguments += ["--policy", ",".join(policies)]
    if fields.sampled:
        reader.arguments.append("--sampled")
    work = 0.0
    if not reader.problems:
        work = _check_size(reader, found, len(policies))
    if reader.problems:
        return None, reader.problems
    arguments = ("lab", "simulate", *reader.arguments, "--json")
    return RunRequest("simulate", parameters, arguments, int(found["seed"] or 0), "simulate", work), []


def _check_size(reader: FormReader, found: Mapping[str, float | None], policies: int) -> float:
    """Return the amount of work, in visits and pages; record an error if it is too much or inconsistent."""
    pages, servers = found["pages"] or 0.0, found["servers"] or 0.0
    if servers > pages:
        reader.add_error("servers", Message("must be at most the {n:,.0f} pages", n=pages))
    horizon_s = 3_600.0 * (found["horizon_h"] or 24.0)
    length_s = horizon_s if found["days"] is None else 86_400.0 * found["days"]
    per_s = (found["crawlers"] or 1.0) * (found["pages_per_s"] or 1.0)
    # Delays of the servers, and a budget, may allow fewer visits than the crawlers can make.
    if found["politeness_s"]:
        per_s = min(per_s, servers / found["politeness_s"])
    if found["budget"] is not None:
        per_s = min(per_s, found["budget"] / horizon_s)
    visits = per_s * length_s * policies
    if visits > MOST_VISITS:
        allowed = MOST_VISITS / (per_s * policies) / 86_400.0
        reader.add_error(
            "days",
            Message(
                "{n:,.0f} visits exceed the maximum of a run: choose at most {days:.3g} days", n=visits, days=allowed
            ),
        )
    return visits + pages * policies * max(1.0, length_s / horizon_s)


def whatif_request(
    fields: WhatIfFields, data: Path, collections: Collection[str]
) -> tuple[RunRequest | None, list[Mistake]]:
    """Validate the form of a what-if; return a run request or the errors."""
    parameters = fields.model_dump()
    reader = FormReader(parameters, WHAT_IF)
    name = reader.choice("collection", "--collection", collections)
    if not name:
        reader.add_error("collection", Message("choose one"))
    flags = {"delay_s": "--delay", "budget": "--budget", "nodes": "--nodes", "days": "--days", "seed": "--seed"}
    found = {each: reader.number(each, flag) for each, flag in flags.items()}
    reader.choice("policy", "--policy", POLICIES)
    if reader.problems:
        return None, reader.problems
    # The run has a working folder of its own, so the path is absolute.
    arguments = ("lab", "whatif", "--data", str(data.resolve()), *reader.arguments, "--json")
    return RunRequest(
        "whatif", parameters, arguments, int(found["seed"] or 0), f"whatif {name}", found["days"] or 14.0
    ), []


def reproduce_request(fields: ReproduceFields) -> tuple[RunRequest | None, list[Mistake]]:
    """Validate the form of an experiment; return a run request or the errors."""
    parameters = fields.model_dump()
    reader = FormReader(parameters, REPRODUCE)
    chosen = fields.id.strip().upper()
    if chosen not in EXPERIMENTS:
        reader.add_error("id", Message("must be one of {choices}", choices=", ".join(EXPERIMENTS)))
    seed = reader.number("seed", "--seed")
    if reader.problems:
        return None, reader.problems
    quick = ["--quick"] if fields.quick else []
    arguments = ("lab", "reproduce", chosen, *quick, *reader.arguments, "--json")
    like = " ".join(["reproduce", chosen, *quick])
    return RunRequest("reproduce", parameters, arguments, int(seed or 0), like, 1.0), []


# ---- pages that a plan is made for -----------------------------------------------------------------------------------
# They are given as CSV, reused from an earlier run, or an example. They are parsed before the run is queued, so that
# the form can show a broken row at once. The run stores them as a file of its own, so that a reader of the report can
# repeat the plan.

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
    rows = []
    for server in range(world.servers):
        for row in range(int(world.starts[server]), int(world.starts[server + 1])):
            # The weights of a world add up to 1; here their mean is 1, which is easier to read.
            weight, rate = EXAMPLE_PAGES * float(world.weight[row]), DAY_S * float(world.rate[row])
            rows.append((int(world.page[row]), f"server-{server + 1}", f"{weight:.4g}", f"{rate:.4g}"))
    return csv_text(("page", "server", "weight", "rate_per_day"), rows)


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
