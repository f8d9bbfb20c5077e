"""A network for points of the circle, on the virtual clock: messages are lost, and a point that crashed is silent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Any

from teia.clock import VirtualClock
from teia.cluster.circle.circle import Circle, CirclePoint
from teia.cluster.circle.fingers import Fingers
from teia.lab.lookup.protocol import SUCCESSORS, Distributor, Neighbours, Question, Stabilizer, Unreachable

TIMEOUT_S = 1.0
EVERY_S = 5.0


class Network:
    """Points by name, each with its Stabilizer; carries their messages."""

    def __init__(self, seed: int = 0, loss: float = 0.0) -> None:
        self.clock = VirtualClock()
        """Time that passes only when a caller advances it."""
        self.chance = Random(seed)
        self.loss = loss
        self.messages = 0
        self.peers: dict[CirclePoint, Distributor] = {}
        self._running: dict[CirclePoint, tuple[Stabilizer, asyncio.Task[None]]] = {}

    async def request(self, to: CirclePoint, question: Question) -> Neighbours:
        """Return the answer of a point (`Transport` of protocol.py); Unreachable after a time limit."""
        self.messages += 1
        peer = self.peers.get(to)
        if peer is None or (self.loss and self.chance.random() < self.loss):
            await self.clock.sleep(TIMEOUT_S)
            raise Unreachable(f"{to.node} is silent")
        return peer.answer(question)

    # -- members -------------------------------------------------------------------------------------------

    def circle(self) -> Circle:
        """Return the true circle: that of all present points."""
        return Circle({point.node: 1.0 for point in self.peers}, points=1)

    def build(self, names: Iterable[str]) -> None:
        """Start points that know each other already."""
        circle = Circle(dict.fromkeys(names, 1.0), points=1)
        fingers = Fingers(circle)
        for at, point in enumerate(circle.points()):
            following = [circle.point(at + n) for n in range(1, min(SUCCESSORS, len(circle) - 1) + 1)]
            peer = Distributor(point, self)
            table = {each.exponent: each.to for each in fingers.table(point)[1:]}
            peer.set_knowledge(circle.point(at - 1), following, table)
            self._start(peer)

    async def join(self, name: str) -> Distributor:
        """Let a point join through any other."""
        (point,) = Circle({name: 1.0}, points=1).points()
        peer = Distributor(point, self)
        others = sorted(self.peers)
        while others:
            try:
                await peer.join(self.chance.choice(others))
                break
            except Unreachable:  # messages are lost; a point that joins tries again
                continue
        self._start(peer)
        return peer

    async def leave(self, point: CirclePoint) -> None:
        """Let a point leave with a notice to its neighbours."""
        peer = self.peers[point]
        await peer.leave()
        self.crash(point)

    def crash(self, point: CirclePoint) -> None:
        """End a point without a notice."""
        del self.peers[point]
        stabilizer, task = self._running.pop(point)
        stabilizer.is_stopped = True
        task.cancel()

    def _start(self, peer: Distributor) -> None:
        self.peers[peer.point] = peer
        stabilizer = Stabilizer(peer, self.clock, self.chance, EVERY_S)
        self._running[peer.point] = (stabilizer, asyncio.get_running_loop().create_task(stabilizer.run()))

    async def rounds(self, number: float) -> None:
        await self.clock.advance(number * EVERY_S)

    async def wait_for(self, task: asyncio.Future[Any]) -> None:
        """Advance the clock until a task is done; not at all if it needs no time."""
        await asyncio.sleep(0)  # the task begins
        while not task.done():
            await self.clock.advance(TIMEOUT_S)
        await task

    def close(self) -> None:
        for point in list(self.peers):
            self.crash(point)

    # -- quality -------------------------------------------------------------------------------------------

    def wrong_successors(self) -> int:
        """Count the points that do not know their true neighbours."""
        circle = self.circle()
        wrong = 0
        for at, point in enumerate(circle.points()):
            peer = self.peers[point]
            following = [circle.point(at + n) for n in range(1, min(3, len(circle) - 1) + 1)]
            wrong += peer.successors[:3] != (following or [point])
            wrong += len(circle) > 1 and peer.predecessor != circle.point(at - 1)
        return wrong
