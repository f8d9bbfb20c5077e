"""Lab pages: start, watch, read and compare runs that test a change before it is made (P, A12, C8, F11)."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from fastapi.responses import Response

from teia.clock import iso_utc
from teia.errors import UsageError
from teia.lib.copy_fields import copy_fields
from teia.lib.message import Message
from teia.web.access.roles import Role
from teia.web.background.lab import findings
from teia.web.background.lab.findings import ComparisonRow, ResultWarning
from teia.web.background.lab.runs import LabRun, UnknownRun
from teia.web.parts.lab_runs import RunLine, line_of
from teia.web.server.installation import Installation
from teia.web.server.json_routes import ActionResult, InstallationDep, PageRoutes, VisitorDep

LISTED = 50
COMPARED_AT_ONCE = 6
LOG_LINES = 30
STYLE = (
    "text{font:12.5px sans-serif;fill:#57606a}text.name{fill:#1c2126}.end{text-anchor:end}.middle{text-anchor:middle}"
    ".grid,.axis{stroke:#ddd9cf}.line{fill:none;stroke-width:1.5}.bound,.mark{stroke:#1c2126}.mark{stroke-width:2}"
    ".line.bound{stroke-dasharray:1.5 3}.whisker{stroke:#1c2126}"
    + "".join(
        f".line.s{at},.hollow.s{at}{{stroke:{colour};fill:none}}.fill.s{at}{{fill:{colour}}}"
        for at, colour in enumerate(("#0b5c8a", "#c2570c", "#2e7d4f", "#8e44ad", "#8a6d00", "#5b6770"), 1)
    )
)
"""Style of a chart in a file of its own, which has no style sheet beside it."""

Number = Annotated[int, Path(ge=1, le=999_999)]


@dataclass(frozen=True, slots=True)
class LabView:
    """The lab: the run under way, the number of waiting ones, and the stored runs."""

    runs: list[RunLine]
    running: RunLine | None
    share: float | None
    waiting: int
    left_s: float | None


@dataclass(frozen=True, slots=True)
class LabRunView(RunLine):
    """A run and its result: `report` is what the command printed; findings.py has its contents for the page."""

    is_over: bool
    share: float | None
    doing: str
    ahead: int
    starts_in_s: float | None
    left_s: float | None
    asked: dict[str, Any]
    began: str | None
    ended: str | None
    files: list[str]
    log: list[str]
    warnings: list[ResultWarning]
    report: dict[str, Any] | None

    @property
    def result(self) -> dict[str, Any]:
        return self.report or {}


@dataclass(frozen=True, slots=True)
class CompareView:
    """Runs of one kind side by side: their different parameters and their results."""

    kind: str
    runs: list[RunLine]
    asked: list[ComparisonRow]
    rows: list[ComparisonRow]


def add_routes(pages: PageRoutes) -> None:
    pages.page("/lab", "lab.html", Role.VIEWER)(lab)
    pages.page("/lab/compare", "lab_compare.html", Role.VIEWER)(compare)
    pages.page("/lab/runs/{number}", "lab_run.html", Role.VIEWER)(run)
    pages.action("/lab/runs/{number}/cancel", Role.OPERATOR)(cancel)
    pages.add("GET", "/lab/runs/{number}/csv", Role.VIEWER, as_csv, response_class=Response)
    pages.add("GET", "/lab/runs/{number}/files/{file}", Role.VIEWER, as_file, response_class=Response)

    def as_svg(request: Request, visitor: VisitorDep, view: RunDep) -> Response:
        """Return the chart of a run as an SVG file."""
        if view.report is None:
            raise UnknownRun(Message("run {n} has no report", n=view.number))
        drawn = pages.render(request, visitor, "lab_chart.html", view, 200)
        return _standalone(bytes(drawn.body).decode(), view.number)

    pages.add("GET", "/lab/runs/{number}/svg", Role.VIEWER, as_svg, response_class=Response)


# ---- all runs -------------------------------------------------------------------------------------------------------


def lab(installation: InstallationDep) -> LabView:
    """List the runs, and the progress of the one under way."""
    runs = installation.lab.runs()
    running = next((each for each in runs if each.state == "running"), None)
    now = None if running is None else installation.lab.progress(running.number)
    return LabView(
        runs=[line_of(each) for each in runs[:LISTED]],
        running=None if running is None else line_of(running),
        share=None if now is None else now.share,
        waiting=sum(each.state == "queued" for each in runs),
        left_s=None if now is None else now.left_s,
    )


def cancel(installation: InstallationDep, visitor: VisitorDep, number: Number) -> ActionResult:
    """Stop a run under way, or remove a waiting one."""
    before = installation.lab.run(number)
    if before.is_over:
        return ActionResult(Message("run {n} has finished", n=number), f"/lab/runs/{number}")
    installation.lab.cancel(number)
    installation.accounts.log_action(visitor.name, Message("cancel lab run"), run=number)
    return ActionResult(Message("run {n} was cancelled", n=number), f"/lab/runs/{number}")


# ---- one run --------------------------------------------------------------------------------------------------------


def run(installation: InstallationDep, number: Number) -> LabRunView:
    """Return a run: its progress, and its result after the end."""
    found, now = installation.lab.run(number), installation.lab.progress(number)
    report = installation.lab.stored.report(number) if found.state == "done" else None
    lines = [
        line for line in installation.lab.stored.tail(number).splitlines() if line and not line.startswith('{"share"')
    ]
    return copy_fields(
        LabRunView,
        found,
        **asdict(now),
        queued=iso_utc(found.queued_s),
        began=None if found.began_s is None else iso_utc(found.began_s),
        ended=None if found.ended_s is None else iso_utc(found.ended_s),
        log=lines[-LOG_LINES:],
        warnings=_warnings(found, report),
        report=report,
    )


RunDep = Annotated[LabRunView, Depends(run)]


def _warnings(found: LabRun, report: dict[str, Any] | None) -> list[ResultWarning]:
    if report is None:
        return []
    if found.kind == "simulate":
        return findings.simulation_warnings(report)
    if found.kind == "whatif":
        return findings.what_if_warnings(report)
    return [ResultWarning("quick")] if report.get("quick") else []


def live_run(installation: Installation, number: str) -> dict[str, Any]:
    """Return the live part of a run's page; without a number, of the run under way."""
    if not number:
        now = lab(installation)
        return {"share": now.share, "left_s": now.left_s, "waiting": now.waiting, "is_over": now.running is None}
    # The number comes from the address of an event stream, where it is free text.
    if not re.fullmatch(r"[1-9]\d{0,5}", number, re.ASCII):
        raise UnknownRun(f"there is no run {number[:20]!r} of the lab")
    return asdict(installation.lab.progress(int(number)))


def as_csv(installation: InstallationDep, number: Number) -> Response:
    """Return the numbers of a run as CSV."""
    found = installation.lab.run(number)
    text = findings.csv_of(found.kind, _report(installation, number))
    name = f'attachment; filename="teia-lab-{number}.csv"'
    return Response(text, media_type="text/csv", headers={"content-disposition": name})


def as_file(installation: InstallationDep, number: Number, file: Annotated[str, Path(max_length=120)]) -> Response:
    """Return a table, a figure or the report of an experiment, as the command wrote it."""
    content = installation.lab.stored.file(number, file)
    kinds = {"csv": "text/csv", "svg": "image/svg+xml", "md": "text/plain"}
    headers = {"content-disposition": f'attachment; filename="{file}"'}
    return Response(content, media_type=kinds[file.rpartition(".")[2]], headers=headers)


def _report(installation: Installation, number: int) -> dict[str, Any]:
    report = installation.lab.stored.report(number)
    if report is None:
        raise UnknownRun(Message("run {n} has no report", n=number))
    return report


def _standalone(page: str, number: int) -> Response:
    """Return the wide drawing of a rendered chart as an SVG file, with its style."""
    # Markup of our own templates, so a pattern is enough to cut it out.
    drawn = re.search(r'<svg class="wide"(.*?)>(.*?)</svg>', page, re.DOTALL)
    if drawn is None:
        raise UnknownRun(Message("run {n} has no chart", n=number))
    head = f'<svg xmlns="http://www.w3.org/2000/svg"{drawn[1]}><style>{STYLE}</style>'
    name = f'attachment; filename="teia-lab-{number}.svg"'
    return Response(f"{head}{drawn[2]}</svg>\n", media_type="image/svg+xml", headers={"content-disposition": name})


# ---- several runs ---------------------------------------------------------------------------------------------------

Runs = Annotated[list[int], Query(max_length=20)]


def compare(installation: InstallationDep, run: Runs = []) -> CompareView:  # noqa: B006  # FastAPI copies it
    """Compare runs of one kind side by side."""
    numbers = list(dict.fromkeys(run))
    if not 2 <= len(numbers) <= COMPARED_AT_ONCE:
        raise UsageError(
            Message("choose {low} to {high} runs to compare, not {n}", low=2, high=COMPARED_AT_ONCE, n=len(numbers))
        )
    found = [installation.lab.run(number) for number in numbers]
    if len({each.kind for each in found}) > 1:
        raise UsageError(Message("choose runs of one kind: simulations, what-ifs, plans, or experiments"))
    reports = [_report(installation, number) for number in numbers]
    kind = found[0].kind
    asked = findings.differing_parameters([each.asked for each in found])
    return CompareView(kind, [line_of(each) for each in found], asked, findings.compare_reports(kind, reports))
