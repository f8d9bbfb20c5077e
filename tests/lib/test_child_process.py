"""Child processes: how they start, talk, end, and when they are started again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from teia.clock import VirtualClock
from teia.lib.child_process import DEVNULL, PIPE, BackOff, ChildProcess, last_line
from tests.waiting import until

SLEEP = [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(600)"]
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"

OWNER = """
import sys, threading, time
from teia.lib.child_process import ChildProcess
def start():
    print(ChildProcess([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
thread = threading.Thread(target=start)
thread.start()
thread.join()
time.sleep(600)
"""


def is_running(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state not in {"Z", "X"}


def test_a_child_outlives_the_thread_that_asked_for_it_and_ends_with_the_process() -> None:
    owner = ChildProcess([sys.executable, "-c", OWNER], stdout=PIPE)
    pid = int(owner.read_line())
    assert owner.wait(0.3) is None  # time in which the kernel would end it with the thread
    assert is_running(pid)
    os.kill(owner.pid, signal.SIGKILL)
    until(lambda: not is_running(pid))
    owner.end()


def test_a_child_may_outlive_its_parent_on_request() -> None:
    start = f"ChildProcess({SLEEP!r}, stdout=DEVNULL, on_parent_death=None).pid"
    program = f"from teia.lib.child_process import *; print({start}, flush=True)"
    owner = ChildProcess([sys.executable, "-c", program], stdout=PIPE)
    pid = int(owner.read_line())
    owner.wait()
    assert is_running(pid)
    os.kill(pid, signal.SIGKILL)
    owner.end()


def test_it_ends_by_itself_when_it_is_requested_even_if_it_is_stopped() -> None:
    child = ChildProcess(SLEEP, stdout=PIPE)
    child.read_line()
    os.kill(child.pid, signal.SIGSTOP)
    child.terminate()
    assert child.end(60)
    assert (child.status, child.exit_reason) == (-signal.SIGTERM, "SIGTERM")


def test_one_that_does_not_end_is_killed_with_all_that_it_started() -> None:
    program = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {DEAF!r}]).pid, flush=True)\n"
    child = ChildProcess([sys.executable, "-c", program + DEAF], stdout=PIPE)
    printed = [child.read_line() for _ in range(3)]
    pid = next(int(line) for line in printed if line != b"ready\n")
    child.terminate()
    assert not child.end(0.1)
    until(lambda: not is_running(pid))


def test_what_cannot_be_started_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="No such file"):
        ChildProcess([str(tmp_path / "nothing")])


def test_a_log_is_private_and_has_the_last_word(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for number in (1, 2, 3):
        program = f"import sys; print('out {number}'); sys.exit('error {number}')"
        assert ChildProcess([sys.executable, "-c", program], log=log, keeps_log=number == 3).end(60)
    assert sorted(log.read_text().split("\n")) == ["", "error 2", "error 3", "out 2", "out 3"]
    assert last_line(log) in {"error 3", "out 3"}
    assert log.stat().st_mode & 0o777 == 0o600
    assert last_line(tmp_path / "nothing") == ""


def test_it_has_the_limits_it_was_given_and_default_signals() -> None:
    program = (
        "import os, resource, signal; print(os.nice(0), *resource.getrlimit(resource.RLIMIT_DATA), os.getsid(0),"
        " open('/proc/self/status').read().split('SigIgn:')[1].split()[0])"
    )
    base = os.nice(0)
    child = ChildProcess([sys.executable, "-c", program], stdout=PIPE, nice=1, memory_bytes=1 << 30, own_session=True)
    answer = child.communicate(timeout_s=60)
    assert answer is not None
    niceness, soft, hard, session, _ = answer[0].split()
    assert (int(niceness), int(soft), int(hard), int(session)) == (base + 1, 1 << 30, 1 << 30, child.pid)
    assert child.end()


def test_a_program_gets_its_signals_as_if_it_were_started_directly() -> None:
    child = ChildProcess(["grep", "SigIgn", "/proc/self/status"], stdout=PIPE)
    assert child.communicate(timeout_s=60) == (b"SigIgn:\t0000000000000000\n", b"")
    child.end()


def test_a_question_is_answered_or_takes_too_long() -> None:
    child = ChildProcess(["cat"], stdin=PIPE, stdout=PIPE)
    assert child.communicate(b"question", 60) == (b"question", b"")
    assert child.end()
    slow = ChildProcess(SLEEP, stdout=PIPE)
    assert slow.communicate(timeout_s=0.05) is None
    assert not slow.end()
    assert slow.exit_reason == "SIGKILL"


def test_a_loop_talks_with_it_line_by_line() -> None:
    async def talk() -> list[bytes]:
        child = ChildProcess(["cat"], stdin=PIPE, stdout=PIPE)
        writer = await child.connect_input()
        lines = []
        writer.write(b"1\n")
        async for line in child.lines(100):
            lines.append(line)
            if len(lines) == 3:
                child.close_input()
            else:
                writer.write(b"%d\n" % (len(lines) + 1))
        assert await child.ended() == 0
        assert await child.end_async()
        return lines

    assert asyncio.run(talk()) == [b"1\n", b"2\n", b"3\n"]


def test_patience_ends_with_hurry() -> None:
    async def hurry() -> bool:
        return await ChildProcess(SLEEP, stdout=DEVNULL).end_async(600, lambda: True)

    assert not asyncio.run(hurry())


def test_waits_double_up_to_the_longest_and_begin_anew_after_a_long_life() -> None:
    clock = VirtualClock()
    back_off = BackOff(clock.ticks_s, 1.0, 5.0, 60.0)
    waits = []
    for lived_s in (0.0, 1.0, 59.0, 2.0, 60.0, 0.0):
        back_off.begin()
        asyncio.run(clock.advance(lived_s))
        waits.append(back_off.fail())
        assert back_off.left_s == waits[-1]
    assert waits == [1.0, 2.0, 4.0, 5.0, 1.0, 2.0]
    asyncio.run(clock.advance(2.0))
    assert back_off.left_s == 0.0
    back_off.fail()
    back_off.reset()
    assert back_off.left_s == 0.0


def test_a_number_that_another_process_has_by_now_is_not_killed() -> None:
    ended, other = ChildProcess([sys.executable, "-c", ""]), ChildProcess(SLEEP)
    try:
        assert ended.wait(20) == 0
        ended._process.pid = other.pid  # the kernel may give a free number to anybody
        ended.kill()
        assert other.wait(0.2) is None
    finally:
        other.end()
