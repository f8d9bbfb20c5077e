"""Files of tests in several workers: the same is reported as by one process, and a worker that dies is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CONFTEST = """
from tests import workers

pytest_addoption = workers.add_option

def pytest_configure(config):
    if number := config.getoption("--workers"):
        config.pluginmanager.register(workers.Workers(number))
"""
FIRST = """
import os, signal, pytest

@pytest.fixture(scope="session")
def process():
    yield os.getpid()
    print("the session of a worker ends")

def test_fails(process):
    print("told before")
    assert [1, 2] == [1, 3]

def test_passes(process, tmp_path):
    assert process == os.getpid()
    (tmp_path / "file").write_text("text")

@pytest.mark.skip("without a reason")
def test_is_skipped(): ...

@pytest.mark.parametrize("number", range(3))
def test_some(number): assert number != 1
"""
DIES = """
import os, signal

def test_dies(): os.kill(os.getpid(), signal.SIGKILL)
def test_is_not_run(): ...
"""


def run(folder: Path, *words: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-ra", "-c", "pytest.ini", *words]
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (folder / "conftest.py").write_text(CONFTEST, "utf-8")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


def outcomes(output: str) -> list[str]:
    """The lines of the summary without the time, sorted: workers end in any order."""
    return sorted(line.split(" in ")[0] for line in output.partition("short test summary info")[2].splitlines()[1:])


def test_workers_report_what_one_process_reports(tmp_path: Path) -> None:
    for name in ("test_one.py", "test_two.py", "test_three.py"):
        (tmp_path / name).write_text(FIRST, "utf-8")
    status, output = run(tmp_path, "--workers", "2")
    alone_status, alone = run(tmp_path)
    assert (status, outcomes(output)) == (alone_status, outcomes(alone))
    assert "6 failed, 9 passed, 3 skipped" in output
    assert output.count("told before") == alone.count("told before")
    assert "At index 1 diff: 2 != 3" in output


def test_a_worker_that_dies_is_a_failure_of_the_test_it_ran_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(DIES, "utf-8")
    for name in ("test_b.py", "test_c.py"):
        (tmp_path / name).write_text(FIRST, "utf-8")
    status, output = run(tmp_path, "--workers", "2")
    assert status == 1
    assert "FAILED test_a.py::test_dies - a worker of --workers ended (wait status 9)" in output
    assert "5 failed, 6 passed, 2 skipped" in output


def test_with_x_no_file_is_begun_after_the_first_failure(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_fails(): assert 0", "utf-8")
    for number in range(20):
        (tmp_path / f"test_b{number}.py").write_text("import time\ndef test_waits(): time.sleep(0.2)", "utf-8")
    status, output = run(tmp_path, "--workers", "2", "-x")
    assert status == 1
    assert "stopping after 1 failures" in output
    assert "20 passed" not in output
