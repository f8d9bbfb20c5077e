"""One point of the circle among others, by messages: join, leave, stabilisation, routed look-up (A2).

    Distributor    the knowledge of a point (predecessor, successors, fingers), its answers and its look-ups
    Stabilizer     keeps that up to date, a little every few seconds

The agents of the paper have these names. Nothing here knows the network: a `Transport` sends a message to another point
and returns its answer or raises `Unreachable`, and a Distributor answers at once from its own knowledge. The paper's
circle breaks when a node leaves. This one has a list of successors, so it holds as long as no list dies as a whole
between two rounds. Look-ups are iterative: the point that looks up queries point after point, and if one is silent it
queries another that the last one named. A look-up that ends has been answered by the owner itself.

As in Zave's corrected Chord ("How to make Chord correct", 2015) a successor is accepted only when it has answered, and
a silent predecessor is forgotten before another is accepted. A point remembers some other points, and looks up its own
place through them from time to time. So two circles that lost contact, because messages were lost or many points came
and went at once, join again. After a longer cut they do not: that needs a list of the members, which in our cluster is
the session (docs/cluster.md).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Protocol

from teia.clock import Clock
from teia.cluster.circle.circle import BITS, SIZE, CirclePoint, distance, is_between, is_within
from teia.errors import ClusterError

SUCCESSORS = 8
MAX_PRECEDING = 3
"""Number of points that an answer names, in case the first is gone."""

TRIES = 3
"""Unanswered messages after which a point counts as silent; a message may be lost."""

MAX_REMEMBERED = 16
MAX_FAILURES = 8
"""Most points that are remembered, and the failures after which each is forgotten."""

MAX_HOPS = 2 * BITS


class Unreachable(ClusterError):
    """A point does not answer."""


# ---- messages -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FindOwner:
    """Question for the owner of a key, as far as the receiver knows."""

    key: int


@dataclass(frozen=True, slots=True)
class Notify:
    """Notification that the sender may be the receiver's predecessor."""

    point: CirclePoint


@dataclass(frozen=True, slots=True)
class GetNeighbours:
    """Question for the receiver's neighbours, and a sign of life."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Notification that the sender leaves, with its neighbours."""

    point: CirclePoint
    predecessor: CirclePoint | None
    successors: tuple[CirclePoint, ...]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The neighbours of the answering point; `preceding` are the last points before the key, the best first."""

    predecessor: CirclePoint | None
    successors: tuple[CirclePoint, ...]
    preceding: tuple[CirclePoint, ...] = ()


Question = FindOwner | Notify | GetNeighbours | Leave


class Transport(Protocol):
    """Carrier of questions; the interface between this protocol and a network."""

    async def request(self, to: CirclePoint, question: Question) -> Neighbours:
        """Return the answer of a point; Unreachable if none comes in time."""


@dataclass(frozen=True, slots=True)
class LookupResult:
    """The result of a look-up: the owner, and the points queried on the way."""

    owner: CirclePoint
    path: tuple[CirclePoint, ...]

    @property
    def hops(self) -> int:
        return len(self.path)


# ---- one point ------------------------------------------------------------------------------------------------------


class Distributor:
    """A point and its knowledge of the others. Alone, it is its own successor."""

    def __init__(self, point: CirclePoint, transport: Transport) -> None:
        self.point = point
        self.predecessor: CirclePoint | None = None
        self.successors: list[CirclePoint] = [point]
        self._transport = transport
        self._fingers: dict[int, CirclePoint] = {}
        self._next_finger = BITS - 1
        self._known: tuple[list[int], list[CirclePoint]] | None = None
        self._remembered: dict[CirclePoint, int] = {}

    @property
    def successor(self) -> CirclePoint:
        return self.successors[0]

    @property
    def fingers(self) -> dict[int, CirclePoint]:
        """Finger by exponent; those that lead no further than the successor are left out."""
        return dict(self._fingers)

    def owns(self, key: int) -> bool:
        """Tell whether this point owns a key, as far as it knows."""
        return self.predecessor is not None and is_within(key, self.predecessor.id, self.point.id)

    # -- answers -------------------------------------------------------------------------------------------

    def answer(self, question: Question) -> Neighbours:
        """Answer another point, from the knowledge of this one."""
        if isinstance(question, Notify):
            self._rectify(question.point)
        elif isinstance(question, Leave):
            self._remove_leaving(question)
        preceding = self._closest_preceding(question.key) if isinstance(question, FindOwner) else ()
        return Neighbours(self.predecessor, tuple(self.successors), preceding)

    def _rectify(self, point: CirclePoint) -> None:
        before = self.predecessor
        if point != self.point and (before is None or is_between(point.id, before.id, self.point.id)):
            self.predecessor = point

    def _remove_leaving(self, gone: Leave) -> None:
        if self.predecessor == gone.point:
            self.predecessor = None if gone.predecessor == self.point else gone.predecessor
        if gone.point in self.successors:
            at = self.successors.index(gone.point)
            self._set_successors([*self.successors[:at], *gone.successors])
        self.forget(gone.point)
        self._remembered.pop(gone.point, None)

    def _closest_preceding(self, key: int) -> tuple[CirclePoint, ...]:
        if self._known is None:
            known = {*self._fingers.values(), *self.successors} - {self.point}
            ordered = sorted((distance(self.point.id, each.id), each) for each in known)
            self._known = ([gap for gap, _ in ordered], [each for _, each in ordered])
        distances, points = self._known
        end = bisect_left(distances, distance(self.point.id, key) or SIZE)
        return tuple(points[max(0, end - MAX_PRECEDING) : end][::-1])

    # -- learning ------------------------------------------------------------------------------------------

    def forget(self, point: CirclePoint) -> None:
        """Remove a silent point from everything but the remembered points."""
        if self.predecessor == point:
            self.predecessor = None
        self._fingers = {exponent: each for exponent, each in self._fingers.items() if each != point}
        self._set_successors([each for each in self.successors if each != point])

    def _remember(self, *points: CirclePoint | None) -> None:
        """Remember other points; the most recent ones stay longest."""
        for point in points:
            if point is not None and point != self.point:
                self._remembered[point] = self._remembered.pop(point, 0)
        while len(self._remembered) > MAX_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]

    def _set_successors(self, points: Iterable[CirclePoint]) -> None:
        """Replace the successors: in order, without this point and those behind it, at most `SUCCESSORS`."""
        successors: list[CirclePoint] = []
        last = 0
        for point in points:
            span = distance(self.point.id, point.id)
            if span <= last:  # once around the circle
                break
            last = span
            successors.append(point)
        self.successors = successors[:SUCCESSORS] or self._last_resort()
        self._known = None

    def _last_resort(self) -> list[CirclePoint]:
        """Return the nearest other known point when all successors are gone, or this point itself."""
        others = {*self._fingers.values(), *((self.predecessor,) if self.predecessor else ())} - {self.point}
        return [min(others, key=lambda each: distance(self.point.id, each.id), default=self.point)]

    def set_knowledge(
        self, predecessor: CirclePoint, successors: Iterable[CirclePoint], fingers: dict[int, CirclePoint]
    ) -> None:
        """Start with the full knowledge of the circle, instead of by joining."""
        self.predecessor = predecessor
        self._fingers = dict(fingers)
        self._set_successors(successors)

    # -- queries -------------------------------------------------------------------------------------------

    async def _request(self, to: CirclePoint, question: Question) -> Neighbours:
        if to == self.point:
            return self.answer(question)
        for _ in range(TRIES - 1):
            with suppress(Unreachable):
                return await self._transport.request(to, question)
        return await self._transport.request(to, question)

    async def join(self, via: CirclePoint) -> None:
        """Enter the circle that a point belongs to. The others learn of it as they stabilise."""
        found = await self.look_up((self.point.id + 1) % SIZE, via)
        self.predecessor = None
        self._remember(via, *found.path)
        self._set_successors([found.owner])
        await self.stabilise()

    async def leave(self) -> None:
        """Notify both neighbours that this point leaves, so that they need not detect it."""
        message = Leave(self.point, self.predecessor, tuple(self.successors))
        for each in {self.successor, self.predecessor or self.successor} - {self.point}:
            with suppress(Unreachable):
                await self._request(each, message)

    async def stabilise(self) -> None:
        """Find the present successor, and notify it."""
        reply = await self._first_answer()
        between = reply.predecessor
        # Several points may have joined in between: each answer may name a nearer one.
        while between is not None and is_between(between.id, self.point.id, self.successor.id):
            try:
                reply = await self._request(between, Notify(self.point))
            except Unreachable:  # the successor will notice too
                break
            self._set_successors([between, *reply.successors])
            between = reply.predecessor

    async def _first_answer(self) -> Neighbours:
        """Notify the successors in order until one answers; forget those before it."""
        while True:
            first = self.successor
            try:
                reply = await self._request(first, Notify(self.point))
            except Unreachable:
                self.forget(first)
                continue
            self._set_successors([first, *reply.successors])
            self._remember(reply.predecessor, *reply.successors[::-1], first)
            return reply

    async def rejoin(self) -> None:
        """Look up our own place through a point that is no neighbour: this point may be in another circle by now."""
        neighbours = {*self.successors, self.predecessor}
        point = next((each for each in self._remembered if each not in neighbours), None)
        if point is None:
            return
        silent = self._remembered.pop(point)
        try:
            found = await self.look_up((self.point.id + 1) % SIZE, point)
        except Unreachable:
            if silent + 1 < MAX_FAILURES:
                self._remembered[point] = silent + 1
            return
        self._remember(point)
        is_alone = self.successor == self.point
        if found.owner != self.point and (is_alone or is_between(found.owner.id, self.point.id, self.successor.id)):
            self._set_successors([found.owner, *self.successors])
            await self.stabilise()
        elif found.owner not in neighbours:
            await self._request(found.owner, Notify(self.point))

    async def check_predecessor(self) -> None:
        """Forget a predecessor that is silent."""
        if self.predecessor is not None:
            try:
                await self._request(self.predecessor, GetNeighbours())
            except Unreachable:
                self.predecessor = None

    async def fix_finger(self) -> None:
        """Look up the next finger in turn again; fingers that lead no further than the successor are not needed."""
        exponent = self._next_finger
        # Smaller exponents would all lead to the successor: begin again with the greatest.
        if self.successor == self.point or distance(self.point.id, self.successor.id) >= 1 << exponent:
            self._fingers = {each: to for each, to in self._fingers.items() if each > exponent}
            self._next_finger, self._known = BITS - 1, None
            return
        self._next_finger -= 1
        found = await self.look_up((self.point.id + (1 << exponent)) % SIZE)
        if self._fingers.get(exponent) != found.owner:
            self._fingers[exponent], self._known = found.owner, None

    async def look_up(self, key: int, via: CirclePoint | None = None) -> LookupResult:
        """Find the owner of a key, from here or from another point on; the owner has answered."""
        path: list[CirclePoint] = []
        # a point that joins may still be remembered from before
        useless = set[CirclePoint]() if via is None else {self.point}
        answers: list[tuple[CirclePoint, Neighbours]] = []
        at = via or self.point
        for _ in range(MAX_HOPS):
            answer = await self._query(at, FindOwner(key), path, useless)
            if answer is not None:
                answers.append((at, answer))
            owner, preceding = await self._evaluate(key, answers, path, useless)
            if owner is not None:
                return LookupResult(owner, tuple(path))
            if preceding is None:
                break
            at = preceding
        raise Unreachable(f"no node responds that knows the owner of {key:040x}")

    async def _query(
        self, at: CirclePoint, question: Question, path: list[CirclePoint], useless: set[CirclePoint]
    ) -> Neighbours | None:
        """Query a point during a look-up; None from a silent one, which will not be queried again."""
        try:
            answer = await self._request(at, question)
        except Unreachable:
            useless.add(at)
            self.forget(at)
            return None
        if at != self.point and at not in path:
            path.append(at)
        return answer

    async def _evaluate(
        self,
        key: int,
        answers: list[tuple[CirclePoint, Neighbours]],
        path: list[CirclePoint],
        useless: set[CirclePoint],
    ) -> tuple[CirclePoint | None, CirclePoint | None]:
        """Evaluate the answers so far: return the owner, or the point to query next; neither if all are silent."""
        while answers:
            at, answer = answers[-1]
            candidate = next((each for each in answer.successors if each not in useless), None)
            if candidate is not None and is_within(key, at.id, candidate.id):
                owner = await self._confirm_owner(key, candidate, path, useless)
                if owner is not None:
                    return owner, None
                # The candidate is silent and in `useless` now: the next successor is tried.
                continue
            preceding = next((each for each in answer.preceding if each not in useless), candidate)
            if preceding is not None:
                return None, preceding
            useless.add(at)
            answers.pop()
        return None, None

    async def _confirm_owner(
        self, key: int, owner: CirclePoint, path: list[CirclePoint], useless: set[CirclePoint]
    ) -> CirclePoint | None:
        """Confirm the owner of a key at its reported `owner`: that, or a point in between; None if it is silent."""
        while True:
            answer = await self._query(owner, GetNeighbours(), path, useless)
            if answer is None:
                return None
            between = answer.predecessor
            if between is None or between in useless or distance(key, between.id) >= distance(key, owner.id):
                return owner
            owner = between


class Stabilizer:
    """Maintenance of a Distributor: one small round every few seconds, at random times."""

    def __init__(self, distributor: Distributor, clock: Clock, chance: Random, every_s: float = 5.0) -> None:
        self._distributor, self._clock, self._chance, self._every_s = distributor, clock, chance, every_s
        self.is_stopped = False

    async def run(self) -> None:
        """Run rounds until `is_stopped`, which is checked after every round."""
        while not self.is_stopped:
            await self._clock.sleep(self._every_s * self._chance.uniform(0.5, 1.5))
            if not self.is_stopped:
                await self.round()

    async def round(self) -> None:
        """Check everything that may have changed once, and one finger."""
        point = self._distributor
        for step in (point.stabilise, point.check_predecessor, point.rejoin, point.fix_finger):
            with suppress(Unreachable):
                await step()
