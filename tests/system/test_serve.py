"""`teia serve` looks after a crawler: collections made and commanded over the API, against a lab web (T1, T2, T7)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teia.lab.server.witness import early_requests
from teia.store.root import open_root
from tests.waiting import until

from .labs import Lab, kill_group, running_lab

DELAY_S = 0.2
SPEC = """
seed = 7
hosts = 3
pages = 36

[errors]
scale = 0

[sites]
theta = 0
nxdomain = 0
unreachable = 0

[robots]
crawl_delay = 0
"""


@dataclass
class Served:
    """A server, asked as a program asks it."""

    process: subprocess.Popen[str]
    base: str
    token: str

    def ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.base}/api/v1{path}", data, headers)  # our own server
        with urllib.request.urlopen(request, timeout=30) as answer:
            return dict(json.load(answer))

    def status(self, name: str) -> dict[str, Any]:
        return self.ask(f"/c/{name}/status")

    def tell(self, name: str, command: str) -> None:
        self.ask(f"/c/{name}/command", {"command": command})

    def crawler(self) -> dict[str, Any]:
        return dict(self.ask("/c")["crawler"])


@contextmanager
def serving(data: Path, *flags: str) -> Iterator[Served]:
    """A server in a process group of its own, ended with the block."""
    token_file = data.with_name("token")
    command = [
        sys.executable,
        "-m",
        "teia",
        "serve",
        "--data",
        str(data),
        "--port",
        "0",
        "--token-out",
        str(token_file),
    ]
    process = subprocess.Popen([*command, *flags], stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stderr is not None
        base = process.stderr.readline().strip().rstrip("/")
        yield Served(process, base, token_file.read_text("utf-8").strip())
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    finally:
        kill_group(process)  # type: ignore[arg-type]
        if process.stderr is not None:
            process.stderr.close()


def settings(lab: Lab, delay_s: float = DELAY_S) -> dict[str, Any]:
    return {
        "collection": {"seeds": [lab.seed_url]},
        "scope": {"include": ["suffix:.test"]},
        "courtesy": {"delay_s": delay_s},
        "index": {"enabled": False},
        "fetch": {"dns": lab.dns, "allow_nets": ["127.77.0.0/16"]},
    }


def made(served: Served, lab: Lab, name: str = "diario", **how: Any) -> None:
    served.ask("/c", {"name": name, "settings": settings(lab, **how), "start": True, "consent": "the lab is ours"})


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_collection_is_made_started_paused_resumed_and_crawled_to_its_end(tmp_path: Path) -> None:
    """Acceptance 6, T1, T2: over the API, under `teia serve`; an order stands whoever dies."""
    data = tmp_path / "data"
    with running_lab(tmp_path, SPEC, 101) as lab, serving(data) as served:
        made(served, lab)
        until(lambda: served.status("diario")["state"] == "running" and lab.requests() > 8)
        pid = served.crawler()["pid"]
        served.tell("diario", "pause")
        until(lambda: served.status("diario")["state"] == "paused")
        time.sleep(0.5)  # what was under way ends
        before = lab.requests()
        time.sleep(4 * DELAY_S)  # nothing is requested for a while
        assert lab.requests() == before, "paused"
        os.killpg(pid, signal.SIGKILL)
        until(lambda: is_gone(pid))
        assert served.status("diario")["state"] == "paused", "an order stands, whoever dies"
        served.tell("diario", "resume")
        until(lambda: served.status("diario")["state"] == "finished")
        status = served.status("diario")
        assert status["urls_queued"] == 0
        assert status["pages"] > 25
        entries = lab.settled_entries()
        assert early_requests(entries, DELAY_S, lambda entry: entry.host) == []
        running = served.crawler()["pid"]
        assert running is not None
    assert served.process.returncode == 0
    assert is_gone(running), "it ends with its server"


def test_a_crawler_outlives_its_server_and_the_next_one_finds_it(tmp_path: Path) -> None:
    """kill -9 of the server: the crawl goes on; the next server leaves it alone, and still gives it orders."""
    data = tmp_path / "data"
    with running_lab(tmp_path, SPEC.replace("pages = 36", "pages = 300"), 102) as lab:
        with serving(data) as served:
            made(served, lab, delay_s=0.3)
            until(lambda: lab.requests() > 4)
            pid = served.crawler()["pid"]
            os.kill(served.process.pid, signal.SIGKILL)
            served.process.wait(10)
        before = lab.requests()
        try:
            with serving(data) as served:
                until(lambda: lab.requests() > before)
                until(lambda: served.crawler() == {"state": "elsewhere", "pid": pid, "message": "", "again_in_s": 0.0})
                served.tell("diario", "stop")
                until(lambda: served.status("diario")["state"] == "stopped")
                assert served.status("diario")["urls_queued"] > 0
                served.ask("/c/diario/remove", {"name": "diario"})
                assert served.ask("/c")["collections"] == []
            assert not is_gone(pid)
        finally:
            os.kill(pid, signal.SIGKILL)
    assert not (data / "diario").exists()


def test_a_crawl_in_a_terminal_is_left_alone_and_what_was_ordered_is_done_after_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    root = open_root(data, create=True)
    with running_lab(tmp_path, SPEC, 103) as lab, ExitStack() as stack:
        with root.locked():
            with serving(data, "--no-crawler") as served:
                served.ask("/c", {"name": "nova", "settings": settings(lab), "consent": "the lab is ours"})
                assert served.crawler()["state"] == "off"
            served = stack.enter_context(serving(data))
            served.tell("nova", "start")
            until(lambda: served.crawler()["state"] == "elsewhere")
            assert served.crawler()["pid"] == os.getpid()
            assert served.status("nova")["state"] == "starting"
            assert lab.requests() == 0
        until(lambda: served.status("nova")["state"] == "finished")
        assert lab.requests() > 25
