"""Whether NATS answers: a client at each server that writes where nodes do, all the time.

A cell cannot change hands while nobody can write. So a test that allows for elections allows for what was measured.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from itertools import pairwise

from teia.cluster.nats.thread import LoopThread
from teia.cluster.nats.wire import NoAnswer, Wire, connect

from .conftest import ANSWER_S, Nats

EVERY_S = 0.5
GAP_S = 1.5
"""Two answers that are farther apart have a time between them in which there was none."""

SUBJECTS = ("main.snap.9999", "$KV.nodes.pulse")
"""In the streams of the log and of sessions; there is no such cell, and no session says that."""


class Pulse:
    """When each server's clients could write, by the calendar."""

    def __init__(self) -> None:
        self.is_over = False
        self._answered: dict[str, list[float]] = {}

    async def beat(self, url: str, nats: Nats) -> None:
        """Write through one server until all is over."""
        from nats.errors import Error

        wire: Wire = await connect([url], nats.servers.key, "pulse", answer_s=ANSWER_S, within_s=30)
        times = self._answered[url] = []
        try:
            while not self.is_over:
                try:
                    for subject in SUBJECTS:
                        await wire.request(wire.js.publish(subject, b"-"))
                    times.append(time.time())
                except (NoAnswer, Error):  # it could not write, whatever NATS says
                    pass
                await asyncio.sleep(EVERY_S)  # the pace of its writes
        finally:
            await wire.end()

    def away_s(self, since_s: float, until_s: float) -> float:
        """How long between two moments a server's clients could not write, of the server for which that was longest."""
        return max((_away_s(times, since_s, until_s) for times in self._answered.values()), default=0.0)


def _away_s(times: list[float], since_s: float, until_s: float) -> float:
    gaps = [(before, after) for before, after in pairwise([*times, time.time()]) if after - before > GAP_S]
    return sum(max(0.0, min(after, until_s) - max(before, since_s)) for before, after in gaps)


@contextmanager
def pulse(nats: Nats) -> Iterator[Pulse]:
    """Feel it as long as the block lasts; the streams must be there, or come soon."""
    made = Pulse()
    try:
        with _beating(made, nats):
            yield made
    finally:
        gc.collect()  # a connection that was left open is this test's fault, not the next one's


@contextmanager
def _beating(made: Pulse, nats: Nats) -> Iterator[None]:
    with LoopThread() as thread:
        works = [asyncio.run_coroutine_threadsafe(made.beat(url, nats), thread.loop) for url in nats.servers.urls]
        try:
            yield
        finally:
            made.is_over = True
            ended, _ = wait(works, timeout=10)
        for work in ended:
            work.result()  # what ended one early would make all that follows count as time without NATS
