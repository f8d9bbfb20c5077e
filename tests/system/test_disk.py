"""Disks that are full, and folders that cannot be written: fetching waits, says why, loses nothing, goes on by itself.

The data folder lies on a small file system in memory, mounted in a name space of its own, so that it can really be
filled to the last byte. `unshare` does that for everybody on most machines, and for root on all.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from teia.crawler.lookup import Lookup
from teia.lab.server.witness import early_requests
from teia.store.root import open_root
from teia.transfer.read_all import audit_archives, known_urls
from tests.conftest import missing
from tests.waiting import until

from .labs import Lab, crawl, crawl_command, running_lab

DELAY_S = 0.15
SLOW_DELAY_S = 0.6
"""For a crawl that has to last until the disk was full several times, also where `teia status` takes seconds."""

FLAGS = ("--delay", str(DELAY_S), "--cells", "2", "--no-index")
SPEC = """
seed = 13
hosts = 10
pages = 300

[sites]
theta = 0.1
nxdomain = 0
unreachable = 0

[errors]
scale = 0.0

[changes]
slowest = 0.0001
fastest = 0.0001

[robots]
crawl_delay = 0

[sitemaps]
lying = 0
"""


@dataclass(frozen=True)
class SmallDisk:
    """A file system of a few MiB that only processes started by `run` and `popen` see under its own name."""

    pid: int
    inside: Path

    @property
    def outside(self) -> Path:
        """The same place as everybody else can reach it."""
        return Path(f"/proc/{self.pid}/root{self.inside}")

    def copy(self) -> Path:
        """A copy of the data folder where SQLite can open it, which follows no way through /proc; until the next."""
        to = self.inside.with_name("copy")
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(self.outside / "data", to)
        return to

    def command(self, words: list[str]) -> list[str]:
        enter = ["nsenter", "-t", str(self.pid), "-m", *(["-U", "--preserve-credentials"] if os.getuid() else [])]
        return [*enter, "--wd=" + str(Path.cwd()), *words]

    def teia(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = self.command([sys.executable, "-m", "teia", *words, "--data", str(self.inside / "data")])
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def status(self) -> dict[str, Any]:
        done = self.teia("status", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def fill(self) -> None:
        """Take all the room there is, while others write too."""
        with (self.outside / "ballast").open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))

    def set_extra_capacity(self) -> None:
        (self.outside / "ballast").unlink()


@contextmanager
def small_disk(folder: Path, options: str) -> Iterator[SmallDisk]:
    """Mount a file system in a name space, and hold it as long as the block lasts."""
    place = folder / "disk"
    place.mkdir()
    unshare = ["unshare", "-m", *([] if os.getuid() == 0 else ["-U", "-r"]), "--propagation", "private"]
    script = f"mount -t tmpfs -o {options} teia {place} && echo mounted && exec sleep 600"
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        missing("unshare and nsenter are not installed")
    holder = subprocess.Popen([*unshare, "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        if holder.stdout.readline() != b"mounted\n":
            missing("this machine lets nobody mount a file system in a name space")
        yield SmallDisk(holder.pid, place)
    finally:
        holder.kill()
        holder.communicate()


@contextmanager
def crawling_on(disk: SmallDisk, lab: Lab, *flags: str, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """A crawl on the small disk, in a process group of its own."""
    process = subprocess.Popen(
        disk.command(crawl_command(lab, disk.inside / "data", *FLAGS, *flags)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **environ},
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def comes_to_be(disk: SmallDisk, state: str) -> dict[str, Any]:
    until(lambda: disk.status()["state"] == state, f"the crawl is {state}", state=disk.status)
    return disk.status()


def pages_of(data: Path) -> dict[str, tuple[str, str | None, str | None]]:
    urls = known_urls(open_root(data), "main")
    return {each["url"]: (each["state"], each["outcome"], each["digest"]) for each in urls}


def assert_all_that_is_done_is_stored(data: Path) -> int:
    """Read every page that counts as fetched, and every record there is; returns how many pages."""
    assert audit_archives(open_root(data), "main").violations == 0
    with Lookup(open_root(data), "main") as lookup:
        done = [each for each in known_urls(open_root(data), "main") if each["outcome"] == "200"]
        for each in done:
            assert lookup.capture(each["url"]).status == 200
    return len(done)


def requests_stop(lab: Lab) -> None:
    """What was under way ends; then nothing more is sent."""
    time.sleep(0.7)  # what was under way is in the lab's log by then
    seen = lab.requests()
    time.sleep(1.0)  # nothing is requested for a while
    assert lab.requests() == seen


# ---- full -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low_water", "pages", "times", "delay_s"),
    [
        pytest.param("0", 160, 1, DELAY_S, id="to the last byte"),
        pytest.param("0", 300, 3, SLOW_DELAY_S, id="again and again", marks=pytest.mark.slow),
        pytest.param(str(2**31), 300, 2, SLOW_DELAY_S, id="before it is full", marks=pytest.mark.slow),
    ],
)
def test_a_crawl_waits_for_room_and_ends_like_one_that_never_had_to(
    tmp_path: Path, low_water: str, pages: int, times: int, delay_s: float
) -> None:
    """RELIABILITY 48. Without a low-water mark the commit itself runs into the end of the disk."""
    environ = {"TEIA_LIMITS_DISK_FREE_BYTES": low_water}
    spec = SPEC.replace("pages = 300", f"pages = {pages}")
    with running_lab(tmp_path, spec, 87) as lab, small_disk(tmp_path, "size=24m") as disk:
        crawl(lab, tmp_path / "calm", *FLAGS)
        calm = len(lab.settled_entries())
        with crawling_on(disk, lab, "--delay", str(delay_s), **environ) as process:
            for _ in range(times):
                wait_for_requests(lab, 25)
                disk.fill()
                status = comes_to_be(disk, "paused")
                assert "free" in status["paused_why"]
                assert "MiB" in status["paused_why"] or "no space left on the disk" in status["paused_why"]
                requests_stop(lab)
                assert_all_that_is_done_is_stored(disk.copy())
                disk.set_extra_capacity()
                comes_to_be(disk, "running")
            out, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert json.loads(out.splitlines()[-1])["state"] == "finished"
        entries = lab.settled_entries()[calm:]
        data = disk.copy()
    assert pages_of(data) == pages_of(tmp_path / "calm")
    assert assert_all_that_is_done_is_stored(data) > pages / 2
    assert early_requests(entries, delay_s, lambda entry: entry.host) == []


def wait_for_requests(lab: Lab, more: int) -> None:
    seen = lab.requests()
    until(lambda: lab.requests() >= seen + more, "the crawl goes on")


@pytest.mark.slow
def test_a_death_on_a_full_disk_costs_nothing_and_a_start_on_one_says_what_is_wrong(tmp_path: Path) -> None:
    with running_lab(tmp_path, SPEC, 87) as lab, small_disk(tmp_path, "size=24m") as disk:
        with crawling_on(disk, lab, TEIA_LIMITS_DISK_FREE_BYTES="0") as process:
            wait_for_requests(lab, 60)
            disk.fill()
            comes_to_be(disk, "paused")
            os.killpg(process.pid, signal.SIGKILL)
        disk.fill()
        known = assert_all_that_is_done_is_stored(disk.copy())
        with crawling_on(disk, lab) as process:
            assert what_is_wrong(process)
        disk.set_extra_capacity()
        with crawling_on(disk, lab) as process:
            out, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        assert json.loads(out.splitlines()[-1])["state"] == "finished"
        assert assert_all_that_is_done_is_stored(disk.copy()) > max(known, 180)


def what_is_wrong(process: subprocess.Popen[str]) -> str:
    """The first thing that a crawl says which was begun on a full disk: it refuses, or its files have room to wait."""
    assert process.stderr is not None
    said = process.stderr.readline()
    assert "no space left on the disk" in said or "paused: only 0 MiB are free" in said, said
    return said


@pytest.mark.slow
def test_no_room_for_another_file_is_like_no_room(tmp_path: Path) -> None:
    """A file system can be out of names with room left; a WARC file that is full needs a new one."""
    environ = {"TEIA_ARCHIVE_FILE_BYTES": str(2**20), "TEIA_LIMITS_DISK_FREE_BYTES": "0"}
    with running_lab(tmp_path, SPEC, 87) as lab, small_disk(tmp_path, "size=64m,nr_inodes=120") as disk:
        with crawling_on(disk, lab, "--cells", "1", **environ) as process:
            wait_for_requests(lab, 30)
            spent = use_up_names(disk.outside)
            status = comes_to_be(disk, "paused")
            assert "no space left on the disk" in status["paused_why"]
            requests_stop(lab)
            for name in spent:
                name.unlink()
            out, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert json.loads(out.splitlines()[-1])["state"] == "finished"
        assert assert_all_that_is_done_is_stored(disk.copy()) > 180


def use_up_names(folder: Path) -> list[Path]:
    made: list[Path] = []
    with suppress(OSError):
        for number in range(10_000):
            name = folder / f"name{number}"
            name.touch()
            made.append(name)
    return made


# ---- folders that cannot be used ------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written_can_be_read_and_a_crawl_of_it_is_refused(tmp_path: Path) -> None:
    with running_lab(tmp_path, SPEC, 87) as lab, small_disk(tmp_path, "size=24m") as disk:
        with crawling_on(disk, lab, "--max-pages", "20") as process:
            process.communicate(timeout=60)
        before = listing(disk.outside)
        subprocess.run(disk.command(["mount", "-o", "remount,bind,ro", str(disk.inside)]), check=True)
        for words in (["crawl"], ["add", "http://b.test/"], ["import", "urls", "/dev/null"]):
            refused = disk.teia(*words)
            assert (refused.returncode, refused.stderr.count("\n")) == (1, 1), refused.stderr
            assert "grant write permission, or choose another folder with --data" in refused.stderr
        assert disk.status()["pages"] == 20
        for words in (["report", "outcomes"], ["audit", "archive"], ["audit", "politeness"], ["export", "urls"]):
            assert disk.teia(*words).returncode == 0
        assert listing(disk.outside) == before


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file that holds something of a collection, with its size and time."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(("-wal", "-shm"))]
    return {str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


@pytest.mark.parametrize("what", ["format", "00", "01"])
def test_a_folder_of_a_newer_format_is_refused_and_left_alone(tmp_path: Path, what: str) -> None:
    data = tmp_path / "data"
    with running_lab(tmp_path, SPEC, 87) as lab:
        crawl(lab, data, *FLAGS, "--max-pages", "3")
        if what == "format":
            (data / "format").write_text("teia 99\n")
        else:
            with sqlite3.connect(data / "main" / "cells" / what / "frontier.sqlite") as db:
                db.execute("PRAGMA user_version = 99")
            db.close()
        before = listing(data / "main")
        for words in ([*crawl_command(lab, data)[1:]], ["-m", "teia", "status", "--data", str(data)]):
            refused = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
            assert (refused.returncode, refused.stderr.count("\n")) == (1, 1), refused.stderr
            assert "format 99" in refused.stderr
            assert "export" in refused.stderr
            assert "import" in refused.stderr
        assert listing(data / "main") == before


# ---- seeds that lead nowhere ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seed", ["gopher://a.test/", "mailto:a@b.test", "file:///etc/passwd", "http://", "http://a b/"]
)
def test_a_seed_that_is_no_web_address_is_refused_and_no_folder_made(tmp_path: Path, seed: str) -> None:
    words = [sys.executable, "-m", "teia", "crawl", seed, "--data", str(tmp_path / "data")]
    refused = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert refused.stderr == f"teia: seed {seed!r}: must be an http or https URL, such as https://example.org/\n"
    assert not (tmp_path / "data").exists()


def test_seeds_that_cannot_be_reached_are_named_once_with_the_reason(tmp_path: Path) -> None:
    words = ["crawl", "http://nowhere.test/", "http://127.0.0.1:8/", "--data", str(tmp_path / "data"), "--json"]
    with running_lab(tmp_path, SPEC, 87) as lab:
        done = subprocess.run(
            [sys.executable, "-m", "teia", *words, "--dns", lab.dns],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "TEIA_COURTESY_RETRY_WAIT_S": "0.1"},
        )
    assert done.returncode == 1
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (summary["state"], summary["requests"]) == ("finished", 0)
    assert sorted(summary["failed_seeds"]) == [
        "http://127.0.0.1:8/: blocked_address (127.0.0.1 is loopback)",
        "http://nowhere.test/: dns (robots.txt could not be fetched: no such name)",
    ]
    assert done.stderr.count("seed failed:") == 2


# ---- descriptors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("descriptors", [64, 30])
def test_few_descriptors_make_a_crawl_slower_or_are_too_few_and_never_make_it_wrong(
    tmp_path: Path, descriptors: int
) -> None:
    data = tmp_path / "data"
    with running_lab(tmp_path, SPEC.replace("hosts = 10", "hosts = 40"), 87) as lab:
        done = subprocess.run(
            ["sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh", *crawl_command(lab, data, *FLAGS)],
            capture_output=True,
            text=True,
            check=False,
        )
    if descriptors < 50:
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert "are needed; raise it with `ulimit -n`" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["state"] == "finished"
    assert set(summary["outcomes"]) <= {"200", "alias", "301", "302"}
