"""Chord's protocol over the subjects of a NATS server: what a look-up costs there (A2).

Each point has a connection of its own and answers at the subject of its name, as a crawler that looked up owners this
way would. `measure_look_ups` starts a server, lets points join one after the other and stabilise, and measures look-ups
of random keys. For comparison it measures one request over the same server, and the same look-ups in our table.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol

import msgspec

from teia.clock import WallClock
from teia.cluster.circle.circle import BITS, Circle, CirclePoint, circle_id
from teia.cluster.nats.servers import NatsServers
from teia.cluster.nats.wire import NoAnswer, Wire, connect
from teia.lab.lookup.protocol import (
    Distributor,
    FindOwner,
    GetNeighbours,
    Leave,
    Neighbours,
    Notify,
    Question,
    Stabilizer,
    Unreachable,
)

ANSWER_S = 2.0
ROUNDS = 12
"""Rounds of stabilisation after the last point joined; each renews one finger."""


class _Packed(msgspec.Struct, array_like=True):
    """A message: its kind, a key in hexadecimal, and points by name, whose SHA-1 is their place."""

    kind: str
    key: str = ""
    point: str = ""
    predecessor: str = ""
    successors: list[str] = []
    preceding: list[str] = []


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Packed).decode


def _point(name: str) -> CirclePoint:
    return CirclePoint(circle_id(name), name)


def pack_question(question: Question) -> bytes:
    """Encode a question."""
    kind = type(question).__name__
    if isinstance(question, FindOwner):
        return _encode(_Packed(kind, f"{question.key:x}"))
    if isinstance(question, Notify):
        return _encode(_Packed(kind, point=question.point.node))
    if isinstance(question, Leave):
        before = question.predecessor.node if question.predecessor else ""
        return _encode(_Packed(kind, "", question.point.node, before, [each.node for each in question.successors]))
    return _encode(_Packed(kind))


def unpack_question(data: bytes) -> Question:
    """Decode a question."""
    packed = _decode(data)
    if packed.kind == FindOwner.__name__:
        return FindOwner(int(packed.key, 16))
    if packed.kind == Notify.__name__:
        return Notify(_point(packed.point))
    if packed.kind == Leave.__name__:
        before = _point(packed.predecessor) if packed.predecessor else None
        return Leave(_point(packed.point), before, tuple(map(_point, packed.successors)))
    return GetNeighbours()


def pack_answer(answer: Neighbours) -> bytes:
    """Encode an answer."""
    before = answer.predecessor.node if answer.predecessor else ""
    successors, preceding = ([each.node for each in points] for points in (answer.successors, answer.preceding))
    return _encode(_Packed("", "", "", before, successors, preceding))


def unpack_answer(data: bytes) -> Neighbours:
    """Decode an answer."""
    packed = _decode(data)
    before = _point(packed.predecessor) if packed.predecessor else None
    return Neighbours(before, tuple(map(_point, packed.successors)), tuple(map(_point, packed.preceding)))


class NatsQuestion(Protocol):
    """A request as the client of NATS delivers it."""

    data: bytes

    async def respond(self, data: bytes) -> None: ...


class NatsPoint:
    """A point with its connection (`Transport` of protocol.py)."""

    def __init__(self, name: str, wire: Wire) -> None:
        self._wire = wire
        self.messages = 0
        self.distributor = Distributor(_point(name), self)

    async def serve(self) -> None:
        """Answer other points at the subject of this one."""

        async def answer(message: NatsQuestion) -> None:
            await message.respond(pack_answer(self.distributor.answer(unpack_question(message.data))))

        await self._wire.client.subscribe(f"chord.{self.distributor.point.node}", cb=answer)

    async def request(self, to: CirclePoint, question: Question) -> Neighbours:
        self.messages += 1
        asked = self._wire.client.request(f"chord.{to.node}", pack_question(question), timeout=ANSWER_S)
        try:
            answer = await self._wire.request(asked)
        except NoAnswer as error:
            raise Unreachable(f"{to.node} is silent: {error!r}") from error
        return unpack_answer(answer.data)


@dataclass(frozen=True, slots=True)
class LookUpTimes:
    """Times in seconds of look-ups by Chord over NATS, of single requests, and of look-ups in our table."""

    nodes: int
    hops: float
    right: int
    chord_s: list[float]
    request_s: list[float]
    table_s: list[float]
    join_messages: float
    """Messages that a point sent, on average, until all had joined and stabilised."""


async def measure_look_ups(folder: Path, nodes: int, look_ups: int, seed: int) -> LookUpTimes:
    """Measure look-ups over a NATS server of its own."""
    chance, clock = Random(seed), WallClock()
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(NatsServers(folder, 1, clock))
        points: list[NatsPoint] = []
        for number in range(nodes):
            name = f"n{number}"
            wire = await connect(servers.urls, servers.key, name)
            stack.push_async_callback(wire.close)
            point = NatsPoint(name, wire)
            await point.serve()
            if points:
                await point.distributor.join(chance.choice(points).distributor.point)
            points.append(point)
            await _stabilise(points, chance, 1)
        await _stabilise(points, chance, ROUNDS)
        joined = sum(point.messages for point in points) / nodes
        circle = Circle({point.distributor.point.node: 1.0 for point in points}, points=1)
        chord_s, request_s, table_s, hops, right = [], [], [], 0, 0
        for _ in range(look_ups):
            start, key = chance.choice(points), chance.getrandbits(BITS)
            began = time.perf_counter()
            found = await start.distributor.look_up(key)
            asked = time.perf_counter()
            await start.request(chance.choice(points).distributor.point, GetNeighbours())
            answered = time.perf_counter()
            owner = circle.successor(key)
            table_s.append(time.perf_counter() - answered)
            chord_s.append(asked - began)
            request_s.append(answered - asked)
            hops += found.hops
            right += found.owner == owner
        return LookUpTimes(nodes, hops / look_ups, right, chord_s, request_s, table_s, joined)


async def _stabilise(points: list[NatsPoint], chance: Random, rounds: int) -> None:
    for _ in range(rounds):
        works = (Stabilizer(point.distributor, WallClock(), chance).round() for point in points)
        await asyncio.gather(*works)
