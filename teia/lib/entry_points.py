"""Functions that other processes run, named by themselves.

    python -m teia.lib.entry_points MODULE:FUNCTION ARGUMENT…

A caller passes a function, so an editor finds it; only here does it become a name and a function again. If the module
of a function takes long to import, the caller passes a small function of its own that imports and calls it.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import asyncio

GARBAGE_AFTER = 20_000
"""New objects between two collections. Python's 700 look for circles 170 times while 3,000 pages are crawled, and take
a twelfth of an indexer's time; 20,000 objects are a few megabytes."""

Main = Callable[[Sequence[str]], int]
"""Function that runs a whole process: it gets the arguments and returns the exit status."""


def name_of(function: Callable[..., Any]) -> str:
    """Return the name by which another process finds a function."""
    # A program that was started with -m has its module under two names; the other process needs the real one.
    module = sys.modules[function.__module__]
    return f"{module.__spec__.name if module.__spec__ is not None else module.__name__}:{function.__qualname__}"


def load(name: str) -> Callable[..., Any]:
    """Return the function of a name, importing its module."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


def input_end() -> asyncio.Event:
    """Return an event for a process to whose standard input nothing is written: its parent closes it."""
    import asyncio

    loop, closed = asyncio.get_running_loop(), asyncio.Event()

    def close() -> None:
        loop.remove_reader(0)  # the end would be reported for ever
        closed.set()

    loop.add_reader(0, close)
    return closed


def leave(status: int) -> NoReturn:
    """End this process at once: taking down a thousand modules would cost a tenth of a second for nothing."""
    # `os._exit` runs no exit handlers and flushes nothing, so both are done first.
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader has gone
            stream.flush()
    os._exit(status)


def collect_seldom() -> None:
    """Let this process look for objects that refer to each other less often than Python does by itself."""
    gc.set_threshold(GARBAGE_AFTER, 10, 10)


def command_of(main: Main, *arguments: str) -> list[str]:
    """Return the command line that runs a function in another process."""
    return [sys.executable, "-m", __name__, name_of(main), *arguments]


if __name__ == "__main__":
    collect_seldom()
    # As in cli/main.py: an indexer that another program starts must not spin on all cores either.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    leave(load(sys.argv[1])(sys.argv[2:]))
