"""The resolver's memory and manners, against a name server on loopback and a clock that is moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import dns.rcode
import pytest

from teia.clock import VirtualClock
from teia.errors import ConfigError
from teia.fetch.destination import Failure
from teia.fetch.dns import CaresResolver
from tests.fetch.name_server import NameServer, Record

A = ("A", 0, "127.77.0.1")  # c-ares does not keep answers with a TTL of 0, so the server sees every question

Test = Callable[[CaresResolver, NameServer, VirtualClock], Awaitable[None]]


def with_server(
    test: Test,
    table: Mapping[str, Sequence[Record]],
    codes: Mapping[str, dns.rcode.Rcode] | None = None,
    silent: Sequence[str] = (),
    **options: Any,
) -> None:
    async def run() -> None:
        clock = VirtualClock()
        async with NameServer(table, codes, silent) as server:
            resolver = CaresResolver(clock, server.server, **options)
            try:
                await test(resolver, server, clock)
            finally:
                await resolver.close()

    asyncio.run(run())


@pytest.mark.parametrize(("ttl_s", "life_s"), [(0, 30), (5, 30), (300, 300), (3600, 3600), (90_000, 3600)])
def test_answer_lives_for_its_ttl_within_bounds(ttl_s: int, life_s: int) -> None:
    async def test(resolver: CaresResolver, server: NameServer, clock: VirtualClock) -> None:
        assert (await resolver.resolve("a.test")).expires_s == life_s
        await clock.advance(life_s - 1)
        assert resolver.find_cached("a.test") is not None
        await clock.advance(1)
        assert resolver.find_cached("a.test") is None

    with_server(test, {"a.test": [("A", ttl_s, "127.77.0.1")]})


def test_shortest_ttl_of_the_chain_counts() -> None:
    async def test(resolver: CaresResolver, server: NameServer, clock: VirtualClock) -> None:
        resolution = await resolver.resolve("www.test")
        assert (resolution.addresses, resolution.expires_s) == (("127.77.0.1",), 100)

    chain = {
        "www.test": [("CNAME", 900, "b.test.")],
        "b.test": [("CNAME", 100, "c.test.")],
        "c.test": [("A", 500, "127.77.0.1")],
    }
    with_server(test, chain)


def test_ipv6_is_queried_only_where_there_is_no_ipv4() -> None:
    async def test(resolver: CaresResolver, server: NameServer, clock: VirtualClock) -> None:
        assert (await resolver.resolve("both.test")).addresses == ("127.77.0.1",)
        assert (await resolver.resolve("six.test")).addresses == ("2a00::1",)
        assert (await resolver.resolve("mail.test")).failure is Failure.NO_ADDRESS
        assert server.queries == [
            ("both.test", "A"),
            ("six.test", "A"),
            ("six.test", "AAAA"),
            ("mail.test", "A"),
            ("mail.test", "AAAA"),
        ]

    with_server(test, {"both.test": [A, ("AAAA", 0, "2a00::1")], "six.test": [("AAAA", 0, "2a00::1")], "mail.test": []})


def test_missing_name_is_remembered_for_ten_minutes() -> None:
    async def test(resolver: CaresResolver, server: NameServer, clock: VirtualClock) -> None:
        assert (await resolver.resolve("no.test")).expires_s == 600
        await clock.advance(599)
        assert (await resolver.resolve("no.test")).failure is Failure.NO_SUCH_NAME
        assert len(server.queries) == 1

    with_server(test, {})


@pytest.mark.parametrize("code", [dns.rcode.SERVFAIL, dns.rcode.REFUSED, dns.rcode.NOTIMP])
def test_failing_server_is_requested_again_ever_later(code: dns.rcode.Rcode) -> None:
    async def test(resolver: CaresResolver, server: NameServer, clock: VirtualClock) -> None:
        lives_s = []
        for _ in range(8):
            resolution = await resolver.resolve("a.test")
            assert resolution.failure is Failure.SERVER
            assert resolution.failure.is_temporary
            lives_s.append(resolution.expires_s - clock.ticks_s())
            await clock.advance(lives_s[-1])
        assert lives_s == [60, 120, 240, 480, 960, 1920, 3600, 3600]
        del server.codes["a.test"]
        server.table["a.test"] = [A]
        assert (await resolver.resolve("a.test")).addresses == ("127.77.0.1",)

    with_server(test, {}, {"a.test": code}, tries=1)


def test_time_out_is_not_a_missing_name() -> None:
    async def test(resolver: CaresResolver, server: NameServer, clock: VirtualClock) -> None:
        resolution = await resolver.resolve("a.test")
        assert (resolution.failure, resolution.expires_s) == (Failure.TIMEOUT, 60)
        assert len(server.queries) >= 2

    with_server(test, {}, silent=["a.test"], first_try_s=0.1, tries=2)


def test_whole_look_up_has_a_limit() -> None:
    async def test(resolver: CaresResolver, server: NameServer, clock: VirtualClock) -> None:
        assert (await resolver.resolve("a.test")).failure is Failure.TIMEOUT

    with_server(test, {}, silent=["a.test"], first_try_s=30, lookup_limit_s=0.2)


def test_look_ups_of_one_name_are_one_question() -> None:
    async def test(resolver: CaresResolver, server: NameServer, clock: VirtualClock) -> None:
        impatient = asyncio.ensure_future(resolver.resolve("a.test"))
        others = [asyncio.ensure_future(resolver.resolve("a.test")) for _ in range(20)]
        await asyncio.sleep(0)  # all of them begin
        impatient.cancel()  # one who gives up takes nothing from the others
        assert {(await other).addresses for other in others} == {("127.77.0.1",)}
        assert server.queries == [("a.test", "A")]

    with_server(test, {"a.test": [A]})


def test_questions_at_once_are_bounded() -> None:
    async def test(resolver: CaresResolver, server: NameServer, clock: VirtualClock) -> None:
        server.gate = asyncio.Event()
        looking = [asyncio.ensure_future(resolver.resolve(f"h{n}.test")) for n in range(20)]
        await server.wait_for_queries(3)
        server.gate.set()
        assert [(await each).addresses for each in looking] == [("127.77.0.1",)] * 20
        assert server.most_waiting <= 3

    with_server(test, {f"h{n}.test": [A] for n in range(20)}, lookups_at_once=3, first_try_s=30)


def test_least_recently_used_name_is_forgotten() -> None:
    async def test(resolver: CaresResolver, server: NameServer, clock: VirtualClock) -> None:
        for name in ("a.test", "b.test", "a.test", "c.test"):
            await resolver.resolve(name)
        assert [resolver.find_cached(name) is not None for name in ("a.test", "b.test", "c.test")] == [
            True,
            False,
            True,
        ]

    with_server(test, {name: [A] for name in ("a.test", "b.test", "c.test")}, max_names=2)


def test_address_in_use_is_kept_while_the_name_has_it() -> None:
    async def test(resolver: CaresResolver, server: NameServer, clock: VirtualClock) -> None:
        for last, first in (((1, 2), 1), ((2, 1), 1), ((3, 1, 2), 1), ((2, 3), 2), ((3, 2), 2)):
            server.table["a.test"] = [("A", 0, f"127.77.0.{n}") for n in last]
            resolution = await resolver.resolve("a.test")
            assert resolution.addresses[0] == f"127.77.0.{first}"
            assert len(resolution.addresses) == len(last)
            await clock.advance(30)

    with_server(test, {})


def test_close_during_a_look_up_leaves_nothing_behind() -> None:
    async def test(resolver: CaresResolver, server: NameServer, clock: VirtualClock) -> None:
        looking = asyncio.ensure_future(resolver.resolve("a.test"))
        await server.wait_for_queries(1)
        await resolver.close()
        with pytest.raises(asyncio.CancelledError):
            await looking

    with_server(test, {}, silent=["a.test"])


@pytest.mark.parametrize("server", ["localhost", "127.0.0.1:99999", "[::1", "127.0.0.1:x"])
def test_wrong_name_server_is_a_configuration_error(server: str) -> None:
    with pytest.raises(ConfigError, match=r"fetch\.dns"):
        CaresResolver(VirtualClock(), server)
