"""A fresh `teia demo`, as a newcomer starts it, and a server for what it left."""

from __future__ import annotations

import fcntl
import http.cookiejar
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from teia.clock import WallClock
from teia.collections.account import MIN_REVISITED
from teia.store.root import open_root
from teia.web.access.accounts import Accounts
from teia.web.app import make_app
from teia.web.server.installation import Installation
from tests.waiting import until
from tests.web.conftest import PASSWORD, QUICK, Web
from tests.web.test_live_browser import Running

NAME = "demo"
PAGES = 270
START_S, FRESH_S = 90.0, 120.0
_LOGIN = re.compile(r"(http://127\.0\.0\.1:\d+)/login#(\S+)")


class Later(WallClock):
    """The time, so and so much later or earlier: what was left yesterday is looked at as if it were still yesterday."""

    def __init__(self, by_s: float) -> None:
        super().__init__()
        self._by_s = by_s
        self._held_s: float | None = None

    def now_s(self) -> float:
        return super().now_s() + self._by_s if self._held_s is None else self._held_s

    def hold(self) -> None:
        """Let no time pass: what is asked twice is answered alike."""
        self._held_s = self.now_s()

    def let_go(self) -> None:
        self._held_s = None


@dataclass(frozen=True)
class Left:
    """What a demo left: its folder, and when it ended."""

    data: Path
    ended_s: float


def demo_left(folder: Path) -> Left:
    """Run `teia demo` until its pages were visited again, once for all processes that test from this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        note, data = folder / "ended.json", folder / "data"
        if not note.exists():
            shutil.rmtree(data, ignore_errors=True)
            _run(data)
            note.write_text(json.dumps(time.time()), "utf-8")
        return Left(data, float(json.loads(note.read_text("utf-8"))))


def _run(data: Path) -> None:
    words = ["demo", "--pages", str(PAGES), "--seed", "7", "--web-port", "0", "--data", str(data)]
    command = [sys.executable, "-m", "teia", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            base, code = _login(process)
            ask = _signed_in(base, code)

            def visited_again() -> int:
                return (ask(f"/api/v1/c/{NAME}/status")["freshness"] or {}).get("visited_again", 0)

            until(lambda: visited_again() >= MIN_REVISITED, "its pages are visited again", within_s=FRESH_S)
            os.killpg(process.pid, signal.SIGINT)
            process.wait(30)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _login(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Where it says that it can be looked at."""
    assert process.stderr is not None
    said = ""
    until = time.monotonic() + START_S
    while (found := _LOGIN.search(said)) is None:
        line = process.stderr.readline()
        assert line, said
        assert time.monotonic() < until, said
        said += line
    return found[1], found[2]


def _signed_in(base: str, code: str) -> Any:
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    form = urllib.parse.urlencode({"code": code, "name": "first", "password": PASSWORD}).encode()
    opener.open(f"{base}/login/first", form, timeout=30).close()

    def ask(path: str) -> Any:
        with opener.open(base + path, timeout=30) as answer:
            return json.load(answer)

    return ask


@contextmanager
def serving_at(data: Path, now_s: float) -> Iterator[Running]:
    """A server in a thread, to which it is this time at the beginning."""
    clock = Later(now_s - time.time())
    installation = Installation(open_root(data), clock, Accounts(data / "web.sqlite", clock, QUICK))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("teia.web.limits.SIGN_INS_AT_ONCE", 1_000)
        patch.setattr("teia.web.limits.REQUESTS_AT_ONCE", 100_000)
        served = Running(Web(make_app(installation), installation))
        served.start()
        try:
            yield served
        finally:
            served.stop()
            installation.close()


def counted(client: TestClient, address: str) -> Any:
    """A page once what it shows has been counted for the first time."""
    return until(
        lambda: answer if (answer := client.get(address)).status_code != 503 else None, f"{address} is counted"
    )
