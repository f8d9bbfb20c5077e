"""`teia lab simulate`: policies for visiting pages again, side by side, without a crawl (P2, P5)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from teia.cli.options import AsJson
from teia.cli.output import print_json, result_console
from teia.cli.supervised import Progress, Supervised
from teia.errors import UsageError

if TYPE_CHECKING:
    from teia.refresh.model import RefreshWorld

UNIT_S = {"day": 86_400.0, "hour": 3600.0}


def simulate(
    scenario: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="CSV file with pages, as for `lab plan`; or use --pages and --servers."),
    ] = None,
    pages: Annotated[int | None, typer.Option(metavar="N", min=1, help="Number of pages to generate.")] = None,
    servers: Annotated[int | None, typer.Option(metavar="M", min=1, help="Number of servers to generate.")] = None,
    theta: Annotated[float, typer.Option(metavar="X", min=0.0, help="Zipf exponent of pages per server.")] = 1.0,
    rates: Annotated[str, typer.Option(metavar="uniform|zipf:X", help="Distribution of change rates.")] = "uniform",
    rate_unit: Annotated[str, typer.Option(metavar="day|hour", help="Unit of the change rates.")] = "day",
    weights: Annotated[str, typer.Option(metavar="uniform|zipf:X", help="Distribution of weights.")] = "uniform",
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Random seed.")] = 1,
    policy: Annotated[
        str, typer.Option(metavar="NAME,NAME", help="Policies to simulate; see docs/refresh.md for all names.")
    ] = "psp,mp2,m-wolf,edf",
    crawlers: Annotated[int | None, typer.Option(metavar="K", min=1, help="Number of crawlers; 10 by default.")] = None,
    pages_per_s: Annotated[str | None, typer.Option(metavar="X[,X]", help="Pages per second; 10 by default.")] = None,
    bytes_per_s: Annotated[float, typer.Option(metavar="B", min=1, help="Speed of servers not described.")] = 1e6,
    politeness_s: Annotated[float, typer.Option(metavar="P", help="Delay between visits to a server.")] = 15.0,
    horizon_h: Annotated[float, typer.Option(metavar="H", help="Period that one plan covers, in hours.")] = 24.0,
    days: Annotated[
        float | None, typer.Option(metavar="N", help="Duration of the simulation, in days; one horizon by default.")
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(metavar="R", min=0, help="Visits per horizon; by default as many as the crawlers can make."),
    ] = None,
    process: Annotated[str, typer.Option(metavar="poisson|mix", help="Change process of generated pages.")] = "poisson",
    visits: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all visits to a file.")] = None,
    sampled: Annotated[bool, typer.Option("--sampled", help="Simulate drawn changes too.")] = False,
    as_json: AsJson = False,
    supervised: Supervised = False,
) -> None:
    """Simulate policies in one scenario, event by event: staleness, visits and lateness of each, and the bounds.

    Examples: teia lab simulate --pages 20000 --servers 40 --rate-unit hour --policy psp,edf --days 8 --json
    """
    from teia.clock import WallClock
    from teia.lab.simulate.command import SimulationRequest, compare, make_crawlers

    request = SimulationRequest(policy, days, sampled, process, seed, visits)
    request.chosen_policies()
    if rate_unit not in UNIT_S:
        raise UsageError(f"--rate-unit: {rate_unit!r} must be day or hour")
    shape: dict[str, Any] = {
        "horizon_s": 3600.0 * horizon_h,
        "politeness_s": politeness_s,
        "budget": budget,
        "crawlers": make_crawlers(crawlers, pages_per_s),
    }
    made_up = {"theta": theta, "rates": rates, "weights": weights, "rate_unit_s": UNIT_S[rate_unit]}
    world, names_of = _world(scenario, pages, servers, seed, shape, made_up, bytes_per_s)
    names = names_of(world) if visits is not None else []
    progress = Progress(supervised)
    result = compare(world, names, request, WallClock(), progress.report_step, progress.report_share)
    result |= {"politeness_s": politeness_s} | ({} if scenario else {"rate_unit": rate_unit, "theta": theta})
    _print(result)
    if as_json:
        print_json(result)


def _world(
    scenario: Path | None,
    pages: int | None,
    servers: int | None,
    seed: int,
    shape: dict[str, Any],
    made_up: dict[str, Any],
    bytes_per_s: float,
) -> tuple[RefreshWorld, Callable[[RefreshWorld], list[str]]]:
    """Return the world to simulate, read from a file or generated, and a function for the names of its pages."""
    import numpy as np

    from teia.refresh.scenario import draw_world, read_scenario

    if scenario is not None:
        if pages is not None or servers is not None:
            raise UsageError("--scenario cannot be combined with --pages and --servers")
        read = read_scenario(scenario)
        if read.crawlers and shape["crawlers"] is not None:
            raise UsageError("--crawlers and --pages-per-s cannot be combined with crawlers in the scenario file")
        return read.world(**shape, bytes_per_s=bytes_per_s), read.names_of
    if pages is None or servers is None:
        raise UsageError("missing pages; use --scenario FILE.csv, or --pages N --servers M")
    world = draw_world(np.random.default_rng(seed), pages=pages, servers=servers, **shape, **made_up)
    return world, lambda world: [str(page) for page in world.page.tolist()]


def _print(result: dict[str, Any]) -> None:
    some = next(iter(result["policies"].values()))
    more = {"staleness_second_half": "second half", "staleness_sampled": "drawn"}
    shown = {key: title for key, title in more.items() if key in some}
    table = Table("policy", "staleness", *shown.values(), "visits", "late 99% s", "age h", box=None)
    for name, row in result["policies"].items():
        table.add_row(
            name,
            f"{row['staleness']:.5f}",
            *(f"{row[key]:.5f}" for key in shown),
            f"{row['visits']:,}",
            f"{row['late_p99_s']:,.1f}",
            f"{row['age_s'] / 3600:,.2f}",
        )
    console = result_console()
    console.print(table)
    console.print(
        "bounds: " + ", ".join(f"{name} {value:.5f}" for name, value in result["bounds"].items()), soft_wrap=True
    )
