"""Duration of `teia search` from the start of its process to the last octet of its output.

    python -m bench.cold_search [--pages 100000] [--each 15] [--write]

The collection is that of bench.search, with frontiers, in a data folder in `.cache/cold-search-PAGES`, kept. Queries
are of three frequent, medium and rare words, ten results each. Five situations:

    python          the start of Python alone, which is part of all others
    alone           no server runs; all files are in memory
    alone, dropped  the kernel has dropped all files, Python's included (root only), or else those of the collection
    server          `teia serve` runs in the folder; all files are in memory
    full            no server, by the tree of commands with typer, which plain searches avoid

`ms` are wall time, `cpu_ms` the processor time of the command. The goal: 250 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.cluster_search import NAME, fill_frontiers, make_root
from bench.search import CACHE, CELLS, cached_collection, drop_from_memory
from bench.web import served
from teia.lab.corpus.collection import CorpusCollection
from teia.lab.corpus.pages import Corpus
from teia.lab.corpus.questions import QuerySampler
from teia.store.root import Root, open_root

PAGES, SEED, EACH = 100_000, 1, 15
GOAL_MS = 250.0
RESULTS = Path(__file__).parent / "results" / "cold_search.json"
DROP = Path("/proc/sys/vm/drop_caches")
QUICK = "from teia.cli.start import run; run()"
"""What the installed script `teia` runs."""

FULL = "import sys; from teia.cli.main import run; run(sys.argv[1:])"


def cached_root(pages: int, cache: Path = CACHE) -> tuple[Root, CorpusCollection]:
    """Return the data folder of so many pages, from the cache or newly made."""
    found = cached_collection(pages, SEED, semantics=True, cache=cache)
    folder = cache / f"cold-search-{pages}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        root = make_root(folder, found, range(CELLS))
        fill_frontiers(root, found)
        root.collection(NAME).semantic.symlink_to((found.folder / "semantics").resolve())
        (folder / "complete").touch()
    return open_root(folder), found


def drop_all(found: CorpusCollection) -> str:
    """Drop files from memory; return which."""
    drop_from_memory(found)
    try:
        os.sync()
        DROP.write_text("3\n", "ascii")
    except OSError:
        return "files of the collection"
    return "all files"


def run_once(arguments: Sequence[str]) -> dict[str, float]:
    """Run a command and measure it."""
    before, began = os.times(), time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], capture_output=True, check=True, timeout=120)
    ms, after = 1000 * (time.perf_counter() - began), os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return {"ms": ms, "cpu_ms": 1000 * cpu_s, "octets": len(done.stdout)}


def summary(rows: Sequence[dict[str, float]]) -> dict[str, Any]:
    ms = sorted(row["ms"] for row in rows)
    return {
        "searches": len(ms),
        "median_ms": round(statistics.median(ms), 1),
        "p95_ms": round(ms[min(len(ms) - 1, int(0.95 * len(ms)))], 1),
        "cpu_ms": round(statistics.fmean(row["cpu_ms"] for row in rows), 1),
        "within_goal": sum(each <= GOAL_MS for each in ms),
    }


def situations(root: Root, found: CorpusCollection, queries: Sequence[str]) -> dict[str, Any]:
    """Measure in all situations."""
    rest = ("--data", str(root.path))
    result: dict[str, Any] = {"python": summary([run_once(("-c", "pass")) for _ in queries])}
    quick = [("-c", QUICK, "search", query, *rest) for query in queries]
    full = [("-c", FULL, "search", query, *rest) for query in queries]
    for command in quick[:3]:
        run_once(command)
    # In turns, so that other work on the machine concerns both alike.
    pairs = [(run_once(one), run_once(other)) for one, other in zip(quick, full, strict=True)]
    result["alone"], result["full"] = summary([one for one, _ in pairs]), summary([other for _, other in pairs])
    with served(root):
        run_once(quick[0])
        result["server"] = summary([run_once(command) for command in quick])
    dropped = []
    for command in quick[: max(3, len(quick) // 5)]:
        result["dropped"] = drop_all(found)
        dropped.append(run_once(command))
    result["alone, dropped"] = summary(dropped)
    return result


def measure(pages: int, each: int) -> dict[str, Any]:
    root, found = cached_root(pages)
    sampler = QuerySampler(Corpus(pages, SEED, cells=CELLS))
    queries = [query.text for query in sampler.sample(each) if query.kind == "any word"]
    load = os.getloadavg()[0]
    return {
        "command": f"python -m bench.cold_search --pages {pages} --each {each}",
        "pages": pages,
        "cores": os.cpu_count(),
        "load_average": round(load, 1),
        "goal_ms": GOAL_MS,
    } | situations(root, found, queries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--each", type=int, default=EACH, help="queries of each frequency of words")
    parser.add_argument("--make-only", action="store_true", help="make the data folder and measure nothing")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    if options.make_only:
        cached_root(options.pages)
        return
    result = measure(options.pages, options.each)
    print(json.dumps(result, indent=1))
    if options.write:
        RESULTS.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
