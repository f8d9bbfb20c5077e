"""The zygote seen from the crawler: a process and the socket it listens on.

Starting it takes a third of a second of imports in another process. So a caller that knows early that pages will be
parsed starts it first and passes it to the pool later.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from teia.lib.entry_points import command_of, name_of
from teia.parse.children.child import JobLoader
from teia.parse.children.zygote import main

END_S = 1.0


@dataclass(frozen=True, slots=True)
class ZygoteProcess:
    """A zygote that is starting or has started. `control` is our end and does not block."""

    process: subprocess.Popen[bytes]
    control: socket.socket

    @classmethod
    def start(cls, job: JobLoader) -> Self:
        """Start it from the thread that will use it: the kernel ties its life to the thread that made it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        # The zygote imports the same modules as this process, wherever a test or a user put them.
        paths = [path or str(Path.cwd()) for path in sys.path]
        # One thread of linear algebra is enough for counting bits, and threads do not survive a fork.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"}
        with theirs:
            process = subprocess.Popen(  # noqa: S603  # our own interpreter and module
                command_of(main, str(os.getpid()), str(theirs.fileno()), name_of(job)),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environment,
            )
        return cls(process, ours)

    def end(self) -> None:
        """Close the socket and wait: it ends its children first. A zygote that does not end is killed."""
        self.control.close()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def abandon(self) -> None:
        """Kill it at once if it is still there; a closed pool has ended it already."""
        if self.process.poll() is None:
            self.process.kill()
        self.end()
