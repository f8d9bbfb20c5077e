"""`teia lab plan`: number and times of revisits for the pages of a file (P4)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from teia.cli.options import AsJson
from teia.cli.output import print_json, progress_console
from teia.cli.supervised import Progress, Supervised


def plan(
    scenario: Annotated[
        Path,
        typer.Option(
            metavar="FILE.csv", help="CSV file with the columns page,server,weight,rate_per_day[,size_bytes][,age_s]."
        ),
    ],
    horizon_h: Annotated[
        float, typer.Option("--horizon-h", metavar="H", help="Period that the plan covers, in hours.")
    ],
    politeness_s: Annotated[
        float, typer.Option("--politeness-s", metavar="S", help="Delay between two visits to one server, in seconds.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="COUNTS.csv", help="CSV file to write, with the columns page,count,times.")
    ],
    budget: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Total number of visits; unlimited by default.")
    ] = None,
    policy: Annotated[str, typer.Option(metavar="NAME", help="Policy: psp, psp-centred, mp2, m-wolf …")] = "psp",
    as_json: AsJson = False,
    supervised: Supervised = False,
) -> None:
    """Plan visits to the pages of a file: number and times of visits, and the expected staleness.

    Examples: teia lab plan --scenario pages.csv --horizon-h 24 --politeness-s 15 --out counts.csv --json
    """
    from teia.clock import WallClock
    from teia.lab.plan import plan_file

    progress = Progress(supervised=True).report_step if supervised else (lambda _: None)
    summary = plan_file(
        scenario,
        out,
        policy,
        horizon_s=3600.0 * horizon_h,
        politeness_s=politeness_s,
        budget=budget,
        clock=WallClock(),
        progress=progress,
    )
    if as_json:
        print_json(summary)
        return
    console = progress_console()
    console.print(
        f"{summary['visits']:,} visits to {summary['visited_pages']:,} of {summary['pages']:,} pages, written to {out}"
    )
    console.print(f"staleness {summary['staleness']:.5f}; lower bound (WP) {summary['bounds']['wp']:.5f}")
