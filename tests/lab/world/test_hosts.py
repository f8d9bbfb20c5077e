"""Hosts: names, addresses, sizes."""

from __future__ import annotations

from collections import Counter

import pytest

from teia.errors import LabError
from teia.lab.world.hosts import BRANCHES, make_hosts, zipf_sizes
from teia.lab.world.spec import WorldSpec
from teia.urls import canonicalize, site_of
from teia.views.reports.servers import part_holding
from tests.lab.worlds import make_world


def test_sizes_follow_zipf_and_add_up() -> None:
    sizes = zipf_sizes(100_000, 1_000, 1.0)
    assert sum(sizes) == 100_000
    assert sizes[9] / sizes[99] == pytest.approx(10, rel=0.05)
    assert min(sizes) >= 1
    assert max(zipf_sizes(1_000, 100, 0.0)) == 10


@pytest.mark.parametrize(
    ("pages", "hosts", "theta", "offset"), [(6_000, 240, 2.0, 0.018), (796_629, 14_068, 1.2, 8 / 14_068)]
)
def test_worlds_can_have_the_skew_of_tarantula(pages: int, hosts: int, theta: float, offset: float) -> None:
    """T8: 80% of the documents are on 8% of the servers, in our world and by the law that fits the paper's numbers."""
    sizes = zipf_sizes(pages, hosts, theta, offset)
    assert sum(sizes) == pages
    assert part_holding(sizes, 0.8) == pytest.approx(0.08, abs=0.005)


def test_names_are_unique_canonical_and_only_in_test() -> None:
    world = make_world(pages=30_000, hosts=3_000)
    names = [name for host in world.hosts for name in (host.name, *host.aliases)]
    assert len(set(names)) == len(names)
    for name in world.roots:
        assert name.endswith(".test")
        assert canonicalize(f"http://{name}/") == f"http://{name}/"


def test_some_hosts_share_a_registered_domain_and_some_an_address() -> None:
    world = make_world(pages=5_000, hosts=200)
    sites = Counter(site_of(host.name) for host in world.hosts)
    addresses = Counter(host.address for host in world.hosts)
    assert max(sites.values()) > 1
    assert max(addresses.values()) > 1
    assert all(site_of(host.name) == host.domain for host in world.hosts if not host.is_mirror)


def test_addresses_begin_where_configured_and_skip_ends() -> None:
    hosts, _ = make_hosts(
        WorldSpec.from_values({"pages": 600, "hosts": 600, "sites.shared_address": 0.0}), "127.77.3.9"
    )
    addresses = [host.address for host in hosts]
    assert addresses[0] == "127.77.3.9"
    assert len(set(addresses)) == 600
    assert not any(address.endswith((".0", ".255")) for address in addresses)


def test_running_out_of_addresses_is_reported() -> None:
    with pytest.raises(LabError, match="use fewer hosts"):
        make_hosts(WorldSpec.from_values({"pages": 300, "hosts": 300, "sites.shared_address": 0.0}), "127.77.254.1")


def test_closed_and_broken_hosts_are_leaves_of_the_tree_of_hosts() -> None:
    world = make_world(pages=3_000, hosts=300, robots__closed=0.3, robots__broken=0.3)
    originals = sum(not host.is_mirror for host in world.hosts)
    troubled = [host for host in world.hosts if host.robots in {"closed", "broken"} and not host.is_mirror]
    assert len(troubled) > 100
    assert all(BRANCHES * host.index + 1 >= originals for host in troubled)


def test_mirrors_are_last_and_smaller_than_what_is_not_mirrored() -> None:
    world = make_world(pages=3_000, hosts=100, sites__mirrors=0.1)
    assert [host.is_mirror for host in world.hosts] == [False] * 90 + [True] * 10
    assert {host.content for host in world.hosts[90:]} == set(range(80, 90))


def test_languages_topics_and_charsets_vary() -> None:
    world = make_world(pages=3_000, hosts=300)
    for trait, least in (("language", 2), ("topic", 6), ("charset", 3), ("server", 5), ("extension", 4)):
        assert len({getattr(host, trait) for host in world.hosts}) >= least
