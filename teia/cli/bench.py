"""`teia bench`: timed runs on this machine. They are no part of the package and need a checkout.

Comparisons with other crawlers need `scripts/peers` too.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from teia.cli.options import AsJson
from teia.cli.output import print_json, progress_console, result_console
from teia.errors import MissingComponent, UsageError

ALL_PEERS = "scrapy,crawlee,spider-rs,wget2"

app = typer.Typer(help="Benchmark teia on this machine: crawling beside other crawlers, indexing, searching.")

Peers = Annotated[str, typer.Option(metavar="NAME,NAME", help="Crawlers to compare with; empty: none.")]
Rounds = Annotated[int, typer.Option(min=1, help="Number of crawls per crawler.")]
Pages = Annotated[int, typer.Option(min=100, max=10_000_000, help="Number of pages of generated text.")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
Each = Annotated[int, typer.Option(min=1, help="Number of searches per kind of query.")]
Cold = Annotated[
    int, typer.Option(min=0, help="Number of cold searches per kind of query, each in a new process; 0: none.")
]
Semantics = Annotated[bool, typer.Option("--semantics", help="Train a semantic model and use it for ranking.")]


@app.command("crawl")
def crawl(peers: Peers = ALL_PEERS, rounds: Rounds = 3, as_json: AsJson = False) -> None:
    """Crawl the Debian documentation of Python and Apache with teia and other crawlers, from nginx on loopback."""
    names = [name.strip() for name in peers.split(",") if name.strip()]
    console = progress_console()
    result = _from_checkout("bench.peers.runner").compare(names, rounds, console.print)
    _print_table(result)
    if as_json:
        print_json(result)


@app.command("index")
def index(pages: Pages = 10_000, rounds: Rounds = 3, seed: Seed = 1, as_json: AsJson = False) -> None:
    """Index generated text with teia's indexer and with tantivy alone, and compare the times."""
    console = progress_console()
    result = _from_checkout("bench.index").measure(pages, seed, rounds=rounds, progress=console.print)
    table = Table("indexer", "pages", "pages/s", "text MB/s", "CPU ms/page", "disk B/page", "+MB", box=None)
    for row in result["rows"]:
        table.add_row(
            row["name"],
            f"{row['n']:,}",
            f"{row['pages_per_s']:,.0f}",
            f"{row['text_mb_per_s']:.1f}",
            f"{row['cpu_ms_per_page']:.2f}",
            f"{row['disk_bytes_per_page']:,}",
            f"{row['rss_growth_mb']}",
        )
    result_console().print(table)
    result_console().print(f"teia takes {result['ratio']:g}x the time and {result['cpu_ratio']:g}x the CPU time")
    if as_json:
        print_json(result)


@app.command("search")
def search(
    pages: Pages = 20_000,
    each: Each = 20,
    cold: Cold = 1,
    semantics: Semantics = False,
    seed: Seed = 1,
    as_json: AsJson = False,
) -> None:
    """Index generated text once, kept in the .cache folder of the checkout, and time searches of every kind.

    The queries of F11's table 26 are among them.
    """
    console = progress_console()
    result = _from_checkout("bench.search").measure(
        pages, seed, each=each, cold=cold, semantics=semantics, progress=console.print
    )
    _print_searches(result)
    if as_json:
        print_json(result)


@app.command("plan")
def plan(
    pages: Annotated[
        str, typer.Option(metavar="N,N", help="Numbers of pages of the generated scenarios.")
    ] = "100000,1000000",
    rounds: Annotated[int, typer.Option(min=1, help="Number of plans per scenario; the fastest counts.")] = 5,
    theta: Annotated[
        float, typer.Option(min=0.0, help="Zipf exponent of the distribution of pages over servers.")
    ] = 1.0,
    rate_unit: Annotated[
        str, typer.Option(metavar="day|hour", help="Unit of the change rates (0.01 to 1): day or hour.")
    ] = "hour",
    seed: Seed = 1,
    as_json: AsJson = False,
) -> None:
    """Plan visits for scenarios of the paper's kind (P8), and measure time and memory."""
    sizes = _sizes(pages, rate_unit)
    console = progress_console()
    result = _from_checkout("bench.plan").measure(
        sizes, rounds=rounds, theta=theta, unit=rate_unit, seed=seed, progress=console.print
    )
    table = Table("pages", "servers", "visits", "counts s", "MERGE s", "rates s", "CPU us/page", "peak MB", box=None)
    for row in result["rows"]:
        table.add_row(
            *(f"{row[name]:,}" for name in ("n", "servers", "visits")),
            *(f"{row[name]:.3f}" for name in ("counts_s", "merge_s", "rates_s", "cpu_us_a_page")),
            f"{row['peak_rss_mb']:,}",
        )
    result_console().print(table)
    if as_json:
        print_json(result)


@app.command("simulate")
def simulate(
    pages: Annotated[
        str, typer.Option(metavar="N,N", help="Numbers of pages of the generated scenarios.")
    ] = "100000,1000000",
    policy: Annotated[str, typer.Option(metavar="NAME,NAME", help="Policies to simulate.")] = "psp,edf,index",
    rounds: Annotated[
        int, typer.Option(min=1, help="Number of simulations per day and policy; the fastest counts.")
    ] = 3,
    theta: Annotated[
        float, typer.Option(min=0.0, help="Zipf exponent of the distribution of pages over servers.")
    ] = 1.0,
    rate_unit: Annotated[
        str, typer.Option(metavar="day|hour", help="Unit of the change rates (0.01 to 1): day or hour.")
    ] = "hour",
    seed: Seed = 1,
    as_json: AsJson = False,
) -> None:
    """Simulate a day of ten crawlers in scenarios of the paper's kind (P2), and measure time, memory and staleness."""
    sizes = _sizes(pages, rate_unit)
    result = _from_checkout("bench.simulate").measure(
        sizes,
        policy.split(","),
        rounds=rounds,
        theta=theta,
        unit=rate_unit,
        seed=seed,
        progress=progress_console().print,
    )
    table = Table("policy", "pages", "visits", "simulate s", "plan s", "us/visit", "peak MB", "staleness", box=None)
    for row in result["rows"]:
        table.add_row(
            row["policy"] + ("" if row["compiled"] else ", in Python"),
            *(f"{row[name]:,}" for name in ("n", "visits")),
            *(f"{row[name]:.2f}" for name in ("simulate_s", "plan_s", "us_a_visit")),
            f"{row['peak_rss_mb']:,}",
            f"{row['staleness']:.5f}",
        )
    result_console().print(table)
    if as_json:
        print_json(result)


def _sizes(pages: str, rate_unit: str) -> list[int]:
    try:
        sizes = [int(each) for each in pages.split(",")]
    except ValueError:
        raise UsageError(f"--pages: {pages!r} is not a list of numbers, such as 100000,1000000") from None
    if min(sizes) < 1 or rate_unit not in ("day", "hour"):
        raise UsageError("--pages must be positive numbers, --rate-unit must be day or hour")
    return sizes


def _from_checkout(module: str) -> Any:
    root = Path(__file__).resolve().parents[2]
    if not (root / "bench" / "peers").is_dir():
        raise MissingComponent("teia bench: needs a checkout of the repository; run it there as scripts/teia bench")
    # `bench` is a folder of the checkout and not part of the installed package.
    sys.path.insert(0, str(root))
    return import_module(module)


def _print_table(result: dict[str, Any]) -> None:
    table = Table("crawler", "does", "pages", "pages/s", "CPU ms/page", "MB", "disk B/page", "teia's speed", box=None)
    for row in result["rows"]:
        ratio = result["ratios"].get(row["name"])
        table.add_row(
            row["name"],
            row["setting"],
            f"{row['pages']:,}",
            f"{row['pages_per_s']:,.0f}",
            f"{row['cpu_ms_per_page']:.2f}",
            f"{row['peak_rss_mb']:.0f}",
            f"{row['disk_bytes_per_page']:,}",
            f"{ratio:g}x" if ratio else "",
        )
    console = result_console()
    console.print(table)
    for title, found in result["differences"].items():
        only = {"fetched by it alone": found["only_they"], "fetched by teia alone": found["only_we"]}
        for words, paths in only.items():
            if paths:
                console.print(f"{title}: {words}: {' '.join(paths)}")


def _print_searches(result: dict[str, Any]) -> None:
    table = Table("query", "words", "found", "median ms", "95% ms", "max ms", "95% CPU ms", "ours", "cold ms", box=None)
    # The last row is over the queries of all kinds.
    for row in (*result["rows"], {"kind": "all", "words": "", "cold_ms": None} | result["all"]):
        table.add_row(
            row["kind"],
            row["words"],
            f"{row['total_p50']:,.0f}",
            f"{row['p50_ms']:.1f}",
            f"{row['p95_ms']:.1f}",
            f"{row['max_ms']:.1f}",
            f"{row['cpu_p95_ms']:.1f}",
            f"+{100 * row['own']:.0f}%",
            "" if row["cold_ms"] is None else f"{row['cold_ms']:.0f}",
        )
    paper = Table("F11's query", "found", "published s", "s", "published repeat s", "again s", "cold s", box=None)
    for row in result["table_26"]:
        paper.add_row(
            row["query"],
            f"{row['found']:,}",
            f"{row['published_s']:g}",
            f"{row['s']:.4f}",
            f"{row['published_again_s']:g}",
            f"{row['again_s']:.4f}",
            "" if row["cold_s"] is None else f"{row['cold_s']:.3f}",
        )
    console = result_console()
    console.print(table)
    console.print(paper)
