"""kill -9 at random moments loses nothing."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import pytest
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]  # it ships no types

from teia.crawler.fetch_rows import fetch_log
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import FoundUrl
from teia.lab.server.witness import early_requests
from teia.store.archive import committed_files
from teia.store.audit import audit_archive
from teia.store.root import open_root
from teia.transfer.read_all import committed_archive, known_urls
from teia.urls import cell_of, host_of, key_of, site_of, slot_of
from tests.waiting import until

from .labs import Lab, crawl, crawling, kill_group, log_text, running_lab

DELAY_S = 0.2
EPOCH = "2026-11-01T00:00:00Z"
"""Feeds tell the dates of pages by it."""

LOG_WRITTEN_S = 0.25
"""After so long the lab has written what it saw; it does so every 0.2 s."""

PAGES_PER_KILL = 22
"""A life is too short for more, so the crawl cannot end before the last kill."""

FLAGS = ("--delay", str(DELAY_S), "--cells", "3")
SPEC = """
seed = 11
hosts = 12
pages = 1000

[sites]
theta = 0.1
nxdomain = 0
unreachable = 0

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
"""A web that stays as it is: a session id is another one each hour, and a thousand kills take longer than that."""


def pages_of(data: Path) -> dict[str, tuple[str, str | None, str | None]]:
    """What a finished crawl knows: every URL with its state, outcome and digest."""
    urls = known_urls(open_root(data), "main")
    return {each["url"]: (each["state"], each["outcome"], each["digest"]) for each in urls}


def committed_requests(data: Path) -> int:
    with fetch_log(open_root(data), "main") as log:
        return int(log.query("SELECT count(*) FROM fetches").rows[0][0])


class Bounded:
    """The committed part of a file that a dead crawler may have written further."""

    def __init__(self, file: BinaryIO, end: int) -> None:
        self._file, self._end = file, end

    def read(self, size: int = -1) -> bytes:
        left = self._end - self._file.tell()
        return self._file.read(left if size < 0 else min(size, left))

    def tell(self) -> int:
        return self._file.tell()


def warcio_check(path: Path, start: int, end: int) -> None:
    """What `warcio check` does, for the records between two offsets."""
    with path.open("rb") as file:
        file.seek(start)
        for record in ArchiveIterator(Bounded(file, end), check_digests=True):
            while record.content_stream().read(1 << 20):
                pass
            assert record.digest_checker.passed is not False, (path.name, record.digest_checker.problems)


@dataclass
class ArchiveWatch:
    """Checks after every death what was committed since the one before, with our audit and with other people's tool."""

    data: Path
    audited: dict[tuple[int, str], int] = field(default_factory=dict)
    records: int = 0

    def check(self) -> None:
        for folder in open_root(self.data).collection("main").cells():
            end = committed_archive(folder)
            before = {name: offset for (number, name), offset in self.audited.items() if number == folder.number}
            audit = audit_archive(folder.archive, end, before)
            assert audit.violations == 0, audit.details
            self.records += audit.checked
            for path, stop in committed_files(folder.archive, end):
                offset = path.stat().st_size if stop is None else stop
                if offset > before.get(path.name, 0):
                    warcio_check(path, before.get(path.name, 0), offset)
                self.audited[folder.number, path.name] = offset


def add_urls(data: Path, hosts: list[str], number: int) -> None:
    """Let a collection know so many URLs more, the same number of each host, as links of its pages would."""
    collection = open_root(data).collection("main")
    of_cell: dict[int, list[str]] = {}
    for host in hosts:
        of_cell.setdefault(cell_of(slot_of(site_of(host)), collection.starts()), []).append(host)
    for folder in collection.cells():
        with closing(FrontierCell(folder.frontier)) as cell:
            for host in of_cell.get(folder.number, []):
                tails = [f"/acervo/{page}.html" for page in range(number // len(hosts))]
                with cell.transaction():
                    found = [FoundUrl(host, key_of(f"http://{host}{tail}"), tail, 3) for tail in tails]
                    cell.add_links(found, time.time())


def wait_for_request(lab: Lab, process: subprocess.Popen[bytes], asked_before: int) -> bool:
    """Wait until the crawl has sent something; False if it ended by itself."""
    until(lambda: process.poll() is not None or lab.requests() > asked_before, "the crawl sends something")
    return process.poll() is None


def kill_again_and_again(lab: Lab, data: Path, kills: int, chance: random.Random) -> ArchiveWatch:
    """Start and kill a crawl; after each death check the archive. One in eight dies before it has sent anything."""
    watch = ArchiveWatch(data)
    for number in range(kills):
        with crawling(lab, data, *FLAGS) as process:
            if number % 8 == 7:
                time.sleep(chance.uniform(0.0, 1.5))  # at any moment of its start
            else:
                went_on = wait_for_request(lab, process, lab.requests())
                assert went_on, f"ended by itself after {number} kills: {log_text(data)}"
                time.sleep(chance.uniform(0.0, 0.4))  # at any moment of its work
            kill_group(process)
        died = time.monotonic()
        watch.check()
        time.sleep(max(0.0, died + LOG_WRITTEN_S - time.monotonic()))  # the lab writes its log now and then
    return watch


@contextmanager
def undisturbed_beside(lab: Lab, folder: Path, spec: str) -> Iterator[Callable[[], int]]:
    """Crawl the same web, served a second time, in peace and meanwhile; calling waits for the number of requests."""
    with (
        running_lab(folder / "calm_lab", spec, 192, port=lab.port, epoch=EPOCH) as calm,
        ThreadPoolExecutor(1) as thread,
    ):
        done = thread.submit(crawl, calm, folder / "calm", *FLAGS, timeout_s=3600)

        def requests() -> int:
            assert done.result()["state"] == "finished"
            return len(calm.settled_entries())

        yield requests


def assert_whole(data: Path) -> None:
    """The tools over all of it once more, as a person would call them; no link was counted twice or lost."""
    files = [str(path) for path in sorted(data.glob("main/cells/*/archive/*.warc.gz"))]
    audits = (["teia", "audit", kind, "--data", str(data)] for kind in ("archive", "links"))
    for words in (["warcio.cli", "check", *files], *audits):
        done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("kills", "hosts_in_memory"),
    [
        pytest.param(40, 20_000, id="40"),
        pytest.param(10, 4, id="10, most hosts wait on disk"),
        pytest.param(1000, 20_000, id="1000", marks=pytest.mark.slow),
    ],
)
@pytest.mark.timeout(7200)
def test_kills_lose_nothing_and_repeat_only_what_was_under_way(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kills: int,
    hosts_in_memory: int,
    record_property: Callable[[str, object], None],
) -> None:
    monkeypatch.setenv("TEIA_LIMITS_HOSTS_IN_MEMORY", str(hosts_in_memory))
    seed = int(os.environ.get("KILL_SEED") or 20261115)
    print(f"KILL_SEED={seed}")
    spec = SPEC.replace("pages = 1000", f"pages = {PAGES_PER_KILL * kills}")
    with (
        running_lab(tmp_path / "lab", spec, 91, epoch=EPOCH) as lab,
        undisturbed_beside(lab, tmp_path, spec) as undisturbed,
    ):
        watch = kill_again_and_again(lab, tmp_path / "killed", kills, random.Random(seed))
        lost = len(lab.settled_entries()) - committed_requests(tmp_path / "killed")
        summary = crawl(lab, tmp_path / "killed", *FLAGS, timeout_s=3600)
        entries = lab.settled_entries()
        needed = undisturbed()
    assert summary["state"] == "finished"
    assert pages_of(tmp_path / "killed") == pages_of(tmp_path / "calm")
    assert len(entries) <= needed + lost
    record_property("figure 1", f"{kills} kills: 0 URLs lost, no more requests repeated than were in flight")
    watch.check()
    record_property("figure 10", f"{watch.records} records written under kills: all readable, all digests match")
    assert watch.records >= summary["archive_records"]
    assert_whole(tmp_path / "killed")
    assert early_requests(entries, DELAY_S, lambda entry: entry.host) == []
    assert early_requests(entries, DELAY_S, lambda entry: entry.address) == []


BACK_WITHIN_S = 5.0
"""On a machine on which nothing else runs."""


def time_until_request(lab: Lab, data: Path) -> float:
    """Start a crawl, and kill it in the middle of its work; return the seconds until its first request."""
    requests, began_s = len(lab.settled_entries()), time.monotonic()
    with crawling(lab, data, *FLAGS) as process:
        assert wait_for_request(lab, process, requests), log_text(data)
        back_s = time.monotonic() - began_s
        time.sleep(2.0)  # it works
    return back_s


@pytest.mark.slow
def test_a_killed_crawl_of_a_million_urls_sends_requests_again_within_five_seconds(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    urls = 1_000_000
    spec = SPEC.replace("hosts = 12", "hosts = 2000").replace("pages = 1000", "pages = 4000")
    data = tmp_path / "data"
    with running_lab(tmp_path / "lab", spec, 93, epoch=EPOCH, truth=True) as lab:
        crawl(lab, data, *FLAGS, "--max-pages", "5")
        add_urls(data, sorted({host_of(url) for url in lab.truth()}), urls)
        back = [time_until_request(lab, data) for _ in range(4)][1:]  # the first start follows no kill
    said = f"{urls} URLs known: the first request {min(back):.1f} s after the start that follows a kill"
    record_property("figure 1", said)
    # Of three starts, on a machine that other tests may keep busy.
    assert min(back) <= BACK_WITHIN_S * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), back
