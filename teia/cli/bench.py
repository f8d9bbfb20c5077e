"""`teia bench`: timed runs on this machine. They are no part of the package and need a checkout.

Comparisons with other crawlers need `scripts/peers` too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
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
Semantics = Annotated[bool, typer.Option(help="Train a semantic model and use it for ranking.")]
Sizes = Annotated[str, typer.Option(metavar="N,N", help="Numbers of pages of the generated scenarios.")]
Theta = Annotated[float, typer.Option(min=0.0, help="Zipf exponent of the distribution of pages over servers.")]
RateUnit = Annotated[str, typer.Option(metavar="day|hour", help="Unit of the change rates (0.01 to 1): day or hour.")]
SIZES = "100000,1000000"

# Columns of the tables: the key of a row, and the format of its value.
Columns = dict[str, tuple[str, str]]
CRAWLERS: Columns = {
    "crawler": ("name", ""), "does": ("setting", ""), "pages": ("pages", ","), "pages/s": ("pages_per_s", ",.0f"),
    "searchable/s": ("searchable_pages_per_s", ",.0f"), "CPU ms/page": ("cpu_ms_per_page", ".2f"),
    "MB": ("peak_rss_mb", ".0f"), "disk B/page": ("disk_bytes_per_page", ","), "teia's speed": ("speed", ""),
}  # fmt: skip
INDEXERS: Columns = {
    "indexer": ("name", ""), "pages": ("n", ","), "pages/s": ("pages_per_s", ",.0f"),
    "text MB/s": ("text_mb_per_s", ".1f"), "CPU ms/page": ("cpu_ms_per_page", ".2f"),
    "disk B/page": ("disk_bytes_per_page", ","), "+MB": ("rss_growth_mb", ""),
}  # fmt: skip
QUERIES: Columns = {
    "query": ("kind", ""), "words": ("words", ""), "found": ("total_p50", ",.0f"), "median ms": ("p50_ms", ".1f"),
    "95% ms": ("p95_ms", ".1f"), "max ms": ("max_ms", ".1f"), "95% CPU ms": ("cpu_p95_ms", ".1f"),
    "ours": ("own", "+.0%"), "cold ms": ("cold_ms", ".0f"),
}  # fmt: skip
TABLE_26: Columns = {
    "F11's query": ("query", ""), "found": ("found", ","), "published s": ("published_s", "g"), "s": ("s", ".4f"),
    "published repeat s": ("published_again_s", "g"), "again s": ("again_s", ".4f"), "cold s": ("cold_s", ".3f"),
}  # fmt: skip
PLANS: Columns = {
    "pages": ("n", ","), "servers": ("servers", ","), "visits": ("visits", ","), "counts s": ("counts_s", ".3f"),
    "MERGE s": ("merge_s", ".3f"), "rates s": ("rates_s", ".3f"), "CPU us/page": ("cpu_us_a_page", ".3f"),
    "peak MB": ("peak_rss_mb", ","),
}  # fmt: skip
SIMULATIONS: Columns = {
    "policy": ("policy", ""), "pages": ("n", ","), "visits": ("visits", ","), "simulate s": ("simulate_s", ".2f"),
    "plan s": ("plan_s", ".2f"), "us/visit": ("us_a_visit", ".2f"), "peak MB": ("peak_rss_mb", ","),
    "staleness": ("staleness", ".5f"),
}  # fmt: skip


@app.command("crawl")
def crawl(peers: Peers = ALL_PEERS, rounds: Rounds = 3, as_json: AsJson = False) -> None:
    """Crawl the Debian documentation of Python and Apache with teia and other crawlers, from nginx on loopback."""
    names = [name.strip() for name in peers.split(",") if name.strip()]
    result = _from_checkout("bench.peers.runner").compare(names, rounds, progress_console().print)
    speeds = {name: f"{ratio:g}x" for name, ratio in result["ratios"].items() if ratio}
    _print_rows(CRAWLERS, ({**row, "speed": speeds.get(row["name"])} for row in result["rows"]))
    for title, found in result["differences"].items():
        only = {"fetched by it alone": found["only_they"], "fetched by teia alone": found["only_we"]}
        for words, paths in only.items():
            if paths:
                result_console().print(f"{title}: {words}: {' '.join(paths)}")
    if as_json:
        print_json(result)


@app.command("index")
def index(pages: Pages = 10_000, rounds: Rounds = 3, seed: Seed = 1, as_json: AsJson = False) -> None:
    """Index generated text with teia's indexer and with tantivy alone, and compare the times."""
    progress = progress_console().print
    result = _from_checkout("bench.index").measure(pages, seed, rounds=rounds, progress=progress)
    _print_rows(INDEXERS, result["rows"])
    result_console().print(f"teia takes {result['ratio']:g}x the time and {result['cpu_ratio']:g}x the CPU time")
    if as_json:
        print_json(result)


@app.command("search")
def search(
    pages: Pages = 20_000,
    each: Each = 20,
    cold: Cold = 1,
    semantics: Semantics = True,
    seed: Seed = 1,
    as_json: AsJson = False,
) -> None:
    """Index generated text once, kept in the .cache folder of the checkout, and time searches of every kind.

    The queries of F11's table 26 are among them.
    """
    result = _from_checkout("bench.search").measure(
        pages, seed, each=each, cold=cold, semantics=semantics, progress=progress_console().print
    )
    # The last row is over the queries of all kinds.
    _print_rows(QUERIES, (*result["rows"], {"kind": "all", "words": "", "cold_ms": None} | result["all"]))
    _print_rows(TABLE_26, result["table_26"])
    if as_json:
        print_json(result)


@app.command("plan")
def plan(
    pages: Sizes = SIZES,
    rounds: Annotated[int, typer.Option(min=1, help="Number of plans per scenario; the fastest counts.")] = 5,
    theta: Theta = 1.0,
    rate_unit: RateUnit = "hour",
    seed: Seed = 1,
    as_json: AsJson = False,
) -> None:
    """Plan visits for scenarios of the paper's kind (P8), and measure time and memory."""
    result = _from_checkout("bench.plan").measure(
        _sizes(pages, rate_unit),
        rounds=rounds,
        theta=theta,
        unit=rate_unit,
        seed=seed,
        progress=progress_console().print,
    )
    _print_rows(PLANS, result["rows"])
    if as_json:
        print_json(result)


@app.command("simulate")
def simulate(
    pages: Sizes = SIZES,
    policy: Annotated[str, typer.Option(metavar="NAME,NAME", help="Policies to simulate.")] = "psp,edf,index",
    rounds: Annotated[
        int, typer.Option(min=1, help="Number of simulations per day and policy; the fastest counts.")
    ] = 3,
    theta: Theta = 1.0,
    rate_unit: RateUnit = "hour",
    seed: Seed = 1,
    as_json: AsJson = False,
) -> None:
    """Simulate a day of ten crawlers in scenarios of the paper's kind (P2), and measure time, memory and staleness."""
    result = _from_checkout("bench.simulate").measure(
        _sizes(pages, rate_unit),
        policy.split(","),
        rounds=rounds,
        theta=theta,
        unit=rate_unit,
        seed=seed,
        progress=progress_console().print,
    )
    slow = {True: "", False: ", in Python"}
    _print_rows(SIMULATIONS, ({**row, "policy": row["policy"] + slow[row["compiled"]]} for row in result["rows"]))
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


def _print_rows(columns: Columns, rows: Iterable[Mapping[str, Any]]) -> None:
    table = Table(*columns, box=None)
    for row in rows:
        table.add_row(*("" if row[key] is None else format(row[key], form) for key, form in columns.values()))
    result_console().print(table)
