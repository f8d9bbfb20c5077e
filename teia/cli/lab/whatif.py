"""`teia lab whatif`: a collection's own history under another delay, budget, policy or number of machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from teia.cli.options import AsJson, Collection, Data, open_collection
from teia.cli.output import print_grid, print_json
from teia.cli.supervised import Progress, Supervised

if TYPE_CHECKING:
    from teia.lab.whatif.answer import HostLoad, Side, WhatIf
    from teia.lab.whatif.judging import MeanEstimate


def whatif(
    data: Data,
    collection: Collection = None,
    delay: Annotated[
        float | None,
        typer.Option(metavar="S", help="Delay between two requests to a server; a longer Crawl-delay still applies."),
    ] = None,
    budget: Annotated[int | None, typer.Option(metavar="N", help="Budget: visits per day over all hosts.")] = None,
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Policy that schedules visits; see docs/refresh.md for all names."),
    ] = None,
    nodes: Annotated[
        int | None, typer.Option(metavar="N", help="Number of machines like the one that crawled.")
    ] = None,
    days: Annotated[float, typer.Option(metavar="D", help="Number of days to predict.")] = 14.0,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Random seed.")] = 1,
    top: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Number of hosts to list.")] = 10,
    as_json: AsJson = False,
    supervised: Supervised = False,
) -> None:
    """Predict how fresh a collection would be with other settings, compared with its current ones.

    Examples: teia lab whatif --data archive --delay 10 · teia lab whatif --data archive --policy index --json
    """
    from teia.clock import WallClock
    from teia.lab.whatif.answer import WhatIfRequest, what_if
    from teia.views.reports.source import open_source

    request = WhatIfRequest(delay, budget, policy, nodes, days, seed, top)
    root, chosen = open_collection(data, collection)
    progress = Progress(supervised)
    with open_source(root, chosen) as source:
        found = what_if(source, request, WallClock(), progress.report_share)
    _print(chosen, found)
    if as_json:
        print_json({"collection": chosen, **_rounded(asdict(found))})


def _print(collection: str, found: WhatIf) -> None:
    print(
        f"{collection}: {found.pages:,} pages on {found.hosts:,} hosts, {found.visited_again:,} of them visited"
        f" again; {found.prior_only:,} have only a prior rate,\nand {found.prior_share:.0%} of the information on"
        f" all rates is prior. Predicted: {found.days:g} days, starting {found.settling_days:.2g} days from now, in"
        f" {found.worlds} scenarios\n"
    )
    sides = [found.as_is] + ([found.what_if] if found.what_if is not None else [])
    rows = [_rows(side) for side in sides]
    titles = ["", "current settings", "what if"][: len(sides) + 1]
    cells = [[name, *(each[name] for each in rows)] for name in rows[0]]
    print_grid(titles, cells, [False] + [True] * len(sides))
    if found.gain is not None:
        gain = found.gain
        print(f"\ngain {100 * gain.mean:+.2f} points ({100 * gain.low:+.2f} to {100 * gain.high:+.2f})")
    print()
    _print_hosts(sides)
    for side, title in zip(sides, titles[1:], strict=True):
        if side.late_urls:
            print(f"\n{title}, not revisited within a week, for example: {' '.join(side.late_urls)}")
    for note in found.notes:
        print(f"\n{note}")


def _rows(side: Side) -> dict[str, str]:
    from teia.crawler.keep_fresh.freshness import days

    terms, fresh = side.terms, side.fresh
    return {
        "delay": f"{terms.delay_s:,g} s",
        "policy": terms.policy,
        "budget, visits per day": "none" if terms.budget is None else f"{terms.budget:,}",
        "nodes": str(terms.nodes),
        "fresh": f"{fresh.mean:.1%} ({fresh.low:.1%} to {fresh.high:.1%})",
        "bound": f"{side.bound:.1%}",
        "visits per day": _count(side.visits_per_day),
        "requests per day": _interval(side.requests, _count),
        "limited by": side.limited_by,
        "full pass": days(side.full_pass_s),
        "waiting URLs visited after": "-" if side.finish_s is None else _interval(side.finish_s, days),
        "slowest host": side.slowest_host,
        "pages not revisited within a week": f"{side.late_pages:,}",
        "pages without visits": f"{side.unvisited:,}",
    }


def _interval(found: MeanEstimate, shown: Callable[[float], str]) -> str:
    return f"{shown(found.mean)} ({shown(found.low)} to {shown(found.high)})"


def _count(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:,.2g}"


def _rounded(value: Any) -> Any:
    """Return the same value with no more digits than it can mean."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return round(value, 6) if isinstance(value, float) else value


def _print_hosts(sides: list[Side]) -> None:
    """Print the busiest hosts of the last side, with the numbers of both sides."""
    from teia.crawler.keep_fresh.freshness import days

    def shown(load: HostLoad | None) -> list[str]:
        if load is None:
            return [""] * 4
        return [
            _count(load.requests_per_day),
            f"{load.busy_share:.2%}",
            days(load.full_pass_s),
            f"{load.late_pages:,}",
        ]

    by_name = [{load.host: load for load in side.hosts} for side in sides]
    titles = ["requests per day", "busy", "full pass", "late pages"]
    names = ["host", "pages"] + [title for each in sides for title in titles]
    cells = [
        [load.host, f"{load.pages:,}", *(text for loads in by_name for text in shown(loads.get(load.host)))]
        for load in sides[-1].hosts
    ]
    heading = "busiest hosts" if len(sides) == 1 else "busiest hosts: current settings, then what if"
    print_grid(names, cells, [False] + [True] * (len(names) - 1), heading)
