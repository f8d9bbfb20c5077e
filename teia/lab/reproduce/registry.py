"""The types of an experiment and of its results.

A table holds our numbers beside others': those the paper published, or those theory predicts. A number the paper does
not give is None and stays empty in the report; a number is never made up to fill a column. Figures are data too: the
digest covers all points that are drawn.

Equal runs have equal digests. The result of a real crawl also depends on timing, so it `varies` and is not in the
digest. The digest of such an experiment covers its input (`input_lines`) instead: the world it crawls, page by page,
and its settings.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from teia.lib.message import Message

IDS = tuple(
    f"{letter}{number}"
    for letter, last in (("P", 9), ("A", 16), ("C", 9), ("T", 12), ("F", 11))
    for number in range(1, last + 1)
)
"""Every id of the mission, in its order; docs/seeds.md has a row for each."""


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One number of ours, its labels, and the number it is compared with."""

    labels: tuple[str, ...]
    ours: float
    other: float | None = None

    def __post_init__(self) -> None:
        # JSON has neither NaN nor infinity, and a report must not print them as results.
        if not all(math.isfinite(value) for value in (self.ours, self.other) if value is not None):
            raise ValueError(f"{self.labels}: not a finite number; omit missing values")

    @property
    def difference(self) -> float | None:
        return None if self.other is None else self.ours - self.other


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers side by side. `name` becomes the file's name; `compared_with` names the source of `other`.

    A table that `varies` from run to run (times, bytes on disk, failures) is shown, and left out of the digest.
    """

    name: str
    title: str
    label_names: tuple[str, ...]
    rows: tuple[ResultRow, ...]
    compared_with: str = Message("published")
    note: str = ""
    varies: bool = False
    cut: str = ""
    """The part of the experiment that was made, if it was interrupted before its end."""


@dataclass(frozen=True, slots=True)
class PlotLine:
    """One line of a figure; a line that is not ours (published, theory) is drawn dashed."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    ours: bool = True


@dataclass(frozen=True, slots=True)
class Figure:
    """Lines over one pair of axes."""

    name: str
    title: str
    x_label: str
    y_label: str
    series: tuple[PlotLine, ...]
    log_x: bool = False
    log_y: bool = False
    note: str = ""
    varies: bool = False


@dataclass(frozen=True, slots=True)
class ExperimentInput:
    """The input of an experiment: its seed, its size, a folder for its files and a progress callback."""

    seed: int
    quick: bool
    out: Path
    progress: Callable[[str], None]

    def random(self, *keys: int) -> np.random.Generator:
        """Return a generator that depends on the seed and the keys alone, so that parts of a run are independent."""
        return np.random.default_rng((self.seed, *keys))


Results = Iterator[Table | Figure]

InputLines = Callable[[ExperimentInput], Iterable[str]]
"""Function that yields lines which determine an experiment; equal runs yield equal lines."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment of a paper, under the mission's id for it."""

    id: str
    title: str
    paper: str
    body: Callable[[ExperimentInput], Results]
    input_lines: InputLines | None = None


def experiment(
    mission_id: str, *, title: str, paper: str, input_lines: InputLines | None = None
) -> Callable[[Callable[[ExperimentInput], Results]], Experiment]:
    """Make an `Experiment` of the decorated function; `input_lines` describes its input where its results vary."""
    if mission_id not in IDS:
        raise ValueError(f"{mission_id} is not an ID of an experiment")
    return lambda body: Experiment(mission_id, title, paper, body, input_lines)


def number_text(value: float | None) -> str:
    """Format one number as every report and file shows it: six digits, empty for None."""
    return "" if value is None else f"{value:.6g}"


def compute_digest(results: Sequence[Table | Figure], input_lines: Iterable[str] = ()) -> str:
    """Return the SHA-256 over `input_lines` and every number that does not vary, as `number_text` shows it."""
    # Numbers have six digits here, so that differences in the last bits between machines seldom matter.
    lines = [
        *input_lines,
        *itertools.chain.from_iterable(_digest_lines(result) for result in results if not result.varies),
    ]
    if not lines:
        raise ValueError("all results vary and there is no input: there is no data for a digest")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _digest_lines(result: Table | Figure) -> Iterator[str]:
    yield result.name
    if isinstance(result, Table):
        for row in result.rows:
            yield "\t".join((*row.labels, number_text(row.ours), number_text(row.other)))
    else:
        for series in result.series:
            for x, y in zip(series.x, series.y, strict=True):
                yield f"{series.label}\t{number_text(x)}\t{number_text(y)}"
