"""The protocol of the circle on the virtual clock: who joins, leaves and crashes, with messages that are lost (A2)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from math import log2
from statistics import mean
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from teia.cluster.circle.circle import BITS, CirclePoint
from teia.lab.lookup.protocol import Distributor, GetNeighbours, LookupResult, Unreachable
from teia.lab.lookup.simulated import Network

ACTIONS = st.lists(st.sampled_from(["join", "join", "join", "leave", "crash", "wait"]), max_size=25)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, timeout=100))


async def in_time(network: Network, what: Coroutine[Any, Any, Any]) -> Any:
    """Do something while time passes."""
    task = asyncio.ensure_future(what)
    await network.wait_for(task)
    return task.result()


async def check(network: Network, askers: list[Distributor]) -> list[int]:
    """Each finds the true owner of a key, all at the same time; returns the hops."""
    circle = network.circle()
    keys = [network.chance.getrandbits(BITS) for _ in askers]
    looked_up = [peer.look_up(key) for peer, key in zip(askers, keys, strict=True)]
    found = await in_time(network, _all(looked_up))
    for key, each in zip(keys, found, strict=True):
        assert each.owner == circle.successor(key)
        assert network.peers[each.owner].owns(key) or len(circle) == 1
    return [each.hops for each in found]


async def _all(what: list[Coroutine[Any, Any, LookupResult]]) -> list[LookupResult]:
    return list(await asyncio.gather(*what))


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(ACTIONS, st.integers(0, 10_000), st.sampled_from([0.0, 0.05]))
def test_after_whatever_happened_every_look_up_finds_the_successor(actions: list[str], seed: int, loss: float) -> None:
    async def main() -> None:
        network = Network(seed, loss)
        await network.join("first")
        for number, action in enumerate(actions):
            points = sorted(network.peers)
            if action == "join":
                await in_time(network, network.join(f"n{number}"))
            elif action == "wait":
                await network.rounds(2)
            elif len(points) > 1:
                await network.rounds(3)  # who has just come knows one other, and would be lost with that
                victim = network.chance.choice(points)
                await in_time(network, network.leave(victim)) if action == "leave" else network.crash(victim)
                await network.rounds(3)  # a second death waits until the first is mended
        network.loss = 0.0
        await network.rounds(2 * len(network.peers) + 12)
        assert network.wrong_successors() == 0
        await check(network, [*network.peers.values()] * 2)
        network.close()

    run(main())


@pytest.mark.heavy
def test_a_thousand_points_recover_after_a_tenth_crashed_and_others_joined() -> None:
    """One message in twenty is lost. Look-ups are right on the way, too: the owner itself has answered."""

    async def main() -> None:
        network = Network(seed=3, loss=0.05)
        network.build(f"n{n}" for n in range(1_000))
        assert network.wrong_successors() == 0
        for point in network.chance.sample(sorted(network.peers), 100):
            network.crash(point)
        joins = [asyncio.ensure_future(network.join(f"new{n}")) for n in range(30)]
        for each in joins:
            await network.wait_for(each)
        await network.rounds(5)
        network.loss = 0.0
        await network.rounds(3)
        assert network.wrong_successors() == 0
        hops = await check(network, list(network.peers.values()))
        assert mean(hops) <= log2(1_000) / 2 + 1.5
        assert max(hops) <= log2(1_000) + 4
        network.close()

    run(main())


@pytest.mark.slow
def test_ten_thousand_points_recover() -> None:
    async def main() -> None:
        network = Network(seed=4)
        network.build(f"n{n}" for n in range(10_000))
        for point in network.chance.sample(sorted(network.peers), 500):
            network.crash(point)
        for number in range(20):
            await in_time(network, network.join(f"new{number}"))
        await network.rounds(7)
        assert network.wrong_successors() == 0
        hops = await check(network, network.chance.sample(list(network.peers.values()), 2_000))
        assert mean(hops) <= log2(10_000) / 2 + 1.5
        assert max(hops) <= log2(10_000) + 4
        network.close()

    run(main())


def test_a_circle_grown_from_one_point_learns_its_fingers() -> None:
    async def main() -> None:
        network = Network(seed=5)
        for number in range(40):
            await network.join(f"n{number}")
            await network.rounds(0.5)
        await network.rounds(30)
        assert network.wrong_successors() == 0
        circle = network.circle()
        for peer in network.peers.values():
            assert peer.fingers
            for exponent, to in peer.fingers.items():
                assert to == circle.successor(peer.point.id + 2**exponent)
        assert mean(await check(network, [*network.peers.values()] * 3)) <= log2(40) / 2 + 1.5
        network.close()

    run(main())


def test_a_point_that_left_is_not_missed_by_its_neighbours() -> None:
    async def main() -> None:
        network = Network(seed=6)
        network.build("abcdefgh")
        circle = network.circle()
        before, gone, after = circle.point(2), circle.point(3), circle.point(4)
        await network.leave(gone)
        assert network.peers[before].successor == after
        assert network.peers[after].predecessor == before
        found = await network.peers[after].look_up(gone.id)
        assert found.owner == after, "at once, without a round"
        network.close()

    run(main())


def test_a_point_that_comes_back_finds_its_place() -> None:
    """Others still remember it; it does not take itself for its own successor."""

    async def main() -> None:
        network = Network(seed=7)
        network.build("abcdefgh")
        point = network.circle().point(3)
        network.crash(point)
        await in_time(network, network.join(point.node))
        assert network.peers[point].successor == network.circle().point(4)
        await network.rounds(4)
        assert network.wrong_successors() == 0
        network.close()

    run(main())


def test_a_point_whose_successors_all_died_goes_on_with_what_it_knows() -> None:
    async def main() -> None:
        network = Network(seed=8)
        network.build(f"n{n}" for n in range(40))
        circle = network.circle()
        for at in range(1, 10):
            network.crash(circle.point(at))
        await network.rounds(60)
        assert network.wrong_successors() == 0
        network.close()

    run(main())


def test_no_answer_is_reported_in_one_line() -> None:
    class Nobody:
        async def request(self, to: CirclePoint, question: object) -> Any:
            raise Unreachable(f"{to.node} is silent")

    async def main() -> None:
        stranger, gone = Distributor(CirclePoint(5, "me"), Nobody()), CirclePoint(9, "gone")
        with pytest.raises(Unreachable, match="no node responds"):
            await stranger.join(gone)
        assert stranger.answer(GetNeighbours()).successors == (stranger.point,), "alone as before"

    run(main())


def test_a_run_repeats_exactly() -> None:
    async def once() -> tuple[int, list[CirclePoint]]:
        network = Network(seed=9, loss=0.1)
        network.build(f"n{n}" for n in range(60))
        for point in network.chance.sample(sorted(network.peers), 10):
            network.crash(point)
        await network.rounds(5)
        said = network.messages, [peer.successor for peer in network.peers.values()]
        network.close()
        return said

    assert asyncio.run(once()) == asyncio.run(once())
