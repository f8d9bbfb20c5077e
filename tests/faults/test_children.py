"""Processes of a crawl killed or stopped, one after the other: it ends, and knows what an undisturbed one knows."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.system.labs import Lab, crawl, crawling, log_text, running_lab
from tests.waiting import until

from .test_faults import SPEC, pages_of

FLAGS = ("--delay", "0.2", "--cells", "1")
STOPPED_S = 1.0


def descendants(process: int) -> list[int]:
    """Return the children of a process and theirs, the oldest first."""
    found: list[int] = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # it has ended meanwhile
            for child in map(int, task.read_text("ascii").split()):
                found += [child, *descendants(child)]
    return sorted(found)


def hurt(lab: Lab, process: subprocess.Popen[bytes], how: signal.Signals) -> int:
    """Kill or stop each process that the crawl has started, once; return how many there were."""
    met: set[int] = set()
    while process.poll() is None:
        alive = [each for each in descendants(process.pid) if each not in met]
        if alive and len(met) < 8:
            seen = lab.requests()
            met.add(alive[0])
            with suppress(ProcessLookupError):
                os.kill(alive[0], how)
                if how is signal.SIGSTOP:
                    time.sleep(STOPPED_S)  # a fault of this length
                    os.kill(alive[0], signal.SIGCONT)
            until(lambda: process.poll() is not None or lab.requests() > seen, within_s=60)  # noqa: B023
        else:
            time.sleep(0.05)  # the next process may be started
    return len(met)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_crawl_outlives_each_of_its_processes(tmp_path: Path, how: signal.Signals) -> None:
    with running_lab(tmp_path / "lab", SPEC, 98) as lab:
        with crawling(lab, tmp_path / "data", *FLAGS) as process:
            met = hurt(lab, process, how)
            assert process.returncode == 0, log_text(tmp_path / "data")
        crawl(lab, tmp_path / "calm", *FLAGS)
    assert met >= 3, "zygote, parse children, indexer"
    assert pages_of(tmp_path / "data") == pages_of(tmp_path / "calm")
