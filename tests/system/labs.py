"""What the system tests share: a lab in its own process and the crawl command in another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teia.lab.process import lab_process
from teia.lab.requestlog import Entry, read_log


@dataclass(frozen=True)
class Lab:
    """A lab that is serving: where its names are answered, where its web begins, what it has seen."""

    seed_url: str
    dns: str
    log: Path

    def entries(self) -> list[Entry]:
        return read_log(self.log)

    def requests(self) -> int:
        """How many requests the lab has seen; quicker than reading them."""
        return self.log.read_bytes().count(b"\n")


@contextmanager
def running_lab(folder: Path, spec: str, number: int) -> Iterator[Lab]:
    """Serve a world from a spec on addresses of its own (`number` keeps parallel runs apart)."""
    spec_file, log = folder / "world.toml", folder / "requests.jsonl"
    spec_file.write_text(spec, "utf-8")
    dns = f"127.77.255.{number}:0"
    flags = ["--spec", str(spec_file), "--port", "0", "--address", f"127.77.{number}.1", "--log", str(log)]
    with lab_process(*flags, "--dns-address", dns, "--control-address", f"127.77.254.{number}") as ready:
        yield Lab(ready["seeds"][0], ready["dns"], log)


def crawl_command(lab: Lab, data: Path, *flags: str) -> list[str]:
    shared = ["--dns", lab.dns, "--allow-net", "127.77.0.0/16", "--scope", "suffix:.test", "--json"]
    return [sys.executable, "-m", "teia", "crawl", lab.seed_url, "--data", str(data), *shared, *flags]


def crawl(lab: Lab, data: Path, *flags: str, timeout_s: float = 300) -> dict[str, Any]:
    """Crawl to the end; returns the summary."""
    done = subprocess.run(
        crawl_command(lab, data, *flags), capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def crawling(lab: Lab, data: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """A crawl in a process group of its own, ended with the block whatever happens."""
    process = subprocess.Popen(
        crawl_command(lab, data, *flags),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the whole process group, and wait until it is gone."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
