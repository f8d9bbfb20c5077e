"""Use of what politeness allows: N hosts with a delay of one second, by the lab's own log.

    .venv/bin/python -m bench.politeness --hosts 500 --seconds 40
    .venv/bin/python -m bench.politeness --hosts 2000 --seconds 40 --fetch-only

N hosts with a delay of `delay` seconds allow at most N / delay requests a second, less the time an answer takes. The
first ten seconds, in which the crawl finds the hosts, are left out. Early requests are counted by host and by address
over the whole run, robots.txt and redirects included. With `--fetch-only` the URLs are given and the answers discarded
(fetch_only.py): the schedule and the fetcher alone. Prints JSON and stores it in bench/results/politeness.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.fetch_only import fetch_only
from teia.lab.server.process import lab_process
from teia.lab.server.requestlog import read_log
from teia.lab.server.witness import early_requests

RESULTS = Path(__file__).parent / "results" / "politeness.json"
WARM_UP_S = 10
SPEC = """
seed = 3
hosts = {hosts}
pages = {pages}
[sites]
theta = 0.0
shared_address = 0
nxdomain = 0
unreachable = 0
[errors]
scale = 0.0
[robots]
crawl_delay = 0
[links]
outside = 6
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=500)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--delay", type=float, default=1.0)
    parser.add_argument("--fetch-only", action="store_true", help="run the schedule and the fetcher alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder), options.hosts, options.seconds, options.delay, alone=options.fetch_only)
    command = (
        f"python -m bench.politeness --hosts {options.hosts} --seconds {options.seconds} --delay {options.delay:g}"
    )
    result = {"command": command + (" --fetch-only" if options.fetch_only else ""), **result}
    kept = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    kept["fetch only" if options.fetch_only else "default product"] = result
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    print(json.dumps(result))


def measure(folder: Path, hosts: int, seconds: int, delay_s: float, *, alone: bool) -> dict[str, object]:
    spec, log = folder / "world.toml", folder / "requests.jsonl"
    spec.write_text(SPEC.format(hosts=hosts, pages=hosts * (60 if alone else 200)), "utf-8")
    address_flags = [
        "--address",
        "127.77.100.1",
        "--dns-address",
        "127.77.255.100:0",
        "--control-address",
        "127.77.254.100",
    ]
    truth = folder / "truth.jsonl"
    flags = ["--truth", str(truth)] if alone else []
    with lab_process("--spec", str(spec), "--port", "0", "--log", str(log), *address_flags, *flags) as lab:
        violations: object = None
        if alone:
            fetch_only(truth, lab["dns"], seconds, delay_s)
        else:
            violations = crawl(lab["seeds"][0], lab["dns"], folder / "data", seconds, delay_s)["politeness_violations"]
    entries = read_log(log)
    began_s = entries[0].start_s
    steady = [e for e in entries if WARM_UP_S <= e.start_s - began_s < seconds - 1]
    rate = len(steady) / (seconds - 1 - WARM_UP_S)
    return {
        "hosts": hosts,
        "delay_s": delay_s,
        "requests": len(entries),
        "requests_per_s": round(rate, 1),
        "of_possible": round(rate * delay_s / hosts, 4),
        "early_by_host": len(early_requests(entries, delay_s, lambda e: e.host)),
        "early_by_address": len(early_requests(entries, delay_s, lambda e: e.address)),
        "politeness_violations": violations,
        "load_average": round(os.getloadavg()[0], 2),
    }


def crawl(seed: str, dns: str, data: Path, seconds: int, delay_s: float) -> dict[str, object]:
    command = [sys.executable, "-m", "teia", "crawl", seed, "--data", str(data), "--dns", dns, "--json"]
    command += ["--allow-net", "127.77.0.0/16", "--scope", "suffix:.test"]
    command += ["--delay", str(delay_s), "--max-seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
