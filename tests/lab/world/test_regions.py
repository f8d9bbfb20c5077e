"""Latency and bandwidth by where client and server are."""

from __future__ import annotations

from math import exp, log
from statistics import correlation, mean, median
from typing import Any

import pytest

from teia.lab.world.exchange import WorldRequest
from teia.lab.world.world import World
from tests.lab.worlds import EPOCH_S, make_world

ATLAS: dict[str, Any] = {
    "regions__names": ["br", "pt"],
    "regions__clients": ["127.80.0.0/16=br", "127.80.7.0/24=pt", "127.81.0.0/16=pt"],
    "regions__latency_s": [[0.01, 0.2], [0.25, 0.02]],
    "regions__bytes_per_s": [[0, 10_000], [20_000, 0]],
}


def _delay(world: World, client: str, server: int) -> tuple[float, int]:
    host = next(host for host in world.hosts if host.region == server)
    answer = world.answer(WorldRequest(host.name, "/robots.txt", client=client), EPOCH_S)
    return answer.delay_s, len(answer.headers) + len(answer.body)


@pytest.mark.parametrize(
    ("client", "server", "latency_s", "bytes_per_s"),
    [
        ("127.80.1.1", 0, 0.01, 0),
        ("127.80.1.1", 1, 0.2, 10_000),
        ("127.81.1.1", 0, 0.25, 20_000),
        ("127.81.1.1", 1, 0.02, 0),
        ("127.80.7.7", 1, 0.02, 0),
        ("10.0.0.1", 0, 0.01, 0),
        ("not an address", 0, 0.01, 0),
    ],
)
def test_delay_is_latency_plus_size_over_bandwidth(
    client: str, server: int, latency_s: float, bytes_per_s: float
) -> None:
    delay_s, size = _delay(make_world(pages=200, hosts=10, **ATLAS), client, server)
    assert delay_s == pytest.approx(latency_s + (size / bytes_per_s if bytes_per_s else 0))


def test_nothing_is_delayed_by_default() -> None:
    assert _delay(make_world(pages=200), "127.80.1.1", 0)[0] == 0


def test_slow_hosts_are_slow() -> None:
    world = make_world(pages=500, hosts=50, sites__slow=0.5, sites__slow_s=7.0)
    delays = {world.answer(WorldRequest(host.name, "/"), EPOCH_S).delay_s for host in world.hosts}
    assert delays == {0.0, 7.0}


def test_dripping_hosts_drip() -> None:
    world = make_world(pages=500, hosts=50, sites__dripping=0.5, sites__drip_s=3.0)
    assert {world.answer(WorldRequest(host.name, "/"), EPOCH_S).drip_s for host in world.hosts} == {0.0, 3.0}


def test_most_servers_are_where_the_shares_say() -> None:
    world = make_world(pages=800, hosts=400, **ATLAS | {"regions__hosted": [0.9, 0.1]})
    assert sum(host.region == 0 for host in world.hosts) == pytest.approx(360, abs=25)


def test_latency_is_drawn_for_each_server_and_client_region_and_stays() -> None:
    world = make_world(pages=800, hosts=400, **ATLAS | {"regions__bytes_per_s": [], "regions__spread": 0.8})
    near, far = ([_delay_to(world, client, host.name) for host in world.hosts if host.region == 0]
                 for client in ("127.80.1.1", "127.81.1.1"))  # fmt: skip
    assert near == [_delay_to(world, "127.80.1.1", host.name) for host in world.hosts if host.region == 0]
    assert median(near) == pytest.approx(0.01, rel=0.2)
    assert mean(near) == pytest.approx(0.01 * exp(0.8**2 / 2), rel=0.2)
    assert abs(correlation([log(each) for each in near], [log(each) for each in far])) < 0.2


def _delay_to(world: World, client: str, host: str) -> float:
    return world.answer(WorldRequest(host, "/robots.txt", client=client), EPOCH_S).delay_s
