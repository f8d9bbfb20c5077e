"""The zygote: the process that children are forked from. It has imported the job and does nothing else.

The crawler itself must not fork: a child would inherit its thousands of sockets, the far end of its own among them.
multiprocessing's forkserver would do, but it imports the user's main module into every child and passes pickles;
this is less code than working around that. Starting a child takes a few milliseconds, its memory is shared until
written.

Packets on the control socket (SOCK_SEQPACKET):

    to the zygote     `F` cpu_s f64, memory_bytes u64 and a file descriptor: fork a child that serves it
                      `K` pid u32: kill that child
    from the zygote   `R`: ready    `B` pid: born    `D` pid, status i32: dead (as os.waitstatus_to_exitcode)
                      `X` text: the job cannot be imported

When the control socket closes, all children are killed and reaped.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress

from teia.lib.entry_points import load
from teia.lib.launch import request_signal
from teia.parse.children.child import Job, serve

PID = struct.Struct("<I")
LIMITS = struct.Struct("<dQ")
DEATH = struct.Struct("<Ii")
PACKET_BYTES = 4_096


class Zygote:
    """Forks on request and reports every death. Only living, unreaped children are killed, so no pid is reused."""

    def __init__(self, control: socket.socket, job: Job) -> None:
        self._control = control
        self._job = job
        self._living: set[int] = set()

    def run(self) -> None:
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        # An empty handler makes SIGCHLD write to the wake-up pipe, which ends `select`.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        # The crawler's descriptors count up to many thousands, and select() ends at 1,023. poll() has no such limit.
        waiting = selectors.PollSelector()
        for descriptor in (self._control.fileno(), wake_read):
            waiting.register(descriptor, selectors.EVENT_READ)
        self._control.send(b"R")
        while True:
            ready = {key.fd for key, _ in waiting.select()}
            if wake_read in ready:
                # The bytes say nothing more than "something died"; `_reap` finds out which.
                os.read(wake_read, 512)
            self._reap()
            if self._control.fileno() in ready and not self._handle_command():
                break
        for pid in self._living:
            os.kill(pid, signal.SIGKILL)
        for pid in self._living:
            os.waitpid(pid, 0)

    def _handle_command(self) -> bool:
        packet, descriptors, _, _ = socket.recv_fds(self._control, PACKET_BYTES, 1)
        if packet[:1] == b"F" and descriptors:
            self._fork(descriptors[0], *LIMITS.unpack_from(packet, 1))
        elif packet[:1] == b"K":
            (pid,) = PID.unpack_from(packet, 1)
            if pid in self._living:
                os.kill(pid, signal.SIGKILL)
        return bool(packet)

    def _fork(self, descriptor: int, cpu_s: float, memory_bytes: int) -> None:
        zygote = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._run_child(descriptor, zygote, cpu_s, memory_bytes)
        os.close(descriptor)
        self._living.add(pid)
        self._control.send(b"B" + PID.pack(pid))

    def _run_child(self, descriptor: int, zygote: int, cpu_s: float, memory_bytes: int) -> None:
        status = 1
        try:
            # Undo the zygote's own set-up first: its signal handlers and control socket are not the child's.
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._control.close()
            request_signal(zygote, signal.SIGKILL)
            with socket.socket(fileno=descriptor) as connection:
                serve(connection, self._job, cpu_s, memory_bytes)
            status = 0
        except OSError:
            pass  # the crawler died in the middle of an answer
        finally:
            os._exit(status)

    def _reap(self) -> None:
        while self._living:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self._living.discard(pid)
            self._control.send(b"D" + DEATH.pack(pid, os.waitstatus_to_exitcode(status)))


def main(arguments: Sequence[str]) -> int:
    """Run the zygote; the arguments are its parent, the descriptor of the socket, and the name of a `JobLoader`."""
    parent, descriptor, loader = arguments
    request_signal(int(parent), signal.SIGKILL)
    # A Ctrl-C reaches the whole group; the crawler decides when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=int(descriptor))
    # What is imported stays: to look for garbage in it would take a tenth of the time of a start.
    gc.disable()
    try:
        job = load(loader)()
    except Exception as error:  # noqa: BLE001  # the crawler must be notified of any exception of a user's module
        control.send(b"X" + f"{type(error).__name__}: {error}"[:2_000].encode("utf-8", "replace"))
        return 1
    # Objects of the imports move out of the collector's sight: collections would touch, and so copy, shared pages.
    gc.freeze()
    gc.enable()
    # If the crawler is gone, the kernel kills the children with this process.
    with suppress(BrokenPipeError, ConnectionResetError):
        Zygote(control, job).run()
    return 0
