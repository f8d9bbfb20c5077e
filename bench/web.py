"""Speed of the web interface: its pages with a million known URLs, many people searching, the live monitor.

    python -m bench.web [pages] [search] [monitor] [--urls 1000000] [--seconds 60] [--write]

    pages    every page of the route table and its JSON route, five times each, by `teia serve` on the folder of
             bench.webroot: once while nothing is crawled, once beside a crawl of a lab web in the same folder. `ms` is
             the median from request to last byte, `cpu_ms` the processor time of the server meanwhile (with its
             background counts), `first_ms` the very first request, `kb` the size. The goal: 200 ms and 100 KB
    search   50 people, each with a new query five seconds after reading the last answer, on an index of 100,000
             pages: the median and 95th percentile of whole result pages. The goal: 250 ms
    monitor  processor time of the monitor, as a share of the crawl's: in the crawler, where it is counted function by
             function (bench.counted_crawl), and in the server, as the difference between turns with the monitor open
             in four streams and turns without, within one run. The goal: 3%

Without a name, all three. The server counts in the background whatever needs a pass over all URLs, and caches it
(cache.py); `--write` stores the figures in results/web.json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from bench.search import CELLS
from bench.webroot import INDEXED, NAME, SEED, URLS, cached_root
from teia.clock import WallClock
from teia.collections.control_file import CrawlReports
from teia.lab.corpus.pages import Corpus
from teia.lab.corpus.questions import QuerySampler
from teia.lab.server.process import lab_process
from teia.store.root import Root, open_root
from teia.views.reports.catalogue import REPORTS

RESULTS = Path(__file__).parent / "results" / "web.json"
EACH = 5
PAGE_MS, PAGE_KB, SEARCH_MS, MONITOR_SHARE = 200.0, 100.0, 250.0, 0.03
PEOPLE, THINK_S = 50, 5.0
STREAMS, TURNS, WARM_S, OPENED_S = 4, 12, 5.0, 1.5
HOST = "www.site0.test"
PAGE = f"http://{HOST}/secao-0/artigo-sobre-alguma-coisa-0.html"
NOT_TIMED = ("/raw", "/events", "/health", "/static", "/c/{collection}/frontier.jsonl")
"""Paths that are no pages: the frame of a capture, a stream, the health check, the list of queued URLs."""

LAB_NET = "127.78.0.0/16"
Progress = Callable[[str], None]


# ---- a server -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Server:
    """A running `teia serve`, and an admin's token for it."""

    port: int
    token: str
    pid: int

    def get(self, path: str) -> tuple[int, float, int]:
        """Request a path; return its status, its duration in milliseconds, and its size."""
        while True:
            began = time.perf_counter()
            status, size = self._request(path)
            if status != 429:
                return status, (time.perf_counter() - began) * 1e3, size
            time.sleep(1.0)

    def _request(self, path: str) -> tuple[int, int]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
            answer = connection.getresponse()
            return answer.status, len(answer.read())
        finally:
            connection.close()


@contextmanager
def served(root: Root) -> Iterator[Server]:
    """Serve a folder by a process of its own."""
    with tempfile.TemporaryDirectory(prefix="teia-bench-web-") as folder:
        token = Path(folder) / "token"
        command = [sys.executable, "-m", "teia", "serve", "--data", str(root.path), "--port", "0", "--no-crawler"]
        process = subprocess.Popen([*command, "--token-out", str(token)], stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        # It may warn for hours: a pipe that nobody reads would fill, and hold it up.
        reader = threading.Thread(target=process.stderr.read, daemon=True)
        try:
            line = process.stderr.readline()
            reader.start()
            port = urlsplit(line.strip()).port
            assert port, line
            server = Server(port, token.read_text("ascii").strip(), process.pid)
            _until(lambda: server.get("/health")[0] == 200)
            yield server
        finally:
            process.terminate()
            process.wait(30)
            if reader.ident is not None:
                reader.join()
            process.stderr.close()


def _until(is_so: Callable[[], bool], patience_s: float = 60.0) -> None:
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        try:
            if is_so():
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise SystemExit("the expected state did not come")


@contextmanager
def crawling(root: Root, *runner: str) -> Iterator[str]:
    """Crawl a lab web in the same folder until the block ends; yield the collection's name."""
    name = "lab"
    shutil.rmtree(root.path / name, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="teia-bench-lab-") as folder:
        spec = Path(folder) / "world.toml"
        spec.write_text("[errors]\nscale = 0\n", "utf-8")
        size = ["--pages", "60000", "--hosts", "200", "--seed", "1", "--address", "127.78.0.1"]
        address_flags = ["--port", "0", "--dns-address", "127.78.255.53:0", "--control-address", "127.78.255.80"]
        with lab_process("--spec", str(spec), *size, *address_flags) as lab:
            command = [sys.executable, "-m", *(runner or ["teia"]), "crawl", lab["seeds"][0], "--name", name]
            command += ["--data", str(root.path)]
            command += ["--scope", "suffix:.test", "--dns", lab["dns"], "--allow-net", LAB_NET, "--delay", "0.2"]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                yield name
            finally:
                process.terminate()
                process.wait(180)
                shutil.rmtree(root.path / name, ignore_errors=True)


# ---- pages ----------------------------------------------------------------------------------------------------------


def addresses(root: Root) -> list[str]:
    """Return an address of every page, from the route table."""
    from teia.web.access.accounts import Accounts
    from teia.web.app import list_routes, make_app
    from teia.web.server.installation import Installation

    with tempfile.TemporaryDirectory() as folder:
        clock = WallClock()
        site = Installation(open_root(root.path), clock, Accounts(Path(folder) / "web.sqlite", clock))
        routes = list_routes(make_app(site))
        site.close()
    found = []
    for route in routes:
        bare = route.path.removeprefix("/api/v1")
        if route.method != "GET" or bare.startswith(NOT_TIMED):
            continue
        names = list(REPORTS) if "/reports/{name}" in route.path else [""]
        found += [_address(route.path, name) for name in names]
    return found


def _address(path: str, name: str) -> str:
    parts = {"collection": NAME, "host": HOST, "name": name or "x", "run": "1"}
    query = {}
    if re.search(r"/(page|pages|copy|unknown|diff|calendar|cdx)$", path):
        query["url"] = PAGE if not path.endswith("unknown") else f"http://{HOST}/nie-gesehen"
    if "search" in path and not path.endswith("cdx"):
        query["q"] = "lei do imposto"
    if path.endswith(("/sql", "/sql.csv")):
        query["q"] = "SELECT outcome, count(*) FROM fetches GROUP BY 1"
    if path.endswith("preview"):
        query |= {"start": "2027-01-01T02:00", "every": "7 days"}
    filled = re.sub(r"{(\w+)(:path)?}", lambda part: quote(parts.get(part[1], "x")), path)
    return filled + (f"?{urlencode(query)}" if query else "")


def time_pages(server: Server, paths: list[str], progress: Progress) -> list[dict[str, Any]]:
    """Request every address, and wait for the background counts between the first and the other times."""
    rows = []
    for path in paths:
        status, first_ms, size = server.get(path)
        until = time.monotonic() + 120
        while status == 503 and time.monotonic() < until:
            time.sleep(0.5)
            status, _, size = server.get(path)
        before_s = cpu_s(server.pid)
        times = [server.get(path)[1] for _ in range(EACH)]
        used_ms = (cpu_s(server.pid) - before_s) / EACH * 1e3
        row = {"path": path, "status": status, "ms": round(statistics.median(times), 1), "cpu_ms": round(used_ms, 1)}
        row |= {"first_ms": round(first_ms, 1), "kb": round(size / 1000, 1)}
        rows.append(row)
        mark = "" if row["ms"] <= PAGE_MS and first_ms <= PAGE_MS and row["kb"] <= PAGE_KB else "  <- over"
        took = f"{row['ms']:8.1f} ms {row['cpu_ms']:7.1f} cpu {row['first_ms']:8.1f} first"
        progress(f"{took} {row['kb']:7.1f} KB  {status}  {path[:90]}{mark}")
    return rows


def _record_run(root: Root) -> None:
    """Record one run that all requests of the log belong to, unless there is one."""
    with CrawlReports(root.control) as reports:
        if not reports.recorded_runs(NAME, 1):
            now_s = WallClock().now_s()
            reports.note_run(NAME, reports.begin_run(NAME, now_s - 366 * 86_400.0), now_s, "finished")


def pages(urls: int, progress: Progress) -> dict[str, Any]:
    """Time all pages, without a crawl and beside one."""
    root = cached_root(urls)
    _record_run(root)
    paths = addresses(root)
    found: dict[str, Any] = {"urls": urls, "bar_ms": PAGE_MS, "bar_kb": PAGE_KB}
    with served(root) as server:
        progress("nothing is crawled")
        found["at_rest"] = time_pages(server, paths, progress)
        with crawling(root) as name:
            _until(lambda: server.get(f"/api/v1/c/{name}/status")[0] == 200)
            time.sleep(5.0)
            progress("beside a crawl")
            own = [f"/c/{name}", f"/api/v1/c/{name}/status", f"/c/{name}/hosts", f"/c/{name}/frontier"]
            found["beside_a_crawl"] = time_pages(server, paths + own, progress)
    for part in ("at_rest", "beside_a_crawl"):
        good = [row for row in found[part] if row["status"] < 400]
        found[f"{part}_slowest_ms"] = max(row["ms"] for row in good)
        found[f"{part}_largest_kb"] = max(row["kb"] for row in good if "/api/v1" not in row["path"])
    return found


# ---- people who search ----------------------------------------------------------------------------------------------


def search(urls: int, seconds: float, progress: Progress) -> dict[str, Any]:
    """Let people search at the same time; every query is new to the server."""
    queries = [each.text for each in QuerySampler(Corpus(INDEXED, SEED, cells=CELLS)).sample(200)]
    step = 7919  # a prime, so that kinds of queries are mixed
    pending = iter([queries[(number * step) % len(queries)] for number in range(len(queries))])
    took_ms: list[float] = []
    refused: list[int] = []
    lock = threading.Lock()
    with served(cached_root(urls)) as server:
        until = time.monotonic() + seconds

        def person(number: int) -> None:
            time.sleep(number * THINK_S / PEOPLE)
            while time.monotonic() < until:
                with lock:
                    text = next(pending, None)
                if text is None:
                    return
                status, ms, _ = server.get(f"/search?{urlencode({'q': text})}")
                with lock:
                    (took_ms if status == 200 else refused).append(ms if status == 200 else status)
                time.sleep(THINK_S)

        people = [threading.Thread(target=person, args=(number,)) for number in range(PEOPLE)]
        for each in people:
            each.start()
        for each in people:
            each.join()
    took_ms.sort()
    found = {
        "people": PEOPLE, "think_s": THINK_S, "pages": INDEXED, "searches": len(took_ms), "refused": len(refused),
        "median_ms": round(statistics.median(took_ms), 1), "p95_ms": round(took_ms[int(len(took_ms) * 0.95)], 1),
        "longest_ms": round(took_ms[-1], 1), "bar_ms": SEARCH_MS,
    }  # fmt: skip
    progress(f"{PEOPLE} people: {found['searches']} searches, p95 {found['p95_ms']} ms, median {found['median_ms']} ms")
    return found


# ---- the live monitor -----------------------------------------------------------------------------------------------


def cpu_s(pid: int) -> float:
    """Return the processor time of a process and those it waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def run_s(pid: int) -> float:
    """Return the processor time of a process by the kernel's own clock, to the nanosecond; 0 if there is none."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def tree_s(pid: int) -> float:
    """Return the processor time of a process, of those it started and of those it waited for."""
    tick_s, total, parents = os.sysconf("SC_CLK_TCK"), 0.0, {pid}
    for stat in sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda path: int(path.parent.name)):
        try:
            fields = stat.read_text("ascii", "replace").rpartition(")")[2].split()
        except OSError:
            continue
        one = int(stat.parent.name)
        if one in parents or int(fields[1]) in parents:
            parents.add(one)
            total += run_s(one) + (int(fields[13]) + int(fields[14])) / tick_s
    return total


@dataclass(slots=True)
class Turn:
    """A part of a crawl, with or without open monitors: processor times of all, and the crawler's own count."""

    is_watched: bool
    seconds: float
    crawl_s: float
    server_s: float
    counted_s: float


def monitor(seconds: float, progress: Progress) -> dict[str, Any]:
    """Count the monitor's work in a crawl, and compare the server's turns with four streams and without."""
    with tempfile.TemporaryDirectory(prefix="teia-bench-monitor-") as folder:
        counts, root = Path(folder) / "counts", open_root(Path(folder) / "data", create=True)
        with served(root) as server, crawling(root, "bench.counted_crawl", str(counts)) as name:
            _until(lambda: counts.exists() and read_status(server, name).get("pages", 0) > 50)
            pid = _pid(root, name)
            time.sleep(WARM_S)
            pids = (pid, server.pid)
            turns = [
                _turn(server, name, pids, counts, number % 4 in {1, 2}, seconds / TURNS) for number in range(TURNS)
            ]
    in_crawler = _share([each.counted_s / each.crawl_s for each in turns])
    watched, alone = (
        _share([each.server_s / each.crawl_s for each in turns if each.is_watched == flag]) for flag in (True, False)
    )
    share = in_crawler[0] + watched[0] - alone[0]
    error = math.hypot(in_crawler[1], watched[1], alone[1])
    progress(f"monitor in {STREAMS} streams: {share:.2%} ± {error:.2%} of the crawl's processor time")
    progress(f"  {in_crawler[0]:.2%} in the crawler; the server {watched[0]:.2%}, and {alone[0]:.2%} without streams")
    rows = [{key: round(value, 4) for key, value in asdict(each).items()} for each in turns]
    return {
        "streams": STREAMS, "more": round(share, 5), "error": round(error, 5), "bar": MONITOR_SHARE,
        "in_crawler": round(in_crawler[0], 5), "server_watched": round(watched[0], 5),
        "server_alone": round(alone[0], 5), "load_average": round(os.getloadavg()[0], 1), "turns": rows,
    }  # fmt: skip


def _share(parts: list[float]) -> tuple[float, float]:
    """Return the mean and its standard error."""
    return statistics.fmean(parts), statistics.stdev(parts) / math.sqrt(len(parts))


def _turn(server: Server, name: str, pids: tuple[int, int], counts: Path, is_watched: bool, seconds: float) -> Turn:
    def now() -> tuple[float, float, float, float]:
        return time.monotonic(), tree_s(pids[0]), run_s(pids[1]), float(counts.read_text("ascii"))

    ended = threading.Event()
    streams = [threading.Thread(target=_listen, args=(server, name, ended)) for _ in range(STREAMS * is_watched)]
    for each in streams:
        each.start()
    time.sleep(OPENED_S)  # opening a stream does not count
    before = now()
    time.sleep(seconds)
    after = now()
    ended.set()
    for each in streams:
        each.join()
    return Turn(is_watched, *(b - a for a, b in zip(before, after, strict=True)))


def _listen(server: Server, name: str, ended: threading.Event) -> None:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request("GET", f"/events?topics=status&c={name}", headers={"Authorization": f"Bearer {server.token}"})
    answer = connection.getresponse()
    while not ended.is_set() and answer.readline():
        pass
    connection.close()


def read_status(server: Server, name: str) -> dict[str, Any]:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request("GET", f"/api/v1/c/{name}/status", headers={"Authorization": f"Bearer {server.token}"})
        answer = connection.getresponse()
        return dict(json.loads(answer.read())) if answer.status == 200 else {}
    finally:
        connection.close()


def _pid(root: Root, name: str) -> int:
    with CrawlReports(root.control) as reports:
        run = reports.running_crawl(name)
    assert run is not None
    return run.pid


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=["pages", "search", "monitor", []])
    parser.add_argument("--urls", type=int, default=URLS)
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of searching, and of watching")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    wanted = options.parts or ["pages", "search", "monitor"]
    found = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    found |= {"cores": os.cpu_count(), "load_average": round(os.getloadavg()[0], 1)}
    if "pages" in wanted:
        found["pages"] = pages(options.urls, print)
    if "search" in wanted:
        found["search"] = search(options.urls, options.seconds, print)
    if "monitor" in wanted:
        found["monitor"] = monitor(options.seconds, print)
    if options.write:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
