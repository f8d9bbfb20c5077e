"""Jobs for the children of test_pool: well-behaved and otherwise, as the payload says."""

from __future__ import annotations

import os
import resource
import signal
import time
from pathlib import Path
from typing import cast

from teia.parse.children.child import Job
from teia.parse.parse import parse_document


def obey(payload: bytes) -> bytes:
    if payload == b"crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if payload == b"exit":
        os._exit(3)
    if payload == b"spin":
        while True:
            pass
    if payload == b"hang":
        time.sleep(600)  # until it is killed
    if payload == b"nap":
        time.sleep(1)  # slower than others
    if payload == b"memory":
        return bytes(2**31)
    if payload == b"raise":
        raise ValueError("not this one")
    if payload == b"pid":
        return str(os.getpid()).encode()
    if payload == b"rss":
        # Touched bit by bit, as a library would; the limit is on address space, so this fails before the end.
        hoard = [bytes(2**20) for _ in range(1024)]
        return str(len(hoard)).encode()
    if payload.startswith(b"unless ") and Path(payload[7:].decode()).exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return payload[::-1]


def parse(payload: bytes) -> bytes:
    """Parse a page; answer with what was cut, and the memory this child has used at most."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    page = parse_document("http://a.test/", head, payload).page
    return f"{len(page.links)}|{page.truncated}|{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}".encode()


def obedient() -> Job:
    return obey


def parsing() -> Job:
    return parse


def missing() -> Job:
    from no.such.module import job  # type: ignore[import-not-found]

    return cast(Job, job)
