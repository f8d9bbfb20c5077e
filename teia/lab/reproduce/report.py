"""REPORT.md, with a CSV file for each table and an SVG file for each figure beside it; the same as one page of HTML.

The command decides everything except the date, the time taken, the versions and results that `vary`. So two runs with
the same seed write the same other CSV and SVG files, byte for byte, and show the same digest.
"""

from __future__ import annotations

import io
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from importlib import metadata
from pathlib import Path

from teia.clock import iso_utc
from teia.lab.reproduce.figure import render_svg
from teia.lab.reproduce.registry import Experiment, Figure, Table, compute_digest, number_text
from teia.lib.csvtext import CsvWriter
from teia.version import __version__

VERSIONS_OF = ("numpy", "matplotlib")


@dataclass(frozen=True)
class Finished:
    """An experiment that has run: its results, its duration and its input.

    The report is written anew after each experiment of a run, so digests and files are computed once.
    """

    experiment: Experiment
    results: tuple[Table | Figure, ...]
    seconds: float
    input_lines: tuple[str, ...] = ()

    @cached_property
    def digest(self) -> str:
        return compute_digest(self.results, self.input_lines)

    @cached_property
    def files(self) -> dict[str, str]:
        """The content of each result's file, by its name."""
        return {
            self.file_name(each): render_csv(each) if isinstance(each, Table) else render_svg(each)
            for each in self.results
        }

    @property
    def cut(self) -> str:
        """Return the part that was made, if the experiment was interrupted; else nothing."""
        return "; ".join(each.cut for each in self.results if isinstance(each, Table) and each.cut)

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
    """The heading of the report: facts about the run as a whole, and the experiments that failed or did not run."""

    command: str
    seed: int
    quick: bool
    date_s: float
    failures: tuple[str, ...] = ()
    not_run: tuple[str, ...] = ()


def write_report(out: Path, heading: Heading, finished: Sequence[Finished]) -> Path:
    """Write every file into the folder `out`, REPORT.md last, and return its path."""
    for each in finished:
        for name, content in each.files.items():
            (out / name).write_text(content, encoding="utf-8")
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
    # That of teia is its own: the metadata of a checkout are those of its last installation.
    versions = [f"Python {platform.python_version()}", f"teia {__version__}"]
    versions += [f"{name} {metadata.version(name)}" for name in VERSIONS_OF]
    size = "quick: smaller than in the paper, so the numbers vary more" if heading.quick else "full"
    if cut := [f"{each.experiment.id} ({each.cut})" for each in finished if each.cut]:
        size += f"; cut short: {', '.join(cut)}"
    return [
        f"- command: `{heading.command}`",
        f"- seed: {heading.seed}",
        f"- size: {size}",
        f"- date: {iso_utc(heading.date_s)}",
        f"- versions: {', '.join(versions)}",
        *(f"- failed: {each}" for each in heading.failures),
        *([f"- cut short: {', '.join(heading.not_run)} did not run"] if heading.not_run else []),
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


# ---- HTML ------------------------------------------------------------------------------------------------------------

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { border: 1px solid #bbb; padding: .2rem .6rem; text-align: left; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
code { overflow-wrap: anywhere; }
svg { max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) { body { background: #161616; color: #eee; } svg { background: #fff; } }
"""


def render_html(heading: Heading, finished: Sequence[Finished]) -> str:
    """Return the whole report as one page."""
    facts = "".join(f"<li>{_inline(line.removeprefix('- '))}</li>" for line in _heading_lines(heading, finished))
    contents = "".join(
        f'<li><a href="#{each.experiment.id}">{each.experiment.id}: {escape(each.experiment.title)}</a></li>'
        for each in finished
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Reproduced experiments</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n<body>\n'
        f"<h1>Reproduced experiments</h1>\n<ul>{facts}</ul>\n<nav><ul>{contents}</ul></nav>\n"
        f"{''.join(map(_section, finished))}</body></html>\n"
    )


def _section(finished: Finished) -> str:
    experiment = finished.experiment
    cut = f"<p><strong>Cut short</strong>: {escape(finished.cut)}.</p>\n" if finished.cut else ""
    results = "".join(
        piece for result in finished.results for piece in _result(result, finished.files[finished.file_name(result)])
    )
    return (
        f'<h2 id="{experiment.id}">{experiment.id}: {escape(experiment.title)}</h2>\n'
        f"<p>Paper: {escape(experiment.paper)}.</p>\n{cut}"
        f"<p>Took {finished.seconds:.1f} s."
        f" Digest of {escape(finished.digest_scope)}: <code>{finished.digest}</code>.</p>\n{results}"
    )


def _result(result: Table | Figure, content: str) -> Iterator[str]:
    yield f"<h3>{escape(result.title)}</h3>\n"
    if isinstance(result, Table):
        yield from _table(result)
    else:
        # Without the XML declaration and document type, which HTML does not allow inside a page.
        yield f"<figure>{content[content.index('<svg') :]}</figure>\n"
    if result.note:
        yield f"<p>{_inline(result.note)}</p>\n"


def _table(table: Table) -> Iterator[str]:
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in _columns(table))
    yield f"<table><thead><tr>{heads}</tr></thead><tbody>\n"
    for row in table.rows:
        labels = "".join(f"<td>{_inline(label)}</td>" for label in row.labels)
        numbers = "".join(f'<td class="n">{number_text(each)}</td>' for each in (row.other, row.ours, row.difference))
        yield f"<tr>{labels}{numbers}</tr>\n"
    yield "</tbody></table>\n"


def _inline(text: str) -> str:
    """Return text with `code` between backticks, all else escaped."""
    pieces = escape(text).split("`")
    if len(pieces) % 2 == 0:  # a backtick without its partner
        return escape(text)
    return "".join(f"<code>{piece}</code>" if at % 2 else piece for at, piece in enumerate(pieces))
