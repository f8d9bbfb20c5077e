"""The crawler that a server looks after: started when it is needed, again when it died, ended with the server."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.collections.commands import give_command
from teia.config.load import to_toml
from teia.config.sections import CollectionSettings, Config, ScheduleSettings
from teia.records import Command
from teia.store.root import Root, open_root
from teia.web.background.crawler import Supervisor
from tests.waiting import until

CLOCK = WallClock()


def root_with(folder: Path, schedule: ScheduleSettings | None = None) -> Root:
    root = open_root(folder / "data", create=True)
    config = Config(CollectionSettings(seeds=("http://a.test/",)), schedule=schedule or ScheduleSettings())
    root.create_collection("main", to_toml(config), 1)
    return root


@contextmanager
def supervised(root: Root, program: str) -> Iterator[Supervisor]:
    """A supervisor of a program that stands for the crawler, and cannot be mistaken for one that works."""
    supervisor = Supervisor(root, CLOCK, [sys.executable, "-c", program])
    supervisor.start()
    try:
        yield supervisor
    finally:
        supervisor.stop()


SLEEP = "import time; time.sleep(600)"


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_there_is_no_crawler_while_nothing_is_to_be_done(tmp_path: Path) -> None:
    root = root_with(tmp_path)
    with supervised(root, SLEEP) as supervisor:
        time.sleep(0.3)  # nothing happens for a while
        assert supervisor.state.state == "idle"
        give_command(root, "main", Command.RUN, CLOCK)
        supervisor.wake()
        until(lambda: supervisor.state.state == "running")
        pid = supervisor.state.pid
        assert pid is not None
    assert is_gone(pid), "it ends with the server"


def test_the_crawler_can_watch_the_server_by_its_standard_input(tmp_path: Path) -> None:
    """It got none, and every crawler that a server started died at once."""
    root = root_with(tmp_path)
    program = "import os, stat, time; print(stat.S_ISFIFO(os.fstat(0).st_mode), flush=True); time.sleep(600)"
    with supervised(root, program) as supervisor:
        give_command(root, "main", Command.RUN, CLOCK)
        supervisor.wake()
        until(lambda: supervisor.log.exists() and supervisor.log.read_text().strip())
        assert supervisor.log.read_text().strip() == "True"


def test_a_schedule_needs_somebody_who_waits(tmp_path: Path) -> None:
    root = root_with(tmp_path, ScheduleSettings(start="2126-11-21 02:00", zone="UTC"))
    with supervised(root, SLEEP) as supervisor:
        until(lambda: supervisor.state.state == "running")


def test_a_crawler_that_dies_is_restarted_after_a_pause_and_its_last_output_is_reported(tmp_path: Path) -> None:
    root = root_with(tmp_path)
    give_command(root, "main", Command.RUN, CLOCK)
    lives = tmp_path / "lives"
    program = f"import sys; open({str(lives)!r}, 'a').write('x'); sys.exit('teia: the disk is made of cheese')"
    with supervised(root, program) as supervisor:
        until(lambda: supervisor.state.state == "failed")
        assert supervisor.state.message == "teia: the disk is made of cheese"
        assert supervisor.state.again_in_s <= 1.0
        until(lambda: lives.stat().st_size >= 2)
        until(lambda: supervisor.state.state == "failed")
        assert supervisor.state.again_in_s > 1.0, "longer each time"
        give_command(root, "main", Command.STOP, CLOCK)
        supervisor.wake()
        until(lambda: supervisor.state.state == "idle")


def test_a_crawler_that_ignores_a_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = root_with(tmp_path)
    give_command(root, "main", Command.RUN, CLOCK)
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); " + (
        "time.sleep(600)"
    )
    monkeypatch.setattr("teia.web.background.crawler.GRACE_S", 0.3)
    with supervised(root, stubborn) as supervisor:
        until(lambda: supervisor.log.exists() and b"deaf" in supervisor.log.read_bytes())
        pid = supervisor.state.pid
        assert pid is not None
    assert is_gone(pid)


def test_a_folder_that_somebody_else_crawls_is_left_alone(tmp_path: Path) -> None:
    root = root_with(tmp_path)
    give_command(root, "main", Command.RUN, CLOCK)
    holder = f"import sys; sys.path[:0] = {sys.path!r}; from teia.store.root import Root; from pathlib import Path\n"
    holder += f"with Root(Path({str(root.path)!r})).locked():\n    print('held', flush=True); sys.stdin.read()"
    other = subprocess.Popen([sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with supervised(root, SLEEP) as supervisor:
            until(lambda: (supervisor.state.state, supervisor.state.pid) == ("elsewhere", other.pid))
            other.communicate("")
            until(lambda: supervisor.state.state == "running")
    finally:
        other.kill()
        other.wait()
