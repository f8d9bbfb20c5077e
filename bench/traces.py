"""Files of teia that a reader has to open to follow four everyday events from beginning to end.

    python -m bench.traces [commit setting revisit announcement] [--files]

Each event happens for real: `teia crawl`, `teia serve` and `teia node` run in processes of their own over a lab's web,
with default settings but for the delay. A file counts if its code runs below one of the event's entry points
(bench.trace_recorder), in any of the processes. In an event that happens all the time a file counts if it runs in at
least a tenth of the calls of an entry point. There are three figures:

    all files
    without the ground floor   URLs, clocks, SQLite, messages: the words in which the others are written
    that pass it on            files from which the event goes on to another file above the ground floor; a reader who
                               follows it opens these, and takes the others, which only return something, by their names

    commit        a group of pages is taken from the loop, committed, and its result applied to the buffers
    setting       a browser posts the form that changes a collection's delay; the running crawler applies it
    revisit       a known page is due, taken from disk, and requested; its next due time is written with its visit
    announcement  the cache beside node A announces a page of a site that node B owns; B has it among those to take
                  from the cache
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bench.trace_recorder import GROUND, PASSES_ON
from teia.clock import WallClock
from teia.cluster.nats.servers import NatsServers
from teia.collections.settings import saved
from teia.lab.server.process import lab_process
from teia.signals.announce import counts_in
from teia.store.root import open_root
from teia.web.access.accounts import Accounts
from teia.web.access.roles import Role
from teia.web.collection_form import fields_from_config

ENTRY_POINTS = {
    "commit": (
        "crawler/running_collection.py:Crawl.take_group",
        "crawler/commit.py:Committer.commit",
        "crawler/loop.py:Crawler._handle_commit",
    ),
    "setting": (
        "web/server/headers.py:SecurityMiddleware.__call__",
        "web/server/auth.py:_visitor_by_session",
        "web/pages/collection/edit.py:edit_by_form",
        "collections/poll_requests.py:poll_requests",
    ),
    "revisit": (
        "crawler/running_collection.py:Crawl.wake_due",
        "crawler/commit.py:Committer._refill",
        "crawler/running_collection.py:Crawl._fill",
        "crawler/loop.py:Crawler._serve",
        "crawler/keep_fresh/observe.py:observe_visit",
        "crawler/keep_fresh/keep_fresh.py:Refresh.note_visits",
    ),
    "announcement": (
        "crawler/proxy_collector.py:_receive",
        "crawler/signals_in/announcements.py:Announcements.process",
        "cluster/crawl/signals.py:SignalExchange._send_to",
        "cluster/crawl/signals.py:SignalExchange._on_message",
    ),
}
"""The functions between which an event happens; each of their calls is followed."""

EXITS = {
    "revisit": ("fetch/curl.py:CurlFetcher.start",),
    "announcement": ("crawler/signals_in/announcements.py:Announcements._store_sources",),
}
"""Functions at which an event ends: nothing that they call counts.

After an announced page is among those to take from the cache, it is noted for the estimate of coverage.
"""

SHARES = {"commit": 0.1, "revisit": 0.1}
"""Share of the calls of an entry point in which a file must run, for events that happen all the time."""

SPEC = """
seed = 7
hosts = 8
pages = 500
sites = { theta = 0.2, mirrors = 0, aliases = 0, nxdomain = 0, unreachable = 0, shared_address = 0 }
errors = { scale = 0 }
robots = { crawl_delay = 0 }
urls = { sessions = 0 }
"""
SETTINGS = """
[collection]
seeds = {seeds}
cells = 4
[scope]
include = ["suffix:.test"]
[courtesy]
delay_s = 0.2
[fetch]
dns = "{dns}"
allow_nets = ["127.77.0.0/16"]
[refresh]
least_s = 1.0
{more}
"""
NET = 198
NO_CACHE = "127.0.0.1:9"
"""Address of the cache: none is there, for the event ends when a page is to be taken from it."""

WAIT_S = 90.0


@dataclass(frozen=True)
class Trace:
    """One recording: a folder for its files, and the environment of the processes that record."""

    folder: Path
    web: Mapping[str, Any]
    """What `teia lab serve` printed."""
    environment: Mapping[str, str]

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record while the block runs."""
        (self.folder / "on").touch()
        yield
        (self.folder / "on").unlink()

    def command(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start a command of teia that records; its messages go to a file."""
        with (self.folder / "messages").open("ab") as messages:
            return subprocess.Popen(
                [sys.executable, "-m", "teia", *map(str, words)],
                stdout=subprocess.PIPE,
                stderr=messages,
                text=True,
                env=self.environment,
            )

    def settings(self, more: str = "") -> Path:
        path = self.folder / "web.toml"
        seeds = str(self.web["seeds"]).replace("'", '"')
        path.write_text(SETTINGS.format(seeds=seeds, dns=self.web["dns"], more=more), "utf-8")
        return path

    def files(self, share: float) -> dict[str, set[str]]:
        """Return the files of each entry point that ran in this share of its calls."""
        calls: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for path in (self.folder / "to").iterdir():
            for entry, counts in json.loads(path.read_text("utf-8")).items():
                calls[entry].update(counts)
        return {
            entry: {file for file, number in counts.items() if file and number >= share * counts[""]}
            for entry, counts in calls.items()
        }

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for something; after `WAIT_S` the messages of the processes say why it did not come."""
        for _ in range(int(WAIT_S / 0.1)):
            if is_so():
                return
            time.sleep(0.1)
        raise SystemExit("waited in vain:\n" + (self.folder / "messages").read_text("utf-8")[-3_000:])


@contextmanager
def ended(*processes: subprocess.Popen[str]) -> Iterator[None]:
    """End processes as a user would, by SIGTERM, when the block is left."""
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.communicate(timeout=60)


# ---- the events ------------------------------------------------------------------------------------------------------


def commit(trace: Trace) -> None:
    with ended(trace.command("crawl", "--config", trace.settings(), "--data", trace.folder / "data")):
        # By then all hosts are known.
        trace.until(lambda: _requested(trace) >= 100)
        with trace.recorded():
            trace.until(lambda: _requested(trace) >= 400)


def revisit(trace: Trace) -> None:
    with ended(trace.command("crawl", "--config", trace.settings(), "--data", trace.folder / "data", "--keep-fresh")):
        # By then all pages are known, and most have been visited again.
        trace.until(lambda: _requested(trace) >= 1_000)
        with trace.recorded():
            trace.until(lambda: _requested(trace) >= 1_200)


def setting(trace: Trace) -> None:
    data = trace.folder / "data"
    with ended(trace.command("crawl", "--config", trace.settings(), "--data", data, "--keep-fresh")):
        trace.until(lambda: _requested(trace) >= 60)
        code = Accounts(data / "web.sqlite", WallClock()).invite(Role.OPERATOR)
        browser = Browser(_free_port())
        with ended(trace.command("serve", "--data", data, "--port", str(browser.port), "--no-crawler")):
            trace.until(browser.is_answered)
            browser.post("/login/first", {"code": code, "name": "ana", "password": "a long enough password"})
            form = browser.request("GET", "/c/main/edit")[1]
            fields = fields_from_config(saved(open_root(data), "main").config).model_dump()
            fields |= {"delay": "1", "step": "check", "csrf": _hidden(form, "csrf")}
            # The first post shows the effect of the change, the second one saves it.
            _, shown = browser.post("/c/main/edit", fields)
            fields |= {"step": "save", "shown": _hidden(shown, "shown")}
            with trace.recorded():
                status, answer = browser.post("/c/main/edit", fields)
                if status != 303:
                    raise SystemExit(answer)
                time.sleep(2.0)  # the crawler polls every 0.2 s


def announcement(trace: Trace) -> None:
    asyncio.run(_announce(trace))


async def _announce(trace: Trace) -> None:
    socket_path = trace.folder / "announce"
    signals = f'socket = "{socket_path}"\nproxy = "{NO_CACHE}"\ndelay_s = 0.1\nmax_age_s = 0.5\n'
    settings = trace.settings(f"[signals]\n{signals}")
    async with NatsServers(trace.folder / "nats", 1, WallClock()) as nats:
        flags = ["--nats", nats.urls[0], "--key", nats.key, "--session", "8", "--config", settings]
        nodes = [trace.command("node", *flags, "--data", trace.folder / name, "--name", name) for name in "ab"]
        with ended(*nodes):
            await asyncio.to_thread(trace.until, lambda: _requested(trace) >= 60)
            await asyncio.sleep(10.0)  # cells that are handed over at the start have been by now
            urls = _urls(trace)
            datagram = f"teia-announce 1 seen={len(urls)}\n" + "\n".join(urls)
            with trace.recorded():
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as cache:
                    cache.sendto(datagram.encode(), str(socket_path))
                await asyncio.to_thread(trace.until, lambda: _forwarded(trace) > 0)
                await asyncio.sleep(5.0)


def _urls(trace: Trace) -> list[str]:
    """Return one URL of each host that was crawled."""
    with (trace.folder / "requests.jsonl").open("rb") as lines:
        entries = [json.loads(line) for line in lines]
    return list({each["host"]: f"http://{each['host']}:{trace.web['port']}/" for each in entries}.values())


def _requested(trace: Trace) -> int:
    """Count the requests that the lab answered."""
    path = trace.folder / "requests.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _forwarded(trace: Trace) -> int:
    found = [counts_in(open_root(trace.folder / name).collection("main").signals) for name in "ab"]
    return sum(each.get("proxy", {}).get("passed_on", 0) for each in found)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@dataclass
class Browser:
    """A browser at a server: it keeps cookies and follows no redirect."""

    port: int
    cookies: SimpleCookie = field(default_factory=SimpleCookie)

    def request(self, method: str, path: str, body: str = "") -> tuple[int, str]:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            cookies = "; ".join(f"{each.key}={each.value}" for each in self.cookies.values())
            headers = {"Cookie": cookies, "Origin": f"http://127.0.0.1:{self.port}"}
            connection.request(method, path, body, headers | {"Content-Type": "application/x-www-form-urlencoded"})
            answer = connection.getresponse()
            for value in answer.headers.get_all("Set-Cookie") or ():
                self.cookies.load(value)
            return answer.status, answer.read().decode()

    def post(self, path: str, fields: Mapping[str, Any]) -> tuple[int, str]:
        return self.request("POST", path, urlencode(fields, doseq=True))

    def is_answered(self) -> bool:
        try:
            return self.request("GET", "/health")[0] == 200
        except OSError:
            return False


def _hidden(page: str, name: str) -> str:
    """Return the value of a hidden field of a page's form."""
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    if found is None:
        raise SystemExit(f"the form has no field {name}")
    return found[1]


# ---- the whole -------------------------------------------------------------------------------------------------------

EVENTS: Mapping[str, Callable[[Trace], None]] = {
    "commit": commit, "setting": setting, "revisit": revisit, "announcement": announcement,
}  # fmt: skip


def measure(name: str) -> dict[str, set[str]]:
    """Let an event happen; return the files whose code ran, by entry point."""
    with tempfile.TemporaryDirectory(prefix="teia-trace-") as folder:
        path = Path(folder)
        (path / "to").mkdir()
        (path / "spec.toml").write_text(SPEC, "utf-8")
        (path / "sitecustomize.py").write_text("from bench.trace_recorder import record\n\nrecord()\n", "utf-8")
        flags = ["--spec", str(path / "spec.toml"), "--port", "0", "--address", f"127.77.{NET}.1"]
        flags += ["--dns-address", f"127.77.255.{NET}:0", "--control-address", f"127.77.254.{NET}"]
        with lab_process(*flags, "--log", str(path / "requests.jsonl")) as web:
            environment = os.environ | {
                "PYTHONPATH": os.pathsep.join([folder, str(Path(__file__).parent.parent)]),
                "TRACE_ENTRIES": " ".join(ENTRY_POINTS[name]),
                "TRACE_EXITS": " ".join(EXITS.get(name, ())),
                "TRACE_TO": str(path / "to"),
                "TRACE_WHILE": str(path / "on"),
            }
            trace = Trace(path, web, environment)
            EVENTS[name](trace)
            return trace.files(SHARES.get(name, 0.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(EVENTS))
    parser.add_argument("--files", action="store_true", help="list the files too")
    options = parser.parse_args()
    for name in options.names or EVENTS:
        by_entry = measure(name)
        files = set().union(*by_entry.values())
        passing = {file.removesuffix(PASSES_ON) for file in files if file.endswith(PASSES_ON)}
        ran = {file for file in files if not file.endswith(PASSES_ON)}
        above = [file for file in ran if not file.startswith(GROUND)]
        print(f"{name:13}{len(ran):4} files, {len(above)} without the ground floor, {len(passing)} that pass it on")
        for entry in ENTRY_POINTS[name]:
            print(f"{len(ran & by_entry.get(entry, set())):17} {entry}")
        for file in sorted(ran) if options.files else ():
            print(f"      {'>' if file in passing else ' '} {file}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
