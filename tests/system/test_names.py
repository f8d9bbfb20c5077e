"""Names without an address: a crawl of nothing else ends and says what to do; among others they hold up nothing."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from teia.store.root import open_root
from teia.transfer.read_all import idle_account
from teia.views.alerts import Disk, find_alerts

from .labs import crawl_command, running_lab
from .test_serve import SPEC

WITHIN_S = 15.0


def crawl_names(data: Path, dns: str, *seeds: str) -> tuple[int, dict[str, Any], str]:
    """Crawl with the default waits for retries; returns status, account and standard error."""
    words = [sys.executable, "-m", "teia", "crawl", *seeds, "--data", str(data), "--dns", dns, "--json", "--no-index"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    (line,) = done.stdout.splitlines()
    return done.returncode, json.loads(line), done.stderr


def next_step(complaints: str) -> str:
    (step,) = [line.strip() for line in complaints.splitlines() if line.strip().startswith("next: ")]
    return step


def test_a_seed_that_does_not_exist_ends_the_crawl_with_what_to_do(tmp_path: Path) -> None:
    """It was silent for four minutes, and then it said "finished"."""
    with running_lab(tmp_path / "lab", SPEC, 108) as lab:
        for _ in range(2):  # whoever tries again is told again, and at once
            status, account, complaints = crawl_names(tmp_path / "data", lab.dns, "http://exmaple.test/")
            assert status == 1
            assert account["seconds"] < WITHIN_S
            assert account["failed_seeds"] == [
                "http://exmaple.test/: dns (robots.txt could not be fetched: no such name)"
            ]
            assert "the host name exmaple.test does not exist; check its spelling" in next_step(complaints)
            assert "Traceback" not in complaints
            root = open_root(tmp_path / "data")
            at_rest = idle_account(root, *root.collections())
            assert at_rest["failed_seeds"] == ["http://exmaple.test/: dns"], "the folder says it too, for the monitor"
            alerts = find_alerts(at_rest, None, Disk(0.5, 0.05))
            assert [(alert.kind, alert.host) for alert in alerts] == [("no_host", "exmaple.test")]


@contextmanager
def silent_name_server() -> Iterator[str]:
    """One that takes every question and answers none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_name_server_that_does_not_answer_ends_a_crawl_without_a_request(tmp_path: Path) -> None:
    with silent_name_server() as dns:
        status, account, complaints = crawl_names(tmp_path / "data", dns, "http://a.test/", "http://b.test/")
    assert status == 1
    assert account["seconds"] < WITHIN_S
    assert account["urls_queued"] == 2, "they are tried again next time"
    assert "check the network connection of this machine" in next_step(complaints)


def test_a_name_that_does_not_exist_among_others_does_not_hold_the_end(tmp_path: Path) -> None:
    with running_lab(tmp_path / "lab", SPEC, 109) as lab:
        command = crawl_command(lab, tmp_path / "data", "http://exmaple.test/", "--delay", "0.02", "--no-index")
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    account = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert account["state"] == "finished"
    assert account["pages"] > 5
    assert account["outcomes"]["dns"] >= 1
    assert account["urls_queued"] >= 1, "it is tried again next time"
    assert account["seconds"] < 45, "it waited for a name that does not exist"
