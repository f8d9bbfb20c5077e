"""Forms of the lab, with errors beside the fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile

from teia.config.sections import POLICIES
from teia.errors import UsageError
from teia.lib.message import Message
from teia.web.access.roles import Role
from teia.web.background.lab.forms import (
    EXAMPLE,
    EXPERIMENTS,
    FIELDS,
    LIMITS,
    Limits,
    Mistake,
    PlanFields,
    ReproduceFields,
    RunRequest,
    SimulateFields,
    WhatIfFields,
    plan_request,
    reproduce_request,
    reusable_runs,
    simulate_request,
    whatif_request,
)
from teia.web.background.lab.workbench import FullQueue
from teia.web.parts.lab_runs import RunLine, line_of
from teia.web.server.auth import Refused, Visitor
from teia.web.server.installation import Installation
from teia.web.server.json_routes import ActionResult, FormAgain, InstallationDep, PageRoutes, VisitorDep

LISTED_OF_KIND = 10
SHOWN_CHARS = 20_000
"""Most characters of sent pages that a form shown again repeats."""


@dataclass(frozen=True, slots=True)
class FormView:
    """A form of the lab: its values, errors and choices, and the last runs of its kind.

    `scenarios` are the runs whose pages may be planned for again. A new run would have `ahead` runs before it and start
    in about `starts_in_s`, if an estimate is known.
    """

    kind: str
    fields: dict[str, Any]
    numbers: dict[str, Limits]
    problems: list[Mistake]
    policies: list[str]
    collections: list[str]
    experiments: dict[str, str]
    scenarios: list[int]
    runs: list[RunLine]
    ahead: int
    starts_in_s: float | None

    def problem(self, field: str) -> str:
        return next((each.message for each in self.problems if each.field == field), "")

    def pairs(self, names: list[str], nothing: str) -> list[tuple[str, str]]:
        """Return the options of a list, the first of which is empty."""
        return [("", nothing), *((name, name) for name in names)]


STARTS = {
    "plan": "Plan the visits of pages that are sent as CSV; the plan appears at `/lab/runs/NUMBER`.",
    "simulate": "Start a simulation; it appears at `/lab/runs/NUMBER`.",
    "whatif": "Estimate a collection's freshness under other settings; the result appears at `/lab/runs/NUMBER`.",
    "reproduce": "Reproduce an experiment of the papers; its report appears at `/lab/runs/NUMBER`.",
}
"""Kinds of runs, and the API's documentation of a request for one."""


def add_routes(pages: PageRoutes) -> None:
    for page in (plan, simulate, whatif, reproduce):
        pages.page(f"/lab/{page.__name__}", "lab_form.html", Role.VIEWER)(page)
    for kind in STARTS:
        by_form = plan_by_form if kind == "plan" else _by_form(kind)
        pages.form(f"/lab/{kind}", Role.OPERATOR, "lab_form.html")(by_form)
        pages.api(f"/lab/{kind}", Role.OPERATOR, f"lab_{kind}_run")(_by_api(kind))


# ---- the forms ------------------------------------------------------------------------------------------------------

Again = Annotated[int | None, Query(ge=1, le=999_999)]


def plan(installation: InstallationDep, again: Again = None) -> FormView:
    """Return the form for planning the visits of pages in a file, and the last runs."""
    before = _fields_of(installation, "plan", again)
    if before and again in reusable_runs(installation.lab.stored):
        before = {**before, "pages_of": str(again)}
    return _form(installation, "plan", before or {"pages_of": EXAMPLE})


def simulate(installation: InstallationDep, again: Again = None) -> FormView:
    """Return the form for comparing policies in a simulated world, and the last runs."""
    begin = {"policies": ["psp", "mp2", "m-wolf", "edf"]}
    return _form(installation, "simulate", _fields_of(installation, "simulate", again) or begin)


def whatif(
    installation: InstallationDep, again: Again = None, c: Annotated[str, Query(max_length=100)] = ""
) -> FormView:
    """Return the form for a what-if of a collection, from its own history, and the last runs."""
    return _form(installation, "whatif", _fields_of(installation, "whatif", again) or {"collection": c})


def reproduce(installation: InstallationDep, again: Again = None) -> FormView:
    """Return the form for reproducing the papers' experiments, and the last runs."""
    return _form(installation, "reproduce", _fields_of(installation, "reproduce", again) or {"quick": "yes"})


def _fields_of(installation: Installation, kind: str, again: int | None) -> dict[str, Any]:
    """Return the fields of a run to repeat."""
    if again is None:
        return {}
    before = installation.lab.run(again)
    return before.asked if before.kind == kind else {}


def _form(
    installation: Installation, kind: str, fields: dict[str, Any], problems: list[Mistake] | None = None
) -> FormView:
    ahead, starts_in_s = installation.lab.estimate_wait()
    known = FIELDS[kind].model_fields
    try:
        filled = FIELDS[kind](**{name: value for name, value in fields.items() if name in known})
    except ValidationError:  # stored by another version
        filled = FIELDS[kind]()
    same_kind = [each for each in installation.lab.runs() if each.kind == kind]
    return FormView(
        kind=kind,
        fields=filled.model_dump(),
        numbers=LIMITS[kind],
        problems=problems or [],
        policies=list(POLICIES),
        collections=installation.names(),
        experiments=dict(EXPERIMENTS),
        scenarios=reusable_runs(installation.lab.stored) if kind == "plan" else [],
        runs=[line_of(each) for each in same_kind[:LISTED_OF_KIND]],
        ahead=ahead,
        starts_in_s=starts_in_s,
    )


# ---- run requests ---------------------------------------------------------------------------------------------------


class WrongField(UsageError):
    """Raised for an invalid value; `field` is its name."""

    def __init__(self, problem: Mistake) -> None:
        super().__init__(Message("{field}: {why}", field=problem.field, why=problem.message))
        self.field = problem.field


def _make_request(installation: Installation, fields: BaseModel) -> tuple[RunRequest | None, list[Mistake]]:
    if isinstance(fields, SimulateFields):
        return simulate_request(fields)
    if isinstance(fields, WhatIfFields):
        return whatif_request(fields, installation.root.path, installation.names())
    if isinstance(fields, PlanFields):
        return plan_request(fields, installation.lab.stored)
    assert isinstance(fields, ReproduceFields)
    return reproduce_request(fields)


def _submit(installation: Installation, visitor: Visitor, run_request: RunRequest) -> ActionResult:
    try:
        run = installation.lab.submit(run_request, visitor.name)
    except FullQueue as full:
        raise Refused(429, str(full), Message("see /lab")) from full
    installation.accounts.log_action(visitor.name, Message("start lab run"), run=run.number, command=run.command)
    return ActionResult(Message("run {n} is queued", n=run.number), f"/lab/runs/{run.number}")


def _by_api(kind: str) -> Callable[..., ActionResult]:
    def start(installation: InstallationDep, visitor: VisitorDep, form: BaseModel) -> ActionResult:
        run_request, problems = _make_request(installation, form)
        if run_request is None:
            raise WrongField(problems[0])
        return _submit(installation, visitor, run_request)

    # FastAPI reads the type of the form, which depends on `kind`, and the documentation.
    start.__annotations__["form"], start.__doc__ = FIELDS[kind], STARTS[kind]
    return start


def _by_form(kind: str) -> Callable[..., ActionResult | FormAgain]:
    """Return a form's handler: it redirects to the run, or shows the form again with its errors."""

    def by_form(installation: InstallationDep, visitor: VisitorDep, form: BaseModel) -> ActionResult | FormAgain:
        run_request, problems = _make_request(installation, form)
        if run_request is None:
            return FormAgain(_form(installation, kind, form.model_dump(), problems))
        return _submit(installation, visitor, run_request)

    by_form.__annotations__["form"] = FIELDS[kind]
    return by_form


async def uploaded_text(request: Request) -> str | None:
    """Return the uploaded file of pages, empty if there is none; None if it is not UTF-8 text."""
    sent = (await request.form()).get("file")
    if not isinstance(sent, UploadFile):
        return ""
    try:
        # Spreadsheets write a byte order mark at the beginning.
        return (await sent.read()).decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def plan_by_form(
    installation: InstallationDep,
    visitor: VisitorDep,
    form: PlanFields,
    file: Annotated[str | None, Depends(uploaded_text)],
) -> ActionResult | FormAgain:
    """Like `_by_form` for plans, whose pages may come as a file; a form shown again has them as text."""
    # An uploaded file takes precedence over the text and the choice.
    if file:
        form = form.model_copy(update={"scenario": file, "pages_of": ""})
    run_request, problems = _make_request(installation, form)
    if file is None:
        run_request, problems = None, [Mistake("scenario", Message("the file is not UTF-8 text"))]
    if run_request is not None:
        return _submit(installation, visitor, run_request)
    shown = form.model_dump()
    if len(form.scenario) > SHOWN_CHARS:
        problems.append(Mistake("scenario", Message("choose the file again: it is too long to be displayed here")))
        shown["scenario"] = ""
    return FormAgain(_form(installation, "plan", shown, problems))
