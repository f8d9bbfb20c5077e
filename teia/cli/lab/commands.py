"""`teia lab …`: the laboratory's commands, and those of them that are short: `plan` (P4) and `reproduce`.

The laboratory is imported when a command runs, so that other commands do not pay for numpy and matplotlib.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from teia.cli.lab.serve import serve
from teia.cli.lab.simulate import simulate
from teia.cli.lab.whatif import whatif
from teia.cli.long_work import print_next
from teia.cli.options import AsJson
from teia.cli.output import print_json, progress_console
from teia.cli.supervised import Progress, Supervised
from teia.clock import WallClock

app = typer.Typer(
    help="Run experiments: a generated web, a simulator, and the papers' experiments.", no_args_is_help=True
)
app.command("serve")(serve)
app.command("simulate")(simulate)
app.command("whatif")(whatif)


@app.command()
def plan(
    scenario: Annotated[
        Path,
        typer.Option(
            metavar="FILE.csv",
            help="CSV file with the columns page,server,weight,rate_per_day[,size_bytes][,age_s][,clicks].",
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
    bytes_per_s: Annotated[
        float, typer.Option(metavar="B", min=1.0, help="Speed of servers, where the file does not say it.")
    ] = 1e6,
    device: Annotated[
        Literal["cpu", "cuda"],
        typer.Option(help="Processor or GPU that computes the plan; a GPU plans pages without ages and sizes."),
    ] = "cpu",
    as_json: AsJson = False,
    supervised: Supervised = False,
) -> None:
    """Plan visits to the pages of a file: number and times of visits, and the expected staleness.

    Examples: teia lab plan --scenario pages.csv --horizon-h 24 --politeness-s 15 --out counts.csv --json
    """
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
        bytes_per_s=bytes_per_s,
        device=device,
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


def known_ids() -> list[str]:
    """Return the ids that the shell offers for completion."""
    from teia.lab.reproduce.catalogue import ALL, EXPERIMENTS

    return [*EXPERIMENTS, ALL]


@app.command()
def reproduce(
    ids: Annotated[
        list[str],
        typer.Argument(metavar="ID", help="IDs of experiments, as in docs/seeds.md, or ALL.", autocompletion=known_ids),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Run a smaller size, for a first look.")] = False,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the results.")] = Path("lab-report"),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed; the same seed gives the same numbers.")] = 1,
    as_json: AsJson = False,
    supervised: Supervised = False,
) -> None:
    """Run experiments of the papers: REPORT.md and REPORT.html, published numbers beside ours; CSV and SVG files.

    Examples: teia lab reproduce P7 · teia lab reproduce P7 --quick --out report --json · teia lab reproduce ALL
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
    if not supervised:
        print_next(f"open {reproduction.report.with_suffix('.html')}")
    if reproduction.heading.failures:
        raise typer.Exit(1)
