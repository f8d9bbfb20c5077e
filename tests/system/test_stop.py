"""A crawl that is stopped at random moments ends in time, loses nothing and asks nobody early on its way back."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pytest

from teia.cli.crawl.control import send_command
from teia.collections.control_file import CrawlReports
from teia.crawler.fetch_rows import fetch_log
from teia.crawler.sites.soft404 import PROBE
from teia.errors import StoreError
from teia.frontier.queue.ledger import Ledger
from teia.frontier.queue.retry import RETRY_RULES
from teia.lab.server.requestlog import RequestLogEntry
from teia.lab.server.witness import early_requests
from teia.records import Command
from teia.store.root import open_root
from teia.urls import split

from .labs import Lab, crawl, crawling, log_text, running_lab
from .test_kill import EPOCH, LOG_WRITTEN_S, ArchiveWatch, pages_of, wait_for_request

DELAY_S = 0.5
WITHIN_S = 15.0
"""A stop that takes longer has failed."""

FLAGS = ("--delay", str(DELAY_S), "--cells", "3", "--max-hosts", "3000")
SPEC = """
seed = 23
hosts = {hosts}
pages = {pages}

[sites]
theta = 0
nxdomain = 0
unreachable = 0.02
aliases = 0
mirrors = 0
slow = 0.05
slow_s = {slow_s}
dripping = 0.05
drip_s = {drip_s}

[links]
outside = 6

[errors]
scale = 0.0

[changes]
slowest = 0.0001
fastest = 0.0001

[urls]
sessions = 0

[robots]
crawl_delay = 0

[sitemaps]
lying = 0
"""
"""Hosts that are slow, that nobody listens at, and that drip, all longer than some stops wait for them."""

Stop = Callable[[subprocess.Popen[bytes], Path, random.Random], None]


def end_by_limit(process: subprocess.Popen[bytes], data: Path, chance: random.Random) -> None:
    """Do nothing: `--max-seconds` does."""


def terminate(process: subprocess.Popen[bytes], data: Path, chance: random.Random) -> None:
    process.send_signal(signal.SIGTERM)


def tell_to_stop(process: subprocess.Popen[bytes], data: Path, chance: random.Random) -> None:
    send_command(
        open_root(data), None, Command.STOP, "stopped"
    )  # what `teia stop` does, without the start of a process


def interrupt(process: subprocess.Popen[bytes], data: Path, chance: random.Random) -> None:
    os.killpg(process.pid, signal.SIGINT)


def interrupt_twice(process: subprocess.Popen[bytes], data: Path, chance: random.Random) -> None:
    interrupt(process, data, chance)
    time.sleep(chance.uniform(0.0, 0.5))  # a person who presses it twice
    if process.poll() is None:
        interrupt(process, data, chance)


KINDS: dict[str, tuple[Stop, int]] = {
    "limit": (end_by_limit, 0),
    "SIGTERM": (terminate, 0),
    "teia stop": (tell_to_stop, 0),
    "Ctrl-C": (interrupt, 130),
    "Ctrl-C twice": (interrupt_twice, 130),
}


@dataclass(frozen=True)
class Trial:
    """How often a crawl of which web is stopped; after `per_round` stops it is let end, and another one begins."""

    stops: int
    per_round: int
    hosts: int
    pages: int
    slow_s: float
    drip_s: float
    longest_s: float
    retry_wait_s: float

    @property
    def spec(self) -> str:
        return SPEC.format(hosts=self.hosts, pages=self.pages, slow_s=self.slow_s, drip_s=self.drip_s)

    @property
    def environ(self) -> dict[str, str]:
        """Settings: servers that are late on a busy machine must not look like servers that do not answer."""
        return {
            "TEIA_COURTESY_RESPONSE_FACTOR": "0",
            "TEIA_COURTESY_RETRY_WAIT_S": str(self.retry_wait_s),
            "TEIA_LIMITS_SLOW_S": "60",
        }


def stop_once(lab: Lab, data: Path, kind: str, trial: Trial, chance: random.Random) -> float | None:
    """Let a crawl run for a while and stop it; returns how long the stop took, None if there was nothing left to do."""
    runs_s = chance.uniform(0.0, trial.longest_s)
    stop, status = KINDS[kind]
    # A crawl that ends by itself waits for its index, which is another matter.
    limit = ("--max-seconds", f"{runs_s:.3f}", "--no-index") if kind == "limit" else ("--max-seconds", "600")
    began = time.monotonic()
    with crawling(lab, data, *FLAGS, *limit, environ=trial.environ) as process:
        if kind == "limit":
            asked = began + runs_s  # the start counts as well, which only makes the stop look longer
        else:
            if not wait_for_own_request(lab, process, time.time()):
                assert process.wait(60) == 0, log_text(data)
                return None
            time.sleep(runs_s)  # the random moment of the stop
            asked = time.monotonic()
            try:
                stop(process, data, chance)
            except StoreError:
                # It ended by itself a moment before the command.
                assert process.wait(60) == 0, log_text(data)
                return None
        ended = process.wait(60)
        if ended == 0 and status and ": finished" in log_text(data):
            return None  # by itself, a moment before the signal
        assert ended == status, (kind, ended, log_text(data))
        took_s = time.monotonic() - asked
    assert took_s <= WITHIN_S, (kind, took_s, log_text(data))
    assert was_closed_cleanly(data), (kind, log_text(data))
    return took_s


def wait_for_own_request(lab: Lab, process: subprocess.Popen[bytes], since_s: float) -> bool:
    """Wait until the crawl has sent something; False if it ended by itself.

    A busy lab reads requests late that the process before has sent, so the crawl must have announced itself too.
    """
    while wait_for_request(lab, process, lab.requests()):
        if any(entry.start_s > since_s for entry in lab.entries()[-20:]) and is_announced(lab, process):
            return True
    return False


def is_announced(lab: Lab, process: subprocess.Popen[bytes]) -> bool:
    """Tell whether the process has announced its crawl in the control file; it handles signals from then on."""
    control = CrawlReports(lab.log.with_name("data") / "control.sqlite")
    try:
        run = control.running_crawl("main")
    finally:
        control.close()
    return run is not None and run.pid == process.pid


def was_closed_cleanly(data: Path) -> bool:
    """Whether the ledger of rests is whole: what was learnt of servers is committed."""
    ledger = Ledger(data / "ledger.sqlite")
    is_clean = ledger.open()
    ledger.close(clean=is_clean, now_s=time.time())
    return is_clean


@pytest.mark.parametrize(
    "trial",
    [
        pytest.param(Trial(6, 6, 60, 120, 0.6, 1.0, 0.4, 0.2), id="6"),
        pytest.param(Trial(200, 100, 3000, 6_000, 3.0, 6.0, 1.5, 16.0), id="200", marks=pytest.mark.slow),
    ],
)
@pytest.mark.timeout(7200)
def test_stops_end_in_time_lose_nothing_and_request_no_host_early(tmp_path: Path, trial: Trial) -> None:
    seed = int(os.environ.get("STOP_SEED") or 20261117)
    print(f"STOP_SEED={seed}")
    chance = random.Random(seed)
    stops = int(os.environ.get("STOP_STOPS") or trial.stops)
    kinds = [kind for _ in range(stops) for kind in chance.sample(list(KINDS), len(KINDS))][:stops]
    took: list[tuple[str, float]] = []
    with running_lab(tmp_path / "calm_lab", trial.spec, 220, epoch=EPOCH) as calm:
        undisturbed = crawl(calm, tmp_path / "calm", *FLAGS, "--no-index", timeout_s=3600, environ=trial.environ)
        while len(took) < stops:
            with running_lab(tmp_path / f"from {len(took)}", trial.spec, 200, port=calm.port, epoch=EPOCH) as lab:
                data = lab.log.with_name("data")
                watch, lives = ArchiveWatch(data), list[Life]()
                for kind in kinds[len(took) :][: trial.per_round]:
                    began_s = time.time()
                    took_s = stop_once(lab, data, kind, trial, chance)
                    lives.append(Life(began_s, left_behind(data)))
                    if took_s is None:
                        break
                    took.append((kind, took_s))
                    report(took)
                    watch.check()
                    time.sleep(LOG_WRITTEN_S)  # the lab logs a request when it has ended
                lives.append(Life(time.time(), 0))
                summary = crawl(lab, data, *FLAGS, "--max-seconds", "0", timeout_s=3600, environ=trial.environ)
                entries = lab.settled_entries()
            assert undisturbed["state"] == summary["state"] == "finished"
            assert pages_of(data) == pages_of(tmp_path / "calm")
            assert_every_request_is_explained(entries, lives, fetches_of(data), fetches_of(tmp_path / "calm"))
            watch.check()
            assert watch.records >= summary["archive_records"]
            assert early_requests(entries, DELAY_S, lambda entry: entry.host) == []
            assert early_requests(entries, DELAY_S, lambda entry: entry.address) == []


# ---- every request is explained -------------------------------------------------------------------------------------

ROUNDED_S = 0.001
"""Greatest error of a time in one of the two logs."""

TRIED_AGAIN = {outcome for outcome, rule in RETRY_RULES.items() if rule.tries > 1}
_LEFT = re.compile(r"stopped without waiting for (\d+) requests in progress and (\d+) pages|stopped with (\d+) pages")


class Life(NamedTuple):
    """One process of a crawl: when it was started, and how many requests it said that its stop has cut off."""

    began_s: float
    left: int


def left_behind(data: Path) -> int:
    """Return how many requests the last process of a crawl gave up: not answered, not read or not committed."""
    words = data.with_name("said.txt").read_text("utf-8", "replace")
    return sum(int(number) for found in _LEFT.findall(words) for number in found if number)


class Fetch(NamedTuple):
    """A row of the fetch log; `status` is 0 if there was no answer."""

    url: str
    kind: str
    outcome: str
    status: int
    began_s: float
    ended_s: float

    @property
    def what(self) -> tuple[str, str]:
        """The URL; of a probe, whose path is random, its host."""
        return self.kind, split(self.url).host if self.kind == PROBE else self.url


def fetches_of(data: Path) -> list[Fetch]:
    """Return all committed requests of a crawl, oldest first."""
    sql = "SELECT url, kind, outcome, coalesce(status, 0), epoch(started), epoch(ended) FROM fetches ORDER BY started"
    with fetch_log(open_root(data), "main") as log:
        return [Fetch(*row) for row in log.query(sql, max_rows=10_000_000).rows]


def assert_every_request_is_explained(
    entries: Sequence[RequestLogEntry], lives: Sequence[Life], fetches: Sequence[Fetch], calm: Sequence[Fetch]
) -> None:
    """Compare the requests that the servers saw with those that were committed, URL by URL.

    Each is one of three: its answer is in the fetch log, as often as in the log of a crawl that nobody stopped; it is
    there as a failure, which is tried again; or one of the stops said that it did not wait for it.
    """
    assert needed(fetches) == needed(calm), "an answer that was committed is not requested again"
    uncommitted = not_in(entries, fetches)
    unanswered = Counter(fetch.url for fetch in fetches if not fetch.status)
    cut_off = [0] * len(lives)
    for entry in uncommitted:
        if unanswered[url_of(entry)]:
            unanswered[url_of(entry)] -= 1
        else:
            # A request that the lab read late looks as if a later process had sent it.
            cut_off[sum(life.began_s <= entry.start_s for life in lives) - 1] += 1
    for seen, told in zip(accumulate(cut_off), accumulate(life.left for life in lives), strict=True):
        assert seen <= told, (cut_off, lives)


def needed(fetches: Sequence[Fetch]) -> Counter[tuple[str, str]]:
    """Return how often each URL was fetched with an answer that is not tried again."""
    return Counter(fetch.what for fetch in fetches if fetch.outcome not in TRIED_AGAIN)


def not_in(entries: Sequence[RequestLogEntry], fetches: Sequence[Fetch]) -> list[RequestLogEntry]:
    """Return the requests that servers saw and whose answers are not in the fetch log; each answer was seen once."""
    seen: defaultdict[str, list[RequestLogEntry]] = defaultdict(list)
    for entry in sorted(entries, key=lambda each: each.start_s):
        seen[url_of(entry)].append(entry)
    for fetch in fetches:
        if fetch.status:
            during = (each for each in seen[fetch.url] if in_time(each, fetch))
            one = next(during, None)
            assert one is not None, f"no server has seen {fetch}"
            seen[fetch.url].remove(one)
    return [entry for those in seen.values() for entry in those]


def in_time(entry: RequestLogEntry, fetch: Fetch) -> bool:
    return fetch.began_s - ROUNDED_S <= entry.start_s <= fetch.ended_s + ROUNDED_S


def url_of(entry: RequestLogEntry) -> str:
    return f"http://{entry.headers['host']}{entry.path}"


def report(took: list[tuple[str, float]]) -> None:
    """Say how long stops took so far, in the file that `STOP_REPORT` names."""
    lines = {}
    for kind in ("all", *KINDS):
        those = sorted(took_s for each, took_s in took if kind in (each, "all"))
        if those:
            places = {"median_s": len(those) // 2, "p95_s": int(0.95 * (len(those) - 1)), "max_s": -1}
            lines[kind] = {"stops": len(those)} | {name: round(those[at], 2) for name, at in places.items()}
    if "STOP_REPORT" in os.environ:
        Path(os.environ["STOP_REPORT"]).write_text(json.dumps(lines), "utf-8")
