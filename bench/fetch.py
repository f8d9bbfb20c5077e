"""Cost of one request to the crawler: processor time of this process; the server is another process on loopback.

    python bench/fetch.py [--hosts 500] [--requests 20000] [--rate 0] [--keep-alive N] [--json]

`--rate 0` is full load: every host gets its next request as soon as it has answered. With a rate, requests start on a
10 ms tick, as in the crawler. All guards, limits and records are active. Addresses are given, so no name is resolved.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import multiprocessing.connection
import resource
import time
from collections import Counter
from typing import cast

import uvloop

from teia.clock import WallClock
from teia.config.sections import LimitSettings
from teia.fetch.curl import CurlFetcher
from teia.fetch.fetcher import FetchRequest
from teia.fetch.guard import AddressGuard
from teia.records import Fetched

ADDRESSES = [f"127.77.1.{n}" for n in range(1, 9)]
TICK_S = 0.01
BODY = b"<html><title>page</title>" + b"<p>teia weaves a web</p>" * 900
ANSWER = (
    b"HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Type: text/html; charset=utf-8"
    b'\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nETag: "x"\r\nVary: Accept-Encoding\r\nCache-Control: no-cache'
    b"\r\nX-Frame-Options: DENY\r\nContent-Length: %d\r\n\r\n" % len(BODY)
) + BODY


class Canned(asyncio.Protocol):
    """A server that answers every request with the same page, and keeps the connection unless told to close it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        for _ in range(data.count(b"\r\n\r\n")):
            self._transport.write(ANSWER)
        if b"Connection: close" in data:
            self._transport.close()


def serve(ready: multiprocessing.connection.Connection) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        first = await loop.create_server(Canned, ADDRESSES[0], 0, backlog=4096)
        port = first.sockets[0].getsockname()[1]
        for address in ADDRESSES[1:]:
            await loop.create_server(Canned, address, port, backlog=4096)
        ready.send(port)
        await loop.run_in_executor(None, ready.recv)

    uvloop.run(run())


class Run:
    """One measured run over `hosts` names."""

    def __init__(self, fetcher: CurlFetcher, port: int, hosts: int, requests: int) -> None:
        self._fetcher = fetcher
        self._left = requests
        self._waiting = requests
        self._outcomes: Counter[str] = Counter()
        self._seconds: list[float] = []
        self._requests = [
            FetchRequest(f"http://h{n}.test:{port}/page/{n}", ADDRESSES[n % len(ADDRESSES)], port) for n in range(hosts)
        ]
        self._by_url = {request.url: request for request in self._requests}
        self._again = True
        self._end = asyncio.Event()

    def _done(self, fetched: Fetched) -> None:
        self._outcomes[fetched.outcome] += 1
        self._seconds.append(fetched.ended_s - fetched.started_s)
        self._waiting -= 1
        if self._waiting == 0:
            self._end.set()
        elif self._again and self._left:
            self._start(self._by_url[fetched.url])

    def _start(self, request: FetchRequest) -> None:
        self._left -= 1
        self._fetcher.start(request, self._done)

    async def full_load(self) -> None:
        for request in self._requests[: self._left]:
            self._start(request)
        await self._end.wait()

    async def paced(self, rate: float) -> None:
        self._again = False
        started_s, sent, hosts = time.monotonic(), 0, len(self._requests)
        while self._left:
            due = int((time.monotonic() - started_s) * rate) - sent
            for _ in range(min(due, self._left)):
                self._start(self._requests[sent % hosts])
                sent += 1
            await asyncio.sleep(TICK_S)
        await self._end.wait()

    def summary(self, wall_s: float, cpu_s: float) -> dict[str, object]:
        ordered = sorted(self._seconds)
        count = len(ordered)
        return {
            "hosts": len(self._requests),
            "requests": count,
            "requests_per_s": round(count / wall_s),
            "cpu_us_per_request": round(cpu_s / count * 1e6, 1),
            "p50_ms": round(ordered[count // 2] * 1e3, 2),
            "p99_ms": round(ordered[count * 99 // 100] * 1e3, 2),
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "outcomes": dict(self._outcomes),
        }


async def measure(port: int, options: argparse.Namespace) -> dict[str, object]:
    guard = AddressGuard(["127.77.0.0/16"])
    fetcher = CurlFetcher(
        guard,
        LimitSettings(),
        WallClock(),
        "teia-bench",
        keep_alive=options.keep_alive if options.keep_alive is not None else options.hosts,
        concurrency=options.hosts,
    )
    try:
        await Run(fetcher, port, options.hosts, options.hosts).full_load()  # connections and handles are made here
        run = Run(fetcher, port, options.hosts, options.requests)
        wall_s, cpu_s = time.monotonic(), time.process_time()
        await (run.paced(options.rate) if options.rate else run.full_load())
        return run.summary(time.monotonic() - wall_s, time.process_time() - cpu_s)
    finally:
        await fetcher.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=500)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second; 0: as fast as they are answered")
    parser.add_argument("--keep-alive", type=int, default=None, help="kept connections; all hosts by default")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    try:
        result = uvloop.run(measure(ours.recv(), options))
    finally:
        ours.send("stop")
        server.join(5)
    print(json.dumps(result) if options.json else "\n".join(f"{key:20} {value}" for key, value in result.items()))


if __name__ == "__main__":
    main()
