"""Program that turns into another one, which ends with its parent.

    python -I -S launch.py PARENT SIGNAL NICE MEMORY_BYTES COMMAND…

The kernel then sends SIGNAL to the command when its parent ends, however that happens; an exec keeps that request. The
limits are set here because `preexec_fn` of `subprocess` may deadlock in a process with threads. MEMORY_BYTES limits the
command's data (RLIMIT_DATA); 0 is no limit.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1


def request_signal(parent: int, number: int) -> None:
    """Request a signal from the kernel for the death of the parent, which may already be gone."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    # The parent may have died before the request reached the kernel; then no signal comes.
    if os.getppid() != parent:
        os._exit(1)


def _main() -> None:
    parent, number, nice, memory_bytes = map(int, sys.argv[1:5])
    request_signal(parent, number)
    os.nice(nice)
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    # Python ignores these two, and a program keeps what was ignored before it.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    os.execvp(sys.argv[5], sys.argv[5:])  # noqa: S606  # the caller's own command, no shell


if __name__ == "__main__":
    _main()
