"""Addresses that many sites share: the rest is divided, and never below what the operator allows (A7)."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.config.sections import CourtesySettings
from teia.errors import ConfigError
from teia.frontier.queue.ledger import DelayEntry, Ledger, read_shared_addresses
from teia.frontier.queue.politeness import Politeness
from teia.frontier.queue.shared_addresses import CDN_SITES, Networks, address_delay_s, shared_delay_s

COURTESY = CourtesySettings(delay_s=5.0, response_factor=2.0, shared_sites=8, shared_rest_s=1.0)
ADDRESS = "192.0.2.1"


def visit(politeness: Politeness, host: str, started: float, ended: float, address: str = ADDRESS) -> None:
    server, place = politeness.server(host), politeness.address(address)
    politeness.begin_request(server, place)
    politeness.end_request(server, place, started, ended)


# ---- the rule -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sites", "delay_s"), [(1, 5.0), (8, 5.0), (10, 4.0), (20, 2.0), (40, 1.0), (1_000, 1.0)])
def test_delay_is_divided_from_the_ninth_site_on(sites: int, delay_s: float) -> None:
    assert shared_delay_s(COURTESY, sites) == delay_s


def test_delay_of_an_address_is_never_longer_than_the_setting() -> None:
    quick = CourtesySettings(delay_s=0.2, shared_rest_s=1.0)
    assert {shared_delay_s(quick, sites) for sites in (1, 9, 1_000, CDN_SITES)} == {0.2}


def test_slow_answer_delays_a_shared_address_and_not_a_network_of_content_delivery() -> None:
    assert address_delay_s(COURTESY, 1_000, response_s=3.0) == 6.0
    assert address_delay_s(COURTESY, CDN_SITES, response_s=3.0) == 1.0


def test_hosts_of_ones_own_have_no_delay_whoever_shares_them() -> None:
    assert address_delay_s(CourtesySettings(delay_s=0.0), 1_000, response_s=3.0) == 0.0


# ---- networks -------------------------------------------------------------------------------------------------------


def test_addresses_of_named_networks_are_known() -> None:
    networks = Networks(["198.51.100.0/24", "2001:db8::/32"])
    assert "198.51.100.7" in networks
    assert "2001:db8::7" in networks
    assert "198.51.101.7" not in networks
    assert "not an address" not in networks


def test_wrong_network_is_one_line_that_names_it() -> None:
    with pytest.raises(ConfigError, match=r"^courtesy\.cdn_nets = '198\.51\.100\.1/24': must be a network"):
        Networks(["198.51.100.1/24"])


# ---- places ---------------------------------------------------------------------------------------------------------


def test_names_of_one_site_are_one_site() -> None:
    politeness = Politeness(COURTESY)
    for number in range(50):
        visit(politeness, f"n{number}.example.org", 10 * number, 10 * number)
    assert politeness.address(ADDRESS).last_delay_s == 5.0


def test_address_of_many_sites_has_a_shorter_delay_and_each_host_its_full_one() -> None:
    politeness = Politeness(COURTESY)
    for number in range(40):
        visit(politeness, f"site{number}.example", 10 * number, 10 * number)
    assert politeness.address(ADDRESS).last_delay_s == 1.0
    assert politeness.server("site39.example").last_delay_s == 5.0


def test_first_request_to_a_named_network_is_already_followed_by_the_short_delay() -> None:
    politeness = Politeness(CourtesySettings(delay_s=5.0, cdn_nets=("192.0.2.0/24",)))
    visit(politeness, "a.example", 0, 0)
    assert politeness.address(ADDRESS).last_delay_s == 1.0
    assert politeness.server("a.example").last_delay_s == 5.0


def test_longer_delay_that_comes_into_force_holds_for_shared_addresses_too() -> None:
    politeness = Politeness(COURTESY)
    for number in range(80):
        visit(politeness, f"site{number}.example", 10 * number, 10 * number)
    politeness.apply_courtesy(CourtesySettings(delay_s=60.0, shared_sites=8, shared_rest_s=1.0))
    assert politeness.address(ADDRESS).ready_at == 790 + 6.0


def test_shared_address_is_remembered_when_its_delay_is_over() -> None:
    politeness = Politeness(COURTESY)
    for number in range(40):
        visit(politeness, f"site{number}.example", 10 * number, 10 * number)
    visit(politeness, "alone.example", 500, 500, "192.0.2.9")
    politeness.forget_expired(1e6)
    assert list(politeness.addresses) == [ADDRESS]


@settings(max_examples=25)
@given(st.integers(1, 60), st.integers(1, 12), st.floats(0.1, 3.0), st.integers(0, 2**32))
def test_no_two_requests_to_an_address_are_closer_than_the_rule(
    sites: int, shared_sites: int, shared_rest: float, seed: int
) -> None:
    """The oracle is the list of requests: by host the full delay, by address what its number of sites allows then."""
    courtesy = CourtesySettings(delay_s=2.0, response_factor=0.0, shared_sites=shared_sites, shared_rest_s=shared_rest)
    politeness, chance, now = Politeness(courtesy), random.Random(seed), 0.0
    by_host: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    seen: set[str] = set()
    last_end, owed = float("-inf"), 0.0
    for _ in range(200):
        now += chance.random() * 0.3
        host = f"site{chance.randrange(sites)}.example"
        server, place = politeness.server(host), politeness.address(ADDRESS)
        if not (server.is_free(now, 1) and place.is_free(now, 1)):
            continue
        assert now - last_end >= owed - 1e-9
        politeness.begin_request(server, place)
        last_end = now + chance.random() * 0.05
        politeness.end_request(server, place, now, last_end)
        by_host[host].append((now, last_end))
        seen.add(host)
        n = len(seen)
        owed = 2.0 if n <= shared_sites else min(2.0, max(shared_rest, 2.0 * shared_sites / n))
        now = last_end
    for visits in by_host.values():
        assert all(later[0] - earlier[1] >= 2.0 - 1e-9 for earlier, later in pairwise(visits))


# ---- on disk --------------------------------------------------------------------------------------------------------


def test_ledger_keeps_how_many_sites_share_an_address(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    ledger.open()
    ledger.write([DelayEntry("address", ADDRESS, 100.0, 1.0, sites=40), DelayEntry("server", "a.example", 100.0, 5.0)])
    ledger.close(clean=True, now_s=1e9)
    again = Ledger(path)
    assert again.shared_addresses() == {ADDRESS: 40}
    assert again.all_entries() == [], "their rests are over, what they are is not"
    assert read_shared_addresses(path) == {ADDRESS: 40}
    again.close(clean=False, now_s=0.0)


def test_ledger_from_before_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    ledger._db.execute("DROP TABLE shared")
    ledger.close(clean=True, now_s=0.0)
    assert read_shared_addresses(path) == {}
    assert Ledger(path).shared_addresses() == {}
