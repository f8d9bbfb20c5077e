"""Growth with the number of URLs and of hosts: exponents that fit the figures of two benchmarks, and a plot.

    python bench/frontier.py --urls 10000000 --cells 4 --hosts 20000 --json > urls.json
    python bench/frontier.py --urls 100000000 --filled 98000000 --cells 4 --hosts 20000 --json > filled.json
    python -m bench.broad --hosts 10 100 500 1000 10000 100000 1000000 > hosts.json
    python -m bench.growth urls.json filled.json hosts.json

The figures are saved in bench/results/growth.json and drawn in docs/growth.svg; without files those that are saved are
drawn again. An exponent is the slope of a straight line through the logarithms: with 0 a cost does not grow, with 1 it
doubles with the number. Rows of fewer than FIT_FROM are not fitted: a start dominates them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from teia.lab.reproduce.figure import render_svg
from teia.lab.reproduce.registry import Figure, PlotLine

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PLOT = ROOT / "bench" / "results" / "growth.json", ROOT / "docs" / "growth.svg"
FIT_FROM = {"urls": 100_000, "hosts": 500}
COSTS = {
    "urls": {"cpu_us_a_link": "µs of processor time a link", "rss_mb": "MB", "reopen_s": "s to open again"},
    "hosts": {"cpu_ms_per_request": "ms of processor time a request", "peak_mb": "MB"},
}
"""For each kind of row its costs, by their keys."""

NAMES = {"urls": "URLs", "hosts": "hosts"}
Row = dict[str, Any]


def rows_of(results: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of all given results by their kind, sorted by size."""
    rows: dict[str, list[Row]] = {"urls": [], "hosts": []}
    for result in results:
        if "rows" in result:
            rows["hosts"] += result["rows"]
        else:
            rows["urls"] += result["growth"]
            # The last tenth, when all URLs are known, and the opening after it.
            last = {"urls": result["urls"], "links_per_s": result["links_per_s_at_the_end"]}
            last |= {"cpu_us_a_link": result["cpu_us_at_the_end"], "rss_mb": result["rss_mb"]}
            rows["urls"].append(last | {"reopen_s": result["reopen_s"], "filled": result["filled"]})
    return {kind: sorted(found, key=itemgetter(kind)) for kind, found in rows.items()}


def exponent(rows: Sequence[Row], kind: str, cost: str) -> float | None:
    """Return the slope of a cost against the size, both as logarithms; None with fewer than three rows."""
    points = [(row[kind], row[cost]) for row in rows if row.get(cost) and row[kind] >= FIT_FROM[kind]]
    if len(points) < 3:
        return None
    sizes, costs = np.log(np.array(points, dtype=float)).T
    return round(float(np.polyfit(sizes, costs, 1)[0]), 3)


def figure(rows: dict[str, list[Row]], exponents: dict[str, dict[str, float | None]]) -> Figure:
    lines = []
    for kind, costs in COSTS.items():
        for cost, label in costs.items():
            points = [(float(row[kind]), float(row[cost])) for row in rows[kind] if row.get(cost)]
            if points:
                x, y = zip(*points, strict=True)
                slope = exponents[kind][cost]
                fitted = "" if slope is None else f", exponent {slope:.2f}"
                lines.append(PlotLine(f"{label}, by {NAMES[kind]}{fitted}", x, y))
    title = "Growth with URLs and with hosts"
    return Figure("growth", title, "URLs or hosts", "cost", tuple(lines), log_x=True, log_y=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="*", help="what bench/frontier.py and bench.broad printed")
    given = parser.parse_args()
    if given.results:
        rows = rows_of([json.loads(path.read_text("utf-8").splitlines()[-1]) for path in given.results])
        exponents = {kind: {cost: exponent(rows[kind], kind, cost) for cost in costs} for kind, costs in COSTS.items()}
        RESULTS.write_text(json.dumps({"rows": rows, "exponents": exponents}, indent=1) + "\n", "utf-8")
    saved = json.loads(RESULTS.read_text("utf-8"))
    PLOT.write_text(render_svg(figure(saved["rows"], saved["exponents"])), "utf-8")
    print(json.dumps(saved["exponents"], indent=1))


if __name__ == "__main__":
    main()
