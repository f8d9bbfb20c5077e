"""Functions that other processes run are found again by their names."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Sequence

from teia.lib.child_process import PIPE, ChildProcess
from teia.lib.entry_points import GARBAGE_AFTER, command_of, input_end, load, name_of


def answer(arguments: Sequence[str]) -> int:
    print(" ".join(arguments))
    return 7


def print_threads(_: Sequence[str]) -> int:
    print(os.environ.get("OPENBLAS_NUM_THREADS"))
    return 0


def print_threshold(_: Sequence[str]) -> int:
    print(gc.get_threshold()[0])
    return 0


def wait_for_end(_: Sequence[str]) -> int:
    async def wait() -> int:
        closed = input_end()
        print("ready", flush=True)
        await closed.wait()
        return 5

    return asyncio.run(wait())


def test_a_process_notices_that_its_input_is_closed() -> None:
    child = ChildProcess(command_of(wait_for_end), stdin=PIPE, stdout=PIPE)
    assert child.read_line() == b"ready\n"
    assert child.wait(0.2) is None
    child.close_input()
    assert child.end(60)
    assert child.status == 5


def test_a_name_leads_back_to_its_function() -> None:
    assert name_of(answer) == "tests.lib.test_entry_points:answer"
    assert load(name_of(answer)) is answer


def test_another_process_runs_it() -> None:
    child = ChildProcess(command_of(answer, "one", "two"), stdout=PIPE)
    assert child.communicate(timeout_s=60) == (b"one two\n", b"")
    assert child.end()
    assert child.status == 7


def test_an_indexer_that_another_program_starts_uses_one_thread_for_its_matrices() -> None:
    """With two it took up to eight times as long on busy cores: threads of OpenBLAS wait by spinning."""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    child = ChildProcess(command_of(print_threads), stdout=PIPE, env=environment)
    assert child.communicate(timeout_s=60) == (b"1\n", b"")
    assert child.end()


def test_another_process_looks_for_garbage_as_seldom_as_the_command_line() -> None:
    """With Python's own threshold this took a twelfth of an indexer's time."""
    child = ChildProcess(command_of(print_threshold), stdout=PIPE)
    assert child.communicate(timeout_s=60) == (b"%d\n" % GARBAGE_AFTER, b"")
    assert child.end()
