"""Which addresses and ports may be connected to. Nothing here opens a socket."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.errors import ConfigError
from teia.fetch.guard import FORBIDDEN_NETS, FORBIDDEN_PORTS, AddressGuard

GUARD = AddressGuard()
PUBLIC = ["1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1", "192.0.1.1", "198.17.0.1"]
PUBLIC += ["198.20.0.0", "223.255.255.255", "128.0.0.1", "2606:4700::1111", "2001:4860:4860::8888", "2a00:1450::1"]

IANA_NOT_GLOBAL = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "255.255.255.255/32",
    "::/128",
    "::1/128",
    "::ffff:0:0/96",
    "64:ff9b::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "100:0:0:1::/64",
    "2001::/23",
    "2001::/32",
    "2001:2::/48",
    "2001:db8::/32",
    "2001:10::/28",
    "2001:20::/28",
    "2002::/16",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_address_is_allowed(address: str) -> None:
    assert GUARD.check(address, 80) is None
    assert GUARD.check(address, 443) is None


@pytest.mark.parametrize("net", IANA_NOT_GLOBAL)
def test_special_network_is_forbidden_from_edge_to_edge(net: str) -> None:
    network = ip_network(net)
    for address in (network[0], network[-1], network[network.num_addresses // 2]):
        assert GUARD.check(str(address), 80)


def test_every_network_of_the_table_is_forbidden() -> None:
    for net, name in FORBIDDEN_NETS:
        reason = GUARD.check(str(ip_network(net)[-1]), 80)
        assert reason is not None, (net, name)


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "fd00:ec2::254", "100.100.100.200", "192.0.0.192", "168.63.129.16"]
)
def test_metadata_services_are_forbidden(address: str) -> None:
    assert GUARD.check(address, 80)


@pytest.mark.parametrize(
    "text",
    ["", "localhost", "127.1", "0177.0.0.1", "2130706433", "1.2.3.4.5", "fe80::1%eth0", "[::1]", "1.1.1.1 ", "é"],
)
def test_what_is_not_an_address_is_forbidden(text: str) -> None:
    assert GUARD.check(text, 80)


@given(st.ip_addresses(v=4))
def test_ipv4_decision_is_membership_in_the_table(address: IPv4Address) -> None:
    forbidden = any(address in ip_network(net) for net, _ in FORBIDDEN_NETS if "." in net)
    assert (GUARD.check(str(address), 80) is not None) == forbidden


@given(st.ip_addresses(v=6))
def test_ipv6_is_allowed_only_as_global_unicast(address: IPv6Address) -> None:
    if GUARD.check(str(address), 80) is None:
        assert address in ip_network("2000::/3")
        assert not any(address in ip_network(net) for net, _ in FORBIDDEN_NETS if ":" in net)


# ---- IPv4 inside IPv6 ------------------------------------------------------------------------------------------------

WRAPPINGS = {
    "compatible": lambda v4: v4,
    "mapped": lambda v4: 0xFFFF << 32 | v4,
    "translated": lambda v4: 0xFFFF << 48 | v4,
    "NAT64": lambda v4: 0x64FF9B << 96 | v4,
    "local NAT64": lambda v4: 0x64FF9B0001 << 80 | v4,
    "6to4": lambda v4: 0x2002 << 112 | v4 << 80 | 1,
    "Teredo server": lambda v4: 0x20010000 << 96 | v4 << 64 | 0xF7F7F7F7,
    "Teredo client": lambda v4: 0x20010000 << 96 | 0x08080808 << 64 | v4 ^ 0xFFFFFFFF,
    "ISATAP": lambda v4: 0x2A00 << 112 | 0x5EFE << 32 | v4,
    "global ISATAP": lambda v4: 0x2A00 << 112 | 0x02005EFE << 32 | v4,
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@given(inside=st.ip_addresses(v=4, network="127.0.0.0/8") | st.ip_addresses(v=4, network="10.0.0.0/8"))
def test_wrapped_inside_address_is_forbidden_even_if_the_wrapping_is_allowed(
    wrapping: str, inside: IPv4Address
) -> None:
    wrapped = str(IPv6Address(WRAPPINGS[wrapping](int(inside))))
    assert GUARD.check(wrapped, 80)
    assert AddressGuard(["::/0"]).check(wrapped, 80)


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_wrapped_public_address_needs_the_wrapping_allowed(wrapping: str) -> None:
    wrapped = str(IPv6Address(WRAPPINGS[wrapping](int(ip_address("8.8.8.8")))))
    assert bool(GUARD.check(wrapped, 80)) == ("ISATAP" not in wrapping)
    assert AddressGuard(["::/0"]).check(wrapped, 80) is None


# ---- the operator's word ---------------------------------------------------------------------------------------------


def test_allowed_network_lifts_the_address_rule_there_only() -> None:
    guard = AddressGuard(["127.77.0.0/16", "::1/128"])
    assert guard.check("127.77.255.255", 8800) is None
    assert guard.check("::1", 80) is None
    assert guard.check("127.66.0.1", 80)
    assert guard.check("::ffff:127.77.0.1", 80)
    assert guard.check("10.0.0.1", 80)


@pytest.mark.parametrize("net", ["nonsense", "127.0.0.1/8", "127.0.0.0/99", ""])
def test_wrong_network_is_a_configuration_error(net: str) -> None:
    with pytest.raises(ConfigError, match=r"fetch\.allow_nets"):
        AddressGuard([net])


# ---- ports -----------------------------------------------------------------------------------------------------------


def test_ports_of_the_web_are_80_443_and_the_high_ones() -> None:
    allowed = {port for port in range(-1, 65_538) if GUARD.check("8.8.8.8", port) is None}
    assert allowed == ({80, 443} | set(range(1024, 65_536))) - FORBIDDEN_PORTS - {8700}


@pytest.mark.parametrize(
    "port", [22, 25, 465, 587, 993, 1433, 3306, 3389, 5432, 6379, 9200, 11211, 27017, 2375, 4222, 8700]
)
def test_services_are_forbidden_in_allowed_networks_too(port: int) -> None:
    assert GUARD.check("8.8.8.8", port)
    assert AddressGuard(["0.0.0.0/0"]).check("127.0.0.1", port)


@pytest.mark.parametrize("port", [81, 88, 800, 8800, 65_535])
def test_allowed_network_may_use_low_ports(port: int) -> None:
    assert AddressGuard(["127.0.0.0/8"]).check("127.0.0.1", port) is None


def test_teias_own_ports_are_never_requested() -> None:
    guard = AddressGuard(["127.0.0.0/8"], own_ports=[9001])
    assert guard.check("127.0.0.1", 9001)
    assert guard.check("8.8.8.8", 9001)
    assert guard.check("127.0.0.1", 8700) is None


def test_one_forbidden_record_forbids_the_name() -> None:
    assert GUARD.check_all(["8.8.8.8", "1.1.1.1"], 80) is None
    assert GUARD.check_all(["8.8.8.8", "10.0.0.1"], 80) == "10.0.0.1 is private"
    assert GUARD.check_all(["::1", "8.8.8.8"], 80)


# ---- the operator's cache proxy (C7) --------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.5", "192.168.1.2", "fd00::5", "::1", "8.8.8.8"])
def test_a_cache_is_reached_by_requests_that_are_meant_for_it(address: str) -> None:
    guard = AddressGuard(caches=[(address, 3128)])
    assert guard.check(address, 3128, is_cache=True) is None


def test_no_page_leads_to_the_cache_whatever_is_allowed() -> None:
    guard = AddressGuard(["127.0.0.0/8"], caches=[("127.0.0.1", 8080)])
    assert guard.check("127.0.0.1", 8080) == "127.0.0.1 port 8080 is reserved for the cache proxy"
    assert guard.check("127.0.0.1", 8081) is None


def test_a_request_for_the_cache_reaches_nothing_else() -> None:
    guard = AddressGuard(["127.0.0.0/8"], caches=[("127.0.0.1", 3128)])
    for address, port in (("127.0.0.1", 3129), ("127.0.0.2", 3128), ("8.8.8.8", 80)):
        assert "is not the cache proxy" in (guard.check(address, port, is_cache=True) or "")


@pytest.mark.parametrize(
    ("address", "port"),
    [("169.254.169.254", 80), ("0.0.0.0", 3128), ("224.0.0.1", 3128), ("127.0.0.1", 8700), ("127.0.0.1", 22)],
)
def test_a_cache_cannot_be_just_anything(address: str, port: int) -> None:
    assert AddressGuard(caches=[(address, port)]).check(address, port, is_cache=True)
