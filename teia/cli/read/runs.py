"""`teia runs`: the runs of a collection, and the changes of one against the run before."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from teia.cli.options import AsJson, Collection, Data, open_collection
from teia.cli.output import print_grid, print_json
from teia.cli.progress import duration, size
from teia.clock import WallClock
from teia.views.runs import RunPart, RunSummary, run_detail, run_summaries

Number = Annotated[int | None, typer.Argument(metavar="NUMBER", help="Number of a run; all runs by default.")]
Part = Annotated[RunPart, typer.Option("--part", help="Requests of the run that are listed.")]
COLUMNS = (
    "run",
    "start (UTC)",
    "state",
    "duration",
    "requests",
    "pages fetched",
    "new",
    "changed",
    "gone",
    "failed",
    "received",
)


def runs(
    data: Data, number: Number = None, collection: Collection = None, part: Part = RunPart.ALL, as_json: AsJson = False
) -> None:
    """List the runs of a collection: duration, size, and pages that are new, changed or gone since the run before.

    Examples: teia runs --data archive · teia runs 3 --part changed --data archive
    """
    root, chosen = open_collection(data, collection)
    now_s = WallClock().now_s()
    if number is None:
        found = run_summaries(root, chosen, now_s)
        if as_json:
            print_json({"collection": chosen, "runs": [asdict(each) for each in found]})
        elif found:
            _print_runs(found)
        else:
            print("no runs recorded yet")
        return
    detail = run_detail(root, chosen, number, now_s, part)
    if as_json:
        print_json({"collection": chosen, **asdict(detail)})
        return
    _print_runs([detail.run])
    cells = [(each.time[:19].replace("T", " "), each.outcome, size(each.bytes), each.url) for each in detail.rows]
    print()
    print_grid(("time (UTC)", "answer", "size", "URL"), cells, (False, False, True, False))
    if len(detail.rows) == detail.shown:
        print(f'the first {detail.shown}; all: teia sql "{detail.sql}" --data {data}')


def _print_runs(found: list[RunSummary]) -> None:
    rows = [_cells(each) for each in found]
    print_grid(COLUMNS, rows, (True, False, False, *(True,) * 8))


def _cells(run: RunSummary) -> list[str]:
    counts = (run.requests, run.pages, run.new, run.changed, run.gone, run.failed)
    began = run.began[:16].replace("T", " ")
    return [str(run.number), began, run.state, duration(run.seconds), *(f"{n:,}" for n in counts), size(run.bytes)]
