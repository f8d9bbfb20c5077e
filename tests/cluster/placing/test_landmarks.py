"""Round trips to landmarks: what a node reports of where it is (A14)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from teia.clock import WallClock
from teia.cluster.placing.landmarks import distance_ms, landmarks_of, measure_landmarks, round_trip_ms
from tests.waiting import until_async


def test_nodes_with_similar_round_trips_are_near() -> None:
    here = {"x:1": 10.0, "y:1": 50.0, "z:1": 90.0}
    assert distance_ms(here, {"x:1": 13.0, "y:1": 54.0, "other:1": 1.0}) == 5.0
    assert distance_ms(here, here) == 0.0
    assert distance_ms(here, {"x:1": 10.0}) is None
    assert distance_ms({}, {}) is None


def test_the_nats_servers_are_the_landmarks_unless_others_are_chosen() -> None:
    servers = [urlsplit("nats://one.test:4222"), urlsplit("tls://two.test:4223")]
    session = SimpleNamespace(wire=SimpleNamespace(client=SimpleNamespace(servers=servers)))
    assert landmarks_of(session, ()) == ["one.test:4222", "two.test:4223"]  # type: ignore[arg-type]
    assert landmarks_of(session, ("x.test:80",)) == ["x.test:80"]  # type: ignore[arg-type]


def test_a_node_reports_the_landmarks_that_it_reaches() -> None:
    async def main() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        there = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            session = SimpleNamespace(landmarks={})
            work = measure_landmarks(session, (there, "127.0.0.1:99999"), WallClock())  # type: ignore[arg-type]
            measuring = asyncio.ensure_future(work)
            await until_async(lambda: session.landmarks)
            measuring.cancel()
            assert session.landmarks == {there: pytest.approx(session.landmarks[there], abs=1e-9)}
            assert session.landmarks[there] > 0
        assert await round_trip_ms(there, WallClock()) is None, "nobody listens any more"
        assert await round_trip_ms("no..name:4222", WallClock()) is None, "no host has this name"

    asyncio.run(main())
