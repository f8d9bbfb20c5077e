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
NEARER = 3
"""Number of points that an answer names, in case the first is gone."""

TRIES = 3
"""Unanswered messages after which a point counts as silent; a message may be lost."""

MET_MOST = 16
SILENT_MOST = 8
"""Most points that are remembered, and the failures after which each is forgotten."""

HOPS_MOST = 2 * BITS


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
class AskNeighbours:
    """Question for the receiver's neighbours, and a sign of life."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Notification that the sender leaves, with its neighbours."""

    point: CirclePoint
    predecessor: CirclePoint | None
    successors: tuple[CirclePoint, ...]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The neighbours of the answering point; `nearer` are the last points before the requested key, the best first."""

    predecessor: CirclePoint | None
    successors: tuple[CirclePoint, ...]
    nearer: tuple[CirclePoint, ...] = ()


Question = FindOwner | Notify | AskNeighbours | Leave


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
        self._met: dict[CirclePoint, int] = {}

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
            self._let_go(question)
        nearer = self._nearer(question.key) if isinstance(question, FindOwner) else ()
        return Neighbours(self.predecessor, tuple(self.successors), nearer)

    def _rectify(self, point: CirclePoint) -> None:
        before = self.predecessor
        if point != self.point and (before is None or is_between(point.id, before.id, self.point.id)):
            self.predecessor = point

    def _let_go(self, gone: Leave) -> None:
        if self.predecessor == gone.point:
            self.predecessor = None if gone.predecessor == self.point else gone.predecessor
        if gone.point in self.successors:
            at = self.successors.index(gone.point)
            self._succeed([*self.successors[:at], *gone.successors])
        self.forget(gone.point)
        self._met.pop(gone.point, None)

    def _nearer(self, key: int) -> tuple[CirclePoint, ...]:
        if self._known is None:
            known = {*self._fingers.values(), *self.successors} - {self.point}
            placed = sorted((distance(self.point.id, each.id), each) for each in known)
            self._known = ([gone for gone, _ in placed], [each for _, each in placed])
        gone, points = self._known
        end = bisect_left(gone, distance(self.point.id, key) or SIZE)
        return tuple(points[max(0, end - NEARER) : end][::-1])

    # -- learning ------------------------------------------------------------------------------------------

    def forget(self, point: CirclePoint) -> None:
        """Remove a silent point from everything but the remembered points."""
        if self.predecessor == point:
            self.predecessor = None
        self._fingers = {exponent: each for exponent, each in self._fingers.items() if each != point}
        self._succeed([each for each in self.successors if each != point])

    def _meet(self, *points: CirclePoint | None) -> None:
        """Remember other points; the most recent ones stay longest."""
        for point in points:
            if point is not None and point != self.point:
                self._met[point] = self._met.pop(point, 0)
        while len(self._met) > MET_MOST:
            del self._met[next(iter(self._met))]

    def _succeed(self, points: Iterable[CirclePoint]) -> None:
        """Replace the successors: in order, without this point and those behind it, at most `SUCCESSORS`."""
        kept: list[CirclePoint] = []
        gone = 0
        for point in points:
            way = distance(self.point.id, point.id)
            if way <= gone:  # once around the circle
                break
            gone = way
            kept.append(point)
        self.successors = kept[:SUCCESSORS] or self._last_resort()
        self._known = None

    def _last_resort(self) -> list[CirclePoint]:
        """Return the nearest other known point when all successors are gone, or this point itself."""
        others = {*self._fingers.values(), *((self.predecessor,) if self.predecessor else ())} - {self.point}
        return [min(others, key=lambda each: distance(self.point.id, each.id), default=self.point)]

    def know(
        self, predecessor: CirclePoint, successors: Iterable[CirclePoint], fingers: dict[int, CirclePoint]
    ) -> None:
        """Start with the full knowledge of the circle, instead of by joining."""
        self.predecessor = predecessor
        self._fingers = dict(fingers)
        self._succeed(successors)

    # -- queries -------------------------------------------------------------------------------------------

    async def _ask(self, to: CirclePoint, question: Question) -> Neighbours:
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
        self._meet(via, *found.path)
        self._succeed([found.owner])
        await self.stabilise()

    async def leave(self) -> None:
        """Notify both neighbours that this point leaves, so that they need not detect it."""
        word = Leave(self.point, self.predecessor, tuple(self.successors))
        for each in {self.successor, self.predecessor or self.successor} - {self.point}:
            with suppress(Unreachable):
                await self._ask(each, word)

    async def stabilise(self) -> None:
        """Find the present successor, and notify it."""
        said = await self._first_answer()
        between = said.predecessor
        # Several points may have joined in between: each answer may name a nearer one.
        while between is not None and is_between(between.id, self.point.id, self.successor.id):
            try:
                said = await self._ask(between, Notify(self.point))
            except Unreachable:  # the successor will notice too
                break
            self._succeed([between, *said.successors])
            between = said.predecessor

    async def _first_answer(self) -> Neighbours:
        """Notify the successors in order until one answers; forget those before it."""
        while True:
            first = self.successor
            try:
                said = await self._ask(first, Notify(self.point))
            except Unreachable:
                self.forget(first)
                continue
            self._succeed([first, *said.successors])
            self._meet(said.predecessor, *said.successors[::-1], first)
            return said

    async def seek(self) -> None:
        """Look up our own place through a point that is no neighbour: this point may be in another circle by now."""
        beside = {*self.successors, self.predecessor}
        point = next((each for each in self._met if each not in beside), None)
        if point is None:
            return
        silent = self._met.pop(point)
        try:
            found = await self.look_up((self.point.id + 1) % SIZE, point)
        except Unreachable:
            if silent + 1 < SILENT_MOST:
                self._met[point] = silent + 1
            return
        self._meet(point)
        is_alone = self.successor == self.point
        if found.owner != self.point and (is_alone or is_between(found.owner.id, self.point.id, self.successor.id)):
            self._succeed([found.owner, *self.successors])
            await self.stabilise()
        elif found.owner not in beside:
            await self._ask(found.owner, Notify(self.point))

    async def check_predecessor(self) -> None:
        """Forget a predecessor that is silent."""
        if self.predecessor is not None:
            try:
                await self._ask(self.predecessor, AskNeighbours())
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
        trail: list[tuple[CirclePoint, Neighbours]] = []
        at = via or self.point
        for _ in range(HOPS_MOST):
            answer = await self._heard(at, FindOwner(key), path, useless)
            if answer is not None:
                trail.append((at, answer))
            owner, nearer = await self._weighed(key, trail, path, useless)
            if owner is not None:
                return LookupResult(owner, tuple(path))
            if nearer is None:
                break
            at = nearer
        raise Unreachable(f"no node responds that knows the owner of {key:040x}")

    async def _heard(
        self, at: CirclePoint, question: Question, path: list[CirclePoint], useless: set[CirclePoint]
    ) -> Neighbours | None:
        """Query a point during a look-up; None from a silent one, which will not be queried again."""
        try:
            answer = await self._ask(at, question)
        except Unreachable:
            useless.add(at)
            self.forget(at)
            return None
        if at != self.point and at not in path:
            path.append(at)
        return answer

    async def _weighed(
        self, key: int, trail: list[tuple[CirclePoint, Neighbours]], path: list[CirclePoint], useless: set[CirclePoint]
    ) -> tuple[CirclePoint | None, CirclePoint | None]:
        """Evaluate the answers so far: return the owner, or the point to query next; neither if all are silent."""
        while trail:
            at, answer = trail[-1]
            heir = next((each for each in answer.successors if each not in useless), None)
            if heir is not None and is_within(key, at.id, heir.id):
                owner = await self._confirmed(key, heir, path, useless)
                if owner is not None:
                    return owner, None
                # The heir is silent and in `useless` now: the next successor is tried.
                continue
            nearer = next((each for each in answer.nearer if each not in useless), heir)
            if nearer is not None:
                return None, nearer
            useless.add(at)
            trail.pop()
        return None, None

    async def _confirmed(
        self, key: int, owner: CirclePoint, path: list[CirclePoint], useless: set[CirclePoint]
    ) -> CirclePoint | None:
        """Confirm the owner of a key at its reported `owner`: that, or a point in between; None if it is silent."""
        while True:
            answer = await self._heard(owner, AskNeighbours(), path, useless)
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
        for step in (point.stabilise, point.check_predecessor, point.seek, point.fix_finger):
            with suppress(Unreachable):
                await step()
