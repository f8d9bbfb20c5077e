"""`teia lab reproduce`: the papers' experiments, done again.

The experiments are imported when the command runs, so that other commands do not pay for numpy and matplotlib.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from teia.cli.output import print_json
from teia.cli.supervised import Progress, Supervised
from teia.clock import WallClock


def known_ids() -> list[str]:
    """Return the ids that the shell offers for completion."""
    from teia.lab.reproduce.catalogue import EXPERIMENTS

    return list(EXPERIMENTS)


def reproduce(
    ids: Annotated[
        list[str],
        typer.Argument(metavar="ID", help="IDs of experiments, as in docs/seeds.md.", autocompletion=known_ids),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Run a smaller size, for a first look.")] = False,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the results.")] = Path("lab-report"),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed; the same seed gives the same numbers.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on the last line.")] = False,
    supervised: Supervised = False,
) -> None:
    """Run experiments of the papers: a REPORT.md with the published numbers beside ours, tables (CSV), figures (SVG).

    Examples: teia lab reproduce P7 · teia lab reproduce P7 --quick --out report --json
    """
    from teia.lab.reproduce import runner

    progress = Progress(supervised)
    reproduction = runner.reproduce(
        ids, seed=seed, quick=quick, out=out, clock=WallClock(), progress=progress.report_step
    )
    if as_json:
        print_json(runner.summary(reproduction))
    else:
        print(reproduction.report)
