"""Lab: before you change it, try it (P, A12, C8, F11). Runs are started, watched, read and compared."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Form, Path, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, ValidationError

from teia.clock import iso_utc
from teia.errors import UsageError
from teia.web.gate import Refused, Visitor
from teia.web.laboratory import findings
from teia.web.laboratory.asking import (
    EXPERIMENTS,
    FIELDS,
    LIMITS,
    POLICIES,
    Mistake,
    Question,
    ReproduceFields,
    SimulateFields,
    WhatIfFields,
    reproduce_question,
    simulate_question,
    whatif_question,
)
from teia.web.laboratory.benchwork import FullQueue
from teia.web.laboratory.findings import Compared, ShownTable, Warned
from teia.web.laboratory.runs import LabRun, UnknownRun
from teia.web.roles import Role
from teia.web.scales import Point
from teia.web.site import Site
from teia.web.twins import API, Done, OfSite, OfVisitor, Pages

LISTED, LISTED_OF_KIND = 50, 10
COMPARED_AT_ONCE = 6
LOG_LINES = 30
KINDS = ("simulate", "whatif", "reproduce")
STYLE = (
    "text{font:12.5px sans-serif;fill:#57606a}text.name{fill:#1c2126}.end{text-anchor:end}.middle{text-anchor:middle}"
    ".grid,.axis{stroke:#ddd9cf}.line{fill:none;stroke-width:1.5}.bound,.mark{stroke:#1c2126}.mark{stroke-width:2}"
    ".line.bound{stroke-dasharray:1.5 3}.whisker{stroke:#1c2126}"
    + "".join(
        f".line.s{at},.hollow.s{at}{{stroke:{colour};fill:none}}.fill.s{at}{{fill:{colour}}}"
        for at, colour in enumerate(("#0b5c8a", "#c2570c", "#2e7d4f", "#8e44ad", "#8a6d00", "#5b6770"), 1)
    )
)
"""A chart in a file of its own has no style sheet beside it."""

Number = Annotated[int, Path(ge=1, le=999_999)]


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run in a list; `finding` is what its report says in short."""

    number: int
    kind: str
    state: str
    command: str
    seed: int
    by: str
    queued: str
    seconds: float | None
    message: str
    digest: str
    finding: dict[str, Any]


@dataclass(frozen=True, slots=True)
class LabView:
    """The lab: what goes, how many wait, and what is kept."""

    runs: list[RunLine]
    running: RunLine | None
    share: float | None
    waiting: int
    left_s: float | None


@dataclass(frozen=True, slots=True)
class NumberField:
    """What a number in a form may be."""

    low: float
    high: float
    whole: bool
    default: str

    @property
    def digits(self) -> int:
        """Behind the point, in what is written of its limits."""
        return next(digits for digits in range(6) if round(self.low, digits) == self.low or digits == 5)


@dataclass(frozen=True, slots=True)
class FormView:
    """A form of the lab: what it holds, what is wrong with it, what may be chosen, and the last runs of its kind.

    A run that is asked for now has `ahead` runs before it and starts in about `starts_in_s`, if that was ever measured.
    """

    kind: str
    fields: dict[str, Any]
    numbers: dict[str, NumberField]
    problems: list[Mistake]
    policies: list[str]
    collections: list[str]
    experiments: dict[str, str]
    runs: list[RunLine]
    ahead: int
    starts_in_s: float | None

    def problem(self, field: str) -> str:
        return next((each.message for each in self.problems if each.field == field), "")

    def pairs(self, names: list[str], nothing: str) -> list[tuple[str, str]]:
        """Options of a list, the first of which is none of them."""
        return [("", nothing), *((name, name) for name in names)]


@dataclass(frozen=True, slots=True)
class RunView:
    """A run, and what came of it: `report` is what the command printed."""

    number: int
    kind: str
    state: str
    is_over: bool
    share: float | None
    doing: str
    ahead: int
    starts_in_s: float | None
    left_s: float | None
    seconds: float | None
    asked: dict[str, Any]
    command: str
    seed: int
    by: str
    queued: str
    began: str | None
    ended: str | None
    message: str
    digest: str
    files: list[str]
    log: list[str]
    warnings: list[Warned]
    report: dict[str, Any] | None
    finding: dict[str, Any] = field(default_factory=dict)

    @property
    def said(self) -> dict[str, Any]:
        return self.report or {}

    def policies(self) -> list[dict[str, Any]]:
        return findings.policies(self.said)

    def by_day(self) -> list[tuple[str, list[Point]]]:
        return findings.by_day(self.said)

    def bound(self) -> tuple[str, float] | None:
        return findings.best_bound(self.said)

    def side(self, name: str) -> dict[str, Any] | None:
        return findings.side(self.said, name)

    def applicable(self) -> dict[str, Any]:
        return findings.applicable(self.said)

    def experiments(self) -> list[dict[str, Any]]:
        return findings.experiments(self.said)

    def tables(self, experiment: dict[str, Any]) -> list[ShownTable]:
        return findings.tables(experiment)

    def points(self, series: dict[str, Any]) -> list[Point]:
        """One line of a figure, with no more points than a drawing needs."""
        found = [(x, y) for x, y in zip(series["x"], series["y"], strict=False) if x is not None]
        return findings.thinned(found)


@dataclass(frozen=True, slots=True)
class CompareView:
    """Runs of one kind side by side: what was asked differently, and what came of it."""

    kind: str
    runs: list[RunLine]
    asked: list[Compared]
    rows: list[Compared]


def add_to(pages: Pages) -> None:
    pages.page("/lab", "lab.html", Role.VIEWER)(lab)
    pages.page("/lab/simulate", "lab_form.html", Role.VIEWER)(simulate)
    pages.page("/lab/whatif", "lab_form.html", Role.VIEWER)(whatif)
    pages.page("/lab/reproduce", "lab_form.html", Role.VIEWER)(reproduce)
    pages.page("/lab/compare", "lab_compare.html", Role.VIEWER)(compare)
    pages.page("/lab/runs/{number}", "lab_run.html", Role.VIEWER)(run)
    pages.deed("/lab/runs/{number}/cancel", Role.OPERATOR)(cancel)
    pages.add("GET", "/lab/runs/{number}/csv", Role.VIEWER, as_csv, response_class=Response)
    pages.add("GET", "/lab/runs/{number}/files/{file}", Role.VIEWER, as_file, response_class=Response)

    def as_svg(request: Request, visitor: OfVisitor, view: OfRun) -> Response:
        """The chart of a run, as a file."""
        if view.report is None:
            raise UnknownRun(f"run {view.number} has no report")
        drawn = pages.rendered(request, visitor, "lab_chart.html", view, 200)
        return _standalone(bytes(drawn.body).decode(), view.number)

    pages.add("GET", "/lab/runs/{number}/svg", Role.VIEWER, as_svg, response_class=Response)
    for kind, deed in (("simulate", ask_simulate), ("whatif", ask_whatif), ("reproduce", ask_reproduce)):
        pages.add("POST", f"/lab/{kind}", Role.OPERATOR, _by_form(pages, kind), include_in_schema=False)
        summary = (deed.__doc__ or "").partition("\n")[0]
        name = f"lab_{kind}_run"
        pages.add("POST", f"{API}/lab/{kind}", Role.OPERATOR, deed, summary=summary, operation_id=name)


# ---- lists and forms ------------------------------------------------------------------------------------------------


def lab(site: OfSite) -> LabView:
    """The runs there are, and what goes on."""
    runs = site.lab.runs()
    going = next((each for each in runs if each.state == "running"), None)
    now = None if going is None else site.lab.moment(going.number)
    return LabView(
        runs=[_line(each) for each in runs[:LISTED]],
        running=None if going is None else _line(going),
        share=None if now is None else now.share,
        waiting=sum(each.state == "queued" for each in runs),
        left_s=None if now is None else now.left_s,
    )


def _line(each: LabRun) -> RunLine:
    return RunLine(
        number=each.number,
        kind=each.kind,
        state=each.state,
        command=each.command,
        seed=each.seed,
        by=each.by,
        queued=iso_utc(each.queued_s),
        seconds=None if each.seconds is None else round(each.seconds, 2),
        message=each.message,
        digest=each.digest,
        finding=each.finding,
    )


Again = Annotated[int | None, Query(ge=1, le=999_999)]


def simulate(site: OfSite, again: Again = None) -> FormView:
    """Policies side by side in a made-up world: the form, and the last runs."""
    begin = {"policies": ["psp", "mp2", "m-wolf", "edf"]}
    return _form(site, "simulate", _fields_of(site, "simulate", again) or begin)


def whatif(site: OfSite, again: Again = None, c: Annotated[str, Query(max_length=100)] = "") -> FormView:
    """A collection kept another way, from its own history: the form, and the last runs."""
    return _form(site, "whatif", _fields_of(site, "whatif", again) or {"collection": c})


def reproduce(site: OfSite, again: Again = None) -> FormView:
    """The papers' experiments: the form, and the last runs."""
    return _form(site, "reproduce", _fields_of(site, "reproduce", again) or {"quick": "yes"})


def _fields_of(site: Site, kind: str, again: int | None) -> dict[str, Any]:
    """The fields of a run that is asked for again."""
    if again is None:
        return {}
    before = site.lab.run(again)
    return before.asked if before.kind == kind else {}


def _form(site: Site, kind: str, fields: dict[str, Any], problems: list[Mistake] | None = None) -> FormView:
    ahead, starts_in_s = site.lab.wait_for_new()
    known = FIELDS[kind].model_fields
    try:
        filled = FIELDS[kind](**{name: value for name, value in fields.items() if name in known})
    except ValidationError:  # kept by another version
        filled = FIELDS[kind]()
    alike = [each for each in site.lab.runs() if each.kind == kind]
    return FormView(
        kind=kind,
        fields=filled.model_dump(),
        numbers={
            name: NumberField(each.low, each.high, each.whole, each.default) for name, each in LIMITS[kind].items()
        },
        problems=problems or [],
        policies=list(POLICIES),
        collections=site.names(),
        experiments=dict(EXPERIMENTS),
        runs=[_line(each) for each in alike[:LISTED_OF_KIND]],
        ahead=ahead,
        starts_in_s=starts_in_s,
    )


# ---- asking ---------------------------------------------------------------------------------------------------------


class WrongField(UsageError):
    """A value that cannot be asked for; `field` is its name."""

    def __init__(self, problem: Mistake) -> None:
        super().__init__(f"{problem.field}: {problem.message}")
        self.field = problem.field


def _asked(site: Site, fields: BaseModel) -> tuple[Question | None, list[Mistake]]:
    if isinstance(fields, SimulateFields):
        return simulate_question(fields)
    if isinstance(fields, WhatIfFields):
        return whatif_question(fields, site.root.path, site.names())
    assert isinstance(fields, ReproduceFields)
    return reproduce_question(fields)


def _begin(site: Site, visitor: Visitor, question: Question) -> LabRun:
    try:
        begun = site.lab.submit(question, visitor.name)
    except FullQueue as full:
        raise Refused(429, str(full), "look at /lab") from full
    site.accounts.note(visitor.name, "start lab run", run=begun.number, command=begun.command)
    return begun


def _by_api(site: Site, visitor: Visitor, fields: BaseModel) -> Done:
    question, problems = _asked(site, fields)
    if question is None:
        raise WrongField(problems[0])
    begun = _begin(site, visitor, question)
    return Done(f"run {begun.number} waits for its turn", f"/lab/runs/{begun.number}")


def ask_simulate(site: OfSite, visitor: OfVisitor, asked: SimulateFields) -> Done:
    """Start a simulation; it is at `/lab/runs/NUMBER` then."""
    return _by_api(site, visitor, asked)


def ask_whatif(site: OfSite, visitor: OfVisitor, asked: WhatIfFields) -> Done:
    """Ask how fresh a collection would be kept otherwise; the answer is at `/lab/runs/NUMBER` then."""
    return _by_api(site, visitor, asked)


def ask_reproduce(site: OfSite, visitor: OfVisitor, asked: ReproduceFields) -> Done:
    """Do an experiment of the papers again; its report is at `/lab/runs/NUMBER` then."""
    return _by_api(site, visitor, asked)


def _by_form(pages: Pages, kind: str) -> Callable[..., Response]:
    """A form's POST: leads to the run, or shows the form again with what is wrong beside the fields."""

    def by_form(request: Request, site: OfSite, visitor: OfVisitor, fields: BaseModel) -> Response:
        question, problems = _asked(site, fields)
        if question is None:
            view = _form(site, kind, fields.model_dump(), problems)
            return pages.rendered(request, visitor, "lab_form.html", view, 400)
        return RedirectResponse(f"/lab/runs/{_begin(site, visitor, question).number}", 303)

    by_form.__annotations__ |= {
        "request": Request,
        "site": OfSite,
        "visitor": OfVisitor,
        "fields": Annotated[FIELDS[kind], Form()],
        "return": Response,
    }
    return by_form


def cancel(site: OfSite, visitor: OfVisitor, number: Number) -> Done:
    """End a run that goes, or take one away that waits."""
    before = site.lab.run(number)
    if before.is_over:
        return Done(f"run {number} is over", f"/lab/runs/{number}")
    site.lab.cancel(number)
    site.accounts.note(visitor.name, "cancel lab run", run=number)
    return Done(f"run {number} is cancelled", f"/lab/runs/{number}")


# ---- one run --------------------------------------------------------------------------------------------------------


def run(site: OfSite, number: Number) -> RunView:
    """A run: how far it is, and then what came of it."""
    found, now = site.lab.run(number), site.lab.moment(number)
    report = site.lab.kept.report(number) if found.state == "done" else None
    lines = [line for line in site.lab.kept.tail(number).splitlines() if line and not line.startswith('{"share"')]
    return RunView(
        **asdict(now),
        kind=found.kind,
        asked=found.asked,
        command=found.command,
        seed=found.seed,
        by=found.by,
        queued=iso_utc(found.queued_s),
        began=None if found.began_s is None else iso_utc(found.began_s),
        ended=None if found.ended_s is None else iso_utc(found.ended_s),
        message=found.message,
        digest=found.digest,
        files=found.files,
        log=lines[-LOG_LINES:],
        warnings=_warnings(found, report),
        report=report,
        finding=found.finding,
    )


OfRun = Annotated[RunView, Depends(run)]


def _warnings(found: LabRun, report: dict[str, Any] | None) -> list[Warned]:
    if report is None:
        return []
    if found.kind == "simulate":
        return findings.warned_of_simulation(report)
    if found.kind == "whatif":
        return findings.warned_of_what_if(report)
    return [Warned("quick")] if report.get("quick") else []


def moment(site: Site, number: str) -> dict[str, Any]:
    """What changes of a run by itself, for live pages; without a number, of the one that goes."""
    if not number:
        now = lab(site)
        return {"share": now.share, "left_s": now.left_s, "waiting": now.waiting, "is_over": now.running is None}
    if not re.fullmatch(r"[1-9]\d{0,5}", number, re.ASCII):
        raise UnknownRun(f"there is no run {number[:20]!r} of the lab")
    return asdict(site.lab.moment(int(number)))


def as_csv(site: OfSite, number: Number) -> Response:
    """The numbers of a run as comma-separated values."""
    found = site.lab.run(number)
    text = findings.csv_of(found.kind, _report(site, number))
    name = f'attachment; filename="teia-lab-{number}.csv"'
    return Response(text, media_type="text/csv", headers={"content-disposition": name})


def as_file(site: OfSite, number: Number, file: Annotated[str, Path(max_length=120)]) -> Response:
    """A table, a figure or the report of an experiment, as the command wrote it."""
    content = site.lab.kept.file(number, file)
    kinds = {"csv": "text/csv", "svg": "image/svg+xml", "md": "text/plain"}
    headers = {"content-disposition": f'attachment; filename="{file}"'}
    return Response(content, media_type=kinds[file.rpartition(".")[2]], headers=headers)


def _report(site: Site, number: int) -> dict[str, Any]:
    report = site.lab.kept.report(number)
    if report is None:
        raise UnknownRun(f"run {number} has no report")
    return report


def _standalone(page: str, number: int) -> Response:
    """The wide drawing of our own chart, with its style."""
    drawn = re.search(r'<svg class="wide"(.*?)>(.*?)</svg>', page, re.DOTALL)
    if drawn is None:
        raise UnknownRun(f"run {number} has no chart")
    head = f'<svg xmlns="http://www.w3.org/2000/svg"{drawn[1]}><style>{STYLE}</style>'
    name = f'attachment; filename="teia-lab-{number}.svg"'
    return Response(f"{head}{drawn[2]}</svg>\n", media_type="image/svg+xml", headers={"content-disposition": name})


# ---- several runs ---------------------------------------------------------------------------------------------------

Runs = Annotated[list[int], Query(max_length=20)]


def compare(site: OfSite, run: Runs = []) -> CompareView:  # noqa: B006  # FastAPI copies it
    """Runs of one kind side by side."""
    numbers = list(dict.fromkeys(run))
    if not 2 <= len(numbers) <= COMPARED_AT_ONCE:
        raise UsageError(f"choose 2 to {COMPARED_AT_ONCE} runs to compare, not {len(numbers)}")
    found = [site.lab.run(number) for number in numbers]
    if len({each.kind for each in found}) > 1:
        raise UsageError("choose runs of one kind: simulations, what-ifs, or experiments")
    reports = [_report(site, number) for number in numbers]
    kind = found[0].kind
    rows = findings.compared(kind, reports)
    return CompareView(kind, [_line(each) for each in found], findings.differing([each.asked for each in found]), rows)
