"""Who should have a site: the strategies of A4."""

from __future__ import annotations

import random

import msgspec
import pytest

from teia.cluster.members.session import NodeState
from teia.cluster.placing.countries import Countries
from teia.cluster.placing.site_strategies import (
    Geo,
    ObservedSite,
    Rtt,
    SiteNote,
    cell_for,
    forwarding_nodes,
    owner_among,
    strategy_named,
    with_rules,
    zone_of,
)
from teia.config.sections import PlacementSettings
from teia.errors import ClusterError, ConfigError


def nodes_of(**regions: str) -> dict[str, NodeState]:
    return {name: NodeState(name, name, region=region) for name, region in regions.items()}


def observed(
    site: str, here: str, nodes: dict[str, NodeState], note: SiteNote | None = None, address: str = ""
) -> ObservedSite:
    return ObservedSite(site, address, note or SiteNote(), nodes[here], nodes)


def test_geo_sends_a_site_to_a_node_of_its_country() -> None:
    """A4: the country of the server's address; a country that nobody is in leaves its sites where they are."""
    countries = Countries([(0, 99, "BR"), (100, 199, "PT"), (200, 299, "JP")], [])
    nodes = nodes_of(a="br", b="PT,ES", c="br")
    geo = Geo(countries)
    assert geo.choose_node(observed("x.test", "a", nodes, address="0.0.0.150")) == "b"
    assert geo.choose_node(observed("x.test", "b", nodes, address="0.0.0.150")) == ""
    assert geo.choose_node(observed("x.test", "b", nodes, address="0.0.0.7")) in {"a", "c"}
    assert geo.choose_node(observed("x.test", "a", nodes, address="0.0.0.250")) == ""
    assert geo.choose_node(observed("x.test", "a", nodes, address="9.9.9.9")) == ""


def test_rules_of_users_come_one_after_the_other_and_then_the_strategy() -> None:
    """A1: the Analyzer's chain of rules; a rule whose target is not there leaves the site to the next."""
    countries = Countries([(0, 99, "BR"), (100, 199, "PT")], [])
    nodes = nodes_of(a="br", b="PT,ES", c="jp")
    rules = ("domain:x.test nowhere", "domain:x.test c", "suffix:.es ES", "py:tests.cluster.placing.rules.is_odd a")
    chain = with_rules(Geo(countries), PlacementSettings(rules=rules))
    assert chain is not None
    assert not chain.measures
    assert chain.choose_node(observed("x.test", "a", nodes, address="0.0.0.7")) == "c"
    assert chain.choose_node(observed("x.test", "c", nodes, address="0.0.0.7")) == "", "it is there"
    assert chain.choose_node(observed("y.es", "a", nodes, address="0.0.0.7")) == "b"
    assert chain.choose_node(observed("odd.test", "c", nodes)) == "a"
    assert chain.choose_node(observed("z.test", "a", nodes, address="0.0.0.150")) == "b", "the strategy decides"
    of_hash = with_rules(None, PlacementSettings(rules=("suffix:.es ES",)))
    assert of_hash is not None
    assert of_hash.choose_node(observed("z.test", "a", nodes)) == ""
    assert with_rules(None, PlacementSettings()) is None
    for wrong in ("suffix:.es", "where:there a", ""):
        with pytest.raises(ConfigError):
            with_rules(None, PlacementSettings(rules=(wrong,)))


def test_a_rule_that_raises_leaves_the_site_to_the_next_and_the_node_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    rules = ("py:tests.cluster.placing.rules.fails a", "suffix:.es b")
    chain = with_rules(None, PlacementSettings(rules=rules))
    assert chain is not None
    assert chain.choose_node(observed("y.es", "c", nodes_of(a="br", b="es", c="jp"))) == "b"
    assert "rules.fails a' of placement.rules failed for y.es" in caplog.text


def test_geo_prefers_a_node_of_the_servers_city_then_its_state_then_its_country() -> None:
    countries = Countries([(0, 99, "BR/PERNAMBUCO/RECIFE"), (100, 199, "BR/BAHIA/SALVADOR"), (200, 299, "PT")], [])
    nodes = nodes_of(a="br/São Paulo", b="BR/Pernambuco", c="br/pernambuco/recife,PT")
    geo = Geo(countries)
    assert geo.choose_node(observed("x.test", "a", nodes, address="0.0.0.7")) == "c"
    assert geo.choose_node(observed("x.test", "c", nodes, address="0.0.0.7")) == ""
    without_city = nodes_of(a="br/São Paulo", b="BR/Pernambuco", d="JP")
    assert geo.choose_node(observed("x.test", "a", without_city, address="0.0.0.7")) == "b"
    assert geo.choose_node(observed("x.test", "d", without_city, address="0.0.0.150")) in {"a", "b"}
    assert geo.choose_node(observed("x.test", "a", without_city, address="0.0.0.150")) == ""
    assert geo.choose_node(observed("x.test", "a", nodes, address="0.0.0.250")) == "c"


def test_a_measurement_counts_for_a_while_and_that_of_a_slow_region_longer() -> None:
    note = SiteNote().measured("br", 100.0, 0.0).measured("pt", 10.0, 0.0).measured("jp", 99.0, 0.0)
    assert set(note.valid(99.0, 100.0).speeds) == {"br", "pt", "jp"}
    assert not note.valid(101.0, 100.0).speeds, "nobody measured lately"
    again = note.measured("br", 100.0, 101.0)
    assert set(again.valid(102.0, 100.0).speeds) == {"br", "pt"}, "a region as fast is tried again"
    assert set(note.measured("br", 0.1, 101.0).valid(102.0, 100.0).speeds) == {"br"}, "so are all, if it became slow"


def test_a_note_of_an_older_node_is_read() -> None:
    old = SiteNote.read('{"speeds":{"br":10.0},"since_s":50.0,"settled":"br"}')
    assert old.time_of("br") == 50.0
    assert old.valid(100.0, 60.0).settled == "br"
    assert not old.valid(200.0, 60.0).settled
    assert SiteNote.read(old.measured("pt", 5.0, 200.0).text).times == {"br": 50.0, "pt": 200.0}


def tour(rtt: Rtt, nodes: dict[str, NodeState], start: str, speeds: dict[str, float]) -> list[str]:
    """Where a site goes until it stays, each node measuring what is true."""
    here, note, way = start, SiteNote(), [start]
    for _ in range(50):
        zone = zone_of(nodes[here])
        note = msgspec.structs.replace(note, speeds={**note.speeds, zone: speeds[zone]})
        wanted = rtt.choose_node(observed("x.test", here, nodes, note))
        if not wanted:
            return way
        if zone_of(nodes[wanted]) in note.speeds:
            note = msgspec.structs.replace(note, settled=zone_of(nodes[wanted]))
        here = wanted
        way.append(here)
    raise AssertionError(f"it never stays: {way}")


def test_rtt_passes_a_slow_site_on_and_every_tour_ends() -> None:
    """A4: below the minimum it is refused and redirected along successor and fingers; no node is asked twice."""
    chance = random.Random(7)
    for _ in range(200):
        names = [f"n{number}" for number in range(chance.randint(1, 8))]
        nodes = nodes_of(**{name: chance.choice(["", "br", "pt", "jp"]) for name in names})
        speeds = {zone_of(node): chance.uniform(1, 200) for node in nodes.values()}
        minimum = chance.choice([0.0, 50.0, 150.0])
        way = tour(Rtt(minimum), nodes, names[0], speeds)
        zones = [zone_of(nodes[name]) for name in way]
        assert len(way) <= len(speeds) + 1
        is_refused = not minimum or speeds[zones[0]] < minimum
        assert (len(way) > 1) == (is_refused and len(speeds) > 1)
        assert len(set(zones[:-1])) == len(zones[:-1])
        last = speeds[zones[-1]]
        assert (minimum and last >= minimum) or last * 1.2 >= max(speeds[zone] for zone in zones)


def test_rtt_by_the_best_region_measures_everywhere_once() -> None:
    """A4, ours: the best of the regions' measurements."""
    nodes = nodes_of(a="br", b="pt", c="jp")
    way = tour(Rtt(0.0), nodes, "a", {"br": 10.0, "pt": 80.0, "jp": 20.0})
    assert way[-1] == "b"
    assert set(way) == {"a", "b", "c"}


def test_a_site_that_settled_goes_back_when_its_cell_comes_to_another_region() -> None:
    nodes = nodes_of(a="br", b="pt")
    note = SiteNote(speeds={"br": 10.0, "pt": 80.0}, settled="pt")
    assert Rtt(0.0).choose_node(observed("x.test", "a", nodes, note)) == "b"
    assert Rtt(0.0).choose_node(observed("x.test", "b", nodes, note)) == ""
    alone = {"a": nodes["a"]}
    assert Rtt(0.0).choose_node(observed("x.test", "a", alone, note)) == ""


def test_the_way_is_the_successor_and_then_the_fingers() -> None:
    nodes = nodes_of(**{f"n{number}": "" for number in range(20)})
    way = forwarding_nodes("n3", nodes)
    assert "n3" not in way
    assert len(way) == len(set(way)) > 1


def test_sites_spread_over_nodes_and_cells() -> None:
    nodes = nodes_of(a="br", b="br", c="br").values()
    owners = [owner_among(f"site{number}.test", nodes) for number in range(300)]
    assert all(50 < owners.count(name) < 160 for name in "abc")
    assert owner_among("x.test", []) == ""
    assert {cell_for(f"site{number}.test", [3, 5, 9]) for number in range(50)} == {3, 5, 9}
    assert cell_for("x.test", []) is None


def test_an_unknown_strategy_and_a_missing_file_are_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(ClusterError, match="unknown strategy 'near'"):
        strategy_named("near", PlacementSettings(), None)
    empty = tmp_path_factory.mktemp("geo") / "empty.csv"
    empty.write_text("# nothing\n", "utf-8")
    with pytest.raises(ConfigError, match="no address ranges"):
        strategy_named("geo", PlacementSettings(), empty)
    assert strategy_named("hash", PlacementSettings(), None) is None
