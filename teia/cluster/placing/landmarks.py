"""Round trips of nodes to landmarks, by which the balance knows which nodes are near each other (A14).

Two nodes with similar round trips to several landmarks are probably near each other (landmark clustering: Ratnasamy,
Handley et al. 2002; Zhu and Hu 2004, as the paper cites them). The landmarks are addresses that the operator chose
(`balance.landmarks`), else the NATS servers. A round trip is the time that a TCP connection takes to open; nothing is
sent. Every node measures its own, and reports them with its session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import dist, inf

from teia.clock import Clock
from teia.cluster.members.session import NodeSession

TRIES = 3
LIMIT_S = 3.0
AGAIN_S = 600.0
MIN_LANDMARKS = 2
"""Number of landmarks that two nodes must share: one alone does not tell one side of it from the other."""


def distance_ms(one: Mapping[str, float], other: Mapping[str, float]) -> float | None:
    """Return the distance of two nodes in the space of their landmarks; None if they share too few."""
    shared = sorted(one.keys() & other.keys())
    if len(shared) < MIN_LANDMARKS:
        return None
    return dist([one[each] for each in shared], [other[each] for each in shared])


async def round_trip_ms(landmark: str, clock: Clock) -> float | None:
    """Return the shortest round trip to a landmark (`host:port`) of several; None if it cannot be reached."""
    host, _, port = landmark.rpartition(":")
    shortest_s = inf
    for _ in range(TRIES):
        began = clock.ticks_s()
        try:
            async with asyncio.timeout(LIMIT_S):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        # ValueError: no host can have this name.
        except (OSError, OverflowError, TimeoutError, ValueError):
            return None
        shortest_s = min(shortest_s, clock.ticks_s() - began)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    return round(1_000 * shortest_s, 2)


def landmarks_of(session: NodeSession, chosen: Sequence[str]) -> list[str]:
    """Return the landmarks: those that the operator chose, else all NATS servers that are known."""
    return sorted(set(chosen or (f"{each.hostname}:{each.port}" for each in session.wire.client.servers)))


async def measure_landmarks(session: NodeSession, chosen: Sequence[str], clock: Clock) -> None:
    """Measure the round trips to all landmarks now and then, and report them with the session, until cancelled."""
    while True:
        names = landmarks_of(session, chosen)
        times = await asyncio.gather(*(round_trip_ms(each, clock) for each in names))
        session.landmarks = {name: time for name, time in zip(names, times, strict=True) if time is not None}
        await clock.sleep(AGAIN_S)
