"""kill -9 at random moments loses nothing."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from teia.crawl.reading import audit_archives, fetch_log, known_urls
from teia.lab.witness import early_requests
from teia.store.root import open_root

from .labs import Lab, crawl, crawling, kill_group, running_lab

DELAY_S = 0.2
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

[robots]
crawl_delay = 0

[sitemaps]
lying = 0
"""


def pages_of(data: Path) -> dict[str, tuple[str, str | None, str | None]]:
    """What a finished crawl knows: every URL with its state, outcome and digest."""
    urls = known_urls(open_root(data), "main")
    return {each["url"]: (each["state"], each["outcome"], each["digest"]) for each in urls}


def committed_requests(data: Path) -> int:
    with fetch_log(open_root(data), "main") as log:
        return int(log.query("SELECT count(*) FROM fetches").rows[0][0])


def warcio_check(data: Path) -> None:
    files = [str(path) for path in sorted(data.glob("main/cells/*/archive/*.warc.gz"))]
    done = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", *files], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def wait_for_request(lab: Lab, process: subprocess.Popen[bytes], asked_before: int) -> bool:
    """Wait until the crawl has sent something; False if it ended by itself."""
    for _ in range(600):
        if process.poll() is not None:
            return False
        if lab.requests() > asked_before:
            return True
        time.sleep(0.02)
    pytest.fail("the crawl sent nothing for 12 s")


def kill_again_and_again(lab: Lab, data: Path, kills: int, chance: random.Random) -> int:
    """Start and kill a crawl; after each death check the archive. Returns the requests sent but never committed."""
    asked_before_all = lab.requests()
    lost = 0
    for number in range(kills):
        with crawling(lab, data, *FLAGS) as process:
            assert wait_for_request(lab, process, lab.requests()), f"finished after {number} kills: a larger world"
            time.sleep(chance.uniform(0.0, 0.4))
            kill_group(process)
        time.sleep(0.25)  # the lab writes its log every 0.2 s
        lost = lab.requests() - asked_before_all - committed_requests(data)
        audit = audit_archives(open_root(data), "main")
        assert audit.violations == 0, audit.details
    return lost


@pytest.mark.parametrize("kills", [pytest.param(60, id="60"), pytest.param(1000, id="1000", marks=pytest.mark.slow)])
@pytest.mark.timeout(7200)
def test_kills_lose_nothing_and_repeat_only_what_was_under_way(tmp_path: Path, kills: int) -> None:
    seed = int(os.environ.get("KILL_SEED") or 20261115)
    print(f"KILL_SEED={seed}")
    spec = SPEC if kills <= 60 else SPEC.replace("pages = 1000", "pages = 15000")
    with running_lab(tmp_path, spec, 91) as lab:
        crawl(lab, tmp_path / "calm", *FLAGS)
        undisturbed = lab.requests()
        lost = kill_again_and_again(lab, tmp_path / "killed", kills, random.Random(seed))
        summary = crawl(lab, tmp_path / "killed", *FLAGS)
        time.sleep(0.3)
        entries = lab.entries()
    assert summary["state"] == "finished"
    assert pages_of(tmp_path / "killed") == pages_of(tmp_path / "calm")
    assert len(entries) - undisturbed <= undisturbed + lost
    warcio_check(tmp_path / "killed")
    killed_only = entries[undisturbed:]
    assert early_requests(killed_only, DELAY_S, lambda entry: entry.host) == []
    assert early_requests(killed_only, DELAY_S, lambda entry: entry.address) == []
