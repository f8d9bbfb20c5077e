"""A hundred thousand pages that are due in one second: the pace, the delays, the memory of the crawl that visits them.

    python -m bench.due_at_once [--hosts 1000] [--pages 100000] [--seconds 60] [--write]

A lab web is crawled without delays. Then its pages are made due in one second, twice:

    fresh    the crawl was a month ago, and the due times of all pages are the present one, as after a standstill; a
             crawl keeps them fresh
    round    `teia crawl --now` visits all of them again

Each crawl has a delay of one second after each answer and runs for `--seconds`. By the log of the servers: `first_s`
from its start to the first request, the longest time without any request (`pause_s`), requests a second after
`WARM_UP_S`, what the delays allow, and early requests.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.politeness import SPEC
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.schema import LANE_REFRESH, STATE_DONE, STATE_FAILED
from teia.lab.server.process import lab_process
from teia.lab.server.requestlog import RequestLogEntry, read_log
from teia.lab.server.witness import early_requests
from teia.store.root import open_root

RESULTS = Path(__file__).parent / "results" / "due_at_once.json"
NAME, NETWORK = "main", "127.78.0.0/16"
FILL_DELAY_S, DELAY_S, WARM_UP_S = 0.02, 1.0, 10.0
SAMPLE_S, MONTH_S = 0.5, 30 * 86_400.0


def set_due(data: Path, due_s: float) -> int:
    """Move all visits a month back, and set the due time of every page that was visited; return their number."""
    pages, rank = 0, int(due_s * 1000)
    for folder in open_root(data).collection(NAME).cells():
        with closing(FrontierCell(folder.frontier)) as cell, cell.transaction():
            states = (STATE_DONE, STATE_FAILED)
            cell.db.execute(
                "UPDATE pages SET last_visit_s = last_visit_s - ?, last_change_s = last_change_s - ?", (MONTH_S,) * 2
            )
            cell.db.execute("UPDATE visits SET time_s = time_s - ?", (MONTH_S,))
            cell.db.execute("DELETE FROM queue WHERE lane = ?", (LANE_REFRESH,))
            pages += cell.db.execute(
                "UPDATE urls SET lane = ?, rank = ? WHERE state IN (?, ?)", (LANE_REFRESH, rank, *states)
            ).rowcount
            cell.db.execute(
                "INSERT INTO queue SELECT slot, host_id, lane, rank, key FROM urls WHERE lane = ? AND state IN (?, ?)",
                (LANE_REFRESH, *states),
            )
    return pages


@dataclass(frozen=True, slots=True)
class CrawlRun:
    """A crawl that has ended: its summary, its times, and the largest memory of the crawler's process."""

    summary: dict[str, Any]
    began_s: float
    ended_s: float
    peak_mb: float


def crawl(seed: str, dns: str, data: Path, *flags: str) -> CrawlRun:
    """Crawl to the end."""
    command = [sys.executable, "-m", "teia", "crawl", seed, "--name", NAME, "--data", str(data), "--dns", dns, "--json"]
    command += ["--allow-net", NETWORK, "--scope", "suffix:.test", *flags]
    began_s, peak_mb = time.time(), 0.0
    with (data.parent / "crawl.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    while process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text("ascii", "replace")
        resident = next((line.split()[1] for line in status.splitlines() if line.startswith("RssAnon:")), "0")
        peak_mb = max(peak_mb, int(resident) / 1024)
        time.sleep(SAMPLE_S)
    printed, _ = process.communicate()
    if process.returncode:
        raise SystemExit((data.parent / "crawl.log").read_text("utf-8")[-2_000:])
    return CrawlRun(json.loads(printed.splitlines()[-1]), began_s, time.time(), peak_mb)


def measure(hosts: int, pages: int, seconds: float, folder: Path) -> dict[str, Any]:
    spec, log = folder / "world.toml", folder / "requests.jsonl"
    spec.write_text(SPEC.format(hosts=hosts, pages=pages), "utf-8")
    addresses = ("--address", "127.78.100.1", "--dns-address", "127.78.255.53:0", "--control-address", "127.78.254.1")
    with lab_process("--spec", str(spec), "--port", "0", "--log", str(log), *addresses) as lab:
        web = lab["seeds"][0], lab["dns"], folder / "data"
        filled = crawl(*web, "--delay", str(FILL_DELAY_S))
        flags = ("--delay", str(DELAY_S), "--max-seconds", str(seconds))
        due = set_due(folder / "data", time.time())
        crawls = {"fresh": crawl(*web, "--keep-fresh", *flags), "round": crawl(*web, "--now", *flags)}
    entries = read_log(log)
    found = {name: {**summarize(entries, each, seconds), "possible_per_s": hosts} for name, each in crawls.items()}
    return {"hosts": hosts, "pages": filled.summary["pages"], "due": due, "load_average": os.getloadavg()[0], **found}


def summarize(log: Sequence[RequestLogEntry], run: CrawlRun, seconds: float) -> dict[str, Any]:
    """Return the figures of one crawl."""
    entries = [each for each in log if run.began_s <= each.start_s <= run.ended_s]
    entries.sort(key=lambda each: each.start_s)
    steady = [each for each in entries if WARM_UP_S <= each.start_s - run.began_s < seconds]
    rate = len(steady) / (seconds - WARM_UP_S)
    return {
        "first_s": round(entries[0].start_s - run.began_s, 2),
        "pause_s": round(max(after.start_s - before.start_s for before, after in pairwise(entries)), 2),
        "requests": len(entries),
        "requests_per_s": round(rate, 1),
        "early_by_host": len(early_requests(entries, DELAY_S, lambda each: each.host)),
        "politeness_violations": run.summary["politeness_violations"],
        "peak_mb": round(run.peak_mb),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.seconds < 2 * WARM_UP_S:
        parser.error(f"--seconds: at least {2 * WARM_UP_S:g}")
    with tempfile.TemporaryDirectory(prefix="teia-due-") as folder:
        found = measure(options.hosts, options.pages, options.seconds, Path(folder))
    if options.write:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
