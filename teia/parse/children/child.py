"""The loop of a child: take an item, do the job, send the answer; one at a time, until the socket closes.

Frames on the socket, little-endian:

    to the child      length u32, ticket u32, payload
    from the child    kind u8, ticket u32, length u32, payload     STARTED (empty), DONE (result), RAISED (text)

STARTED is sent before the job begins, together with the answer before it. So the parent of a dead child knows the
item that killed it, at no cost in system calls while there is work.

The kernel enforces the limits, because no Python code runs while a library loops: a timer of processor time whose
signal kills (SIGPROF), and a limit on address space above that of the libraries. The child dies with its parent.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Job = Callable[[bytes], bytes]
JobLoader = Callable[[], Job]
"""Function that imports and prepares a job, once, before any child is forked."""

TO_CHILD = struct.Struct("<II")
FROM_CHILD = struct.Struct("<BII")
STARTED, DONE, RAISED = range(3)
OUT_OF_MEMORY = 77
"""Exit status after a MemoryError: a fresh child is worth more than a fragmented one."""

_RECEIVE_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class LostAnswer:
    """Reason for a missing answer: `cpu`, `wall`, `memory`, `signal N`, `exit N`, `closed`, or an error."""

    reason: str


def serve(connection: socket.socket, job: Job, cpu_s: float, memory_bytes: int) -> None:
    """Work until the other end closes."""
    _limit_memory(memory_bytes)
    unread = bytearray()
    answer = b""
    while True:
        item = _next_item(unread)
        if item is None:
            # Nothing more is waiting: send the answer now. With work waiting it leaves together with STARTED.
            connection.sendall(answer)
            answer = b""
            received = connection.recv(_RECEIVE_BYTES)
            if not received:
                return
            unread += received
            continue
        ticket, payload = item
        connection.sendall(answer + FROM_CHILD.pack(STARTED, ticket, 0))
        # SIGPROF keeps its default action, which kills: it needs no Python code to run.
        signal.setitimer(signal.ITIMER_PROF, cpu_s)
        kind, result = _run_job(job, payload)
        signal.setitimer(signal.ITIMER_PROF, 0)
        answer = FROM_CHILD.pack(kind, ticket, len(result)) + result


def _next_item(unread: bytearray) -> tuple[int, bytes] | None:
    if len(unread) < TO_CHILD.size:
        return None
    length, ticket = TO_CHILD.unpack_from(unread)
    end = TO_CHILD.size + length
    if len(unread) < end:
        return None
    # Through a view, so that the payload is copied once; the view must be released before `del`.
    with memoryview(unread) as view:
        payload = bytes(view[TO_CHILD.size : end])
    del unread[:end]
    return ticket, payload


def _run_job(job: Job, payload: bytes) -> tuple[int, bytes]:
    try:
        return DONE, job(payload)
    except MemoryError:
        # `_exit`: an ordinary exit would run handlers, which need memory.
        os._exit(OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001  # the job's failure on one item; reported as such
        return RAISED, f"{type(error).__name__}: {error}"[:500].encode("utf-8", "replace")


def _limit_memory(memory_bytes: int) -> None:
    """Allow so much address space beyond the present mappings; libraries map far more than they use."""
    mapped_bytes = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped_bytes + memory_bytes, mapped_bytes + memory_bytes))
    # A crash on a hostile page must not fill the disk with core files.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
