"""Time from a page's commit until it can be found, while the crawl runs.

    .venv/bin/python -m bench.searchable --hosts 100 --seconds 40

A crawl of a lab web runs as a user would run it, with its indexer. The frontier numbers pages as it commits them, and
the index stores the number up to which it can find them. Both are read ten times a second; the lag of a page is the
time between the frontier and the index reaching its number. Prints JSON and stores it in bench/results/searchable.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.politeness import SPEC
from teia.index.position import read_position
from teia.lab.server.process import lab_process
from teia.store.root import open_root

RESULTS = Path(__file__).parent / "results" / "searchable.json"
POLL_S = 0.1

Counts = tuple[float, int, int]
"""A time, the number of the last committed page, and of the last page that can be found."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--delay", type=float, default=1.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder), options.hosts, options.seconds, options.delay)
    command = (
        f"python -m bench.searchable --hosts {options.hosts} --seconds {options.seconds} --delay {options.delay:g}"
    )
    result = {"command": command, **result}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(json.dumps(result))


def measure(folder: Path, hosts: int, seconds: int, delay_s: float) -> dict[str, object]:
    spec, data = folder / "world.toml", folder / "data"
    spec.write_text(SPEC.format(hosts=hosts, pages=hosts * 200), "utf-8")
    address_flags = [
        "--address",
        "127.77.102.1",
        "--dns-address",
        "127.77.255.102:0",
        "--control-address",
        "127.77.254.102",
    ]
    with lab_process("--spec", str(spec), "--port", "0", *address_flags) as lab:
        command = [sys.executable, "-m", "teia", "crawl", lab["seeds"][0], "--data", str(data), "--dns", lab["dns"]]
        command += ["--allow-net", "127.77.0.0/16", "--scope", "suffix:.test", "--delay", str(delay_s)]
        crawl = subprocess.Popen([*command, "--max-seconds", str(seconds)], stderr=subprocess.DEVNULL)
        try:
            counts = watch(crawl, data)
        finally:
            crawl.terminate()
            crawl.wait(60)
    lags = sorted(lag for of_cell in counts.values() for lag in compute_lags(of_cell))
    pages = sum(of_cell[-1][1] for of_cell in counts.values())
    waiting = sum(of_cell[-1][1] - of_cell[-1][2] for of_cell in counts.values())
    return {
        "hosts": hosts,
        "delay_s": delay_s,
        "pages": pages,
        "pages_per_s": round(pages / seconds, 1),
        "waiting_at_the_end": waiting,
        "lag_s_median": round(lags[len(lags) // 2], 2),
        "lag_s_p99": round(lags[len(lags) * 99 // 100], 2),
        "lag_s_max": round(lags[-1], 2),
        "load_average": round(os.getloadavg()[0], 2),
    }


def watch(crawl: subprocess.Popen[bytes], data: Path) -> dict[int, list[Counts]]:
    """Return by cell the committed pages and the pages that can be found, as long as the crawl runs."""
    while not any(data.glob("main/cells/*/frontier.sqlite")):
        time.sleep(POLL_S)
    time.sleep(1.0)
    folders = open_root(data).collection("main").cells()
    counts: dict[int, list[Counts]] = {folder.number: [] for folder in folders}
    while crawl.poll() is None:
        for folder in folders:
            committed = read_committed(folder.frontier)
            position = read_position(folder.index)
            counts[folder.number].append((time.monotonic(), committed, 0 if position is None else position))
        time.sleep(POLL_S)
    return counts


def read_committed(path: Path) -> int:
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        row = db.execute("SELECT value FROM meta WHERE name = 'changes'").fetchone()
        return 0 if row is None else int(row[0])
    finally:
        db.close()


def compute_lags(counts: list[Counts]) -> list[float]:
    """Return for each step of the commits the time until it could be found; steps not found yet are left out."""
    lags, index = [], 0
    for at, committed, _ in counts:
        while index < len(counts) and counts[index][2] < committed:
            index += 1
        if index == len(counts):
            break
        lags.append(max(0.0, counts[index][0] - at))
    return lags


if __name__ == "__main__":
    main()
