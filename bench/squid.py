"""Cost of the helper to Squid's users: `python -m bench.squid [--rounds 8] [--seconds 4] [--ttl 600] [--apart]` (C7).

Six Squids run on the same machine. One has no helper. Three have a helper as log daemon, the default: it announces to a
crawler that listens, to one that is stopped (nothing has the socket) and to one that is slow (the socket is full and
nothing reads it). Two have a helper as ACL or rewriter, which announces to a crawler that listens. Squid keeps an ACL's
answers for `--ttl` seconds (0: every request is announced). Each gets the same requests as the Squid without a helper,
at the same moments, so that other work on the machine affects both alike; results are ratios. Where there are fewer
cores than work, the helper's own work affects both too, and draws `mixed` and `hits` towards 1: with `--apart` the two
get requests in turns, as they do for `saturated`.

    mixed      200 requests/s to each of the two at even distances, in turns, whether or not earlier ones were answered;
               4 in 10 are for pages that are not in the cache, and their server takes 20 ms. Times count from when a
               request should begin
    hits       the same for pages that are all in the cache: the worst case for a cost per request
    saturated  as many hits as wrk gets over 32 connections, from one and then from the other

A ratio is the median over rounds of a variant's number over that of the Squid without a helper beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from email.utils import formatdate
from pathlib import Path

from teia.lab.server.squid import Squid, squid_process
from teia.signals.announce import AnnouncementSocket
from teia.signals.squid_conf import DEFAULT, TTL_S, Way

RESULTS = Path(__file__).resolve().parent / "results" / "squid.json"
ORIGIN, NAME = "127.77.195.1", "origin.test"
RATE, CONNECTIONS = 200, 24
PAGES, MISSES, MISS_S = 200, 0.4, 0.02
BODY = b"<p>" + b"words and more words. " * 230
WAYS: dict[str, Way | None] = {
    "without": None,
    "listening": DEFAULT,
    "stopped": DEFAULT,
    "slow": DEFAULT,
    "acl": "acl",
    "rewriter": "rewriter",
}
VARIANTS = tuple(WAYS)
SATURATED = ("saturated 1/s", "saturated, Squid's processor us", "saturated, helper's processor us")
Numbers = Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]
RECEIVED = ("listening", "acl", "rewriter")

LUA = """
local n = 0
function request() n = (n + 1) %% %d; return wrk.format("GET", "http://%s:%d/hit/" .. n, {["Host"] = "%s:%d"}) end
function done(summary, latency, requests)
  io.write(string.format('{"answers": %%d, "seconds": %%.6f, "wrong": %%d}\\n', summary.requests,
    summary.duration / 1e6, summary.errors.status + summary.errors.connect + summary.errors.read))
end
"""


# ---- the origin and its users ---------------------------------------------------------------------------------------


class Origin(asyncio.Protocol):
    """A server that answers every request after the time of a cache miss; its answers may be cached for an hour."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        head = f"HTTP/1.1 200 OK\r\nDate: {formatdate(usegmt=True)}\r\nContent-Type: text/html\r\n"
        head += f"Cache-Control: max-age=3600\r\nContent-Length: {len(BODY)}\r\n\r\n"
        for _ in range(data.count(b"\r\n\r\n")):
            asyncio.get_running_loop().call_later(MISS_S, self._transport.write, head.encode() + BODY)  # type: ignore[attr-defined]


def serve_origin(port: multiprocessing.Queue[int]) -> None:
    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(Origin, ORIGIN, 0)
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


@contextmanager
def origin() -> Iterator[int]:
    queue: multiprocessing.Queue[int] = multiprocessing.Queue()
    process = multiprocessing.Process(target=serve_origin, args=(queue,), daemon=True)
    process.start()
    try:
        yield queue.get(timeout=20)
    finally:
        process.terminate()
        process.join()


class User(asyncio.Protocol):
    """One kept connection to a Squid; `request` returns when a whole answer has come."""

    def __init__(self) -> None:
        self._have, self._want = b"", -1
        self._done: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(ConnectionError("Squid closed the connection"))

    async def request(self, url: str) -> None:
        self._have, self._want, self._done = b"", -1, asyncio.get_running_loop().create_future()
        self._transport.write(f"GET {url} HTTP/1.1\r\nHost: {url.split('/')[2]}\r\n\r\n".encode())  # type: ignore[attr-defined]
        await self._done

    def data_received(self, data: bytes) -> None:
        self._have += data
        if self._want < 0 and (end := self._have.find(b"\r\n\r\n")) >= 0:
            if not self._have.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"Squid answers {self._have[:60]!r}")
            length = self._have[:end].lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
            self._want = end + 4 + int(length)
        if 0 <= self._want <= len(self._have) and self._done is not None and not self._done.done():
            self._done.set_result(None)


async def at_rate(squid: Squid, urls: Sequence[str], after_s: float = 0.0) -> list[float]:
    """Request URLs at even distances; return the duration of each from the moment it should have begun."""
    loop = asyncio.get_running_loop()
    began = loop.time() + 0.2 + after_s
    free: asyncio.Queue[User] = asyncio.Queue()
    users = [(await loop.create_connection(User, "127.0.0.1", squid.port))[1] for _ in range(CONNECTIONS)]
    for user in users:
        free.put_nowait(user)
    took_s: list[float] = []

    async def one(url: str, due: float) -> None:
        user = await free.get()
        await user.request(url)
        took_s.append(loop.time() - due)
        free.put_nowait(user)

    async with asyncio.TaskGroup() as group:
        for number, url in enumerate(urls):
            due = began + number / RATE
            await asyncio.sleep(max(0.0, due - loop.time()))
            group.create_task(one(url, due))
    for user in users:
        user._transport.close()
    return took_s


async def side_by_side(squids: Sequence[Squid], urls: Sequence[str]) -> list[list[float]]:
    """Request the same URLs from several Squids at the same moments, in turns; return sorted milliseconds."""
    step_s = 1 / RATE / len(squids)
    found = await asyncio.gather(*(at_rate(squid, urls, at * step_s) for at, squid in enumerate(squids)))
    return [sorted(1000 * each for each in took_s) for took_s in found]


def saturated(squid: Squid, port: int, seconds: float) -> tuple[float, int]:
    """Return the answers a second that wrk gets, and their number."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(LUA % (PAGES, NAME, port, NAME, port))
        script.flush()
        command = [
            "wrk",
            "-t1",
            "-c32",
            f"-d{max(1, round(seconds))}s",
            "-s",
            script.name,
            f"http://127.0.0.1:{squid.port}/",
        ]
        out = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    found = json.loads(out.splitlines()[-1])
    if found["wrong"]:
        raise SystemExit(f"{found['wrong']} answers of Squid were wrong")
    return found["answers"] / found["seconds"], found["answers"]


# ---- the six Squids -------------------------------------------------------------------------------------------------


def listen(receiver: AnnouncementSocket, received: list[int], index: int, ended: threading.Event) -> None:
    """Read announcements, as a crawler does."""
    while not ended.wait(0.02):
        received[index] += sum(len(each.urls) for each in receiver.receive())


@contextmanager
def six_squids(ttl_s: int) -> Iterator[tuple[dict[str, Squid], list[int]]]:
    received, ended = [0] * len(RECEIVED), threading.Event()
    with ExitStack() as stack:
        names = {NAME: ORIGIN}
        squids = {name: stack.enter_context(squid_process(names, way=way, ttl_s=ttl_s)) for name, way in WAYS.items()}
        for index, name in enumerate(RECEIVED):
            receiver = AnnouncementSocket(squids[name].socket)
            stack.callback(receiver.close)
            reader = threading.Thread(target=listen, args=(receiver, received, index, ended))
            reader.start()
            stack.callback(reader.join)
        stack.callback(ended.set)
        full = AnnouncementSocket(squids["slow"].socket)
        stack.callback(full.close)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as flood:
            while True:
                try:
                    flood.sendto(b"x" * 1000, str(squids["slow"].socket))
                except BlockingIOError:
                    break
        yield squids, received


def cpu_s(pid: int) -> tuple[float, float]:
    """Return the processor time so far of a Squid, and of its helpers with the processes that these started."""
    parents, spent = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            values = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = int(values[1])
            spent[int(folder.name)] = (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")
    helpers = [each for each, parent in parents.items() if pid in (parent, parents.get(parent))]
    return spent[pid], sum(spent[each] for each in helpers)


def saturate(squid: Squid, port: int, seconds: float) -> list[float]:
    """Return answers a second, and the processor microseconds of Squid and of its helper for each."""
    before_s = cpu_s(squid.pid)
    rate, answers = saturated(squid, port, seconds)
    return [rate, *(1e6 * (after - then) / answers for after, then in zip(cpu_s(squid.pid), before_s, strict=True))]


def measure(rounds: int, seconds: float, ttl_s: int, *, latency: bool, apart: bool) -> Numbers:
    """Return the numbers of each workload and variant, one a round, each with that of the Squid without a helper."""
    if shutil.which("wrk") is None:
        raise SystemExit("this needs wrk; on Debian: apt-get install wrk")
    chance, numbers = random.Random(1), defaultdict(lambda: defaultdict(list))
    fresh = iter(range(10**9))
    with origin() as port, six_squids(ttl_s) as (squids, received):
        base = f"http://{NAME}:{port}"
        for squid in squids.values():
            pages = [f"{base}/hit/{page}" for page in range(PAGES)]
            asyncio.run(at_rate(squid, pages))
            if min(asyncio.run(at_rate(squid, pages))) > MISS_S:
                raise SystemExit("the requested pages are not in the cache")
        for number in range(rounds):
            for name in random.Random(number).sample(VARIANTS[1:], len(VARIANTS) - 1):
                both = [squids[name], squids["without"]][:: 1 if number % 2 else -1]
                hits = [f"{base}/hit/{chance.randrange(PAGES)}" for _ in range(int(RATE * seconds))]
                mixed = [f"{base}/miss/{next(fresh)}" if chance.random() < MISSES else url for url in hits]
                found: dict[str, list[float]] = {}
                for workload, urls in (("mixed", mixed), ("hits", hits)) if latency else ():
                    took_ms = [
                        took for group in ([[each] for each in both] if apart else [both])
                        for took in asyncio.run(side_by_side(group, urls))
                    ]  # fmt: skip
                    for part in (50, 95):
                        found[f"{workload} p{part} ms"] = [each[len(each) * part // 100] for each in took_ms]
                rates = [saturate(squid, port, seconds / 2) for squid in both]
                found |= dict(zip(SATURATED, map(list, zip(*rates, strict=True)), strict=True))
                for what, values in found.items():
                    numbers[what][name].append(tuple(values[:: 1 if number % 2 else -1]))
        if not all(received):
            raise SystemExit("nothing was announced; the helper does not work")
    return {what: dict(of) for what, of in numbers.items()}


def ratios(numbers: Numbers) -> dict[str, dict[str, float]]:
    """Return the median over rounds of each variant's number over that without a helper."""
    return {
        what: {name: statistics.median(ours / without for ours, without in pairs) for name, pairs in of.items()}
        for what, of in numbers.items()
        if what != SATURATED[2]
    }


def table(numbers: Numbers) -> str:
    found = ratios(numbers)
    lines = ["| measure | without | " + " | ".join(VARIANTS[1:]) + " |", "|---" * (1 + len(VARIANTS)) + "|"]
    for what, of in numbers.items():
        plain = f"{statistics.median(without for pairs in of.values() for _, without in pairs):,.3g}"
        shown = [
            f"{statistics.median(ours for ours, _ in of[name]):,.3g}"
            + (f" (x {found[what][name]:.3f})" if what in found else "")
            for name in VARIANTS[1:]
        ]
        lines.append(f"| {what} | {plain} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--ttl", type=int, default=TTL_S, help="seconds for which Squid keeps answers of the ACL")
    parser.add_argument("--saturated", action="store_true", help="run this workload alone")
    parser.add_argument("--apart", action="store_true", help="send requests to the two Squids of a pair in turns")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--write", type=Path)
    wanted = parser.parse_args()
    load = os.getloadavg()[0]
    began = time.monotonic()
    numbers = measure(wanted.rounds, wanted.seconds, wanted.ttl, latency=not wanted.saturated, apart=wanted.apart)
    print(table(numbers))
    found = {
        "ratios": ratios(numbers),
        "rounds": wanted.rounds,
        "ttl_s": wanted.ttl,
        "apart": wanted.apart,
        "load_before": load,
        "cores": os.cpu_count(),
    }
    print(json.dumps({**found, "seconds": round(time.monotonic() - began)}))
    wanted.results.write_text(json.dumps({**found, "numbers": numbers}, indent=1) + "\n", "utf-8")
    if wanted.write is not None:
        wanted.write.write_text(table(numbers) + "\n", "utf-8")


if __name__ == "__main__":
    main()
