from __future__ import annotations

import asyncio

from teia.fetch.destination import AddressOverrides, Destination, Destinations, Failure, Resolution
from teia.fetch.guard import AddressGuard
from teia.records import Outcome
from tests.fetch.resolvers import StaticResolver

NAMES = {"a.test": ["127.77.0.1"], "mixed.test": ["127.77.0.1", "127.66.0.1"]}
GUARD = AddressGuard(["127.77.0.0/16"])


def find(host: str, port: int = 80, overrides: tuple[str, ...] = ()) -> Destination:
    destinations = Destinations(StaticResolver(NAMES), GUARD, AddressOverrides.parse(overrides))
    found = asyncio.run(destinations.find(host, port))
    assert destinations.find_cached(host, port) == found
    return found


def test_name_leads_to_a_guarded_address() -> None:
    found = find("a.test", 8800)
    assert (found.address, found.port, found.outcome) == ("127.77.0.1", 8800, None)


def test_one_forbidden_record_blocks_the_name() -> None:
    found = find("mixed.test")
    assert (found.address, found.outcome, found.detail) == ("", Outcome.BLOCKED_ADDRESS, "127.66.0.1 is loopback")


def test_missing_name_is_a_dns_outcome() -> None:
    found = find("no.test")
    assert (found.outcome, found.detail, found.is_temporary) == (Outcome.DNS, Failure.NO_SUCH_NAME.value, False)


def test_override_comes_first_and_is_guarded_too() -> None:
    assert find("a.test", 80, ("a.test=127.77.0.9:8800",)).address == "127.77.0.9"
    assert find("a.test", 80, ("a.test=127.77.0.9:8800",)).port == 8800
    assert find("a.test", 81, ("a.test=127.77.0.9",)).port == 81
    assert find("a.test", 80, ("*=127.66.0.1:8800",)).outcome is Outcome.BLOCKED_ADDRESS
    assert find("a.test", 80, ("*=127.77.0.1:22",)).outcome is Outcome.BLOCKED_ADDRESS


def test_literal_is_guarded_like_a_name() -> None:
    assert find("127.77.0.3").address == "127.77.0.3"
    assert find("127.66.0.1").outcome is Outcome.BLOCKED_ADDRESS
    assert find("[::1]").outcome is Outcome.BLOCKED_ADDRESS
    assert find("localhost").outcome is Outcome.BLOCKED_ADDRESS


class SlowResolver:
    """Knows nothing until asked, and then that its server is away."""

    def find_cached(self, name: str) -> Resolution | None:
        return None

    async def resolve(self, name: str) -> Resolution:
        return Resolution((), 60.0, Failure.TIMEOUT)

    async def close(self) -> None:
        return


def test_time_out_of_the_name_server_is_temporary() -> None:
    destinations = Destinations(SlowResolver(), GUARD)
    assert destinations.find_cached("a.test", 80) is None
    found = asyncio.run(destinations.find("a.test", 80))
    assert (found.outcome, found.is_temporary) == (Outcome.DNS, True)
