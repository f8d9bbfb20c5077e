"""kill -9 at any step of an action that writes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

STEPS = frozenset(
    {"fsync", "fdatasync", "replace", "rename", "unlink", "execute", "executemany", "open", "fchmod", "lseek", "write"}
)
"""Calls before which a process may be killed."""


def steps_until(step: int, action: Callable[[], object]) -> int:
    """Run an action in a child that is killed before its step-th call; return how many calls it made."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        made = 0

        def count(_frame: FrameType, event: str, argument: Any) -> None:
            nonlocal made
            if event == "c_call" and getattr(argument, "__name__", "") in STEPS:
                made += 1
                if made == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(count)
        try:
            action()
        finally:
            sys.setprofile(None)
            os.write(write_end, str(made).encode())
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        made_text = pipe.read()
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) == (not made_text)
    return int(made_text or step)
