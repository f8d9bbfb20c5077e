"""A long run of all processes: a crawl that keeps a lab web fresh, its indexer, and a server with a visitor.

    python -m bench.soak [--hours 8] [--hosts 40] [--write]

What grows with time fills a machine in the end. Every `SAMPLE_S` seconds each process of the crawl and the server is
read in /proc: its own memory (`RssAnon`), open descriptors, threads. Processes of one role are added up, and so are the
logs of SQLite, which grow as long as a reader is in the middle of a query. The slope of a figure is the median of the
slopes between all pairs of samples of the second half (Theil and Sen): in the first half caches fill. A figure is flat
if what the slope adds in that half is less than the noise (twice the median distance of the samples from the line), or
a hundredth of the figure.

The web changes while it is crawled, has errors, and is requested once a second for each host. The archive has a
quota, so that old captures are removed. The visitor searches and opens pages of the interface every `VISIT_S` seconds.
At the end the crawl is stopped, and all audits run. Exit status 1: something grew, an audit failed, or a page gave a
server error other than 503, which says that its figures are being counted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import combinations, cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bench.web import read_status, served
from teia.lab.corpus.pages import Corpus
from teia.lab.corpus.questions import QuerySampler
from teia.lab.server.process import lab_process
from teia.lib import entry_points
from teia.store.root import open_root

RESULTS = Path(__file__).parent / "results" / "soak.json"
SAMPLE_S, VISIT_S = 15.0, 2.0
ENTRY_POINTS = entry_points.__name__
NAME, LAB_NET = "main", "127.79.0.0/16"
PAGES_PER_HOST = 100
QUOTA_BYTES = 200 << 20
TIME_FACTOR = 200
"""Speed of the changes: pages that change once a month change every few hours."""

QUARTERS = 4
SHOWN_REFUSED = 20
LEAST_SHARE = 0.01
MAX_COMPLAINT_CHARS = 2_000
LEAST_SAMPLES, MOST_SAMPLES = 12, 300
"""Samples of a run, at least; and those whose pairs are compared at most: of more, every n-th."""

FIGURES = ("memory_mb", "descriptors", "threads")
AUDITS = ("politeness", "index", "archive", "frontier", "links", "manifest")
_SETTINGS = f"""
[refresh]
keep = true
least_s = 60.0
replan_s = 60.0

[retention]
versions = 2
quota_bytes = {QUOTA_BYTES}
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """What the processes of a role take at a time: their own memory, descriptors and threads."""

    at_s: float
    memory_mb: float
    descriptors: int
    threads: int


@dataclass(frozen=True, slots=True)
class Growth:
    """A figure of a role over a run: its medians by quarters, and its slope in the second half."""

    role: str
    figure: str
    quarters: list[float]
    slope_per_hour: float
    noise: float
    is_flat: bool


# ---- samples --------------------------------------------------------------------------------------------------------


def read_sample(pids: Sequence[int], at_s: float) -> Sample:
    """Add up what some processes take; those that have ended count nothing."""
    memory_kb = descriptors = threads = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            folder = Path(f"/proc/{pid}")
            status = dict(line.split(":", 1) for line in (folder / "status").read_text("ascii", "replace").splitlines())
            memory_kb += int(status.get("RssAnon", "0 kB").split()[0])
            threads += int(status["Threads"])
            descriptors += sum(1 for _ in (folder / "fd").iterdir())
    return Sample(at_s, memory_kb / 1024, descriptors, threads)


def processes_by_role(leaders: Mapping[str, int]) -> dict[str, list[int]]:
    """Return the processes of each role: the leaders, and what they have started, by the function that it runs."""
    found: dict[str, list[int]] = defaultdict(list)
    for role, leader in leaders.items():
        found[role].append(leader)
        for pid in _descendants(leader):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
                if ENTRY_POINTS in words[:-1]:
                    module = words[words.index(ENTRY_POINTS) + 1].partition(":")[0]
                    found[f"{role}: {module.removeprefix('teia.')}"].append(pid)
    return dict(found)


def _descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text("ascii").split()):
                yield child
                yield from _descendants(child)


# ---- growth ---------------------------------------------------------------------------------------------------------


def growth_of(role: str, figure: str, points: Sequence[tuple[float, float]]) -> Growth:
    """Judge one figure of a role; `points` are its values by the seconds since the start."""
    values = [value for _, value in points]
    parts = [values[len(values) * part // QUARTERS : len(values) * (part + 1) // QUARTERS] for part in range(QUARTERS)]
    half = points[len(points) // 2 :: max(1, len(points) // 2 // MOST_SAMPLES)]
    slope, noise = slope_and_noise([(at_s / 3_600, value) for at_s, value in half])
    added = slope * (half[-1][0] - half[0][0]) / 3_600
    is_flat = added <= max(noise, LEAST_SHARE * statistics.median(value for _, value in half))
    quarters = [round(statistics.median(part), 1) for part in parts]
    return Growth(role, figure, quarters, round(slope, 3), round(noise, 3), is_flat)


def slope_and_noise(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the median slope between pairs of points, and twice the median distance of points from that line."""
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x1 != x2]
    slope = statistics.median(slopes) if slopes else 0.0
    rests = [y - slope * x for x, y in points]
    middle = statistics.median(rests)
    return slope, 2 * statistics.median(abs(rest - middle) for rest in rests)


# ---- the run --------------------------------------------------------------------------------------------------------


def soak(hours: float, hosts: int, folder: Path, progress: Callable[[str], None]) -> dict[str, Any]:
    """Run everything for some hours; return what was seen."""
    data = folder / "data"
    open_root(data, create=True)
    samples: dict[str, list[Sample]] = defaultdict(list)
    logs_mb: list[tuple[float, float]] = []
    statuses, refused = Counter[int](), set[str]()
    with ExitStack() as stack:
        crawler = stack.enter_context(_crawling(folder, hosts))
        server = stack.enter_context(served(open_root(data)))
        leaders = {"crawl": crawler.pid, "serve": server.pid}
        paths, began = _paths(), time.monotonic()
        next_sample = next_visit = began
        while (now := time.monotonic()) < began + hours * 3_600:
            if crawler.poll() is not None:
                raise SystemExit(f"the crawl has ended with status {crawler.returncode}")
            if now >= next_visit:
                path = next(paths)
                answered = server.get(path)[0]
                statuses[answered] += 1
                if answered >= 400:
                    refused.add(f"{answered} {path}")
                next_visit = now + VISIT_S
            if now >= next_sample:
                for role, pids in processes_by_role(leaders).items():
                    samples[role].append(read_sample(pids, now - began))
                logs_mb.append((now - began, _logs_mb(data)))
                next_sample = now + SAMPLE_S
                progress(f"{(now - began) / 60:.1f} min: {_line(samples)}, logs {logs_mb[-1][1]:.0f} MB")
            time.sleep(0.1)
        status = read_status(server, NAME)
    audits = {name: _audit(name, data) for name in AUDITS}
    growths = [*_growths(samples), growth_of("files", "logs_mb", logs_mb)]
    return {
        "hours": hours,
        "hosts": hosts,
        "requests": status["requests"],
        "pages": status["pages"],
        "visits": dict(statuses),
        "refused": sorted(refused)[:SHOWN_REFUSED],
        "disk_mb": round(sum(path.stat().st_size for path in data.rglob("*") if path.is_file()) / 2**20),
        "audits": audits,
        "growth": [asdict(each) for each in growths],
        "grew": [f"{each.role}: {each.figure}" for each in growths if not each.is_flat],
    }


def _growths(samples: Mapping[str, Sequence[Sample]]) -> list[Growth]:
    """Judge all roles that were there most of the time; others are short work."""
    longest = max(map(len, samples.values()))
    lasting = {role: of_it for role, of_it in samples.items() if len(of_it) > longest / 2}
    return [
        growth_of(role, figure, [(each.at_s, float(getattr(each, figure))) for each in of_it])
        for role, of_it in lasting.items()
        for figure in FIGURES
    ]


def _logs_mb(data: Path) -> float:
    """Return the size of all logs of SQLite's."""
    total = 0
    for path in data.rglob("*-wal"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total / 2**20


@contextmanager
def _crawling(folder: Path, hosts: int) -> Iterator[subprocess.Popen[bytes]]:
    """Crawl a lab web and keep it fresh, until the block ends; then let the crawl stop as a user would."""
    world, settings = folder / "world.toml", folder / "settings.toml"
    world.write_text(f"hosts = {hosts}\npages = {hosts * PAGES_PER_HOST}\ntime_factor = {TIME_FACTOR}\n", "utf-8")
    settings.write_text(_SETTINGS, "utf-8")
    addresses = ("--port", "0", "--address", "127.79.0.1", "--dns-address", "127.79.255.53:0")
    with lab_process("--spec", str(world), *addresses, "--control-address", "127.79.255.80") as lab:
        command = [
            sys.executable, "-m", "teia", "crawl", lab["seeds"][0], "--name", NAME, "--data", str(folder / "data"),
            "--config", str(settings), "--keep-fresh", "--delay", "1", "--scope", "suffix:.test",
            "--dns", lab["dns"], "--allow-net", LAB_NET,
        ]  # fmt: skip
        with (folder / "crawl.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield process
        finally:
            # Not by a signal: then the crawl does not wait for its index.
            subprocess.run([sys.executable, "-m", "teia", "stop", "--data", str(folder / "data")], check=False)
            process.wait(300)


def _paths() -> Iterator[str]:
    """Yield addresses of the interface without end; every second one is a search."""
    queries = (each.text for each in cycle(QuerySampler(Corpus(1_000, 1)).sample(500)))
    own = f"/c/{NAME}"
    pages = [f"{own}{path}" for path in ("", "/freshness", "/hosts", "/frontier", "/reports/freshness")]
    for path in cycle(["/", "/c", *pages, "/metrics", f"/api/v1{own}/status"]):
        yield path
        yield f"/search?{urlencode({'q': next(queries)})}"


def _audit(name: str, data: Path) -> str:
    """Return what an audit complains of; empty if it complains of nothing."""
    command = [sys.executable, "-m", "teia", "audit", name, "--data", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1_800, check=False)
    return (done.stdout + done.stderr)[-MAX_COMPLAINT_CHARS:] if done.returncode else ""


def _line(samples: Mapping[str, Sequence[Sample]]) -> str:
    return ", ".join(f"{role} {of_it[-1].memory_mb:.0f} MB {of_it[-1].descriptors}" for role, of_it in samples.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--hosts", type=int, default=40)
    parser.add_argument("--write", action="store_true", help=f"store the figures in {RESULTS.name}")
    arguments = parser.parse_args()
    if arguments.hours * 3_600 < LEAST_SAMPLES * SAMPLE_S:
        parser.error(f"--hours: at least {LEAST_SAMPLES * SAMPLE_S / 3_600:g}, for {LEAST_SAMPLES} samples")
    if arguments.hosts < 1:
        parser.error("--hosts: at least 1")
    with tempfile.TemporaryDirectory(prefix="teia-soak-") as folder:
        found = soak(arguments.hours, arguments.hosts, Path(folder), lambda line: print(line, file=sys.stderr))
    if arguments.write:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(json.dumps(found))
    has_errors = any(status >= 500 and status != 503 for status in found["visits"])
    return 1 if found["grew"] or any(found["audits"].values()) or has_errors else 0


if __name__ == "__main__":
    sys.exit(main())
