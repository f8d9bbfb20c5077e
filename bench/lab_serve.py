"""Rate at which one core serves a lab web: `python bench/lab_serve.py [--runs 3] [--seconds 5]`; needs wrk and two
cores.

The server has core 0 for itself, wrk another one. wrk requests random pages of random hosts, by their Host header, over
keep-alive connections. Rates depend on the load of the machine; the server's own processor time per answer hardly does.
Prints one JSON object and stores it in bench/results/lab_serve.json.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import dns.message

from teia.lab.server.process import lab_process
from teia.lab.world.exchange import WorldRequest
from teia.lab.world.spec import WorldSpec
from teia.lab.world.url_kinds import UrlKind
from teia.lab.world.world import World

RESULTS = Path(__file__).resolve().parent / "results" / "lab_serve.json"
SERVER_CORE = 0
CONNECTIONS = 64
SAMPLE = 20_000
CHECKED = 300
DNS_WINDOW = 16

LUA = """
local requests = {}
function init(args)
  for line in io.lines("%s") do
    local host, path = line:match("^(%%S+) (.*)$")
    requests[#requests + 1] = wrk.format("GET", path, {["Host"] = host, ["User-Agent"] = "bench", ["Accept"] = "*/*"})
  end
  math.randomseed(1)
end
function request() return requests[math.random(#requests)] end
function done(summary, latency, requests)
  local wrong = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout
  local form = '{"answers": %%d, "bytes": %%d, "seconds": %%.6f, "wrong": %%d, "p50_ms": %%.3f, "p99_ms": %%.3f}\\n'
  io.write(form:format(summary.requests, summary.bytes, summary.duration / 1e6, wrong,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
"""


def sample(world: World, count: int) -> list[tuple[str, str]]:
    """Return host and path of random pages, all pages of the world equally likely."""
    chance = random.Random(1)
    spaces = chance.choices(world.spaces, [space.size for space in world.spaces], k=4 * count)
    found = ((space, chance.randrange(space.size)) for space in spaces)
    pages = [
        (space.host.name, f"/{space.path(slot).decode()}") for space, slot in found if space.kind(slot) is UrlKind.PAGE
    ]
    return pages[:count]


def check(address: str, port: int, pages: list[tuple[str, str]]) -> None:
    """Check that every page exists and looks like one; careless hosts omit the end of the document."""
    connection = http.client.HTTPConnection(address, port, timeout=10)
    for host, path in pages:
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200 or b"<title>" not in body[:2000].lower():
            sys.exit(f"{host}{path}: {answer.status}, {len(body)} bytes")
    connection.close()


def load(address: str, port: int, pages: list[tuple[str, str]], seconds: int, cores: set[int]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        urls, script = Path(folder) / "urls", Path(folder) / "load.lua"
        urls.write_text("".join(f"{host}:{port} {path}\n" for host, path in pages))
        script.write_text(LUA % urls)
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}", "-s", str(script), f"http://{address}:{port}/"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, preexec_fn=lambda: os.sched_setaffinity(0, cores)
        )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def names_per_s(server: str, world: World, seconds: float) -> float:
    host, _, port = server.rpartition(":")
    queries = [dns.message.make_query(name, "A").to_wire() for name in list(world.names)[:500]]
    answered, began_s = 0, time.perf_counter()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.connect((host, int(port)))
        udp.settimeout(5)
        while time.perf_counter() - began_s < seconds:
            for number in range(DNS_WINDOW):
                udp.send(queries[(answered + number) % len(queries)])
            answered += sum(len(udp.recv(512)) > 12 for _ in range(DNS_WINDOW))
    return answered / (time.perf_counter() - began_s)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def answer_us(world: World, pages: list[tuple[str, str]]) -> float:
    """Return the processor time per answer of the world alone, without sockets; the server takes the rest."""
    requests = [WorldRequest(host, path) for host, path in pages[:4000]]
    for request in requests[:500]:
        world.answer(request, world.epoch_s)
    began_s = time.process_time()
    for request in requests:
        world.answer(request, world.epoch_s + 60)
    return (time.process_time() - began_s) / len(requests) * 1e6


def run(options: argparse.Namespace, world: World, pages: list[tuple[str, str]]) -> dict[str, float]:
    flags = ["--port", "0", "--dns-address", "127.77.255.53:0"]
    flags += ["--pages", str(options.pages), "--hosts", str(options.hosts)]
    others = os.sched_getaffinity(0) - {SERVER_CORE}
    with tempfile.TemporaryDirectory() as folder:
        began_s = time.perf_counter()
        with lab_process(*flags, "--log", f"{folder}/log.jsonl", cores=[SERVER_CORE]) as ready:
            start_s = time.perf_counter() - began_s
            address, pid = world.hosts[0].address, int(ready["pid"])
            check(address, ready["port"], pages[:CHECKED])
            load(address, ready["port"], pages, 1, others)
            before_s = cpu_s(pid)
            got = load(address, ready["port"], pages, options.seconds, others)
            spent_s = cpu_s(pid) - before_s
            return {
                "pages_per_s": round(got["answers"] / got["seconds"]),
                "bytes_per_answer": round(got["bytes"] / got["answers"]),
                "cpu_us_per_answer": round(spent_s / got["answers"] * 1e6, 1),
                "p50_ms": got["p50_ms"],
                "p99_ms": got["p99_ms"],
                "wrong": got["wrong"],
                "names_per_s": round(names_per_s(ready["dns"], world, 1.5)),
                "start_s": round(start_s, 2),
                "rss_mb": round(rss_mb(pid), 1),
                "load_average": round(os.getloadavg()[0], 2),
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=2000)
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is not installed")
    world = World(WorldSpec.load(pages=options.pages, hosts=options.hosts), epoch_s=time.time())
    pages = sample(world, SAMPLE)
    runs = [run(options, world, pages) for _ in range(options.runs)]
    rates = [one["pages_per_s"] for one in runs]
    result = {
        "command": " ".join(["python", "bench/lab_serve.py", *sys.argv[1:]]),
        "pages_per_s": max(rates),
        "spread": [min(rates), max(rates)],
        "bytes_per_answer": runs[0]["bytes_per_answer"],
        "cpu_us_per_answer": min(one["cpu_us_per_answer"] for one in runs),
        "world_us_per_answer": round(answer_us(world, pages), 1),
        "names_per_s": max(one["names_per_s"] for one in runs),
        "start_s": min(one["start_s"] for one in runs),
        "rss_mb": max(one["rss_mb"] for one in runs),
        "runs": runs,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
