"""One address, several nodes: asked by one of them at a time, and rested whoever asks next (NATS.md 3.8)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from teia.cluster.crawl.shared_addresses import BUCKET, AddressLeases, key_of
from teia.cluster.members.session import NodeSession
from teia.cluster.nats.wire import open_bucket
from teia.errors import ClusterError
from tests.cluster.conftest import PACE, Nats
from tests.waiting import until_async

REST_S = 0.2
_addresses = iter(range(1, 1000))


def new_address() -> str:
    """An address that no other test asks."""
    number = next(_addresses)
    return f"127.77.{number // 250}.{number % 250}"


@asynccontextmanager
async def nodes(nats: Nats, unique: str, count: int) -> AsyncIterator[list[AddressLeases]]:
    sessions = [await nats.node(f"{unique}-{letter}") for letter in "abcdef"[:count]]
    names = {session.node.name for session in sessions}
    await until_async(lambda: all(names <= session.alive().keys() for session in sessions))
    leases = [AddressLeases(nats.clock, session, REST_S, nats.count) for session in sessions]
    tasks = [asyncio.create_task(each.run(), name=session_of(each).node.name) for each in leases]
    try:
        yield leases
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for session in sessions:
            await session.leave()


def session_of(leases: AddressLeases) -> NodeSession:
    return leases._session


async def die(leases: AddressLeases) -> None:
    """End without a word."""
    for task in asyncio.all_tasks():
        if task.get_name() == session_of(leases).node.name:
            task.cancel()
    await session_of(leases).abandon()


async def start_run(nats: Nats, leases: AddressLeases, address: str, site: str = "a.test") -> None:
    """Wait for a turn as the crawler does."""
    async with asyncio.timeout(60):
        while again_at := leases.begin(address, site):  # noqa: ASYNC110  # it polls, too
            await asyncio.sleep(max(0.0, again_at - nats.clock.ticks_s()))  # as long as it was told to


def test_an_address_of_one_node_costs_one_write(nats: Nats, unique: str) -> None:
    async def main() -> None:
        address = new_address()
        async with nodes(nats, unique, 2) as (one, other):
            await start_run(nats, one, address)
            one.finish(address, 0.0, 0.0)
            for _ in range(1_000):
                assert one.begin(address, "a.test") == 0.0
                one.finish(address, 0.0, 0.0)
            assert (one.messages, other.messages) == (1, 0)

    nats.run(main())


def test_an_address_has_its_delay_between_the_requests_of_different_nodes(nats: Nats, unique: str) -> None:
    """RELIABILITY 22: 0 early requests, one at a time; every node comes to its turn."""
    chance = random.Random(5)

    async def main() -> None:
        address, log = new_address(), list[tuple[float, float, int]]()

        async def ask(leases: AddressLeases, number: int) -> None:
            for _ in range(3):
                await start_run(nats, leases, address)
                began = nats.clock.ticks_s()
                if not log:  # the first waits until the others stand in line, however long that takes
                    await until_async(lambda: len(leases._leases[address].claim.waiting) == 2)
                await asyncio.sleep(chance.uniform(0.0, 0.05))  # a request takes some time
                ended = nats.clock.ticks_s()
                log.append((began, ended, number))
                leases.finish(address, ended + REST_S, REST_S)

        async with nodes(nats, unique, 3) as three:
            await asyncio.gather(*(ask(leases, number) for number, leases in enumerate(three)))
            log.sort()
            assert len(log) == 9
            assert min(after[0] - before[1] for before, after in pairwise(log)) >= REST_S
            assert {number for _, _, number in log[:6]} == {0, 1, 2}, "nobody has to wait for all of another's"

    nats.run(main())


def test_an_agreed_delay_holds_at_an_address_whose_requests_were_cut_off(nats: Nats, unique: str) -> None:
    """As it does on one machine: not where another site is there too, for its owner agreed to nothing."""

    async def main() -> None:
        async with nodes(nats, unique, 1) as (one,):
            for agreed, expected_s in (((None,), REST_S), ((0.05,), 0.05), ((0.05, None), REST_S)):
                address = new_address()
                await start_run(nats, one, address)
                one.finish(address, 0.0, 0.0)
                one._leases[address].usual_delay_s = 0.0
                one._leases[address].sites.clear()
                for number, usual_delay_s in enumerate(agreed):
                    assert one.begin(address, f"{number}.test", usual_delay_s) == 0.0
                before = nats.clock.ticks_s()
                one.end_requests()
                remaining_s = one._leases[address].ready_at - before
                assert expected_s <= remaining_s <= expected_s + nats.clock.ticks_s() - before

    nats.run(main())


def test_a_turn_is_not_passed_on_during_a_request(nats: Nats, unique: str) -> None:
    async def main() -> None:
        address = new_address()
        async with nodes(nats, unique, 2) as (one, other):
            await start_run(nats, one, address)
            waiting = asyncio.create_task(start_run(nats, other, address))
            await asyncio.sleep(1.5)  # nothing happens for a while
            assert not waiting.done()
            ended = nats.clock.ticks_s()
            one.finish(address, ended + REST_S, REST_S)
            await waiting
            assert nats.clock.ticks_s() >= ended + REST_S

    nats.run(main())


def test_who_died_is_followed_after_a_full_delay_and_a_slow_address_after_a_longer_one(nats: Nats, unique: str) -> None:
    """Rests survive a death: the usual one, and one that was longer because the answer was slow."""

    async def main() -> None:
        usual, long_delays = new_address(), new_address()
        async with nodes(nats, unique, 2) as (one, other):
            for address, delay_s in ((usual, REST_S), (long_delays, 5 * REST_S)):
                await start_run(nats, one, address)
                one.finish(address, nats.clock.ticks_s() + delay_s, delay_s)
            await until_async(lambda: one.messages >= 3)
            died_at = nats.clock.ticks_s()
            await die(one)
            times = await asyncio.gather(*(timed(nats, other, address) for address in (usual, long_delays)))
            dead_at = died_at + PACE.silence_s - PACE.beat_s  # no earlier can it have been declared
            assert times[0] >= dead_at + REST_S
            assert times[1] >= dead_at + 5 * REST_S
            assert times[1] - times[0] >= 2 * REST_S

    nats.run(main())


async def timed(nats: Nats, leases: AddressLeases, address: str) -> float:
    await start_run(nats, leases, address)
    return nats.clock.ticks_s()


def test_who_left_is_followed_at_once_after_a_delay(nats: Nats, unique: str) -> None:
    async def main() -> None:
        address = new_address()
        async with nodes(nats, unique, 2) as (one, other):
            await start_run(nats, one, address)
            one.end_requests()
            await session_of(one).leave()
            left_at = nats.clock.ticks_s()
            assert REST_S <= await timed(nats, other, address) - left_at < PACE.silence_s + 2.0

    nats.run(main())


def test_the_next_holder_waits_a_delay_that_was_not_passed_on(nats: Nats, unique: str) -> None:
    """Rests of up to twice the usual are not in the key; who takes the turn of a node that left waits as long."""

    async def main() -> None:
        address, delay_s = new_address(), 7 * REST_S
        async with nodes(nats, unique, 2) as (one, other):
            one.usual_delay_s = other.usual_delay_s = 4 * REST_S
            await start_run(nats, one, address)
            ended = nats.clock.ticks_s()
            one.finish(address, ended + delay_s, delay_s)
            await session_of(one).leave()
            assert one.messages == 1
            assert await timed(nats, other, address) - ended >= delay_s

    nats.run(main())


def test_sites_that_other_nodes_found_at_an_address_count(nats: Nats, unique: str) -> None:
    """The rule for addresses that many sites share is that of one machine (frontier/queue/shared_addresses.py)."""

    async def main() -> None:
        address = new_address()
        async with nodes(nats, unique, 2) as (one, other):
            for site in ("a.test", "b.test", "a.test"):
                await start_run(nats, one, address, site)
                one.finish(address, 0.0, 0.0)
            await start_run(nats, other, address, "c.test")
            assert other.sites_at(address) == 3
            other.finish(address, 0.0, 0.0)
            await start_run(nats, one, address, "d.test")
            assert one.sites_at(address) == 4

    nats.run(main())


def test_an_outage_of_nats_moves_no_turn(own_nats: Nats, unique: str) -> None:
    async def main() -> None:
        address = new_address()
        async with nodes(own_nats, unique, 2) as (one, other):
            await start_run(own_nats, one, address)
            one.finish(address, 0.0, 0.0)
            os.kill(own_nats.servers.process_of(0), signal.SIGSTOP)
            assert one.begin(address, "a.test") == 0.0, "it needs nobody's leave"
            waiting = asyncio.create_task(start_run(own_nats, other, address))
            await asyncio.sleep(1.0)  # nothing happens for a while
            assert not waiting.done()
            os.kill(own_nats.servers.process_of(0), signal.SIGCONT)
            one.finish(address, 0.0, 0.0)
            await waiting

    own_nats.run(main())


def test_a_turn_that_was_passed_on_is_not_believed_to_be_ours_by_an_old_answer(nats: Nats, unique: str) -> None:
    """A server that is cut off answers reads for seconds: what it says of the past changes nothing."""

    async def main() -> None:
        address = new_address()
        async with nodes(nats, unique, 2) as (one, other):
            await start_run(nats, one, address)
            one.finish(address, 0.0, 0.0)
            old, revision = await one._read(address)
            assert old is not None
            await start_run(nats, other, address)
            await one._accept_own(address, old, revision)
            assert one.begin(address, "a.test") > 0

    nats.run(main())


def test_a_claim_that_is_not_ours_to_read_is_reported(nats: Nats, unique: str) -> None:
    async def main() -> None:
        address = new_address()
        async with nodes(nats, unique, 1) as (one,):
            await until_async(lambda: one._bucket is not None)
            bucket = await open_bucket(session_of(one).wire, nats.clock, BUCKET, nats.count)
            await bucket.put(key_of(address), b"nonsense")
            with pytest.raises(ClusterError, match=f"entry for {address} cannot be read"):
                await one._read(address)
            await bucket.put(key_of(address), b'{"node": "x", "instance": "y", "version": 9}')
            with pytest.raises(ClusterError, match="another version of teia"):
                await one._read(address)

    nats.run(main())


def keys() -> Iterator[tuple[str, str]]:
    yield "127.77.0.1", "7f4d0001"
    yield "[2001:db8::1]", "20010db8000000000000000000000001"


@pytest.mark.parametrize(("address", "key"), list(keys()))
def test_addresses_are_keys_that_nats_takes(address: str, key: str) -> None:
    assert key_of(address) == key
