"""What the system tests share: a lab in its own process and the crawl command in another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from teia.lab.server.process import lab_process
from teia.lab.server.requestlog import RequestLogEntry, read_log

IMPATIENT = {"TEIA_COURTESY_RETRY_WAIT_S": "0.5", "TEIA_LIMITS_SLOW_S": "2"}
"""Settings for webs with errors: failed URLs are tried again soon, so that a test need not wait."""


@dataclass(frozen=True)
class Lab:
    """A lab that is serving: where its names are answered, where its web begins, what it has seen."""

    seed_url: str
    dns: str
    log: Path
    truth_file: Path

    def entries(self) -> list[RequestLogEntry]:
        return read_log(self.log)

    def settled_entries(self) -> list[RequestLogEntry]:
        """The log once everything is in it; the lab writes it every 0.2 s."""
        time.sleep(0.3)  # no other sign says that all of them are written
        return self.entries()

    def truth(self) -> dict[str, dict[str, Any]]:
        """What the lab says is true, by URL, in its own order."""
        lines = map(json.loads, self.truth_file.read_text("utf-8").splitlines())
        return {line["url"]: line for line in lines}

    @property
    def port(self) -> int:
        return urlsplit(self.seed_url).port or 80

    def requests(self) -> int:
        """How many requests the lab has seen; quicker than reading them."""
        return self.log.read_bytes().count(b"\n")


@contextmanager
def running_lab(
    folder: Path, spec: str, number: int, *, truth: bool = False, port: int = 0, epoch: str = "now"
) -> Iterator[Lab]:
    """Serve a world from a spec on addresses of its own (`number` keeps parallel runs apart)."""
    folder.mkdir(exist_ok=True)
    spec_file, log = folder / "world.toml", folder / "requests.jsonl"
    spec_file.write_text(spec, "utf-8")
    dns = f"127.77.255.{number}:0"
    flags = ["--spec", str(spec_file), "--port", str(port), "--address", f"127.77.{number}.1", "--log", str(log)]
    truth_file = folder / "truth.jsonl"
    flags += ["--epoch", epoch, *(["--truth", str(truth_file)] if truth else [])]
    with lab_process(*flags, "--dns-address", dns, "--control-address", f"127.77.254.{number}") as ready:
        yield Lab(ready["seeds"][0], ready["dns"], log, truth_file)


def crawl_command(lab: Lab, data: Path, *flags: str) -> list[str]:
    shared = ["--dns", lab.dns, "--allow-net", "127.77.0.0/16", "--scope", "suffix:.test", "--json"]
    return [sys.executable, "-m", "teia", "crawl", lab.seed_url, "--data", str(data), *shared, *flags]


def crawl(
    lab: Lab, data: Path, *flags: str, timeout_s: float = 300, environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Crawl to the end; returns the summary."""
    done = subprocess.run(
        crawl_command(lab, data, *flags),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, **(environ or {})},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def crawling(
    lab: Lab, data: Path, *flags: str, environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A crawl in a process group of its own, ended with the block whatever happens; `log_text` returns its output."""
    with data.with_name("said.txt").open("wb") as errors:
        process = subprocess.Popen(
            crawl_command(lab, data, *flags),
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
            env={**os.environ, **(environ or {})},
        )
    try:
        yield process
    finally:
        kill_group(process)


def log_text(data: Path) -> str:
    """What the last crawl of a folder wrote to standard error."""
    return data.with_name("said.txt").read_text("utf-8", "replace")[-2_000:]


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the whole process group, and wait until it is gone."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
