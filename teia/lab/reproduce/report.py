"""REPORT.md, with a CSV file for each table and an SVG file for each figure beside it.

The command decides everything except the date, the time taken, the versions and results that `vary`. So two runs with
the same seed write the same other CSV and SVG files, byte for byte, and show the same digest.
"""

from __future__ import annotations

import io
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from teia.clock import iso_utc
from teia.lab.reproduce.figure import render_svg
from teia.lab.reproduce.registry import Experiment, Figure, Table, compute_digest, number_text
from teia.lib.csvtext import CsvWriter

VERSIONS_OF = ("teia", "numpy", "matplotlib")


@dataclass(frozen=True, slots=True)
class Finished:
    """An experiment that has run: its results, its duration and its input."""

    experiment: Experiment
    results: tuple[Table | Figure, ...]
    seconds: float
    input_lines: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        return compute_digest(self.results, self.input_lines)

    @property
    def cut(self) -> str:
        """Return the part that was made, if the experiment was interrupted; else nothing."""
        return next((each.cut for each in self.results if isinstance(each, Table) and each.cut), "")

    @property
    def digest_scope(self) -> str:
        """Description of the data that the digest covers."""
        if not self.input_lines:
            return "its data"
        steady = [result.name for result in self.results if not result.varies]
        inputs = "its input, the generated web and the settings"
        return f"{inputs}, and of {', '.join(steady)}" if steady else f"{inputs}; all its measurements vary"

    def file_name(self, result: Table | Figure) -> str:
        return f"{self.experiment.id}-{result.name}.{'csv' if isinstance(result, Table) else 'svg'}"


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of the report: facts about the run as a whole."""

    command: str
    seed: int
    quick: bool
    date_s: float


def write_report(out: Path, heading: Heading, finished: Sequence[Finished]) -> Path:
    """Write every file into the folder `out`, REPORT.md last, and return its path."""
    for each in finished:
        for result in each.results:
            content = render_csv(result) if isinstance(result, Table) else render_svg(result)
            (out / each.file_name(result)).write_text(content, encoding="utf-8")
    report = out / "REPORT.md"
    report.write_text(render_markdown(heading, finished), encoding="utf-8")
    return report


def render_csv(table: Table) -> str:
    text = io.StringIO()
    writer = CsvWriter(text)
    writer.writerow(_columns(table))
    for row in table.rows:
        writer.writerow((*row.labels, number_text(row.other), number_text(row.ours), number_text(row.difference)))
    return text.getvalue()


def _columns(table: Table) -> tuple[str, ...]:
    return (*table.label_names, table.compared_with, "ours", "difference")


def render_markdown(heading: Heading, finished: Sequence[Finished]) -> str:
    lines = ["# Reproduced experiments", "", *_heading_lines(heading, finished)]
    for each in finished:
        lines += ["", f"## {each.experiment.id}: {each.experiment.title}", "", f"Paper: {each.experiment.paper}.", ""]
        lines += [f"**Cut short**: {each.cut}.", ""] if each.cut else []
        lines += [f"Took {each.seconds:.1f} s. Digest of {each.digest_scope}: `{each.digest}`."]
        for result in each.results:
            lines += ["", *_result_lines(result, each.file_name(result))]
    return "\n".join(lines) + "\n"


def _heading_lines(heading: Heading, finished: Sequence[Finished]) -> list[str]:
    versions = [f"Python {platform.python_version()}", *(f"{name} {metadata.version(name)}" for name in VERSIONS_OF)]
    size = "quick: smaller than in the paper, so the numbers vary more" if heading.quick else "full"
    if cut := [f"{each.experiment.id} ({each.cut})" for each in finished if each.cut]:
        size += f"; cut short: {', '.join(cut)}"
    return [
        f"- command: `{heading.command}`",
        f"- seed: {heading.seed}",
        f"- size: {size}",
        f"- date: {iso_utc(heading.date_s)}",
        f"- versions: {', '.join(versions)}",
    ]


def _result_lines(result: Table | Figure, file: str) -> list[str]:
    lines = [f"### {result.title}", ""]
    if isinstance(result, Table):
        lines += _table_lines(result)
        lines += ["", f"Data: [{file}]({file})"]
    else:
        lines += [f"![{result.title}]({file})"]
    return [*lines, "", result.note] if result.note else lines


def _table_lines(table: Table) -> list[str]:
    columns = _columns(table)
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(table.label_names) + "---:|" * 3]
    for row in table.rows:
        numbers = (number_text(row.other), number_text(row.ours), number_text(row.difference))
        lines.append(f"| {' | '.join((*row.labels, *numbers))} |".replace("|  |", "| |"))
    return lines
