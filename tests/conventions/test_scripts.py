"""The scripts beside the code, and that tests run the same however they were started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

APT_GET = """#!/bin/bash
echo "$*" >> "$0.asked"
echo "Get:1 https://packages.invalid/debian stable"
if [ "$(wc -l < "$0.asked")" -le {failures} ]; then
    echo "{complaint}" >&2
    exit 100
fi
"""
LOCKED = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)"
BROKEN = "E: Failed to fetch http://packages.invalid/x.deb  404  Not Found [IP: 192.0.2.1 80]"


def _need(tmp_path: Path, failures: int, complaint: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Have lib.sh install a package by an apt-get that fails so often; returns how that ended and what was asked."""
    program = tmp_path / "apt-get"
    program.write_text(APT_GET.format(failures=failures, complaint=complaint), encoding="utf-8")
    program.chmod(0o755)
    as_root = "id() { echo 0; }; sleep() { :; }; apt_patience_s=20"
    script = f'source "{ROOT}/scripts/lib.sh"; {as_root}; need_debian no-such-program=thing'
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environ, timeout=60, check=False)
    asked = (tmp_path / "apt-get.asked").read_text(encoding="utf-8").splitlines()
    return done, [next(word for word in line.split() if word in {"update", "install"}) for line in asked]


def test_another_apt_get_is_waited_for(tmp_path: Path) -> None:
    """Seen: scripts/test failed where another apt-get held the lock of the package lists."""
    done, asked = _need(tmp_path, 3, LOCKED)
    assert (done.returncode, asked) == (0, ["update"] * 4 + ["install"])
    assert done.stderr.count("waiting for another apt-get") == 1


def test_an_apt_get_that_is_held_up_for_ever_is_given_up(tmp_path: Path) -> None:
    done, asked = _need(tmp_path, 10_000, LOCKED)
    assert (done.returncode, len(asked)) == (1, 2 * 5)
    assert "could not install thing" in done.stderr


def test_what_fails_otherwise_is_reported_at_once_and_without_addresses(tmp_path: Path) -> None:
    done, asked = _need(tmp_path, 10_000, BROKEN)
    assert (done.returncode, asked) == (1, ["update", "install"])
    assert "404  Not Found" in done.stderr
    assert ".invalid" not in done.stdout + done.stderr


# ---- signals --------------------------------------------------------------------------------------------------------


def _ignoring() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with suppress(OSError):  # the C library keeps two for itself
            signal.signal(number, signal.SIG_IGN)


CHILD = """
import subprocess, sys
from tests.conftest import hear_signals
hear_signals()
told = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
print(int(told.partition("SigIgn:")[2].split()[0], 16))
"""


def test_programs_that_tests_start_ignore_no_signal_because_the_tests_parent_did() -> None:
    """Seen: a test failed under `nohup`, whose children ignore SIGHUP."""
    command = [sys.executable, "-c", CHILD]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=True, preexec_fn=_ignoring
    )
    assert done.stdout == "0\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_under_nohup_ends_when_it_is_asked_to(number: signal.Signals) -> None:
    flags = ["--hosts", "1", "--pages", "3", "--port", "0", "--address", "127.77.97.1", "--ready-json"]
    flags += ["--dns-address", "127.77.255.97:0", "--control-address", "127.77.254.97"]
    command = [sys.executable, "-m", "teia", "lab", "serve", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=_ignoring) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            process.send_signal(signal.SIGHUP)
            process.send_signal(number)
            assert process.wait(30) == (0 if number is signal.SIGTERM else 130)
        finally:
            process.kill()
