"""Run the requested experiments, write the report, and summarise the results.

The output of the command with `--json` is made here too, from the same results as the files.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teia.clock import Clock, iso_utc
from teia.errors import TeiaError
from teia.lab.reproduce.catalogue import choose
from teia.lab.reproduce.registry import Experiment, ExperimentInput, Figure, Table
from teia.lab.reproduce.report import Finished, Heading, render_html, write_report


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A report that has been written."""

    report: Path
    heading: Heading
    finished: tuple[Finished, ...]


def reproduce(
    ids: Sequence[str], *, seed: int, quick: bool, out: Path, clock: Clock, progress: Callable[[str], None]
) -> Reproduction:
    """Run experiments one after the other and write their report.

    Unknown ids and a folder that cannot be made are refused before any experiment runs. If one of several experiments
    fails, the report names it and has the others.
    """
    chosen = choose(ids)
    out.mkdir(parents=True, exist_ok=True)
    began_s = clock.now_s()
    finished, failures = [], []
    for number, each in enumerate(chosen, 1):
        try:
            if len(chosen) > 1:
                progress(f"experiment {number} of {len(chosen)}, after {clock.now_s() - began_s:,.0f} s")
            finished.append(_run(each, ExperimentInput(seed, quick, out, progress), clock))
        except TeiaError as error:
            # One of several that fails (a missing Squid, a stalled machine) must not cost the others' results.
            if len(chosen) == 1:
                raise
            failures.append(f"{each.id} ({error})")
            progress(f"{each.id} failed: {error}")
        # Written after each: an interruption of a long run leaves the report of what was done.
        not_run = tuple(other.id for other in chosen[number:])
        heading = Heading(_command(chosen, seed, quick, out), seed, quick, began_s, tuple(failures), not_run)
        report = write_report(out, heading, finished)
        report.with_suffix(".html").write_text(render_html(heading, finished), encoding="utf-8")
    return Reproduction(report, heading, tuple(finished))


def _command(chosen: Sequence[Experiment], seed: int, quick: bool, out: Path) -> str:
    size = ["--quick"] if quick else []
    return shlex.join(
        ["teia", "lab", "reproduce", *(e.id for e in chosen), "--seed", str(seed), "--out", str(out), *size]
    )


def _run(experiment: Experiment, run: ExperimentInput, clock: Clock) -> Finished:
    run.progress(f"{experiment.id}: {experiment.title}")
    started_s = clock.ticks_s()
    # The body is a generator: the experiment runs here, and within the measured time.
    results = tuple(experiment.body(run))
    input_lines = tuple(experiment.input_lines(run)) if experiment.input_lines is not None else ()
    return Finished(experiment, results, clock.ticks_s() - started_s, input_lines)


def summary(reproduction: Reproduction) -> dict[str, Any]:
    """Return every table's numbers and the names of all files, ready for JSON."""
    return {
        "report": str(reproduction.report),
        "html": str(reproduction.report.with_suffix(".html")),
        "failures": list(reproduction.heading.failures),
        "seed": reproduction.heading.seed,
        "quick": reproduction.heading.quick,
        "date": iso_utc(reproduction.heading.date_s),
        "experiments": [_summarize_experiment(each) for each in reproduction.finished],
    }


def _summarize_experiment(finished: Finished) -> dict[str, Any]:
    return {
        "id": finished.experiment.id,
        "title": finished.experiment.title,
        "paper": finished.experiment.paper,
        "seconds": round(finished.seconds, 3),
        "cut": finished.cut or None,
        "digest": finished.digest,
        "digest_of": finished.digest_scope,
        "files": [finished.file_name(result) for result in finished.results],
        "tables": {result.name: _rows(result) for result in finished.results if isinstance(result, Table)},
        "about": {result.name: _describe(result) for result in finished.results if isinstance(result, Table)},
        "figures": {result.name: _lines(result) for result in finished.results if isinstance(result, Figure)},
    }


def _describe(table: Table) -> dict[str, Any]:
    return {
        "title": table.title,
        "labels": list(table.label_names),
        "beside": table.compared_with,
        "note": table.note,
        "varies": table.varies,
    }


def _lines(figure: Figure) -> dict[str, Any]:
    series = [
        {"label": each.label, "ours": each.ours, "x": _numbers(each.x), "y": _numbers(each.y)} for each in figure.series
    ]
    names = ("title", "x_label", "y_label", "log_x", "log_y", "note", "varies")
    return {**{name: getattr(figure, name) for name in names}, "series": series}


def _numbers(values: Sequence[float]) -> list[float | None]:
    """Return plain numbers, and None for values that are not finite."""
    return [float(value) if math.isfinite(value) else None for value in values]


def _rows(table: Table) -> list[dict[str, Any]]:
    return [
        dict(zip(table.label_names, row.labels, strict=True))
        | {table.compared_with: row.other, "ours": row.ours, "difference": row.difference}
        for row in table.rows
    ]
