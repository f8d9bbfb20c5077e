"""What every resolver promises, whether it reads a table or asks a name server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from teia.clock import WallClock
from teia.fetch.destination import Failure, Resolver
from teia.fetch.dns import CaresResolver
from tests.fetch.name_server import NameServer
from tests.fetch.resolvers import StaticResolver

NAMES = {"one.test": ["127.77.0.1"], "two.test": ["127.77.0.1", "127.77.0.2"]}


@asynccontextmanager
async def static() -> AsyncIterator[Resolver]:
    resolver = StaticResolver(NAMES)
    yield resolver
    await resolver.close()


@asynccontextmanager
async def cares() -> AsyncIterator[Resolver]:
    table = {name: [("A", 60, address) for address in addresses] for name, addresses in NAMES.items()}
    async with NameServer(table) as server:
        resolver = CaresResolver(WallClock(), server.server)
        yield resolver
        await resolver.close()


Checked = Callable[[Resolver], Awaitable[None]]


@pytest.fixture(params=[static, cares])
def check(request: pytest.FixtureRequest) -> Callable[[Checked], None]:
    async def run(checked: Checked) -> None:
        async with request.param() as resolver:
            await checked(resolver)

    return lambda checked: asyncio.run(run(checked))


def test_name_has_all_its_addresses(check: Callable[[Checked], None]) -> None:
    async def checked(resolver: Resolver) -> None:
        for name, addresses in NAMES.items():
            resolution = await resolver.resolve(name)
            assert (sorted(resolution.addresses), resolution.failure) == (addresses, None)

    check(checked)


def test_answer_is_known_afterwards(check: Callable[[Checked], None]) -> None:
    async def checked(resolver: Resolver) -> None:
        resolution = await resolver.resolve("one.test")
        assert resolver.find_cached("one.test") == resolution

    check(checked)


def test_unknown_name_is_a_result_not_an_exception(check: Callable[[Checked], None]) -> None:
    async def checked(resolver: Resolver) -> None:
        resolution = await resolver.resolve("no.test")
        assert (resolution.addresses, resolution.failure) == ((), Failure.NO_SUCH_NAME)
        assert resolver.find_cached("no.test") == resolution

    check(checked)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.66.0.1", "127.66.0.1"),
        ("[::1]", "::1"),
        ("[2001:db8::0:1]", "2001:db8::1"),
        ("localhost", "127.0.0.1"),
        ("x.localhost", "127.0.0.1"),
    ],
)
def test_literals_are_never_requested(check: Callable[[Checked], None], host: str, address: str) -> None:
    async def checked(resolver: Resolver) -> None:
        known = resolver.find_cached(host)
        assert known is not None
        assert known.addresses == (address,)
        assert await resolver.resolve(host) == known

    check(checked)


@pytest.mark.parametrize("host", ["127.1", "0x7f.1", "1.2.3.4.5", "x.0x7f", "", ".", "a." * 200 + "test", "é.test"])
def test_what_is_no_host_name_is_never_requested(check: Callable[[Checked], None], host: str) -> None:
    async def checked(resolver: Resolver) -> None:
        known = resolver.find_cached(host)
        assert known is not None
        assert (known.addresses, known.failure) == ((), Failure.BAD_NAME)

    check(checked)
